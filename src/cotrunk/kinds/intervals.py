"""95 % intervals of scores, from the influences of their rows."""

from __future__ import annotations

import math

from cotrunk import late_numpy as np
from cotrunk.kinds.influence import OverRows, Scale

FEWEST = 4
"""Rows needed for an interval, unless the score is a share of rows."""
FEW_FOR_JACKKNIFE = 30
"""With fewer rows a jackknife may miss most of a correlation's error, so that Fisher's standard
error is used as the minimum.
"""
MOST_SKEWED = 0.8
"""The largest skewness that intervals follow, times the quantile. Near 1 the inverse of Hall's
transformation is vertical: a small change of the estimate moves the end by several standard errors.
"""


def standard_error(influence: np.ndarray) -> float:
    """The standard error of the mean of the influences, which are centred."""
    rows = len(influence)
    return math.sqrt(float(influence @ influence) / (rows * (rows - 1))) if rows > 1 else math.nan


def normal_quantile(confidence: float) -> float:
    """How many standard errors to each side cover the share ``confidence`` of a normal."""
    from scipy.special import ndtri  # scipy.stats takes most of a second to import

    return float(ndtri((1 + confidence) / 2))


def t_quantile(confidence: float, freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def interval(score: OverRows, *, confidence: float = 0.95) -> tuple[float, float]:
    """NaN if the score is undefined, or would be without one of the rows.

    Metrics in 0..1 have Wilson's interval (1927), with the number of independent rows that would
    give their standard error; correlations have an interval of Fisher's z (1921), with the
    standard error of the jackknife, because outputs are not normal.
    """
    if not has_interval(score):
        return math.nan, math.nan
    if score.scale != "correlation":
        return wilson(score.value, _independent(score), confidence=confidence)
    if is_perfect(score.value):
        low, high = wilson((score.value + 1) / 2, score.rows, confidence=confidence)
        return 2 * low - 1, 2 * high - 1
    error = standard_error(score.influence)
    return around(
        score.value,
        max(error, least_error(score.value, score.rows)),
        scale=score.scale,
        quantile=t_quantile(confidence, score.rows - 1),
        skewness=skewness(score.influence, error) if score.has_outliers else 0.0,
    )


def has_interval(score: OverRows) -> bool:
    defined = math.isfinite(score.value) and bool(np.isfinite(score.influence).all())
    return defined and (score.scale == "share" or score.rows >= FEWEST)


def is_perfect(correlation: float) -> bool:
    return abs(correlation) >= 1 - 1e-12


def least_error(correlation: float, rows: int) -> float:
    """Fisher's standard error of a correlation, if there are too few rows for the jackknife's."""
    return (1 - correlation**2) / math.sqrt(rows - 3) if rows < FEW_FOR_JACKKNIFE else 0.0


def around(
    value: float, error: float, *, scale: Scale, quantile: float, skewness: float = 0.0
) -> tuple[float, float]:
    """``quantile`` standard errors to each side on an unbounded scale, mapped to 0..1 or -1..1."""
    if scale == "correlation":
        middle, error = math.atanh(value), error / (1 - value**2)
        below, above = _sides(quantile, skewness)
        return math.tanh(middle - below * error), math.tanh(middle + above * error)
    return _wilson(value, value * (1 - value) / error**2, quantile) if error else (value, value)


def skewness(influence: np.ndarray, error: float) -> float:
    """The skewness of a score with this standard error, estimated from its influences."""
    third = float((influence**3).sum()) / len(influence) ** 3
    return third / error**3 if error else 0.0


def _sides(quantile: float, skewness: float) -> tuple[float, float]:
    """How many standard errors to go down and up.

    A score whose error is carried by few rows is too high, and its standard error too small, if
    they are not in the sample. Hall's cubic transformation (1992) corrects for that. Neither side
    is ever shorter than without skewness, because such rows may be missing altogether. At 90 %
    confidence or more, neither is more than 1.72 times as long.
    """
    size = min(abs(skewness), MOST_SKEWED / quantile)
    if size < 1e-6:
        return quantile, quantile
    longer = 3 / size * (1 - float(np.cbrt(1 - size * (quantile + size / 6))))
    return (longer, quantile) if skewness < 0 else (quantile, longer)


def _independent(score: OverRows) -> float:
    """The number of independent rows at which a share of this value has this standard error.

    Of a mean over tasks, some may have no error at all: rows count at most as many as at the
    standard error of one case more or less.
    """
    spread = float(score.influence @ score.influence) / score.rows**2
    if not spread or not 0 < score.value < 1:
        return score.size
    rows = score.value * (1 - score.value) / spread
    if score.scale == "share":
        return rows
    most = max(score.size, score.value * (1 - score.value) * score.size**2)
    return min(rows * (score.rows - 1) / score.rows, most)


def wilson(share: float, rows: float, *, confidence: float = 0.95) -> tuple[float, float]:
    """Has a width even if all rows are correct; 0 to 1 if there are no rows."""
    return _wilson(share, rows, normal_quantile(confidence)) if rows else (0.0, 1.0)


def _wilson(share: float, rows: float, quantile: float) -> tuple[float, float]:
    z2 = quantile**2
    centre = (share + z2 / (2 * rows)) / (1 + z2 / rows)
    half = math.sqrt(z2 * (share * (1 - share) / rows + z2 / (4 * rows**2))) / (1 + z2 / rows)
    return max(0.0, centre - half), min(1.0, centre + half)  # these limits only undo rounding
