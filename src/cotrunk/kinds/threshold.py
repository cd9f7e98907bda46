"""Decision thresholds: the probability above which a label is predicted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Literal

from cotrunk import late_numpy as np
from cotrunk.kinds.probabilities import logit, sigmoid

DEV_F1: Literal["dev-f1"] = "dev-f1"
EVEN = 0.5
Threshold = Literal["dev-f1"] | float


def check_threshold(given: object) -> None:
    """Every number must be a probability; ``ValueError`` otherwise."""
    for value in given if isinstance(given, tuple) else (given,):
        if value != DEV_F1 and not (isinstance(value, int | float) and 0 < value < 1):
            rule = f'must lie between 0 and 1, or be "{DEV_F1}"'
            raise ValueError(f"threshold = {value!r}: {rule}")


def chosen(given: Threshold | tuple[float, ...]) -> float | tuple[float, ...]:
    """The threshold to use; ``dev-f1`` is 0.5 until one is chosen on the dev rows."""
    return EVEN if isinstance(given, str) else given


def is_above(logits: np.ndarray, given: Threshold | tuple[float, ...]) -> np.ndarray:
    """Where the probability is above the threshold, as 1.0 and 0.0."""
    # A float64 array: as a plain number the cut would be rounded to the type of the logits.
    return (logits > logit(np.asarray(chosen(given), np.float64))).astype(np.float64)


def best_for_f1(logits: np.ndarray, gold: np.ndarray) -> float:
    """The threshold with the highest F1 of label 1; of equally good ones, that nearest to 0.5.

    Candidates are in the middle between two neighbouring outputs, so that small differences of
    outputs do not matter. 0.5 if the F1 is 0 everywhere.
    """
    logits, gold = logits.astype(np.float64).reshape(-1), gold.reshape(-1)
    if not gold.any() or not np.isfinite(logits).all():
        return EVEN
    every, positive = np.sort(logits), np.sort(logits[gold == 1])
    found = np.unique(every)
    middle = np.concatenate([found[:1] - 1, (found[:-1] + found[1:]) / 2])
    candidates = np.unique(np.append(sigmoid(middle), EVEN))
    candidates = candidates[(candidates > 0) & (candidates < 1)]
    cut = logit(candidates)
    right = len(positive) - np.searchsorted(positive, cut, side="right")
    given = len(every) - np.searchsorted(every, cut, side="right")
    f1 = 2 * right / (given + len(positive))
    best = candidates[f1 == f1.max()]
    return float(best[np.abs(best - EVEN).argmin()])


def mean_thresholds(each: Iterable[Mapping[str, float]]) -> tuple[float, ...]:
    """The mean threshold of each class over networks whose probabilities are averaged."""
    return tuple(map(fmean, zip(*(one.values() for one in each), strict=True)))


def threshold_line(thresholds: Mapping[str, float]) -> str:
    """Above which probability a class is predicted; empty if that is 0.5 for all."""
    values = set(thresholds.values())
    if values <= {EVEN}:
        return ""
    if len(values) == 1:
        every = "each class" if len(thresholds) > 1 else next(iter(thresholds))
        return f"{every} is given above a probability of {values.pop():.3g}"
    each = ", ".join(f"{name} {value:.3g}" for name, value in thresholds.items())
    return f"a class is given above a probability of: {each}"
