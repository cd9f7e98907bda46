"""The variance of a mean over seeds: what seeds cause, and what the choice of dev rows causes.

Shapes: S seeds, N rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotrunk.kinds.influence import OverRows
from cotrunk.kinds.intervals import normal_quantile, t_quantile


@dataclass(frozen=True)
class Estimated:
    """A variance that was estimated with ``freedom`` degrees of freedom."""

    variance: float
    freedom: float

    def __add__(self, other: "Estimated") -> "Estimated":
        """Satterthwaite (1946)."""
        total = self.variance + other.variance
        parts = (self.variance**2 / self.freedom, other.variance**2 / other.freedom)
        return Estimated(total, total**2 / sum(parts) if total else self.freedom)

    def with_rows(self, rows: "Estimated") -> "Estimated":
        """Plus what rows cause, if ``self`` is the variance between the seeds of one side.

        The excess of the squared 95 % quantile over a normal one is weighted by squared shares of
        the variance. Satterthwaite weights 1 / freedom in this way, which comes to the same if
        freedoms are large; with two seeds it makes intervals too short if they happen to be alike.
        """
        from scipy.special import stdtridf

        total = self.variance + rows.variance
        if not total:
            return self
        normal = normal_quantile(0.95) ** 2
        excess = sum(
            (part.variance / total) ** 2 * (t_quantile(0.95, part.freedom) ** 2 - normal)
            for part in (self, rows)
        )
        return Estimated(total, float(stdtridf(0.975, math.sqrt(normal + excess))))

    def half_width(self, confidence: float) -> float:
        return t_quantile(confidence, self.freedom) * math.sqrt(self.variance)

    def p(self, difference: float) -> float:
        """Two-sided, of a difference this far from 0."""
        from scipy.special import stdtr

        if not difference:
            return 1.0
        if not self.variance:
            return 0.0
        return float(2 * stdtr(self.freedom, -abs(difference) / math.sqrt(self.variance)))


def of_seeds(ones: Sequence[float], others: Sequence[float]) -> Estimated:
    """Variance of the difference of two means; each side has its own variance (Welch 1947)."""
    sides = [side for side in (ones, others) if len(side) > 1]
    if len(sides) == 2:
        return _of_seed_mean(ones) + _of_seed_mean(others)
    (several,) = sides
    variance = float(np.var(several, ddof=1))
    return Estimated(variance * (1 / len(ones) + 1 / len(others)), len(several) - 1)


def of_rows(
    ones: Sequence[OverRows], others: Sequence[OverRows], *, shared: bool = False
) -> Estimated:
    """Variance of the difference of two means, over the choice of rows.

    ``shared``: without the noise of each seed alone, which the variance between seeds includes.
    It is at least the variance of one case more or less.
    """
    one_SN, other_SN = _influences(ones), _influences(others)
    rows = one_SN.shape[1]
    variance = _of_row_mean(one_SN.mean(axis=0) - other_SN.mean(axis=0))
    if shared:
        own, other_own = _own(one_SN), _own(other_SN)
        own, other_own = (
            a if math.isfinite(a) else b for a, b in ((own, other_own), (other_own, own))
        )
        variance -= own / len(ones) + other_own / len(others)
    least = _least((*ones, *others))
    return Estimated(max(variance, least), rows - 1)


def of_mean(runs: Sequence[OverRows]) -> Estimated:
    """Variance of the mean over several seeds."""
    own_SN = _influences(runs)
    shared = _of_row_mean(own_SN.mean(axis=0)) - _own(own_SN) / len(runs)
    least = _least(runs)
    seeds = _of_seed_mean([run.value for run in runs])
    return seeds.with_rows(Estimated(max(shared, least), own_SN.shape[1] - 1))


def _of_seed_mean(values: Sequence[float]) -> Estimated:
    return Estimated(float(np.var(values, ddof=1)) / len(values), len(values) - 1)


def _of_row_mean(influence_N: np.ndarray) -> float:
    rows = len(influence_N)
    return float(influence_N @ influence_N) / (rows * (rows - 1))


def _own(influence_SN: np.ndarray) -> float:
    """The variance of a run's score that rows cause in this run alone; NaN for a single run."""
    seeds, rows = influence_SN.shape
    if seeds == 1:
        return math.nan
    return float(np.var(influence_SN, axis=0, ddof=1).sum()) / (rows * (rows - 1))


def _influences(runs: Sequence[OverRows]) -> np.ndarray:
    return np.stack([run.influence for run in runs])


def _least(runs: Sequence[OverRows]) -> float:
    """The variance of one case more or less."""
    return 1 / max(1, min(run.size for run in runs)) ** 2
