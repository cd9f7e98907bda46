"""The events that a training run yields."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cotrunk.runs.cost import Cost
from cotrunk.runs.evaluation import Evaluation
from cotrunk.runs.finding import Finding as Finding

if TYPE_CHECKING:  # reading a run does not need the metrics
    from cotrunk.kinds.metrics import Score


@dataclass(frozen=True)
class Started:
    """Settings and data are checked and the run folder is locked; ``step`` of ``steps`` are done.

    ``resumed``: the folder already had a run; ``step`` may still be 0. ``max_seconds`` of training
    end it early.
    """

    folder: Path
    step: int
    steps: int
    resumed: bool
    parameters: int
    notes: Sequence[str]
    warnings: Sequence[str]
    findings: Sequence[Finding]
    max_seconds: float | None = None


@dataclass(frozen=True)
class Stepped:
    """An optimizer step is done."""

    step: int
    epoch: int
    losses: Mapping[str, float]
    findings: Sequence[Finding]


@dataclass(frozen=True)
class Evaluated:
    """The network was evaluated on the dev rows; ``best``: it was saved as the best so far."""

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
    """The last event. ``best`` is None if the network was never evaluated.

    ``step`` is the last one; ``train.max_seconds`` may end a run before all its ``steps``.
    ``seconds`` is the time since the last start; ``cost`` is the total over all resumes.
    """

    folder: Path
    step: int
    steps: int
    seconds: float
    parameters: int
    best: Evaluation | None
    cost: Cost
    findings: Sequence[Finding] = ()


Event = Started | Stepped | Evaluated | Saved | Finished
