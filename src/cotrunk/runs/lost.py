"""Saved networks that a run should have, but that are damaged or missing."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotrunk.runs.checkpoint import damages, place_of
from cotrunk.runs.folder import RunFolder
from cotrunk.runs.seal import last_seal


@dataclass(frozen=True)
class Lost:
    """A network saved at ``step`` as the best of ``task``, or overall; ``why`` it is unusable."""

    place: Path
    step: int
    why: str
    task: str | None = None


def lost_networks(run: RunFolder, state: Mapping[str, Any]) -> list[Lost]:
    """The networks that were saved before a checkpoint, by its ``state``, and are lost."""
    found = []
    if state["best_step"] >= 0 and (why := _fault(run.best)):
        found.append(Lost(run.best, state["best_step"], why))
    sealed = last_seal(run.path).folders
    for task, score in state["task_best"].items():
        place = run.best_of(task)
        if (place.exists() or place.name in sealed) and (why := _fault(place)):
            found.append(Lost(place, _step_of(run, task, score), why, task))
    return found


def _fault(place: Path) -> str:
    if not place_of(place).is_dir():
        return f"{place} is missing"
    _, damaged = damages(place)
    return str(damaged[0]) if damaged else ""


def _step_of(run: RunFolder, task: str, score: float) -> int:
    """The step at which a task first had this score on the dev rows."""
    evaluated = (entry for entry in run.read_metrics() if entry.get("event") == "dev")
    scored = (e["step"] for e in evaluated if e["scores"].get(task, {}).get("score") == score)
    return next(scored, 0)
