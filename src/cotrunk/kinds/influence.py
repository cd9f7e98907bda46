"""A score as a mean over rows: how much each row moves it.

To first order, the error of a score is the mean of its rows' influences, so intervals and tests
need no resampling. Influences are jackknife values, ``(n - 1) (mean - value without the row)``
(Tukey 1958; Efron and Stein 1981). Shapes: N rows, k sums, K classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cotrunk import late_numpy as np

Scale = Literal["share", "unit", "correlation", "contrast"]
"""A share of rows, another score in 0..1, a score in -1..1, a weighted sum without limits."""

GROUPS = 200
"""Groups of rows that are left out in turn if a metric has no cheaper way."""
BLOCK = 4_000_000
"""The most numbers held in memory at once."""


@dataclass(frozen=True, eq=False)
class OverRows:
    """A score with the influence of each row, or of each group of rows.

    ``size`` is the number of cases that are right or wrong. It gives the interval a width where no
    row has an influence: if all cases are right, or two runs agree on all of them.
    ``has_outliers``: a row may have any influence, as in a correlation of values, so a few rows may
    cause most of the error.
    """

    value: float
    influence: np.ndarray
    scale: Scale
    size: float
    has_outliers: bool = False

    @property
    def rows(self) -> int:
        return len(self.influence)


def jackknife(moments_Nk: np.ndarray, of_sums: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Influences on a function of sums over rows; ``of_sums`` maps [..., k] to [...]."""
    return influence_of(of_sums(moments_Nk.sum(axis=0) - moments_Nk))


def influence_of(left_out_N: np.ndarray) -> np.ndarray:
    """``left_out_N``: the score without each row, or without each of equal groups."""
    return (len(left_out_N) - 1) * (left_out_N.mean() - left_out_N)


def jackknife_classes(
    predicted: np.ndarray,
    gold: np.ndarray,
    *,
    classes: int,
    of_counts: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Influences on a function of the correct, predicted and gold counts of each class.

    Rows with the same label and prediction have the same influence, which is computed once. The
    index ``classes`` is a prediction that is not a class.
    """
    gold_N, predicted_N = gold.astype(np.int64), predicted.astype(np.int64)
    cells, cell_N = np.unique(gold_N * (classes + 1) + predicted_N, return_inverse=True)
    gold_U, predicted_U = np.divmod(cells, classes + 1)
    times_U = np.bincount(cell_N)
    gold_K, predicted_K, right_K = (
        np.bincount(labels, times, minlength=classes + 1)[:classes]
        for labels, times in (
            (gold_U, times_U),
            (predicted_U, times_U),
            (gold_U, times_U * (gold_U == predicted_U)),
        )
    )
    left_out = []
    step = max(1, BLOCK // classes)
    for start in range(0, len(cells), step):
        one_UK = _one_hot(gold_U[start : start + step], classes)
        other_UK = _one_hot(predicted_U[start : start + step], classes)
        left_out.append(
            of_counts(right_K - one_UK * other_UK, predicted_K - other_UK, gold_K - one_UK)
        )
    return influence_of(np.concatenate(left_out)[cell_N])


def _one_hot(label_U: np.ndarray, classes: int) -> np.ndarray:
    return (label_U[:, None] == np.arange(classes)).astype(np.float64)


def jackknife_pearson(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """NaN if the correlation is undefined without one of the rows."""
    rows = len(gold)
    x, y = predicted - predicted.mean(), gold - gold.mean()
    shrink = rows / max(rows - 1, 1)
    xx, yy, xy = (a @ b - shrink * a * b for a, b in ((x, x), (y, y), (x, y)))
    # Without the only row that differs, rounding leaves a spread that is not exactly zero.
    varied = (xx > 1e-12 * (x @ x)) & (yy > 1e-12 * (y @ y))
    with np.errstate(invalid="ignore", divide="ignore"):
        return influence_of(np.where(varied, xy / np.sqrt(xx * yy), np.nan))


def influence_on_spearman(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """The influence function of the correlation of ranks, at the sample.

    A row also moves the ranks of the other rows: those are the terms with ``_share_above``.
    """
    a, b = _centred_ranks(predicted), _centred_ranks(gold)
    products = (
        (a * b, _share_above(predicted, b) + _share_above(gold, a)),
        (a * a, 2 * _share_above(predicted, a)),
        (b * b, 2 * _share_above(gold, b)),
    )
    (ab, on_ab), (aa, on_aa), (bb, on_bb) = (
        (own.mean(), own + moved - (own + moved).mean()) for own, moved in products
    )
    if not aa or not bb:
        return np.full(len(gold), np.nan)
    return on_ab / np.sqrt(aa * bb) - ab / np.sqrt(aa * bb) / 2 * (on_aa / aa + on_bb / bb)


def _centred_ranks(x: np.ndarray) -> np.ndarray:
    _, level, times = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(times) - times / 2)[level] / len(x) - 0.5


def _share_above(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """For each row, the weight of the rows with a larger x, and half of those with an equal one."""
    _, level = np.unique(x, return_inverse=True)
    at_level = np.bincount(level, weight)
    above = at_level.sum() - np.cumsum(at_level)
    return (above + at_level / 2)[level] / len(x)


def jackknife_groups(
    statistic: Callable[[np.ndarray, np.ndarray], np.ndarray],
    predicted: np.ndarray,
    gold: np.ndarray,
    counts: np.ndarray | None,
) -> np.ndarray:
    """Influences of groups of rows on any statistic; the same groups for every run."""
    rows = len(gold) if counts is None else len(counts)
    order = np.random.default_rng(0).permutation(rows)
    group = np.empty(rows, np.int64)
    group[order] = np.arange(rows) % GROUPS
    group_of_unit = group if counts is None else np.repeat(group, counts)
    kept = (group_of_unit != number for number in range(min(rows, GROUPS)))
    return influence_of(np.array([float(statistic(predicted[k], gold[k])) for k in kept]))


def by_rows(influence: np.ndarray, counts: np.ndarray | None) -> np.ndarray:
    """The influence of each row from those of its units, which are not independent.

    A score that is the mean over N units of what they contribute is the mean over R rows of R / N
    times their sums.
    """
    if counts is None:
        return influence
    row = np.repeat(np.arange(len(counts)), counts)
    return np.bincount(row, influence, minlength=len(counts)) * len(counts) / len(influence)
