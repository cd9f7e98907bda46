"""Units, which have one prediction each, and the rows they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cotrunk import late_numpy as np


def by_row(values: np.ndarray, counts: np.ndarray | None) -> Sequence[Any]:
    """One entry per row: a number, or the array of its units or classes."""
    if counts is not None:
        return np.split(values, np.cumsum(counts)[:-1]) if len(counts) else []
    return values.tolist() if values.ndim == 1 else list(values)


def mean_by_row(values: np.ndarray, counts: np.ndarray | None) -> np.ndarray:
    """The mean over the units of each row; NaN for a row without units."""
    if counts is None:
        return values
    total = np.bincount(np.repeat(np.arange(len(counts)), counts), values, minlength=len(counts))
    return np.where(counts > 0, total / np.maximum(counts, 1), np.nan)


def mean_of_seen(outputs: Sequence[np.ndarray]) -> np.ndarray:
    """The mean of several outputs, without those that are NaN for the whole unit."""
    stacked = np.stack([output.astype(np.float64) for output in outputs])
    seen = ~np.isnan(stacked).all(axis=-1, keepdims=True)
    total = np.where(seen, stacked, 0.0).sum(axis=0)
    count = seen.sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
