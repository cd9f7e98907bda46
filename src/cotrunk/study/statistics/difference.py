"""Tests and intervals of the difference between runs on the same dev rows.

All take scores with the influences of their rows, as ``Kind.over_rows`` gives them. Nothing is
resampled, so results do not depend on a seed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cotrunk.kinds.influence import OverRows, Scale
from cotrunk.kinds.intervals import (
    around,
    has_interval,
    interval,
    is_perfect,
    least_error,
    skewness,
    t_quantile,
)
from cotrunk.study.statistics.mcnemar import mcnemar, tango
from cotrunk.study.statistics.variance import Estimated, of_mean, of_rows, of_seeds

CONFIDENCE, INNER_CONFIDENCE = 0.95, 0.90
LARGEST: Mapping[Scale, float] = {"share": 1, "unit": 1, "correlation": 2, "contrast": math.inf}
"""The largest difference of two scores."""


@dataclass(frozen=True)
class Difference:
    """One side's score minus the other's.

    ``low`` and ``high`` bound its 95 % interval, which excludes 0 exactly if ``p < 0.05``, and has
    no values that are impossible on the scale of the scores.
    ``inner_low`` and ``inner_high`` bound the 90 % interval: if it is inside a margin, both
    one-sided tests against the margin reject at 5 %. ``freedom``: degrees of freedom of the t
    distribution behind the intervals, infinite for a normal one. ``half_width``: half of the 95 %
    interval before its bounds were limited to ``largest``; NaN if it is not around the difference.
    """

    difference: float
    low: float
    high: float
    p: float
    inner_low: float
    inner_high: float
    freedom: float = math.inf
    half_width: float = math.nan
    largest: float = math.inf


@dataclass(frozen=True)
class Mean:
    """The mean over seeds, their standard deviation (NaN for one), and a 95 % interval."""

    mean: float
    sd: float
    low: float
    high: float


NOTHING = Difference(*[math.nan] * 6)


def paired(one: OverRows, other: OverRows) -> Difference:
    """Whether two trained networks differ by more than the choice of dev rows explains.

    A share of correct rows is tested by McNemar's test (1947), and its interval is the one that
    inverts the same score test (Tango 1998). Any other score is tested by a t test on the
    jackknife values of the difference, row by row (Tukey 1958; Arvesen 1969).
    """
    _check_rows([one], [other])
    if not _defined([one, other]):
        return NOTHING
    one_hits, other_hits = _hits(one), _hits(other)
    if one_hits is not None and other_hits is not None:
        return _of_hits(one_hits, other_hits)
    return _of_estimate(one.value - other.value, of_rows([one], [other]), LARGEST[one.scale])


def seeds_and_rows(ones: Sequence[OverRows], others: Sequence[OverRows]) -> Difference:
    """Whether two ways to train differ by more than seeds and dev rows explain together.

    The test of Obuchowski and Rockette (1995) with Hillis's degrees of freedom (2007), made for
    several readers of the same cases: here seeds are the readers, each on one side, and rows are
    the cases. The variance of the difference between the means is the variance between the seeds
    of a side, over their number, plus the variance that rows cause in all runs of a side alike;
    each seed's own row noise is in the first part and is taken out of the second. The first part
    has few degrees of freedom, so the t distribution has Satterthwaite's (1946).

    A side with one run is taken to vary between seeds as the other side does, by an estimate from
    one side only, as for a mean. With one run on each side seeds cannot be judged, and the test is
    ``paired``.
    """
    _check_rows(ones, others)
    if len(ones) == len(others) == 1:
        return paired(ones[0], others[0])
    if not _defined([*ones, *others]):
        return NOTHING
    values, other_values = ([run.value for run in side] for side in (ones, others))
    difference = float(np.mean(values) - np.mean(other_values))
    seeds, rows = of_seeds(values, other_values), of_rows(ones, others, shared=True)
    both_vary = min(len(ones), len(others)) > 1
    variance = seeds + rows if both_vary else seeds.with_rows(rows)
    return _of_estimate(difference, variance, LARGEST[ones[0].scale])


def mean_over_seeds(runs: Sequence[OverRows]) -> Mean:
    """The interval covers what seeds and rows explain together, as in ``seeds_and_rows``."""
    _check_rows(runs)
    values = [run.value for run in runs]
    if len(runs) == 1:
        return Mean(values[0], math.nan, *interval(runs[0]))
    if not _defined(runs):
        return Mean(*[math.nan] * 4)
    mean, sd = float(np.mean(values)), float(np.std(values, ddof=1))
    return Mean(mean, sd, *_of_mean(runs, mean))


def _of_mean(runs: Sequence[OverRows], mean: float) -> tuple[float, float]:
    first = runs[0]
    if not has_interval(first):
        return math.nan, math.nan
    is_correlation = first.scale == "correlation"
    if is_perfect(mean) or (mean <= 0 and not is_correlation):
        return interval(first)  # as all of them, or they would not average to this
    found = of_mean(runs)
    error = math.sqrt(found.variance)
    influence_N = np.mean([run.influence for run in runs], axis=0)
    least = least_error(mean, first.rows) if is_correlation else 0.0
    return around(
        mean,
        max(error, least),
        scale=first.scale,
        quantile=t_quantile(CONFIDENCE, found.freedom),
        skewness=skewness(influence_N, error) if first.has_outliers else 0.0,
    )


def _of_estimate(difference: float, variance: Estimated, largest: float) -> Difference:
    def bounds(confidence: float) -> tuple[float, float]:
        half = variance.half_width(confidence)
        return max(-largest, difference - half), min(largest, difference + half)

    outer, inner, p = bounds(CONFIDENCE), bounds(INNER_CONFIDENCE), variance.p(difference)
    half = variance.half_width(CONFIDENCE)
    return Difference(difference, *outer, p, *inner, variance.freedom, half, largest)


def _of_hits(one_N: np.ndarray, other_N: np.ndarray) -> Difference:
    rows = len(one_N)
    only_one, only_other = int((one_N & ~other_N).sum()), int((other_N & ~one_N).sum())
    low, high = tango(only_one, only_other, rows, confidence=CONFIDENCE)
    inner_low, inner_high = tango(only_one, only_other, rows, confidence=INNER_CONFIDENCE)
    p = mcnemar(only_one, only_other)
    return Difference((only_one - only_other) / rows, low, high, p, inner_low, inner_high)


def _hits(score: OverRows) -> np.ndarray | None:
    """Which rows are correct; None if the score is not a plain share of rows."""
    if score.scale != "share":
        return None
    right = score.influence + score.value
    hits = right > 0.5
    return hits if np.allclose(right, hits, rtol=0, atol=1e-6) else None


def _defined(runs: Sequence[OverRows]) -> bool:
    return all(math.isfinite(run.value) and np.isfinite(run.influence).all() for run in runs)


def _check_rows(*sides: Sequence[OverRows]) -> None:
    if not all(sides):
        raise ValueError("a comparison needs a run on each side")
    rows = sorted({run.rows for side in sides for run in side})
    if len(rows) > 1:
        found = " and ".join(map(str, rows))
        raise ValueError(f"runs are compared on the same dev rows; found {found} rows")
