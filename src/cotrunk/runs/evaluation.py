"""The dev scores of a saved network, stored with it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cotrunk.runs.checkpoint import CheckpointError, read_documents
from cotrunk.runs.structure import SavedEvaluation, misfit

DOCUMENT = "evaluation"


@dataclass(frozen=True)
class Evaluation:
    """``value`` is the score named by ``keep``, which selected the network; None is NaN."""

    step: int
    epoch: int
    keep: str
    value: float | None
    scores: Mapping[str, Mapping[str, Any]]
    overall: Mapping[str, float | None]

    def document(self) -> dict[str, Any]:
        return asdict(self)


def read_evaluation(folder: Path) -> Evaluation | None:
    """The verified evaluation of a saved network; None if missing or never evaluated.

    Does not read its weights.
    """
    if not folder.is_dir() and not folder.with_name(f"{folder.name}.old").is_dir():
        return None
    found = read_documents(folder).get(DOCUMENT)
    if found is None:
        return None
    try:
        if wrong := misfit(SavedEvaluation, found):
            raise TypeError(wrong)
        return Evaluation(**found)
    except TypeError as error:
        raise CheckpointError(f"{folder}/{DOCUMENT}.json has an unknown format: {error}") from None
