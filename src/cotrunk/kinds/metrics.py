"""Scores and their 95 % intervals. Shapes: ``[..., n]`` labels, or ``[..., n, K]`` of K classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from cotrunk import late_numpy as np
from cotrunk.errors import plural
from cotrunk.kinds.influence import (
    OverRows,
    Scale,
    by_rows,
    influence_on_spearman,
    jackknife,
    jackknife_classes,
    jackknife_groups,
    jackknife_pearson,
)
from cotrunk.kinds.intervals import interval

Value: TypeAlias = "Callable[[np.ndarray, np.ndarray], np.ndarray]"
"""(predicted, gold) -> one number for each leading index."""
Influence: TypeAlias = "Callable[[np.ndarray, np.ndarray], np.ndarray]"
"""(predicted, gold) -> the influence of each row; see ``influence.py``."""


@dataclass(frozen=True)
class Metric:
    """``statistic`` is computed over rows, and for each leading index.

    Correlations are in -1..1, other metrics in 0..1. ``is_share``: a share of correct rows.
    ``influence`` None: use the jackknife over groups of rows, which works for any metric.
    ``size``: how many cases are right or wrong; None: the number of rows. ``has_outliers``: a
    single row may have any influence.
    """

    name: str
    statistic: Value
    is_share: bool = False
    is_correlation: bool = False
    influence: Influence | None = None
    size: Value | None = None
    has_outliers: bool = False

    def value(self, predicted: np.ndarray, gold: np.ndarray) -> float:
        return float(self.statistic(predicted, gold))

    def unit(self, value: float) -> float:
        """The value mapped to 0..1."""
        return (value + 1) / 2 if self.is_correlation else value

    @property
    def scale(self) -> Scale:
        return "share" if self.is_share else "correlation" if self.is_correlation else "unit"

    def over_rows(
        self, predicted: np.ndarray, gold: np.ndarray, *, counts: np.ndarray | None = None
    ) -> OverRows:
        """NaN where a prediction is not finite. ``counts``: the units of each row."""
        rows = len(gold) if counts is None else len(counts)
        size = float(self.size(predicted, gold)) if self.size else float(rows)
        defined = len(gold) > 0 and np.isfinite(predicted).all()
        value = self.value(predicted, gold) if defined else math.nan
        if not math.isfinite(value):
            return OverRows(math.nan, np.full(rows, math.nan), self.scale, size)
        if self.influence is None:
            influence = jackknife_groups(self.statistic, predicted, gold, counts)
        else:
            influence = by_rows(self.influence(predicted, gold), counts)
        return OverRows(value, influence, self.scale, size, self.has_outliers)


@dataclass(frozen=True)
class Score:
    """A metric on some rows; ``low`` and ``high`` bound its 95 % interval, NaN if it has none.

    ``more`` has all metrics of the kind. ``unit`` is the score mapped to 0..1, as in ``official``;
    None: the task does not count in the overall score. ``baseline`` is the score of a constant
    answer, if it has one. ``thresholds``: the probability above which a class is predicted, if the
    kind has thresholds. ``masked_tokens``: how many were predicted; None: rows are scored.
    """

    metric: str
    score: float
    low: float
    high: float
    rows: int
    unit: float | None
    more: dict[str, float] = field(default_factory=dict)
    per_class: dict[str, float] = field(default_factory=dict)
    baseline: float | None = None
    thresholds: dict[str, float] = field(default_factory=dict)
    masked_tokens: int | None = None


def scored_on(rows: int, masked_tokens: int | None) -> str:
    """What a score is based on: "72 rows", or "310 masked tokens in 72 rows"."""
    tokens = "" if masked_tokens is None else f"{plural(masked_tokens, 'masked token')} in "
    return tokens + plural(rows, "row")


def measure(
    metrics: Mapping[str, Metric],
    chosen: str,
    predicted: np.ndarray,
    gold: np.ndarray,
    *,
    counts: np.ndarray | None = None,
) -> Score:
    """All metrics, and the interval of the chosen one; NaN where a prediction is not finite."""
    metric, nothing = metrics[chosen], float("nan")
    if not len(gold) or not np.isfinite(predicted).all():
        return Score(chosen, nothing, nothing, nothing, len(gold), nothing)
    more = {name: other.value(predicted, gold) for name, other in metrics.items()}
    low, high = interval(metric.over_rows(predicted, gold, counts=counts))
    value = more[chosen]
    return Score(chosen, value, low, high, len(gold), metric.unit(value), more)


def accuracy(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    return (predicted == gold).mean(axis=-1)


def influence_on_accuracy(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    right = (predicted == gold).astype(np.float64)
    return right - right.mean()


def pearson(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """NaN if either side is constant: the correlation is undefined."""
    x = predicted - predicted.mean(axis=-1, keepdims=True)
    y = gold - gold.mean(axis=-1, keepdims=True)
    length = np.sqrt(_dot(x, x) * _dot(y, y))
    # A constant column minus its mean is not exactly zero, because the mean is rounded.
    varied = (np.ptp(predicted, axis=-1) > 0) & (np.ptp(gold, axis=-1) > 0) & (length > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(varied, _dot(x, y) / length, np.nan)


def _dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x @ y if x.ndim == 1 else (x * y).sum(axis=-1)


def spearman(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Pearson correlation of ranks; ties get their mean rank."""
    from scipy.stats import rankdata

    return pearson(rankdata(predicted, axis=-1), rankdata(gold, axis=-1))


