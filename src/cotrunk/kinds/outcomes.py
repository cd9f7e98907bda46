"""Predictions against gold labels: confusion matrices, scores of each class, confidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from cotrunk import late_numpy as np

MOST = 20
"""The most classes in a table, so that it stays readable."""
OTHERS = "all others"
DrawnAs = Literal["bars", "probability", "gauge", "chips", "words"]
"""How a page draws an answer; ``bars`` are the probabilities."""


@dataclass(frozen=True, eq=False)
class Confusion:
    """``counts[i, j]``: how often gold ``rows[i]`` was answered with ``columns[j]``."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: np.ndarray


@dataclass(frozen=True, eq=False)
class Certainty:
    """``confidence``: the probability of the predicted label; ``right``: whether it was correct."""

    confidence: np.ndarray
    right: np.ndarray


@dataclass(frozen=True)
class ClassScore:
    """``support``: how often the class is the gold label. 0 where there is nothing to divide by."""

    name: str
    precision: float
    recall: float
    f1: float
    support: int


def of_classes(
    predicted: np.ndarray, gold: np.ndarray, names: Sequence[str], *, most: int = MOST
) -> Confusion:
    """Labels are indices of ``names``; NaN, which is not an answer, is left out.

    Of more than ``most`` classes, the rarest among gold labels are counted together.
    """
    answered = np.isfinite(predicted)
    labels = np.stack([gold[answered], predicted[answered]]).astype(np.int64)
    if len(names) > most:
        kept = _commonest(np.bincount(labels[0], minlength=len(names)), most - 1)
        place = np.full(len(names), most - 1)
        place[kept] = np.arange(most - 1)
        labels, names = place[labels], [*(names[index] for index in kept), OTHERS]
    size = len(names)
    counts = np.bincount(labels[0] * size + labels[1], minlength=size * size)
    return Confusion(tuple(names), tuple(names), counts.reshape(size, size))


def of_sets(
    predicted: np.ndarray, gold: np.ndarray, names: Sequence[str], *, most: int = MOST
) -> Confusion:
    """Any number of classes per row: how often each was found, missed, or wrongly given.

    Only the ``most`` common classes.
    """
    answered = np.isfinite(predicted).all(axis=1)
    predicted, gold = predicted[answered], gold[answered]
    kept = _commonest(gold.sum(axis=0), most)
    found, had, given = ((x.sum(axis=0))[kept] for x in (predicted * gold, gold, predicted))
    counts = np.stack([found, had - found, given - found], axis=1).astype(np.int64)
    rows = tuple(names[index] for index in kept)
    return Confusion(rows, ("found", "missed", "wrongly given"), counts)


def _commonest(counts: np.ndarray, most: int) -> list[int]:
    """The indices of the largest counts, in their own order."""
    return sorted(np.argsort(-counts, kind="stable")[:most].tolist())


def of_numbers(
    predicted: np.ndarray, gold: np.ndarray, span: tuple[float, float] | None, *, bins: int = 10
) -> Confusion | None:
    """Numbers in bins of equal width; answers beyond the span are in the outermost bins."""
    answered = np.isfinite(predicted)
    predicted, gold = predicted[answered], gold[answered]
    if not len(gold):
        return None
    low, high = span or (float(gold.min()), float(gold.max()))
    if not low < high:
        return None
    edges = np.linspace(low, high, bins + 1)
    inside = (np.clip(gold, low, high), np.clip(predicted, low, high))
    counts, _, _ = np.histogram2d(*inside, bins=(edges, edges))
    names = tuple(f"{a:g}..{b:g}" for a, b in pairwise(edges.round(3)))
    return Confusion(names, names, counts.astype(np.int64))


def class_scores(
    names: Iterable[str], right_K: np.ndarray, predicted_K: np.ndarray, gold_K: np.ndarray
) -> list[ClassScore]:
    """From how often each class was predicted correctly, predicted, and gold."""
    columns = (right_K, predicted_K, gold_K)
    counts = zip(names, *(x.astype(np.int64).tolist() for x in columns), strict=True)
    return [
        ClassScore(
            name,
            precision=right / max(predicted, 1),
            recall=right / max(gold, 1),
            f1=2 * right / max(predicted + gold, 1),
            support=gold,
        )
        for name, right, predicted, gold in counts
    ]
