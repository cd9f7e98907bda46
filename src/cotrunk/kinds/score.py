"""A numeric score, such as a degree of similarity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from cotrunk import late_numpy as np
from cotrunk.errors import shown
from cotrunk.kinds import outcomes
from cotrunk.kinds.kind import Kind, Loss
from cotrunk.kinds.label_error import LabelError
from cotrunk.kinds.metrics import MEAN_ABSOLUTE_ERROR, PEARSON, RMSE, SPEARMAN, Metric
from cotrunk.kinds.outcomes import DrawnAs
from cotrunk.numbers import has_decimal_comma, is_amount, number_of

if TYPE_CHECKING:
    from torch import Tensor

BINS = 10


@dataclass(frozen=True)
class Scores(Kind):
    """``range``: the lowest and highest label; None: any number. The output is the score.

    The squared error is divided by ``loss_scale``, so that it is about as large as the losses of
    other kinds, whatever the unit of the labels: 1 for a constant answer. ``label_unit``: the
    label that a head's 0 stands for, and the distance that its 1 stands for. A head would need too
    many steps to reach labels in the thousands, so it learns them in this unit.
    """

    also_called: ClassVar[tuple[str, ...]] = (
        "regression",
        "similarity",
        "float",
        "number",
        "numeric",
    )
    drawn_as: ClassVar[DrawnAs] = "gauge"
    losses: ClassVar[tuple[str, ...]] = ("mse",)
    noise_factor: ClassVar[float] = 0.5
    divergence_ways: ClassVar[int] = 1
    change_is: ClassVar[Literal["share", "distance"]] = "distance"
    minbert_headers: ClassVar[Mapping[int, str]] = {2: "Predicted_Similiary"}  # as in the course

    range: tuple[float, ...] | None = None
    metric: Literal["pearson", "spearman"] = "pearson"
    loss_scale: Literal["variance", "none"] | float = "variance"
    label_unit: tuple[float, ...] = field(default=(), metadata={"hidden": True})

    def __post_init__(self) -> None:
        self._check_label_unit()
        if not isinstance(self.loss_scale, str) and not self.loss_scale > 0:
            rule = 'give "variance" (of the train labels), "none" or a number above 0'
            raise ValueError(f"loss_scale: {rule}; found {self.loss_scale:g}")
        if self.range is None:
            return
        if len(self.range) > 2:
            raise ValueError(f"range: must have at most 2 entries; found {len(self.range)}")
        if len(self.range) < 2 or not self.range[0] < self.range[1]:
            raise ValueError("range: give the lowest and the highest score, as in [0, 5]")
        object.__setattr__(self, "range", (float(self.range[0]), float(self.range[1])))

    def _check_label_unit(self) -> None:
        unit = self.label_unit
        if unit and not (len(unit) == 2 and all(map(math.isfinite, unit)) and unit[1] > 0):
            rule = "give a label and a distance between labels"
            raise ValueError(f"label_unit: {rule}; found {list(unit)}")

    @property
    def span(self) -> tuple[float, float] | None:
        return None if self.range is None else (self.range[0], self.range[1])

    @property
    def outputs(self) -> int:
        return 1

    @property
    def output_names(self) -> tuple[str, ...]:
        return ("score",)

    def read(self, raw: object) -> tuple[float, ...]:
        value = number_of(raw)
        if has_decimal_comma(raw):
            reason = f"a number must have a decimal point; found {shown(raw)}"
            raise LabelError(reason, fix="write it with a point, and without commas")
        if is_amount(raw):
            reason = f"a number must be plain; found {shown(raw)}"
            raise LabelError(reason, fix="write it without signs or separators, as in 1234.50")
        if value is None or not math.isfinite(value):
            raise ValueError(
                f"a score must be a finite number that a float can hold; found {shown(raw)}"
            )
        if self.range and not self.range[0] <= value <= self.range[1]:
            low, high = self.range
            reason = f"a score must lie in {low:g}..{high:g}; found {shown(raw)}"
            raise LabelError(reason, limited_by="range")
        return (value,)

    def no_label_fits(self, held: Sequence[object]) -> tuple[str, str] | None:
        if all(map(has_decimal_comma, held)):
            return None
        numbers = [number for label in held if (number := number_of(label)) is not None]
        if not numbers:
            return "no label is a number", 'check the label column, or set kind = "classes"'
        if len(numbers) < len(held) or self.range is None or not all(map(math.isfinite, numbers)):
            return None
        if min(numbers) == max(numbers):  # a range needs two ends
            numbers += self.range
        low, high = math.floor(min(numbers)), math.ceil(max(numbers))
        said = f"no label lies in {self.range[0]:g}..{self.range[1]:g}"
        return said, f"set range = [{low}, {high}]"

    def strata(self, targets: Sequence[tuple[float, ...]]) -> Sequence[int]:
        """Fifths of the labels."""
        value = np.array([target[0] for target in targets])
        limits = np.quantile(value, [0.2, 0.4, 0.6, 0.8]) if len(value) else []
        return np.searchsorted(limits, value, side="right").tolist()

    def scaled_to(self, target: np.ndarray) -> Self:
        """Labels that are all the same have no variance: their errors are not scaled."""
        is_constant = not len(target) or target.min() == target.max()
        variance = 1.0 if is_constant else float(target.astype(np.float64).var())
        scale = variance if self.loss_scale == "variance" else self.loss_scale
        unit = self.label_unit
        if len(target) and self.range is None and not unit:
            unit = (float(target.mean(dtype=np.float64)), math.sqrt(variance))
        return replace(self, loss_scale=scale, label_unit=unit)

    @property
    def output_unit(self) -> tuple[float, float]:
        return (self.label_unit[0], self.label_unit[1]) if self.label_unit else (0.0, 1.0)

    def with_unit_of(self, source: Kind | None) -> Self:
        """New heads learn a wide range in fifths of it, and without a range see ``scaled_to``."""
        if self.label_unit:
            return self
        if isinstance(source, Scores):
            return replace(self, label_unit=source.output_unit)
        fifth = (self.range[1] - self.range[0]) / 5 if self.range else 0.0
        return replace(self, label_unit=(0.0, fifth)) if fifth > 1 else self

    @property
    def _unit(self) -> float:
        """Errors are divided by it before they are squared, so that large ones do not overflow."""
        return 1.0 if isinstance(self.loss_scale, str) else math.sqrt(self.loss_scale)

    def make_loss(self, name: str, smoothing: float) -> Loss:  # noqa: ARG002
        from cotrunk.kinds.losses import mse

        return partial(mse, unit=self._unit)

    def divergence(self, a_NO: Tensor, b_NO: Tensor) -> Tensor:
        return ((a_NO[:, 0] - b_NO[:, 0]) / self._unit).square()

    def initial_bias(self) -> float | None:
        """The middle of the range, so that training does not have to learn it."""
        zero, unit = self.output_unit
        return None if self.range is None else (sum(self.range) / 2 - zero) / unit

    def probe_targets(self, unit: Tensor) -> Tensor:
        low, high = self.range or (0.0, 1.0)
        return low + (high - low) * unit

    def unreachable(self, low: float, high: float) -> tuple[str, str] | None:
        if self.range is None or (low <= self.range[0] and self.range[1] <= high):
            return None
        return f"{low:.2f}..{high:.2f}", f"labels span {self.range[0]:g}..{self.range[1]:g}"

    def predict_labels(self, output: np.ndarray) -> np.ndarray:
        score = output[:, 0].astype(np.float64)
        return np.where(np.isfinite(score), score, np.nan)

    def metrics(self) -> Mapping[str, Metric]:
        return {"pearson": PEARSON, "spearman": SPEARMAN}

    def further_metrics(self) -> Mapping[str, Metric]:
        return {metric.name: metric for metric in (MEAN_ABSOLUTE_ERROR, RMSE)}

    def constants(self, gold: np.ndarray) -> Sequence[np.ndarray]:
        return [gold.mean()]

    def errors(
        self,
        output: np.ndarray,
        target: np.ndarray,
        *,
        counts: np.ndarray | None = None,  # noqa: ARG002
    ) -> np.ndarray:
        """The absolute difference."""
        return np.abs(output[:, 0].astype(np.float64) - target)

    def confusion(self, output: np.ndarray, target: np.ndarray) -> outcomes.Confusion | None:
        return outcomes.of_numbers(self.predict_labels(output), target, self.span, bins=BINS)

    def changed(self, one: np.ndarray, other: np.ndarray) -> float:
        return float(np.abs(self.predict_labels(one) - self.predict_labels(other)).mean())

    def histogram(self, target: np.ndarray) -> dict[str, int]:
        counts, edges = np.histogram(target, BINS, self.span)
        bounds = [f"{a:g}..{b:g}" for a, b in pairwise(edges)]
        return dict(zip(bounds, counts.tolist(), strict=True))

    def moments(self, target: np.ndarray) -> dict[str, float]:
        return {"mean": float(target.mean()), "sd": float(target.std())}

    def label_name(self, label: Any) -> float:
        return float(label)

    def spelled(self, label: Any) -> str:
        return f"{label:g}"
