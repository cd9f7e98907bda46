"""Detailed scores of a task: all metrics, each class, confusion matrix, calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cotrunk import late_numpy as np
from cotrunk.kinds.kind import Kind
from cotrunk.kinds.outcomes import ClassScore, Confusion
from cotrunk.kinds.reliability import Reliability, reliability
from cotrunk.kinds.units import by_row


@dataclass(frozen=True)
class Detail:
    """``constant``: the metrics of a constant answer; NaN where they are undefined.

    ``classes`` is empty, ``confusion`` and ``calibration`` are None for kinds without them.
    """

    metrics: Mapping[str, float]
    constant: Mapping[str, float]
    classes: Sequence[ClassScore]
    confusion: Confusion | None
    calibration: Reliability | None

    def document(self) -> dict[str, Any]:
        matrix, sure = self.confusion, self.calibration
        return {
            "metrics": dict(self.metrics),
            "constant": {name: self.constant.get(name, math.nan) for name in self.metrics},
            "classes": [asdict(one) for one in self.classes],
            "confusion": matrix
            and {
                "gold": list(matrix.rows),
                "answers": list(matrix.columns),
                "counts": matrix.counts.tolist(),
            },
            "calibration": sure and asdict(sure),
        }


def detail_of(
    kind: Kind, output: np.ndarray, target: np.ndarray, *, counts: np.ndarray | None = None
) -> Detail:
    """``output`` and ``target`` as in ``Kind.scores``."""
    found = kind.scores(output, target, counts=counts)
    if not found.more:  # the outputs are not finite
        return Detail({}, {}, (), None, None)
    predicted, gold = kind.predict_labels(output), kind.shaped(target)
    further = {
        name: metric.value(predicted, gold) for name, metric in kind.further_metrics().items()
    }
    sure = kind.certainty(output, target)
    constant = {} if found.baseline is None else {found.metric: found.baseline}
    return Detail(
        metrics=found.more | further,
        constant=constant | kind.baselines(target),
        classes=tuple(kind.class_scores(output, target, counts=counts)),
        confusion=kind.confusion(output, target),
        calibration=None if sure is None else reliability(sure),
    )


@dataclass(frozen=True)
class WorstRow:
    """A row that is answered wrong: its number, both labels and the error."""

    row: int
    label: Any
    prediction: Any
    error: float


def worst_rows(
    kind: Kind, output: np.ndarray, target: np.ndarray, *, counts: np.ndarray | None, most: int
) -> list[WorstRow]:
    """The wrong rows with the largest errors, worst first."""
    error = kind.errors(output, target, counts=counts)
    predicted = by_row(kind.predict_labels(output), counts)
    gold = by_row(kind.shaped(target), counts)
    differs = [not np.array_equal(one, other) for one, other in zip(predicted, gold, strict=True)]
    wrong = np.isfinite(error) & np.array(differs, bool)
    order = np.argsort(-error, kind="stable")
    worst = order[wrong[order]][:most].tolist()
    return [WorstRow(row, gold[row], predicted[row], float(error[row])) for row in worst]
