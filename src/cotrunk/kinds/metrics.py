"""Scores and their 95 % intervals. Shapes: ``[..., n]`` labels, or ``[..., n, K]`` of K classes."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

RESAMPLES = 1000
FEWEST, MOST_UNDEFINED = 4, 0.05
"""Rows needed for a bootstrap; the share of its resamples that may be undefined."""
RESAMPLE_BLOCK = 4_000_000
"""Labels resampled at once."""

Value = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(predicted, gold) -> one number for each leading index."""


@dataclass(frozen=True)
class Metric:
    """``statistic`` is computed over rows, for many resamples at once.

    ``is_share``: a share of correct rows, with a Wilson interval; other metrics are bootstrapped.
    Correlations are in -1..1, other metrics in 0..1.
    """

    name: str
    statistic: Value
    is_share: bool = False
    is_correlation: bool = False

    def value(self, predicted: np.ndarray, gold: np.ndarray) -> float:
        return float(self.statistic(predicted, gold))

    def unit(self, value: float) -> float:
        """The value mapped to 0..1."""
        return (value + 1) / 2 if self.is_correlation else value

    def interval(
        self, predicted: np.ndarray, gold: np.ndarray, *, seed: int
    ) -> tuple[float, float]:
        if self.is_share:
            return wilson(int((predicted == gold).sum()), len(gold))
        return bootstrap(self.statistic, predicted, gold, seed=seed)


@dataclass(frozen=True)
class Score:
    """A metric on some rows; ``low`` and ``high`` bound its 95 % interval, NaN if it has none.

    ``more`` has all metrics of the kind. ``unit`` is the score mapped to 0..1, as in ``official``;
    None: the task does not count in the overall score.
    """

    metric: str
    score: float
    low: float
    high: float
    rows: int
    unit: float | None
    more: dict[str, float] = field(default_factory=dict)
    per_class: dict[str, float] = field(default_factory=dict)


def measure(
    metrics: Mapping[str, Metric],
    chosen: str,
    predicted: np.ndarray,
    gold: np.ndarray,
    *,
    seed: int = 0,
) -> Score:
    """All metrics, and the interval of the chosen one; NaN where a prediction is not finite."""
    metric, nothing = metrics[chosen], float("nan")
    if not len(gold) or not np.isfinite(predicted).all():
        return Score(chosen, nothing, nothing, nothing, len(gold), nothing)
    more = {name: other.value(predicted, gold) for name, other in metrics.items()}
    value, (low, high) = more[chosen], (nothing, nothing)
    if np.isfinite(value):
        low, high = metric.interval(predicted, gold, seed=seed)
    return Score(chosen, value, low, high, len(gold), metric.unit(value), more)


def wilson(hits: int, rows: int) -> tuple[float, float]:
    """Wilson's interval, which has a width even if all rows are correct."""
    from scipy.stats import binomtest

    interval = binomtest(hits, rows).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def bootstrap(
    statistic: Value, predicted: np.ndarray, gold: np.ndarray, *, seed: int
) -> tuple[float, float]:
    """Percentiles over resampled rows; NaN for few rows, or if too many resamples are undefined."""
    if len(gold) < FEWEST:
        return float("nan"), float("nan")
    from scipy import stats

    def resampled(rows: np.ndarray, axis: int = -1) -> np.ndarray:
        assert axis == -1
        return statistic(predicted[rows], gold[rows])

    size = predicted[0].size * len(gold)
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)  # undefined resamples
        found = stats.bootstrap(
            (np.arange(len(gold)),),
            resampled,
            n_resamples=RESAMPLES,
            batch=max(1, RESAMPLE_BLOCK // size),
            method="percentile",
            vectorized=True,
            rng=np.random.default_rng(seed),
        )
    drawn = found.bootstrap_distribution
    if np.isnan(drawn).mean() > MOST_UNDEFINED:
        return float("nan"), float("nan")
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def accuracy(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    return (predicted == gold).mean(axis=-1)


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
    right_K, predicted_K, gold_K = class_counts(predicted, gold, classes)
    occurring = (predicted_K + gold_K > 0).sum(axis=-1)
    return f1_of_counts(right_K, predicted_K, gold_K).sum(axis=-1) / occurring


def positive_f1(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """F1 of label 1."""
    return f1_of_counts((predicted * gold).sum(-1), predicted.sum(-1), gold.sum(-1))


def mcc(predicted: np.ndarray, gold: np.ndarray, *, classes: int) -> np.ndarray:
    """Matthews' correlation (Gorodkin 2004 for several classes); 0 if either side is constant."""
    right_K, predicted_K, gold_K = class_counts(predicted, gold, classes)
    rows = np.float64(gold.shape[-1])
    covariance = right_K.sum(-1) * rows - (predicted_K * gold_K).sum(-1)
    spread = (rows**2 - (predicted_K**2).sum(-1)) * (rows**2 - (gold_K**2).sum(-1))
    return np.where(spread > 0, covariance / np.sqrt(np.maximum(spread, 1)), 0.0)


def micro_f1_of_sets(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """F1 over all (row, class) decisions at once."""
    counts = (x.sum(axis=(-2, -1)) for x in (predicted * gold, predicted, gold))
    return f1_of_counts(*counts)


def macro_f1_of_sets(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    return f1_of_sets(predicted, gold).mean(axis=-1)


def f1_of_sets(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """F1 of each class, as [..., K]."""
    return f1_of_counts((predicted * gold).sum(-2), predicted.sum(-2), gold.sum(-2))


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
