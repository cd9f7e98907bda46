"""The state of a trial, read from its run folder alone."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cotrunk.errors import UserError
from cotrunk.runs.evaluation import Evaluation, read_evaluation
from cotrunk.runs.folder import RunFolder
from cotrunk.runs.tail import last_step
from cotrunk.study.sweep.asha import Asha
from cotrunk.study.sweep.trials import TrialSpec

TRIAL = "trial"
"""trial.json: choices, seed and number; also the error of a failed trial, the number of steps, and
``stopped`` once the scheduler has stopped it."""
ENDS = {"error", "stopped"}
"""Its keys that say how a trial has ended, beside a finished run."""
State = Literal["waiting", "started", "finished", "failed", "stopped"]
DONE: tuple[State, ...] = ("finished", "stopped")
"""States of trials that a repeated command does not train; failed ones are retried."""


@dataclass(frozen=True)
class Trial:
    """``scores`` and ``overall`` are those of its best network so far; empty if there is none.

    ``started``: it has a run, but is not at its end.
    """

    run: Path
    number: int
    choices: Mapping[str, Any]
    seed: int
    state: State
    scores: Mapping[str, Mapping[str, Any]]
    overall: Mapping[str, float | None]
    error: str | None = None

    @property
    def has_ended(self) -> bool:
        return self.state in ("finished", "failed", "stopped")

    def objective(self, name: str) -> float | None:
        """The score that a search looks at; None if it is undefined or there is none yet."""
        value = self.scores[name]["score"] if name in self.scores else self.overall.get(name)
        return value if value is not None and math.isfinite(value) else None


def read_trial(out: Path, planned: TrialSpec, asha: Asha | None) -> Trial:
    """Without a scheduler, a trial that was stopped by one counts as ``started``: it is resumed."""
    run = RunFolder(out / planned.name)
    record = read_record(run)
    if run.is_finished:
        state: State = "finished"
    elif "error" in record:
        state = "failed"
    elif "stopped" in record and asha is not None:
        state = "stopped"
    else:
        state = "started" if run.settings.exists() else "waiting"
    best = best_so_far(run)
    return Trial(
        run=run.path,
        number=planned.number,
        choices=planned.choices,
        seed=planned.seed,
        state=state,
        scores=best.scores if best else {},
        overall=best.overall if best else {},
        error=record.get("error"),
    )


def read_record(run: RunFolder) -> dict[str, Any]:
    """trial.json; empty if there is none, or if it is not ours."""
    try:
        found = run.read_document(TRIAL)
    except UserError:
        return {}
    return found if isinstance(found, dict) else {}


def progress_of(run: RunFolder) -> tuple[int, int | None]:
    """The last step of a run, and of how many; looks only at the end of its metrics."""
    steps = read_record(run).get("steps")
    try:
        return last_step(run.metrics) or 0, steps
    except (OSError, ValueError, KeyError, TypeError):  # damaged: `info` says how
        return 0, steps


def best_so_far(run: RunFolder) -> Evaluation | None:
    try:
        return read_evaluation(run.best)
    except (OSError, RuntimeError, ValueError):  # being replaced, or damaged: `info` says how
        return None
