"""What a task is: how many texts it reads and what it predicts about them."""

from dataclasses import dataclass

from cotrunk.kinds.kind import Kind

TAKEN = ("id", "official", "mean", "sum")
"""Names beside those of tasks: of a row, and of what a checkpoint may be kept by."""


@dataclass(frozen=True)
class Task:
    """One thing to predict about one text or a pair of texts; ``labels`` says what."""

    name: str
    texts: int
    labels: Kind

    @property
    def outputs(self) -> int:
        return self.labels.outputs

    @property
    def is_about_tokens(self) -> bool:
        """Its head answers about token positions, not about rows."""
        return self.labels.level == "token"
