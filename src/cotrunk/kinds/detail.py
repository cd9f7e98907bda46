"""Everything there is to say about the answers of a task: all metrics, and each class."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cotrunk.kinds.outcomes import Confusion
from cotrunk.kinds.reliability import Reliability, reliability

if TYPE_CHECKING:
    from cotrunk.kinds.kind import Kind


@dataclass(frozen=True)
class ClassScore:
    """``support``: how often the class is the gold label. 0 where there is nothing to divide by."""

    name: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class Detail:
    """``constant``: what the metrics are for a constant answer; NaN where that has no value.

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
    kind: "Kind", output: np.ndarray, target: np.ndarray, *, counts: np.ndarray | None = None
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
    return Detail(
        metrics=found.more | further,
        constant=kind.baselines(target),
        classes=tuple(kind.class_scores(output, target, counts=counts)),
        confusion=kind.confusion(output, target),
        calibration=None if sure is None else reliability(sure),
    )


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
