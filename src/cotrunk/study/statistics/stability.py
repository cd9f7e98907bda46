"""How steady training was, from the dev scores in a run's history."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LAST = 5
NEAR_BEST = 0.01


@dataclass(frozen=True)
class Stability:
    """``spread``: standard deviation of the last dev scores; NaN for fewer than two.

    ``steps_to_converge``: the first evaluated step with a score near the best of the run; None
    without a score.
    """

    spread: float
    steps_to_converge: int | None


def stability(
    history: Sequence[Mapping[str, Any]],
    task: str,
    *,
    last: int = LAST,
    near: float = NEAR_BEST,
) -> Stability:
    """``history`` has the records of metrics.jsonl; ``near`` is a distance to the best score."""
    found = list(_dev_scores(history, task))
    scores = np.array([score for _, score in found[-last:]])
    spread = float(scores.std(ddof=1)) if len(scores) > 1 else math.nan
    best = max((score for _, score in found), default=math.nan)
    steps = (step for step, score in found if score >= best - near)
    return Stability(spread, next(steps, None))


def _dev_scores(history: Sequence[Mapping[str, Any]], task: str) -> list[tuple[int, float]]:
    """Step and score of every evaluation in which the task has one."""
    evaluated = [
        (record["step"], record["scores"].get(task, {}).get("score"))
        for record in history
        if record.get("event") == "dev"
    ]
    return [(step, score) for step, score in evaluated if score is not None and score == score]
