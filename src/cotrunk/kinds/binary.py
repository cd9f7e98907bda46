"""Labels 0 and 1, or two words for them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from cotrunk import late_numpy as np
from cotrunk.errors import shown
from cotrunk.kinds import outcomes
from cotrunk.kinds.kind import CERTAINTY, Answer, Kind, Loss, by_row, mean_of_seen
from cotrunk.kinds.metrics import F1, Metric, class_counts, class_metrics
from cotrunk.kinds.outcomes import DrawnAs
from cotrunk.kinds.probabilities import logit, sigmoid, torch_sigmoid
from cotrunk.kinds.threshold import (
    DEV_F1,
    EVEN,
    Threshold,
    best_for_f1,
    check_threshold,
    chosen,
    is_above,
    mean_thresholds,
)
from cotrunk.kinds.weights import ClassWeights, balanced, check_weights
from cotrunk.numbers import number_of

if TYPE_CHECKING:
    from torch import Tensor

PAIRS = (("false", "true"), ("no", "yes"))
WORDS = {word: float(label) for pair in PAIRS for label, word in enumerate(pair)}
LABELS = ("0", "1")


@dataclass(frozen=True)
class Binary(Kind):
    """A target is 0 or 1; the one output is the logit of 1.

    ``classes`` are the words for 0 and 1, which predictions use. If they are standard words (0 and
    1, no and yes, false and true), labels may be any of those; otherwise only these words.
    """

    also_called: ClassVar[tuple[str, ...]] = ("bool", "boolean", "yes-no")
    activation: ClassVar[Literal["softmax", "sigmoid", "none"]] = "sigmoid"
    drawn_as: ClassVar[DrawnAs] = "probability"
    losses: ClassVar[tuple[str, ...]] = ("binary-cross-entropy", "probability-mse")
    smoothed_losses: ClassVar[tuple[str, ...]] = ("binary-cross-entropy",)
    minbert_headers: ClassVar[Mapping[int, str]] = {
        1: "Predicted_Sentiment",
        2: "Predicted_Is_Paraphrase",
    }

    classes: tuple[str, ...] | tuple[bool, ...] = ()
    metric: Literal["accuracy", "f1", "macro-f1", "mcc"] = "accuracy"
    class_weights: ClassWeights = None
    threshold: Threshold = EVEN

    def __post_init__(self) -> None:
        if self.classes and not len(self.classes) == len(set(self.classes)) == 2:
            found = ", ".join(map(repr, self.classes))
            raise ValueError(
                f"classes: give two different words, of which the second is label 1; found {found}"
            )
        object.__setattr__(self, "class_weights", check_weights(self.class_weights, self.names))
        check_threshold(self.threshold)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(json.dumps(w) if isinstance(w, bool) else w for w in self.classes) or LABELS

    @property
    def words(self) -> tuple[Any, ...]:
        """The words for labels 0 and 1 in predictions."""
        return self.classes or (0, 1)

    @cached_property
    def _has_standard_words(self) -> bool:
        """Whether labels may be any of the standard words."""
        return all(_standard_label(word) == label for label, word in enumerate(self.classes))

    @property
    def outputs(self) -> int:
        return 1

    @property
    def output_names(self) -> tuple[str, ...]:
        return self.names[1:]

    def reading_key(self) -> list[object]:
        """Standard words do not affect how labels are read."""
        return Kind.reading_key(replace(self, classes=()) if self._has_standard_words else self)

    def read(self, raw: object) -> tuple[float, ...]:
        label = _standard_label(raw) if self._has_standard_words else self._own_label(raw)
        if label is None:
            raise ValueError(f"a binary label must be {self._rule}; found {shown(raw)}")
        return (label,)

    @property
    def _rule(self) -> str:
        if self._has_standard_words:
            return "0 or 1, no or yes, false or true"
        return " or ".join(map(repr, self.classes))

    def _own_label(self, raw: object) -> float | None:
        word = raw.strip() if isinstance(raw, str) else str(raw)
        return float(self.names.index(word)) if word in self.names else None

    def no_label_fits(self, held: Sequence[object]) -> tuple[str, str]:
        said = f"no label is {self._rule}"
        if len(held) == 2:
            found = json.dumps([str(label) for label in held], ensure_ascii=False)
            return said, f"set classes = {found}, in which the second is label 1"
        return said, 'check the label column, or set kind = "classes" or "score"'

    def worded(self, raw_labels: Iterable[object]) -> Self:
        """Predictions are spelled like the first label, as in ``No`` and ``Yes``, or 0 and 1."""
        if self.classes:
            return self
        first = next((raw for raw in raw_labels if _standard_label(raw) is not None), None)
        if first is None or number_of(first) is not None:
            return self
        if isinstance(first, bool):
            return replace(self, classes=(False, True))
        assert isinstance(first, str)
        written = first.strip()
        pair = next(pair for pair in PAIRS if written.lower() in pair)
        as_written = (
            str.upper if written.isupper() else str.title if written.istitle() else str.lower
        )
        return replace(self, classes=tuple(map(as_written, pair)))

    @property
    def needs_fitting(self) -> bool:
        return self.class_weights == "balanced"

    def fitted(self, raw_labels: Iterable[object]) -> Self:
        return replace(self, class_weights=balanced(raw_labels, self.read, 2))

    def make_loss(self, name: str, smoothing: float) -> Loss:
        from cotrunk.kinds.losses import binary_cross_entropy, probability_mse

        weight = self.class_weights if isinstance(self.class_weights, tuple) else None
        if name == "probability-mse":
            return partial(probability_mse, weight=weight)
        return partial(binary_cross_entropy, smoothing=smoothing, weight=weight)

    def unit_weights(self, target: Tensor) -> Tensor | None:
        if not isinstance(self.class_weights, tuple):
            return None
        return target.new_tensor(self.class_weights)[target.long()]

    def divergence(self, a_NO: Tensor, b_NO: Tensor) -> Tensor:
        """``KL(a|b) + KL(b|a)`` of two outcomes: (p - q)(a - b) of the logits."""
        apart_N = a_NO[:, 0].sigmoid() - b_NO[:, 0].sigmoid()
        return apart_N * (a_NO[:, 0] - b_NO[:, 0])

    def probabilities(self, logit_NO: Tensor) -> Tensor:
        return logit_NO.sigmoid()

    def probe_targets(self, unit: Tensor) -> Tensor:
        return (unit * 2).floor()

    def unreachable(self, low: float, high: float) -> tuple[str, str] | None:
        return unreachable_labels(low, high)

    def predict_labels(self, output: np.ndarray) -> np.ndarray:
        decided = is_above(output[:, 0], self.threshold)
        return np.where(np.isfinite(output).all(axis=1), decided, np.nan)

    def metrics(self) -> Mapping[str, Metric]:
        return class_metrics(2) | {"f1": F1}

    def errors(
        self,
        output: np.ndarray,
        target: np.ndarray,
        *,
        counts: np.ndarray | None = None,  # noqa: ARG002
    ) -> np.ndarray:
        """1 - probability of the gold label."""
        return np.abs(sigmoid(output)[:, 0] - target)

    def confusion(self, output: np.ndarray, target: np.ndarray) -> outcomes.Confusion:
        return outcomes.of_classes(self.predict_labels(output), target, self.names)

    def certainty(self, output: np.ndarray, target: np.ndarray) -> outcomes.Certainty:
        known = np.isfinite(output).all(axis=1)
        predicted = self.predict_labels(output[known])
        sure = sigmoid(output[known, 0] * np.where(predicted == 1, 1, -1))
        return outcomes.Certainty(sure, predicted == target[known])

    def averaged(self, outputs: Sequence[np.ndarray]) -> np.ndarray:
        return logits_of_mean(outputs)

    def histogram(self, target: np.ndarray) -> dict[str, int]:
        counts = np.bincount(target.astype(np.int64), minlength=2)
        return dict(zip(self.names, counts.tolist(), strict=True))

    def label_name(self, label: Any) -> Any:
        return self.words[int(label)]

    def spelled(self, label: Any) -> str:
        return self.names[int(label)]

    def answers(self, output: np.ndarray, *, counts: np.ndarray | None = None) -> list[Answer]:
        labels, probabilities = by_row(self.predict_labels(output), counts), torch_sigmoid(output)
        return [
            Answer(self.label_name(label), tuple(row))
            for label, row in zip(labels, probabilities.tolist(), strict=True)
        ]

    def columns(self, task: str) -> list[str]:
        return [task, f"{task}{CERTAINTY}"]

    def to_columns(self, task: str, answer: Answer) -> dict[str, object]:
        (yes,) = answer.probabilities
        is_one = answer.prediction == self.label_name(1.0)
        return {task: answer.prediction, f"{task}{CERTAINTY}": yes if is_one else 1 - yes}

    def constants(self, gold: np.ndarray) -> Sequence[np.ndarray]:  # noqa: ARG002
        """Both labels: the rarer one may have the better F1."""
        return [np.array(0.0), np.array(1.0)]

    def class_scores(
        self,
        output: np.ndarray,
        target: np.ndarray,
        *,
        counts: np.ndarray | None = None,  # noqa: ARG002
    ) -> Sequence[outcomes.ClassScore]:
        predicted = self.predict_labels(output)
        return outcomes.class_scores(self.names, *class_counts(predicted, target, 2))

    def thresholds(self) -> dict[str, float]:
        found = chosen(self.threshold)
        assert isinstance(found, float)
        return {self.names[1]: found}

    @property
    def left_to_dev(self) -> tuple[str, ...]:
        return ("threshold",) if self.threshold == DEV_F1 else ()

    def chosen_on_dev(self, output: np.ndarray, target: np.ndarray) -> dict[str, Any]:
        if not self.left_to_dev:
            return {}
        return {"threshold": best_for_f1(output[:, 0], target)}

    def of_several(self, kinds: Sequence[Kind]) -> Kind:
        """With the mean of their thresholds, as their probabilities are averaged."""
        return replace(self, threshold=mean_thresholds(kind.thresholds() for kind in kinds)[0])

    def minbert_value(self, answer: Answer, texts: int) -> object:
        label = self.words.index(answer.prediction)
        return label if texts == 1 else float(label)


def _standard_label(raw: object) -> float | None:
    """The label of a standard word or number; None for anything else."""
    if isinstance(raw, bool):
        return float(raw)
    if isinstance(raw, str) and raw.strip().lower() in WORDS:
        return WORDS[raw.strip().lower()]
    value = number_of(raw)
    return value if value in (0.0, 1.0) else None


def unreachable_labels(low: float, high: float) -> tuple[str, str] | None:
    """What logits in low..high span and what labels 0 and 1 need, or None if that suffices."""
    if math.isinf(low):
        return None
    least, most = (1 / (1 + math.exp(-limit)) for limit in (low, high))
    return f"probabilities of {least:.2f}..{most:.2f}", "labels are 0 and 1"


def logits_of_mean(outputs: Sequence[np.ndarray]) -> np.ndarray:
    """Logits of the mean of the probabilities, each class on its own."""
    mean_NO = mean_of_seen([sigmoid(output) for output in outputs])
    least, most = np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg
    return logit(np.clip(mean_NO, least, most))
