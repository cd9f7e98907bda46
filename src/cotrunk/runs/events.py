"""What a training tells its caller, in the order in which it happens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cotrunk.runs.evaluation import Evaluation

if TYPE_CHECKING:  # readers of a run do not need what computes a score
    from cotrunk.kinds.metrics import Score


@dataclass(frozen=True)
class Finding:
    """A mistake that a guard found: ``name`` is the guard's, ``place`` a key, file, task or block.

    Training does not go on after a ``fatal`` one.
    """

    name: str
    place: str
    finding: str
    fix: str
    fatal: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.finding}; {self.fix} [{self.name}]"


@dataclass(frozen=True)
class Started:
    """All is checked and read, and the run folder is locked; ``step`` of ``steps`` are made.

    ``resumed`` says that the folder had a run already, of which ``step`` may still be 0.
    """

    folder: Path
    step: int
    steps: int
    resumed: bool
    parameters: int
    notes: Sequence[str]
    warnings: Sequence[str]
    findings: Sequence[Finding]


@dataclass(frozen=True)
class Stepped:
    """An optimizer step was made."""

    step: int
    epoch: int
    losses: Mapping[str, float]
    findings: Sequence[Finding]


@dataclass(frozen=True)
class Evaluated:
    """The network was scored on the dev rows; ``best``: and kept, as the best so far."""

    step: int
    epoch: int
    scores: Mapping[str, "Score"]
    best: bool
    findings: Sequence[Finding]


@dataclass(frozen=True)
class Saved:
    """A checkpoint to resume from was written."""

    step: int
    folder: Path


@dataclass(frozen=True)
class Finished:
    """The last event. ``best`` is None if the network was never evaluated."""

    folder: Path
    steps: int
    seconds: float
    parameters: int
    best: Evaluation | None


Event = Started | Stepped | Evaluated | Saved | Finished
