"""The scores of a saved network on the dev rows: written once beside it, read by everyone else."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cotrunk.runs.checkpoint import CheckpointError, read_documents

DOCUMENT = "evaluation"


@dataclass(frozen=True)
class Evaluation:
    """``keep`` is what the network was chosen by, ``value`` what it had there; None is NaN."""

    step: int
    epoch: int
    keep: str
    value: float | None
    scores: Mapping[str, Mapping[str, Any]]
    overall: Mapping[str, float | None]

    def document(self) -> dict[str, Any]:
        return asdict(self)


def read_evaluation(folder: Path) -> Evaluation | None:
    """From a saved network, verified; None if there is none, or it was never evaluated.

    Its weights are not read.
    """
    if not folder.is_dir() and not folder.with_name(f"{folder.name}.old").is_dir():
        return None
    found = read_documents(folder).get(DOCUMENT)
    if found is None:
        return None
    try:
        return Evaluation(**found)
    except TypeError as error:
        raise CheckpointError(f"{folder}/{DOCUMENT}.json is of another format: {error}") from None
