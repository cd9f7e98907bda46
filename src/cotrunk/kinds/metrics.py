"""Scores with their spread."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from cotrunk.kinds.task import Task
from cotrunk.model.heads import probabilities

RESAMPLES = 1000
FEWEST, MOST_UNDEFINED = 4, 0.05
"""Rows that a correlation needs for an interval; the share of its draws that may be undefined."""
Z = 1.959963984540054
"""Of 95 % of the normal law."""
RESAMPLE_BLOCK = 4_000_000


@dataclass(frozen=True)
class Score:
    """A metric on some rows; ``low`` and ``high`` bound its 95 % interval.

    Wilson's for an accuracy, the bootstrap's over rows for a correlation; NaN where there is none.
    """

    metric: str
    score: float
    low: float
    high: float
    rows: int


def predict_labels(task: Task, output: np.ndarray) -> np.ndarray:
    """Raw outputs [rows, outputs] as predictions: class index, 0 or 1, or the score.

    Outputs that are no numbers decide nothing: NaN.
    """
    if task.kind == "classes":
        decided = output.argmax(axis=1).astype(np.float64)
    elif task.kind == "binary":
        decided = (output[:, 0] > 0).astype(np.float64)
    else:
        decided = output[:, 0].astype(np.float64)
    return np.where(np.isfinite(output).all(axis=1), decided, np.nan)


def label_name(task: Task, decided: float) -> str | int | float:
    """What such a number stands for: the name of a class, 0 or 1, the score."""
    if task.kind == "classes":
        return task.classes[int(decided)]
    return int(decided) if task.kind == "binary" else decided


def errors(task: Task, output: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """How wrong each row is: 1 less the chance of its label; of a score, how far off."""
    said = probabilities(task, torch.from_numpy(output)).numpy().astype(np.float64)
    if task.kind == "classes":
        return 1 - said[np.arange(len(gold)), np.asarray(gold, np.int64)]
    return np.abs(said[:, 0] - gold)


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
    one, two = predict_labels(task, output), predict_labels(task, other)
    return float(np.abs(one - two).mean() if task.kind == "score" else (one != two).mean())


def score(task: Task, output: np.ndarray, gold: np.ndarray, *, seed: int = 0) -> Score:
    predicted = predict_labels(task, output)
    value = low = high = float("nan")
    if np.isfinite(predicted).all():
        value = (accuracy if task.metric == "accuracy" else pearson)(predicted, gold)
    if np.isfinite(value) and task.metric == "accuracy":
        low, high = wilson(value, len(gold))
    elif np.isfinite(value) and len(gold) >= FEWEST:
        drawn = _resampled_pearson(predicted, gold, np.random.default_rng(seed))
        if np.isnan(drawn).mean() <= MOST_UNDEFINED:
            low, high = map(float, np.nanpercentile(drawn, [2.5, 97.5]))
    return Score(task.metric, value, low, high, len(gold))


def wilson(share: float, rows: int) -> tuple[float, float]:
    """Holds the true share in about 95 of 100 samples; has a width even where all rows hit."""
    middle = share + Z**2 / (2 * rows)
    half = Z * math.sqrt(share * (1 - share) / rows + (Z / (2 * rows)) ** 2)
    low, high = ((middle + side * half) / (1 + Z**2 / rows) for side in (-1, 1))
    return max(low, 0.0), min(high, 1.0)


def _resampled_pearson(x: np.ndarray, y: np.ndarray, random: np.random.Generator) -> np.ndarray:
    block = max(1, RESAMPLE_BLOCK // len(x))
    x, y = x - x.mean(), y - y.mean()
    drawn = []
    for first in range(0, RESAMPLES, block):
        rows = random.integers(0, len(x), (min(block, RESAMPLES - first), len(x)))
        a, b = x[rows], y[rows]
        constant = (np.ptp(a, axis=1) == 0) | (np.ptp(b, axis=1) == 0)
        a -= a.mean(axis=1, keepdims=True)
        b -= b.mean(axis=1, keepdims=True)
        length = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn.append(np.where(constant, np.nan, (a * b).sum(axis=1) / length))
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
    """What a constant answer scores: the commonest class; it has no correlation."""
    if task.metric == "pearson":
        return float("nan")
    return float(np.unique(gold, return_counts=True)[1].max() / len(gold))
