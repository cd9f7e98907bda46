"""The overall score of a run as one score over the rows of all tasks."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from cotrunk.kinds.influence import OverRows

Formula = Literal["official", "mean"]


def overall_over_rows(tasks: Mapping[str, OverRows], formula: Formula = "official") -> OverRows:
    """For tests between runs with the same tasks; ``official`` maps correlations to 0..1 first.

    The overall error is the mean of the tasks' errors, and their rows are different rows, so the
    influences are concatenated, each task's scaled to its share of the mean.
    """
    parts = list(tasks.values())
    halved = [formula == "official" and part.scale == "correlation" for part in parts]
    weights = [(0.5 if half else 1.0) / len(parts) for half in halved]
    rows = sum(part.rows for part in parts)
    values = [
        (part.value + 1) / 2 if half else part.value
        for part, half in zip(parts, halved, strict=True)
    ]
    influence = np.concatenate(
        [
            weight * rows / part.rows * part.influence
            for weight, part in zip(weights, parts, strict=True)
        ]
    )
    smallest = sum(
        (weight / max(1, part.size)) ** 2 for weight, part in zip(weights, parts, strict=True)
    )
    within = any(part.scale == "correlation" for part in parts) and not any(halved)
    return OverRows(
        float(np.mean(values)),
        influence,
        "correlation" if within else "unit",
        smallest**-0.5,
        any(part.has_outliers for part in parts),
    )
