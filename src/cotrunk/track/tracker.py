"""The interface of trackers, and the numbers of an event that they record."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cotrunk.runs.dotted import flattened
from cotrunk.runs.events import Evaluated, Event, Finished, Stepped


@dataclass(frozen=True)
class Tracked:
    """The run to track, starting at ``step``; trackers write to ``folder``."""

    run: Path
    step: int
    settings: Mapping[str, str]
    folder: Path


class Tracker(Protocol):
    def write(self, event: Event) -> None: ...

    def close(self) -> None: ...


def numbers_of(event: Event) -> dict[str, float]:
    """Losses of a step, scores of an evaluation, best scores at the end; without NaN."""
    found: dict[str, float | None] = {}
    if isinstance(event, Stepped):
        found = {f"loss/{task}": loss for task, loss in event.losses.items()}
    elif isinstance(event, Evaluated):
        for task, score in event.scores.items():
            found[f"dev/{task}/{score.metric}"] = score.score
            found |= {f"dev/{task}/{name}": value for name, value in score.more.items()}
    elif isinstance(event, Finished):
        found = {"seconds/train": event.cost.seconds.get("train")}
        best = event.best
        found |= {f"best/{name}": value for name, value in (best.overall if best else {}).items()}
    return {
        name: value for name, value in found.items() if value is not None and math.isfinite(value)
    }


def parameters_of(settings: Mapping[str, object]) -> dict[str, str]:
    """Settings by dotted key, without keys that are not set."""
    return {
        key: str(value) for key, value in flattened(settings).items() if value not in (None, {})
    }
