"""What a kind of task defines: how labels are read, trained on, scored and printed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from cotrunk import late_numpy as np
from cotrunk.kinds.influence import OverRows
from cotrunk.kinds.masking import Vocabulary
from cotrunk.kinds.metrics import Metric, Score, measure
from cotrunk.kinds.outcomes import Certainty, ClassScore, Confusion, DrawnAs
from cotrunk.kinds.rows import LoadedRows
from cotrunk.kinds.units import by_row as by_row
from cotrunk.kinds.units import mean_by_row as mean_by_row
from cotrunk.kinds.units import mean_of_seen as mean_of_seen

if TYPE_CHECKING:
    from torch import Tensor

Loss = Callable[["Tensor", "Tensor"], "Tensor"]
"""(outputs_NO, flat targets) -> loss per row or site."""

CERTAINTY = "_probability"


@dataclass(frozen=True)
class Answer:
    """One task's answer for one row. ``more`` has a kind's extra JSON fields, such as spans.

    ``probabilities``: one per class, only that of label 1, or none.
    """

    prediction: Any
    probabilities: tuple[float, ...] = ()
    more: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """The fields of a subclass are its config keys; a ``ValueError`` starts with its key.

    N counts units, one prediction each: rows or, for ``level = "token"``, sites (token positions).
    ``counts`` is the number of sites in each row; None means one unit per row.
    """

    also_called: ClassVar[tuple[str, ...]] = ()
    """What other tools call this kind, for hints."""
    level: ClassVar[Literal["sequence", "token"]] = "sequence"
    width: ClassVar[int | None] = 1
    """Size of a row's target; None: one number per site. A property where it depends on fields."""
    reads_words: ClassVar[bool] = False
    """A text is a list of words, tokenised separately; a word's site is its first piece."""
    has_labels: ClassVar[bool] = True
    """The task has a label column."""
    takes_any_text: ClassVar[bool] = False
    """Each text becomes one row: a cell of a column, a line of a .txt file, or another task's."""
    is_tied_to_words: ClassVar[bool] = False
    """The head's output layer is tied to the word embeddings."""
    missing_is_unlabelled: ClassVar[bool] = False
    """A missing label means that the row is not part of the task; otherwise it is an error."""
    can_answer: ClassVar[bool] = True
    in_overall: ClassVar[bool] = True
    lists_classes: ClassVar[bool] = False
    """The config lists the labels, so an unknown label probably occurs in many rows."""
    losses: ClassVar[tuple[str, ...]] = ()
    """The first is the default."""
    smoothed_losses: ClassVar[tuple[str, ...]] = ()
    noise_factor: ClassVar[float] = 1.0
    """``a`` in uncertainty weighting (Kendall et al. 2018): 1/2 for a squared error."""
    divergence_ways: ClassVar[int] = 2
    """How many directed divergences ``divergence`` sums."""
    change_is: ClassVar[Literal["share", "distance"]] = "share"
    activation: ClassVar[Literal["softmax", "sigmoid", "none"]] = "none"
    """The function that ``probabilities`` applies, for exports."""
    drawn_as: ClassVar[DrawnAs] = "bars"
    minbert_headers: ClassVar[Mapping[int, str]] = {}
    """The course's header by the number of texts: CFIMDB is binary, but about sentiment."""
    not_read: ClassVar[tuple[str, ...]] = (
        "metric",
        "class_weights",
        "threshold",
        "loss_scale",
        "label_unit",
    )
    """Fields that do not affect how labels are read, so cached targets stay valid."""

    @property
    def metric(self) -> str:
        """The metric that scores a task and chooses its checkpoint; a field of most kinds."""
        raise NotImplementedError

    @property
    def outputs(self) -> int:
        """Head outputs per row or site."""
        raise NotImplementedError

    @property
    def output_names(self) -> tuple[str, ...]:
        """What each output stands for, for exports."""
        return tuple(map(str, range(self.outputs)))

    @property
    def words(self) -> tuple[Any, ...]:
        """What predictions call the classes, if the kind has classes."""
        return self.output_names

    @property
    def span(self) -> tuple[float, float] | None:
        """Lowest and highest label, if the output is the label itself."""
        return None

    @property
    def of_unit(self) -> Kind:
        """The kind of one unit's label: that of a single word, if a row has one per word."""
        return self

    @property
    def texts_of(self) -> tuple[str, ...]:
        """The tasks whose texts it reads, for kinds that take any text."""
        return ()

    def texts_read(self, texts: int) -> int:
        """How many of a row's texts are read."""
        return texts

    def reading_key(self) -> list[object]:
        """Everything that targets depend on, as a cache key."""
        fields = {name: value for name, value in asdict(self).items() if name not in self.not_read}
        return [type(self).__qualname__, fields]

    # Labels

    def read(self, raw: object) -> tuple[float, ...]:
        """Parse a label cell, without rounding; a ``ValueError`` states rule and finding."""
        raise NotImplementedError

    def is_empty(self, raw: object) -> bool:
        """Whether a cell has no label."""
        return raw is None or (isinstance(raw, str) and (not raw or raw.isspace()))

    def no_label_fits(self, held: Sequence[object]) -> tuple[str, str] | None:  # noqa: ARG002
        """The message and fix for a file in which no label can be read; None: the usual ones.

        ``held`` are its distinct labels, or the first thousand of them.
        """
        return None

    def strata(self, targets: Sequence[tuple[float, ...]]) -> Sequence[int]:
        """The stratum of each target, as a number: splits of the rows are stratified by it."""
        number = {target: index for index, target in enumerate(sorted(set(targets)))}
        return [number[target] for target in targets]

    @property
    def needs_fitting(self) -> bool:
        """Whether the kind must see the training labels first."""
        return False

    def fitted(self, raw_labels: Iterable[object]) -> Self:  # noqa: ARG002
        return self

    def scaled_to(self, target: np.ndarray) -> Self:  # noqa: ARG002
        """The kind with its loss scaled to the train targets; only training needs it."""
        return self

    def worded(self, raw_labels: Iterable[object]) -> Self:  # noqa: ARG002
        """The kind with the words of the training file for its labels, for its predictions."""
        return self

    def bound(self, vocabulary: Vocabulary) -> Kind:  # noqa: ARG002
        """The kind with what it needs to know about the tokenizer."""
        return self

    @property
    def prepares_rows(self) -> bool:
        return type(self).prepared is not Kind.prepared

    def prepared(self, rows: LoadedRows, random: np.random.Generator) -> LoadedRows:  # noqa: ARG002
        """May change token ids and choose sites and targets; called once per batch."""
        return rows

    # Training

    def loss(self, name: str | None = None, *, smoothing: float = 0.0) -> Loss:
        """The loss per unit, times its class weight if there is one."""
        return self.make_loss(self.loss_name(name, smoothing=smoothing), smoothing)

    def loss_name(self, name: str | None, *, smoothing: float = 0.0) -> str:
        """The loss a task asks for, or the default; ``ValueError`` if the kind lacks it."""
        chosen = name or self.losses[0]
        if chosen not in self.losses:
            raise ValueError(f"loss = {chosen!r}: must be {' or '.join(self.losses)}")
        if smoothing and chosen not in self.smoothed_losses:
            raise ValueError(f"label_smoothing needs a cross-entropy loss, not {chosen}")
        return chosen

    def make_loss(self, name: str, smoothing: float) -> Loss:
        raise NotImplementedError

    def unit_weights(self, target: Tensor) -> Tensor | None:  # noqa: ARG002
        """The weight of each unit, for a weighted mean loss; None means 1 each."""
        return None

    def divergence(self, a_NO: Tensor, b_NO: Tensor) -> Tensor:
        """A symmetric distance between two outputs for each unit; 0 where they are equal."""
        raise NotImplementedError

    def probabilities(self, logit_NO: Tensor) -> Tensor:
        """Outputs in the form that the heads of other tasks read."""
        return logit_NO

    def initial_bias(self) -> float | None:
        """Initial bias of a head's last layer; None: 0."""
        return None

    @property
    def output_unit(self) -> tuple[float, float]:
        """``(zero, unit)``: the network outputs ``zero + unit * y`` where a head outputs y."""
        return 0.0, 1.0

    def with_unit_of(self, source: Kind | None) -> Self:  # noqa: ARG002
        """With the unit of the head that this one starts from, or of a new head (None)."""
        return self

    def probe_targets(self, unit: Tensor) -> Tensor:
        """Flat targets made from numbers in 0..1, to try out a loss."""
        return unit

    def unreachable(self, low: float, high: float) -> tuple[str, str] | None:  # noqa: ARG002
        """What outputs in low..high span and what labels need, or None if that suffices."""
        return None

    # Evaluation

    def shaped(self, target: np.ndarray) -> np.ndarray:
        """Flat targets in the shape of ``predict_labels``: [N], or [N, width]."""
        return target if self.width in (1, None) else target.reshape(-1, self.width)

    def predict_labels(self, output: np.ndarray) -> np.ndarray:
        """Labels from raw outputs [N, outputs]; NaN where the outputs are not finite."""
        raise NotImplementedError

    def metrics(self) -> Mapping[str, Metric]:
        """All metrics of the kind, by name."""
        raise NotImplementedError

    def value(self, predicted: np.ndarray, gold: np.ndarray) -> float:
        """The chosen metric."""
        return self.metrics()[self.metric].value(predicted, gold)

    def further_metrics(self) -> Mapping[str, Metric]:
        """Metrics that are shown in detail, but cannot be chosen because they are unbounded."""
        return {}

    def per_class(self, predicted: np.ndarray, gold: np.ndarray) -> dict[str, float]:  # noqa: ARG002
        return {}

    def scores(
        self, output: np.ndarray, target: np.ndarray, *, counts: np.ndarray | None = None
    ) -> Score:
        """``output`` is the ``evidence`` of all units, ``target`` the flat targets of a corpus."""
        predicted, gold = self.predict_labels(output), self.shaped(target)
        found = measure(self.metrics(), self.metric, predicted, gold, counts=counts)
        baseline = self.baseline(target)
        return replace(
            found,
            per_class=self.per_class(predicted, gold) if math.isfinite(found.score) else {},
            unit=found.unit if self.in_overall else None,
            baseline=baseline if math.isfinite(baseline) else None,
            thresholds=self.thresholds(),
        )

    def over_rows(
        self, output: np.ndarray, target: np.ndarray, *, counts: np.ndarray | None = None
    ) -> OverRows:
        """The score with the influence of each row, for intervals and tests between runs."""
        metric = self.metrics()[self.metric]
        return metric.over_rows(self.predict_labels(output), self.shaped(target), counts=counts)

    def evidence(self, output_NO: Tensor, target: Tensor) -> Tensor:  # noqa: ARG002
        """What an evaluation keeps of a batch's outputs; ``target`` is empty without labels."""
        return output_NO

    def baseline(self, target: np.ndarray) -> float:
        """The score of the constant answer; NaN if it has none, such as a correlation."""
        return self.baselines(target).get(self.metric, math.nan)

    def baselines(self, target: np.ndarray) -> dict[str, float]:
        """For every metric, the value of the best constant answer."""
        gold = self.shaped(target)
        if not len(gold):
            return {}
        constants = [np.broadcast_to(label, gold.shape) for label in self.constants(gold)]
        metrics = {**self.metrics(), **self.further_metrics()}
        return {
            name: max(metric.value(constant, gold) for constant in constants)
            for name, metric in metrics.items()
        }

    def constants(self, gold: np.ndarray) -> Sequence[np.ndarray]:
        """The constant answers to compare with: the most common label."""
        labels, counts = np.unique(gold, axis=0, return_counts=True)
        return [labels[counts.argmax()]]

    def thresholds(self) -> dict[str, float]:
        """The probability above which a class is predicted; empty if the most probable one is."""
        return {}

    @property
    def left_to_dev(self) -> tuple[str, ...]:
        """The fields whose values ``chosen_on_dev`` gives."""
        return ()

    def chosen_on_dev(self, output: np.ndarray, target: np.ndarray) -> dict[str, Any]:  # noqa: ARG002
        """Values of the fields that are left to the dev rows."""
        return {}

    def of_several(self, kinds: Sequence[Kind]) -> Kind:  # noqa: ARG002
        """The kind for the ``averaged`` outputs of several networks, whose kinds are ``kinds``."""
        return self

    def class_scores(
        self,
        output: np.ndarray,  # noqa: ARG002
        target: np.ndarray,  # noqa: ARG002
        *,
        counts: np.ndarray | None = None,  # noqa: ARG002
    ) -> Sequence[ClassScore]:
        """Precision, recall and F1 of each class; none if there are no classes."""
        return ()

    def errors(
        self, output: np.ndarray, target: np.ndarray, *, counts: np.ndarray | None = None
    ) -> np.ndarray:
        """The error of each row."""
        raise NotImplementedError

    def confusion(self, output: np.ndarray, target: np.ndarray) -> Confusion | None:  # noqa: ARG002
        """Predictions against gold labels; None if the kind has no such table."""
        return None

    def certainty(self, output: np.ndarray, target: np.ndarray) -> Certainty | None:  # noqa: ARG002
        """The probability of each answer; None if answers have none."""
        return None

    def changed(self, one: np.ndarray, other: np.ndarray) -> float:
        """The share of units whose label differs, or the mean distance between labels."""
        return float(np.mean(self.predict_labels(one) != self.predict_labels(other)))

    def averaged(self, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """The mean of the outputs of several networks for the same units.

        Kinds with probabilities average those. A unit that some networks cannot see, because they
        read fewer tokens, has the mean of the others.
        """
        return mean_of_seen(outputs)

    def histogram(self, target: np.ndarray) -> dict[str, int]:
        raise NotImplementedError

    def moments(self, target: np.ndarray) -> dict[str, float]:  # noqa: ARG002
        """Mean and standard deviation of numeric labels."""
        return {}

    # Answers

    def label_name(self, label: Any) -> Any:
        """A row's label as users see it: a name, 0 or 1, a score, or a list of names."""
        raise NotImplementedError

    def spelled(self, label: Any) -> str:
        """A row's label as one line of text."""
        return str(self.label_name(label))

    def answers(self, output: np.ndarray, *, counts: np.ndarray | None = None) -> list[Answer]:
        labels = by_row(self.predict_labels(output), counts)
        return [Answer(self.label_name(label)) for label in labels]

    def to_json(self, answer: Answer) -> dict[str, object]:
        fields = {"prediction": answer.prediction, "probabilities": list(answer.probabilities)}
        return fields | dict(answer.more)

    def columns(self, task: str) -> list[str]:
        """The columns of a flat row that ``to_columns`` fills."""
        return [task]

    def to_columns(self, task: str, answer: Answer) -> dict[str, object]:
        return {task: answer.prediction}

    def minbert_value(self, answer: Answer, texts: int) -> object:  # noqa: ARG002
        return float(answer.prediction)
