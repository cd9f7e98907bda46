"""Successive halving in the order of the trials: decisions that follow from run folders alone.

The rule is that of ASHA (Li et al. 2020, as in Ray Tune's ``ASHAScheduler``): at a rung, a trial is
stopped if it is not among the best 1/reduction of those that reached the rung before it. Here
"before" means a lower number, not an earlier time. So a decision does not depend on how fast
machines are, what was killed, or which engine runs the trials.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Asha:
    """Rungs are after ``grace``, ``grace * reduction``, ``grace * reduction**2``... evaluations."""

    grace: int = 1
    reduction: int = 3

    def is_rung(self, evaluations: int) -> bool:
        rung = self.grace
        while rung < evaluations:
            rung *= self.reduction
        return rung == evaluations


def is_stopped(value: float, before: Sequence[float], reduction: int) -> bool:
    """``before``: the values at this rung of the trials before; NaN is the worst."""
    known = [x for x in before if not np.isnan(x)]
    if not known:
        return False
    return bool(np.isnan(value) or value < np.percentile(known, (1 - 1 / reduction) * 100))


def values_of(metrics: Sequence[Mapping[str, Any]], objective: str) -> list[float]:
    """The objective at each evaluation in metrics.jsonl; NaN where it is undefined."""
    return [_value(line, objective) for line in metrics if line.get("event") == "dev"]


def _value(line: Mapping[str, Any], objective: str) -> float:
    scores = line["scores"]
    value = scores[objective]["score"] if objective in scores else line.get(objective)
    return float("nan") if value is None else float(value)