def mean_absolute_error(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    return np.abs(predicted - gold).mean(axis=-1)


def root_mean_squared_error(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    return np.sqrt(((predicted - gold) ** 2).mean(axis=-1))


def class_counts(
    predicted: np.ndarray, gold: np.ndarray, classes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How often each class was predicted correctly, predicted, and gold; each [..., K]."""
    right = np.where(predicted == gold, gold, classes)
    return _counted(right, classes), _counted(predicted, classes), _counted(gold, classes)


def _counted(labels: np.ndarray, classes: int) -> np.ndarray:
    """How often each class occurs along the last axis; the index ``classes`` is not counted."""
    flat = labels.reshape(-1, labels.shape[-1]).astype(np.int64)
    first = np.arange(len(flat))[:, None] * (classes + 1)
    found = np.bincount((flat + first).reshape(-1), minlength=len(flat) * (classes + 1))
    return found.reshape(*labels.shape[:-1], classes + 1)[..., :classes]


def f1_of_counts(right: np.ndarray, predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """2 right / (predicted + gold); 0 for a class that occurs on neither side."""
    return 2 * right / np.maximum(predicted + gold, 1)


def macro_f1(predicted: np.ndarray, gold: np.ndarray, *, classes: int) -> np.ndarray:
    """The mean F1 of the classes that occur among labels or predictions, as in scikit-learn."""
    return macro_f1_of_counts(*class_counts(predicted, gold, classes))


def macro_f1_of_counts(
    right_K: np.ndarray, predicted_K: np.ndarray, gold_K: np.ndarray
) -> np.ndarray:
    occurring = (predicted_K + gold_K > 0).sum(axis=-1)
    return f1_of_counts(right_K, predicted_K, gold_K).sum(axis=-1) / occurring


def positive_f1(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """F1 of label 1."""
    return f1_of_counts((predicted * gold).sum(-1), predicted.sum(-1), gold.sum(-1))


def no_cases(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:  # noqa: ARG001
    """Infinite: a numeric score is more or less close, not right or wrong."""
    return np.array(np.inf)


def influence_on_f1(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """On the F1 of label 1, or of the (row, class) decisions of sets."""
    return jackknife(_row_counts(predicted, gold), lambda sums: f1_of_counts(*_last_axis(sums)))


def size_of_f1(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """F1 is the share of correct ones among the mean of predicted and gold ones."""
    return (predicted.sum() + gold.sum()) / 2


def _row_counts(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Correct, predicted and gold ones of each row, as [n, 3]."""
    counted = (predicted * gold, predicted, gold)
    return np.stack([x.reshape(len(gold), -1).sum(axis=1) for x in counted], axis=1)


def _last_axis(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return sums[..., 0], sums[..., 1], sums[..., 2]


def mcc(predicted: np.ndarray, gold: np.ndarray, *, classes: int) -> np.ndarray:
    """Matthews' correlation (Gorodkin 2004 for several classes); 0 if either side is constant."""
    return mcc_of_counts(*class_counts(predicted, gold, classes))


def mcc_of_counts(right_K: np.ndarray, predicted_K: np.ndarray, gold_K: np.ndarray) -> np.ndarray:
    rows = gold_K.sum(axis=-1).astype(np.float64)
    covariance = right_K.sum(-1) * rows - (predicted_K * gold_K).sum(-1)
    spread = (rows**2 - (predicted_K**2).sum(-1)) * (rows**2 - (gold_K**2).sum(-1))
    return np.where(spread > 0, covariance / np.sqrt(np.maximum(spread, 1)), 0.0)


def micro_f1_of_sets(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """F1 over all (row, class) decisions at once."""
    counts = (x.sum(axis=(-2, -1)) for x in (predicted * gold, predicted, gold))
    return f1_of_counts(*counts)


def macro_f1_of_sets(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    return f1_of_sets(predicted, gold).mean(axis=-1)


def influence_on_macro_f1_of_sets(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    moments_NK3 = np.stack([predicted * gold, predicted, gold], axis=-1)
    return jackknife(moments_NK3, lambda sums: f1_of_counts(*_last_axis(sums)).mean(axis=-1))


def f1_of_sets(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """F1 of each class, as [..., K]."""
    return f1_of_counts((predicted * gold).sum(-2), predicted.sum(-2), gold.sum(-2))


ACCURACY = Metric("accuracy", accuracy, is_share=True, influence=influence_on_accuracy)
PEARSON = Metric(
    "pearson",
    pearson,
    is_correlation=True,
    influence=jackknife_pearson,
    size=no_cases,
    has_outliers=True,
)
SPEARMAN = Metric(
    "spearman", spearman, is_correlation=True, influence=influence_on_spearman, size=no_cases
)
MEAN_ABSOLUTE_ERROR = Metric("mean absolute error", mean_absolute_error, size=no_cases)
RMSE = Metric("rmse", root_mean_squared_error, size=no_cases)
F1 = Metric("f1", positive_f1, influence=influence_on_f1, size=size_of_f1)
MICRO_F1_OF_SETS = Metric("micro-f1", micro_f1_of_sets, influence=influence_on_f1, size=size_of_f1)
MACRO_F1_OF_SETS = Metric("macro-f1", macro_f1_of_sets, influence=influence_on_macro_f1_of_sets)


def class_metrics(classes: int) -> dict[str, Metric]:
    """The metrics for one class per row."""
    macro, matthews = (
        partial(jackknife_classes, classes=classes, of_counts=of_counts)
        for of_counts in (macro_f1_of_counts, mcc_of_counts)
    )
    return {
        "accuracy": ACCURACY,
        "macro-f1": Metric("macro-f1", partial(macro_f1, classes=classes), influence=macro),
        "mcc": Metric(
            "mcc", partial(mcc, classes=classes), is_correlation=True, influence=matthews
        ),
    }


OFFICIAL = "the mean over tasks, in which a correlation r counts as (r + 1) / 2"


def overall(scores: Mapping[str, Score]) -> dict[str, float]:
    """``official`` maps a correlation r to (r + 1) / 2 first; ``mean`` and ``sum`` do not."""
    counted = [score for score in scores.values() if score.unit is not None]
    if not counted:
        return dict.fromkeys(("official", "mean", "sum"), float("nan"))
    values = [score.score for score in counted]
    return {
        "official": float(np.mean([score.unit for score in counted])),
        "mean": float(np.mean(values)),
        "sum": float(np.sum(values)),
    }
