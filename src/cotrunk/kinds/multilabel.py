"""Any number of classes per text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cotrunk import late_numpy as np
from cotrunk.errors import shown
from cotrunk.kinds import outcomes
from cotrunk.kinds.binary import logits_of_mean, unreachable_labels
from cotrunk.kinds.classes import index_of, names_of
from cotrunk.kinds.kind import CERTAINTY, Answer, Kind, Loss
from cotrunk.kinds.metrics import MACRO_F1_OF_SETS, MICRO_F1_OF_SETS, Metric, f1_of_sets
from cotrunk.kinds.outcomes import DrawnAs
from cotrunk.kinds.probabilities import sigmoid, torch_sigmoid
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

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Multilabel(Kind):
    """A target has a 0 or 1 per class. An empty cell means no class; a missing one, no label."""

    also_called: ClassVar[tuple[str, ...]] = ("multi-label", "multilabel-classification")
    missing_is_unlabelled: ClassVar[bool] = True  # because "no class" is an empty cell
    lists_classes: ClassVar[bool] = True
    activation: ClassVar[Literal["softmax", "sigmoid", "none"]] = "sigmoid"
    drawn_as: ClassVar[DrawnAs] = "chips"
    losses: ClassVar[tuple[str, ...]] = ("binary-cross-entropy",)
    smoothed_losses: ClassVar[tuple[str, ...]] = ("binary-cross-entropy",)

    classes: int | tuple[str, ...] = ()
    separator: str = "|"
    metric: Literal["micro-f1", "macro-f1"] = "micro-f1"
    threshold: Threshold | tuple[float, ...] = EVEN

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", names_of(self.classes))
        if not self.separator:
            raise ValueError('separator: must not be empty; give for example "|"')
        for name in self.names:
            if self.separator in name or not name.strip() or name != name.strip():
                raise ValueError(
                    f"classes: a name must not be empty, contain {self.separator!r}, or start or "
                    f"end with a blank; found {name!r}"
                )
        check_threshold(self.threshold)
        if isinstance(self.threshold, tuple) and len(self.threshold) != self.outputs:
            raise ValueError(
                f"threshold: give one number, or one for each of {self.outputs} classes; "
                f"found {len(self.threshold)}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        assert isinstance(self.classes, tuple)
        return self.classes

    @property
    def outputs(self) -> int:
        return len(self.names)

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.names)

    def is_empty(self, raw: object) -> bool:
        return raw is None

    @property
    def output_names(self) -> tuple[str, ...]:
        return self.names

    def read(self, raw: object) -> tuple[float, ...]:
        target = [0.0] * self.outputs
        for name in self._listed(raw):
            index = index_of(name, self.names)
            if target[index]:
                raise ValueError(f"a class must not be listed twice; found {shown(name)} again")
            target[index] = 1.0
        return tuple(target)

    def _listed(self, raw: object) -> list[object]:
        if isinstance(raw, str) and raw.lstrip().startswith("["):
            try:
                raw = json.loads(raw)
            except ValueError:
                raise ValueError(
                    f"a list of classes must be valid JSON; found {shown(raw)}"
                ) from None
        if isinstance(raw, list | tuple):
            return list(raw)
        if not isinstance(raw, str):
            raise ValueError(
                f"classes must be a list, or a string joined by {self.separator!r}; "
                f"found {shown(raw)}"
            )
        return [part.strip() for part in raw.split(self.separator)] if raw.strip() else []

    def strata(self, targets: Sequence[tuple[float, ...]]) -> Sequence[int]:
        """The rarest class of each row, or one more number for rows without a class."""
        chosen = np.array(targets).reshape(-1, self.outputs) > 0
        rarity = np.where(chosen, chosen.sum(axis=0), np.inf)
        return np.where(chosen.any(axis=1), rarity.argmin(axis=1), self.outputs).tolist()

    def make_loss(self, name: str, smoothing: float) -> Loss:  # noqa: ARG002
        from cotrunk.kinds.losses import binary_cross_entropies

        return partial(binary_cross_entropies, smoothing=smoothing)

    def divergence(self, a_NO: Tensor, b_NO: Tensor) -> Tensor:
        """The mean over classes of ``KL(a|b) + KL(b|a)``, as the loss is a mean over classes."""
        return ((a_NO.sigmoid() - b_NO.sigmoid()) * (a_NO - b_NO)).mean(1)

    def probabilities(self, logit_NO: Tensor) -> Tensor:
        return logit_NO.sigmoid()

    def probe_targets(self, unit: Tensor) -> Tensor:
        return (unit * 2).floor()

    def unreachable(self, low: float, high: float) -> tuple[str, str] | None:
        return unreachable_labels(low, high)

    def predict_labels(self, output: np.ndarray) -> np.ndarray:
        finite = np.isfinite(output).all(axis=1, keepdims=True)
        return np.where(finite, is_above(output, self.threshold), np.nan)

    def metrics(self) -> Mapping[str, Metric]:
        return {"micro-f1": MICRO_F1_OF_SETS, "macro-f1": MACRO_F1_OF_SETS}

    def per_class(self, predicted: np.ndarray, gold: np.ndarray) -> dict[str, float]:
        return dict(zip(self.names, f1_of_sets(predicted, gold).tolist(), strict=True))

    def baselines(self, target: np.ndarray) -> dict[str, float]:
        """The best scores of always predicting the same classes.

        For micro-F1 these are the most common ones; for macro-F1 all of them, because each adds
        2 count / (rows + count).
        """
        gold = self.shaped(target)
        if not len(gold):
            return {}
        count_K = np.sort(gold.sum(axis=0))[::-1]
        given_K = len(gold) * np.arange(1, self.outputs + 1)
        micro_K = 2 * count_K.cumsum() / (given_K + count_K.sum())
        macro = (2 * count_K / (len(gold) + count_K)).mean()
        return {"micro-f1": float(micro_K.max()), "macro-f1": float(macro)}

    def class_scores(
        self,
        output: np.ndarray,
        target: np.ndarray,
        *,
        counts: np.ndarray | None = None,  # noqa: ARG002
    ) -> Sequence[outcomes.ClassScore]:
        predicted, gold = self.predict_labels(output), self.shaped(target)
        right = predicted * gold
        return outcomes.class_scores(self.names, *(x.sum(axis=0) for x in (right, predicted, gold)))

    def thresholds(self) -> dict[str, float]:
        each = np.broadcast_to(np.asarray(chosen(self.threshold)), (self.outputs,))
        return dict(zip(self.names, each.tolist(), strict=True))

    @property
    def left_to_dev(self) -> tuple[str, ...]:
        return ("threshold",) if self.threshold == DEV_F1 else ()

    def chosen_on_dev(self, output: np.ndarray, target: np.ndarray) -> dict[str, Any]:
        """One threshold for all classes maximises micro-F1, one for each class macro-F1.

        If probabilities are calibrated, these are the optimal decisions (Lipton et al. 2014).
        """
        if not self.left_to_dev:
            return {}
        gold = self.shaped(target)
        if self.metric == "micro-f1":
            return {"threshold": best_for_f1(output, gold)}
        return {"threshold": tuple(map(best_for_f1, output.T, gold.T))}

    def of_several(self, kinds: Sequence[Kind]) -> Kind:
        """With the mean of their thresholds, as their probabilities are averaged."""
        return replace(self, threshold=mean_thresholds(kind.thresholds() for kind in kinds))

    def errors(
        self,
        output: np.ndarray,
        target: np.ndarray,
        *,
        counts: np.ndarray | None = None,  # noqa: ARG002
    ) -> np.ndarray:
        """The mean over classes of 1 - probability of the gold value."""
        return np.abs(sigmoid(output) - self.shaped(target)).mean(axis=1)

    def confusion(self, output: np.ndarray, target: np.ndarray) -> outcomes.Confusion:
        return outcomes.of_sets(self.predict_labels(output), self.shaped(target), self.names)

    def certainty(self, output: np.ndarray, target: np.ndarray) -> outcomes.Certainty:
        """One entry for every (row, class) decision."""
        known = np.isfinite(output).all(axis=1)
        predicted = self.predict_labels(output[known])
        sure = sigmoid(output[known] * np.where(predicted == 1, 1, -1))
        right = predicted == self.shaped(target)[known]
        return outcomes.Certainty(sure.reshape(-1), right.reshape(-1))

    def averaged(self, outputs: Sequence[np.ndarray]) -> np.ndarray:
        return logits_of_mean(outputs)

    def histogram(self, target: np.ndarray) -> dict[str, int]:
        gold = self.shaped(target)
        counts = dict(zip(self.names, gold.sum(axis=0).astype(int).tolist(), strict=True))
        return counts | {"(no class)": int((gold.sum(axis=1) == 0).sum())}

    def label_name(self, label: Any) -> list[str]:
        return [name for name, has in zip(self.names, label, strict=True) if has]

    def spelled(self, label: Any) -> str:
        return self.separator.join(self.label_name(label)) or "no class"

    def answers(
        self,
        output: np.ndarray,
        *,
        counts: np.ndarray | None = None,  # noqa: ARG002
    ) -> list[Answer]:
        labels, probabilities = self.predict_labels(output), torch_sigmoid(output).tolist()
        return [
            Answer(self.label_name(label), tuple(row))
            for label, row in zip(labels, probabilities, strict=True)
        ]

    def columns(self, task: str) -> list[str]:
        return [task, f"{task}{CERTAINTY}"]

    def to_columns(self, task: str, answer: Answer) -> dict[str, object]:
        """The class names, and the probability of the least certain decision."""
        each = zip(self.names, answer.probabilities, strict=True)
        least = min(yes if name in answer.prediction else 1 - yes for name, yes in each)
        joined = self.separator.join(answer.prediction)
        return {task: joined, f"{task}{CERTAINTY}": least}
