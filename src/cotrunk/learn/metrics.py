"""Scores with their spread."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cotrunk.tasks import Task

RESAMPLES = 1000
RESAMPLE_BLOCK = 4_000_000


@dataclass(frozen=True)
class Score:
    """A metric on some rows; ``low`` and ``high`` bound its 95 % bootstrap interval."""

    metric: str
    score: float
    low: float
    high: float
    rows: int


def decide(task: Task, output: np.ndarray) -> np.ndarray:
    """Raw outputs [rows, outputs] as predictions: class index, 0 or 1, or the score."""
    if task.kind == "classes":
        return output.argmax(axis=1).astype(np.float64)
    if task.kind == "binary":
        return (output[:, 0] > 0).astype(np.float64)
    return output[:, 0].astype(np.float64)


def accuracy(predicted: np.ndarray, gold: np.ndarray) -> float:
    return float((predicted == gold).mean())


def pearson(predicted: np.ndarray, gold: np.ndarray) -> float:
    """Correlation; NaN where either side is constant, which a caller must not take for a score."""
    x, y = predicted - predicted.mean(), gold - gold.mean()
    length = np.sqrt((x @ x) * (y @ y))
    # A constant column of floats has a mean that is off by rounding, so it is not exactly zero.
    if np.ptp(predicted) == 0 or np.ptp(gold) == 0 or not length > 0:
        return float("nan")
    return float(x @ y / length)


def change(task: Task, output: np.ndarray, other: np.ndarray) -> float:
    """The share of rows that are decided otherwise; of scores, how far they move on average."""
    one, two = decide(task, output), decide(task, other)
    return float(np.abs(one - two).mean() if task.kind == "score" else (one != two).mean())


def score(task: Task, output: np.ndarray, gold: np.ndarray, *, seed: int = 0) -> Score:
    predicted = decide(task, output)
    random = np.random.default_rng(seed)
    if task.metric == "accuracy":
        value = accuracy(predicted, gold)
        # Resampling rows with replacement draws the number of hits from this very law.
        drawn = random.binomial(len(gold), value, RESAMPLES) / len(gold)
    else:
        value = pearson(predicted, gold)
        drawn = _resampled_pearson(predicted, gold, random)
    low, high = np.nan, np.nan
    if np.isfinite(value) and np.isfinite(drawn).any():
        low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return Score(task.metric, value, float(low), float(high), len(gold))


def _resampled_pearson(x: np.ndarray, y: np.ndarray, random: np.random.Generator) -> np.ndarray:
    block = max(1, RESAMPLE_BLOCK // len(x))
    x, y = x - x.mean(), y - y.mean()
    drawn = []
    for first in range(0, RESAMPLES, block):
        rows = random.integers(0, len(x), (min(block, RESAMPLES - first), len(x)))
        a, b = x[rows], y[rows]
        a -= a.mean(axis=1, keepdims=True)
        b -= b.mean(axis=1, keepdims=True)
        length = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn.append((a * b).sum(axis=1) / length)
    return np.concatenate(drawn)


def overall(scores: Mapping[str, Score]) -> dict[str, float]:
    """Both truths: ``official`` maps a correlation r to (r + 1) / 2 first, ``mean`` does not."""
    values = [(s.metric, s.score) for s in scores.values()]
    unit = [(value + 1) / 2 if metric == "pearson" else value for metric, value in values]
    return {
        "official": float(np.mean(unit)),
        "mean": float(np.mean([value for _, value in values])),
        "sum": float(np.sum([value for _, value in values])),
    }


def baseline(task: Task, gold: np.ndarray) -> float:
    """What a constant answer scores: the commonest class, or zero correlation."""
    if task.metric == "pearson":
        return 0.0
    return float(np.unique(gold, return_counts=True)[1].max() / len(gold))
