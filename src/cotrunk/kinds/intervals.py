"""95 % intervals of scores, from the influences of their rows."""

import math

import numpy as np

from cotrunk.kinds.influence import OverRows

FEWEST = 4
FEW_FOR_JACKKNIFE = 30
"""Below this a jackknife may miss most of a correlation's error: Fisher's is the least."""
"""Rows needed for an interval, unless the score is a share of rows."""


def standard_error(influence: np.ndarray) -> float:
    """Of the mean of the influences; they are centred."""
    rows = len(influence)
    return math.sqrt(float(influence @ influence) / (rows * (rows - 1))) if rows > 1 else math.nan


def normal_quantile(confidence: float) -> float:
    """So many standard errors to each side hold the share ``confidence``."""
    from scipy.special import ndtri  # scipy.stats takes most of a second to import

    return float(ndtri((1 + confidence) / 2))


def t_quantile(confidence: float, freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def interval(score: OverRows, *, confidence: float = 0.95) -> tuple[float, float]:
    """NaN if the score is undefined, or would be without one of the rows.

    Metrics in 0..1 have Wilson's interval (1927), with the number of independent rows that would
    give their standard error; correlations have a symmetric interval of Fisher's z (1921), with
    the standard error of the jackknife, because outputs are not normal.
    """
    if not math.isfinite(score.value) or not np.isfinite(score.influence).all():
        return math.nan, math.nan
    if score.scale != "share" and score.rows < FEWEST:
        return math.nan, math.nan
    if score.scale == "correlation":
        return _fisher(score, confidence)
    if score.scale == "mean":
        return _student(score, confidence)
    return wilson(score.value, _independent(score), confidence=confidence)


def _independent(score: OverRows) -> float:
    """The rows of which a share of this value would have the same standard error."""
    spread = float(score.influence @ score.influence) / score.rows**2
    if not spread or not 0 < score.value < 1:
        return score.size
    rows = score.value * (1 - score.value) / spread
    return rows if score.scale == "share" else rows * (score.rows - 1) / score.rows


def wilson(share: float, rows: float, *, confidence: float = 0.95) -> tuple[float, float]:
    """Has a width even if all rows are correct; 0 to 1 if there are no rows."""
    if not rows:
        return 0.0, 1.0
    z2 = normal_quantile(confidence) ** 2
    centre = (share + z2 / (2 * rows)) / (1 + z2 / rows)
    half = math.sqrt(z2 * (share * (1 - share) / rows + z2 / (4 * rows**2))) / (1 + z2 / rows)
    return max(0.0, centre - half), min(1.0, centre + half)


def _fisher(score: OverRows, confidence: float) -> tuple[float, float]:
    if abs(score.value) >= 1 - 1e-12:
        share = (math.copysign(1, score.value) + 1) / 2
        low, high = wilson(share, score.rows, confidence=confidence)
        return 2 * low - 1, 2 * high - 1
    error = standard_error(score.influence) / (1 - score.value**2)
    if score.rows < FEW_FOR_JACKKNIFE:
        error = max(error, 1 / math.sqrt(score.rows - 3))
    half = t_quantile(confidence, score.rows - 1) * error
    middle = math.atanh(score.value)
    return math.tanh(middle - half), math.tanh(middle + half)


def _student(score: OverRows, confidence: float) -> tuple[float, float]:
    half = t_quantile(confidence, score.rows - 1) * standard_error(score.influence)
    return score.value - half, score.value + half
