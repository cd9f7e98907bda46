"""Calibration: whether answers are right as often as their probabilities say."""

from __future__ import annotations

from dataclasses import dataclass

from cotrunk import late_numpy as np
from cotrunk.kinds.outcomes import Certainty

BINS, DRAWS = 10, 200


@dataclass(frozen=True)
class Bin:
    """Answers of about the same confidence; ``low`` and ``high`` are Wilson's 95 % interval."""

    confidence: float
    right: float
    low: float
    high: float
    rows: int


@dataclass(frozen=True)
class Reliability:
    """``error``: the expected calibration error (Guo et al. 2017), over bins of equal width.

    ``by_chance``: the 95 % quantile of the error that a perfectly calibrated network shows on as
    many rows; a smaller error may be chance.
    """

    bins: tuple[Bin, ...]
    error: float
    by_chance: float


def reliability(certainty: Certainty, *, seed: int = 0) -> Reliability | None:
    """None without answers."""
    sure, right = certainty.confidence, certainty.right.astype(np.float64)
    if not len(sure):
        return None
    bin_N = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
    rows_B = np.bincount(bin_N, minlength=BINS)
    used = np.flatnonzero(rows_B)
    sure_B, right_B = (np.bincount(bin_N, x, minlength=BINS)[used] for x in (sure, right))
    rows_B = rows_B[used]
    random = np.random.default_rng(seed)
    drawn = [
        _error(sure_B, np.bincount(bin_N, random.random(len(sure)) < sure, minlength=BINS)[used])
        for _ in range(DRAWS)
    ]
    return Reliability(
        tuple(map(_bin, sure_B, right_B, rows_B.tolist())),
        _error(sure_B, right_B) / len(sure),
        float(np.quantile(drawn, 0.95)) / len(sure),
    )


def _error(sure_B: np.ndarray, right_B: np.ndarray) -> float:
    return float(np.abs(sure_B - right_B).sum())


def _bin(sure: float, right: float, rows: int) -> Bin:
    from scipy.stats import binomtest

    found = binomtest(round(right), rows).proportion_ci(method="wilson")
    return Bin(float(sure / rows), float(right / rows), float(found.low), float(found.high), rows)
