"""What a task is: how many texts it reads and what it predicts."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["classes", "binary", "score"]
CERTAINTY = "_probability"
TAKEN = ("id", "official", "mean", "sum")
"""Names beside those of tasks: of a row, and of what a checkpoint may be kept by."""


@dataclass(frozen=True)
class Task:
    """One thing to predict about one text or a pair of texts.

    ``classes`` are the names of the labels (kind ``classes`` only); ``low`` and ``high`` bound the
    labels of kind ``score``. A label is stored as a float: class index, 0 or 1, or the score.
    """

    name: str
    kind: Kind
    texts: int
    classes: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0

    @property
    def outputs(self) -> int:
        return len(self.classes) if self.kind == "classes" else 1

    @property
    def metric(self) -> str:
        return "pearson" if self.kind == "score" else "accuracy"
