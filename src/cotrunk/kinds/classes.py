"""One of several classes."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from cotrunk import late_numpy as np
from cotrunk.errors import did_you_mean, shown
from cotrunk.kinds import outcomes
from cotrunk.kinds.kind import CERTAINTY, Answer, Kind, Loss, by_row, mean_of_seen
from cotrunk.kinds.metrics import Metric, class_counts, class_metrics, f1_of_counts
from cotrunk.kinds.probabilities import softmax, torch_softmax
from cotrunk.kinds.weights import ClassWeights, balanced, check_weights
from cotrunk.numbers import number_of

if TYPE_CHECKING:
    from torch import Tensor

MOST_CLASSES = 10_000
LISTED = 20
NAME = "_name"
"""Suffix of the column with the name of a predicted class, if that is not the label itself."""
WHOLE = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
SMALLEST = sys.float_info.min
"""The smallest probability, so that its logarithm is finite."""


@dataclass(frozen=True)
class Classes(Kind):
    """``classes``: their names, a number n, which names them 0 to n-1, or labels with their names.

    A target is the index of a class. ``file_labels`` are the labels as they are in files, if they
    differ from the names: ``classes = { 0 = "sport" }`` sets both.
    """

    also_called: ClassVar[tuple[str, ...]] = (
        "classification",
        "multiclass",
        "multi-class",
        "single-label",
        "categorical",
    )
    lists_classes: ClassVar[bool] = True
    activation: ClassVar[Literal["softmax", "sigmoid", "none"]] = "softmax"
    losses: ClassVar[tuple[str, ...]] = ("cross-entropy",)
    smoothed_losses: ClassVar[tuple[str, ...]] = ("cross-entropy",)
    minbert_headers: ClassVar[Mapping[int, str]] = {1: "Predicted_Sentiment"}

    classes: int | tuple[str, ...] | dict[str, str] = ()
    file_labels: tuple[str, ...] = field(default=(), metadata={"hidden": True})
    metric: Literal["accuracy", "macro-f1", "mcc"] = "accuracy"
    class_weights: ClassWeights = None

    def __post_init__(self) -> None:
        if isinstance(self.classes, dict):
            object.__setattr__(self, "file_labels", tuple(self.classes))
            object.__setattr__(self, "classes", tuple(self.classes.values()))
        object.__setattr__(self, "classes", names_of(self.classes))
        self._check_file_labels()
        object.__setattr__(self, "class_weights", check_weights(self.class_weights, self.names))

    def _check_file_labels(self) -> None:
        labels = self.file_labels
        if labels and (len(labels) != len(self.names) or len(set(labels)) < len(labels)):
            raise ValueError(
                f"file_labels: give a different label for each of {len(self.names)} classes; "
                f"found {', '.join(map(repr, labels))}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        assert isinstance(self.classes, tuple)
        return self.classes

    @property
    def outputs(self) -> int:
        return len(self.names)

    @property
    def output_names(self) -> tuple[str, ...]:
        return self.names

    @cached_property
    def words(self) -> tuple[str | int, ...]:
        """The labels of the classes as answers give them: numbers if all are whole numbers."""
        labels = self.file_labels or self.names
        numbers = [int(label) for label in labels if WHOLE.fullmatch(label)]
        return tuple(numbers) if len(numbers) == len(labels) else labels

    def read(self, raw: object) -> tuple[float, ...]:
        return (float(index_of(raw, self.file_labels or self.names)),)

    def no_label_fits(self, held: Sequence[object]) -> tuple[str, str]:
        said = f"no label is one of the task's classes {_listed(self.file_labels or self.names)}"
        numbers = [str(number_of(label)).removesuffix(".0") for label in held]
        if not self.file_labels and len(held) == len(self.names) and "None" not in numbers:
            named = zip(numbers, self.names, strict=True)
            table = ", ".join(f"{number} = {json.dumps(name)}" for number, name in named)
            return said, f"say which label is which class, as in classes = {{ {table} }}"
        if 2 <= len(held) <= LISTED:
            found = json.dumps([str(label) for label in held], ensure_ascii=False)
            return said, f"check the label column, or set classes = {found}"
        return said, "check the label column and the task's kind"

    @property
    def needs_fitting(self) -> bool:
        return self.class_weights == "balanced"

    def fitted(self, raw_labels: Iterable[object]) -> Self:
        return replace(self, class_weights=balanced(raw_labels, self.read, self.outputs))

    def make_loss(self, name: str, smoothing: float) -> Loss:  # noqa: ARG002
        from cotrunk.kinds.losses import cross_entropy

        weight = self.class_weights if isinstance(self.class_weights, tuple) else None
        return partial(cross_entropy, smoothing=smoothing, weight=weight)

    def unit_weights(self, target: Tensor) -> Tensor | None:
        if not isinstance(self.class_weights, tuple):
            return None
        return target.new_tensor(self.class_weights)[target.long()]

    def divergence(self, a_NO: Tensor, b_NO: Tensor) -> Tensor:
        from cotrunk.kinds.losses import symmetric_divergence

        return symmetric_divergence(a_NO, b_NO)

    def probabilities(self, logit_NO: Tensor) -> Tensor:
        return logit_NO.softmax(-1)

    def probe_targets(self, unit: Tensor) -> Tensor:
        return (unit * self.outputs).floor()

    def unreachable(self, low: float, high: float) -> tuple[str, str] | None:
        if math.isinf(low):
            return None
        if math.isinf(high):
            return f"logits of {low:.2f} or more", "a clipped logit has no gradient"
        most = 1 / (1 + (self.outputs - 1) * math.exp(low - high))
        return f"probabilities of at most {most:.2f}", "a label needs a probability near 1"

    def predict_labels(self, output: np.ndarray) -> np.ndarray:
        chosen = output.argmax(axis=1).astype(np.float64)
        return np.where(np.isfinite(output).all(axis=1), chosen, np.nan)

    def metrics(self) -> Mapping[str, Metric]:
        return class_metrics(self.outputs)

    def per_class(self, predicted: np.ndarray, gold: np.ndarray) -> dict[str, float]:
        found = f1_of_counts(*class_counts(predicted, gold, self.outputs))
        return dict(zip(self.names, found.tolist(), strict=True))

    def class_scores(
        self,
        output: np.ndarray,
        target: np.ndarray,
        *,
        counts: np.ndarray | None = None,  # noqa: ARG002
    ) -> Sequence[outcomes.ClassScore]:
        predicted = self.predict_labels(output)
        return outcomes.class_scores(self.names, *class_counts(predicted, target, self.outputs))

    def errors(
        self,
        output: np.ndarray,
        target: np.ndarray,
        *,
        counts: np.ndarray | None = None,  # noqa: ARG002
    ) -> np.ndarray:
        """1 - probability of the gold label."""
        probabilities = softmax(output)
        return 1 - probabilities[np.arange(len(target)), target.astype(np.int64)]

    def confusion(self, output: np.ndarray, target: np.ndarray) -> outcomes.Confusion:
        return outcomes.of_classes(self.predict_labels(output), target, self.names)

    def certainty(self, output: np.ndarray, target: np.ndarray) -> outcomes.Certainty:
        known = np.isfinite(output).all(axis=1)
        sure = softmax(output[known]).max(axis=1)
        return outcomes.Certainty(sure, self.predict_labels(output[known]) == target[known])

    def averaged(self, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """The logarithm of the mean probabilities: its softmax gives them back."""
        mean_NO = mean_of_seen([softmax(output) for output in outputs])
        return np.log(np.maximum(mean_NO, SMALLEST))

    def histogram(self, target: np.ndarray) -> dict[str, int]:
        counts = np.bincount(target.astype(np.int64), minlength=self.outputs)
        return dict(zip(self.names, counts.tolist(), strict=True))

    def label_name(self, label: Any) -> str | int:
        return self.words[int(label)]

    def spelled(self, label: Any) -> str:
        return self.names[int(label)]

    def answers(self, output: np.ndarray, *, counts: np.ndarray | None = None) -> list[Answer]:
        labels, probabilities = by_row(self.predict_labels(output), counts), torch_softmax(output)
        return [
            Answer(self.label_name(label), tuple(row), self._more(label))
            for label, row in zip(labels, probabilities.tolist(), strict=True)
        ]

    def _more(self, label: float) -> dict[str, object]:
        """The name of the class, if it differs from its label in files."""
        return {"name": self.spelled(label)} if self.file_labels else {}

    def columns(self, task: str) -> list[str]:
        return [task, *([f"{task}{NAME}"] if self.file_labels else []), f"{task}{CERTAINTY}"]

    def to_columns(self, task: str, answer: Answer) -> dict[str, object]:
        named = {f"{task}{NAME}": answer.more["name"]} if self.file_labels else {}
        return {task: answer.prediction, **named, f"{task}{CERTAINTY}": max(answer.probabilities)}

    def minbert_value(self, answer: Answer, texts: int) -> object:  # noqa: ARG002
        """The number of the class, not its name in the config."""
        return self.words.index(answer.prediction)


def names_of(classes: int | tuple[str, ...] | dict[str, str]) -> tuple[str, ...]:
    """Checked class names; a number n gives the names 0 to n-1."""
    if classes == ():
        raise ValueError("classes is missing: give their names, or how many there are")
    if isinstance(classes, int) and not 2 <= classes <= MOST_CLASSES:
        raise ValueError(f"classes = {classes}: must be between 2 and {MOST_CLASSES:,}")
    names = tuple(map(str, range(classes))) if isinstance(classes, int) else tuple(classes)
    if len(names) < 2 or len(set(names)) < len(names):
        found = ", ".join(map(repr, names)) or "none"
        raise ValueError(f"classes: give two or more different names; found {found}")
    return names


def index_of(raw: object, names: tuple[str, ...]) -> int:
    """The class that a cell names; numbered classes also match 2.0 or 2e0."""
    if isinstance(raw, str) and raw in names:
        return names.index(raw)
    numbered = names == tuple(map(str, range(len(names))))
    value = number_of(raw)
    if numbered and value is not None and math.isfinite(value):
        if not value.is_integer():
            raise ValueError(
                f"a class must be a whole number (it is not rounded); found {shown(raw)}"
            )
        if 0 <= value < len(names):
            return int(value)
    if type(raw) is int and str(raw) in names:
        return names.index(str(raw))
    hint = did_you_mean(raw, names) if isinstance(raw, str) and not numbered else ""
    raise ValueError(f"a class must be one of {_listed(names)}; found {shown(raw)}{hint}")


def _listed(names: Sequence[str]) -> str:
    if tuple(names) == tuple(map(str, range(len(names)))):
        return f"0..{len(names) - 1}"
    return ", ".join(map(repr, names[:LISTED])) + (", ..." if len(names) > LISTED else "")
