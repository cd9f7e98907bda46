"""Class weights in the loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from cotrunk import late_numpy as np

ClassWeights = Literal["balanced"] | tuple[float, ...] | dict[str, float] | None


def check_weights(weights: ClassWeights, names: tuple[str, ...]) -> ClassWeights:
    """A list or table as one weight per class, in the order of the classes."""
    if weights is None or weights == "balanced":
        return weights
    if isinstance(weights, Mapping):
        if set(weights) != set(names):
            raise ValueError(
                f"class_weights: give a weight for each of {', '.join(names[:20])}; "
                f"found {', '.join(weights)}"
            )
        weights = tuple(weights[name] for name in names)
    assert isinstance(weights, tuple)
    if len(weights) != len(names) or not all(weight > 0 for weight in weights):
        raise ValueError(
            f'class_weights: give {len(names)} weights above 0, or "balanced"; '
            f"found {', '.join(f'{weight:g}' for weight in weights)}"
        )
    return tuple(float(weight) for weight in weights)


def balanced(
    raw_labels: Iterable[object], read: Callable[[object], tuple[float, ...]], classes: int
) -> tuple[float, ...]:
    """Rows / (classes x rows of the class), as in scikit-learn; bad labels are reported elsewhere.

    The weight of a class that does not occur is 1.
    """
    counts = np.zeros(classes)
    for raw in raw_labels:
        try:
            (label,) = read(raw)
        except ValueError:
            continue
        counts[int(label)] += 1
    weights = np.where(counts > 0, counts.sum() / (classes * np.maximum(counts, 1)), 1.0)
    return tuple(weights.tolist())
