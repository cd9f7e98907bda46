"""A label for each word: entities (``bio``, ``iob1``) or plain tags, such as parts of speech."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan, nan
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from cotrunk import late_numpy as np
from cotrunk.errors import did_you_mean, shown
from cotrunk.kinds import outcomes
from cotrunk.kinds.classes import Classes, names_of
from cotrunk.kinds.entity_f1 import (
    EntityCounts,
    count_entities,
    f1,
    f1_over_sentences,
    precision,
    recall,
)
from cotrunk.kinds.influence import OverRows
from cotrunk.kinds.intervals import interval
from cotrunk.kinds.kind import Answer, Kind, by_row, mean_by_row
from cotrunk.kinds.label_error import LabelError, WordError
from cotrunk.kinds.metrics import Metric, Score, class_counts, measure
from cotrunk.kinds.outcomes import DrawnAs
from cotrunk.kinds.spans import OUTSIDE, faults, prefix_and_type, spans

if TYPE_CHECKING:
    from torch import Tensor

    from cotrunk.kinds.kind import Loss

FROM_TRAIN: Literal["from-train"] = "from-train"
LISTED_CLASSES = 20
NO_TAG = "-"


@dataclass(frozen=True)
class Tags(Kind):
    """A target is the class of each word; the head predicts it at the word's first piece.

    The outputs of a truncated word are NaN: it counts as outside all entities or, under scheme
    ``plain``, as wrong.
    """

    also_called: ClassVar[tuple[str, ...]] = (
        "ner",
        "pos",
        "tagging",
        "token-classification",
        "sequence-labeling",
    )
    level: ClassVar[Literal["sequence", "token"]] = "token"
    width: ClassVar[int | None] = None
    reads_words: ClassVar[bool] = True
    lists_classes: ClassVar[bool] = True
    activation: ClassVar[Literal["softmax", "sigmoid", "none"]] = "softmax"
    drawn_as: ClassVar[DrawnAs] = "words"
    losses: ClassVar[tuple[str, ...]] = ("cross-entropy",)
    smoothed_losses: ClassVar[tuple[str, ...]] = ("cross-entropy",)

    classes: tuple[str, ...] | Literal["from-train"] = FROM_TRAIN
    scheme: Literal["bio", "iob1", "plain"] = "bio"
    metric: Literal["", "entity-f1", "accuracy"] = ""

    def __post_init__(self) -> None:
        if not self.metric:
            usual = "accuracy" if self.scheme == "plain" else "entity-f1"
            object.__setattr__(self, "metric", usual)
        if self.metric == "entity-f1" and self.scheme == "plain":
            raise ValueError('metric = "entity-f1" needs scheme "bio" or "iob1", not "plain"')
        if not self.needs_fitting:
            self._check_names(names_of(self.names))

    def _check_names(self, names: tuple[str, ...]) -> None:
        for name in names:
            if not name or any(map(str.isspace, name)):
                rule = "a tag must not be empty or contain blanks"
                raise ValueError(f"classes: {rule}; found {shown(name)}")
        if self.scheme == "plain":
            return
        for name in names:
            if not prefix_and_type(name)[0]:
                rule = f"under scheme {self.scheme} a tag must be O, B-TYPE or I-TYPE"
                raise ValueError(f"classes: {rule}; found {shown(name)}")
        if OUTSIDE not in names:
            raise ValueError(f"classes: scheme {self.scheme} needs the tag {OUTSIDE!r}")

    @property
    def names(self) -> tuple[str, ...]:
        assert isinstance(self.classes, tuple), "classes are not known before fitting"
        return self.classes

    @property
    def outputs(self) -> int:
        """1 before fitting, which is enough to check a plan."""
        return 1 if self.needs_fitting else len(self.names)

    @property
    def output_names(self) -> tuple[str, ...]:
        return self.names

    @property
    def of_unit(self) -> Kind:
        return self.word

    @cached_property
    def word(self) -> Classes:
        """The kind of one word's label."""
        return Classes(classes=self.names)

    @cached_property
    def _index(self) -> Mapping[str, float]:
        return {name: float(index) for index, name in enumerate(self.names)}

    def is_empty(self, raw: object) -> bool:
        return super().is_empty(raw) or raw == []

    def read(self, raw: object) -> tuple[float, ...]:
        """Error messages count words from 1."""
        if not isinstance(raw, list | tuple):
            raise _not_a_list(raw)
        for number, tag in enumerate(raw, 1):
            if not isinstance(tag, str) or tag not in self._index:
                raise WordError(number, self._not_a_class(tag))
        for fault in faults(raw, self.scheme) if self.scheme != "plain" else ():
            reason = f"{fault.rule}; found {fault.found}"
            fix = 'correct the cell or set scheme = "iob1"'
            raise WordError(fault.word + 1, reason, fix=fix)
        return tuple([self._index[tag] for tag in raw])

    def _not_a_class(self, tag: object) -> str:
        listed = ", ".join(map(repr, self.names[:LISTED_CLASSES]))
        more = ", ..." if self.outputs > LISTED_CLASSES else ""
        hint = did_you_mean(tag, self.names) if isinstance(tag, str) else ""
        return f"a tag must be one of {listed}{more}; found {shown(tag)}{hint}"

    @property
    def needs_fitting(self) -> bool:
        return self.classes == FROM_TRAIN

    def fitted(self, raw_labels: Iterable[object]) -> Self:
        """The tags that occur, with both B- and I- of every type: other files may have the other.

        Single invalid labels and tags are left to ``read``, which reports where they are.
        """
        seen: dict[str, None] = {}
        wrong: list[object] = []
        for raw in (raw for raw in raw_labels if not self.is_empty(raw)):
            if isinstance(raw, list | tuple):
                seen |= dict.fromkeys(tag for tag in raw if isinstance(tag, str) and tag.strip())
            elif not wrong:
                wrong.append(raw)
        if wrong and not seen:
            raise _not_a_list(wrong[0])
        names = sorted(seen)
        if self.scheme != "plain":
            types = sorted({tag[1:] for tag in names if prefix_and_type(tag)[1]})
            names = [OUTSIDE, *(prefix + ending for ending in types for prefix in "BI")]
        if len(names) < 2:
            raise ValueError(f'classes = "from-train": {self._nothing_to_learn(sorted(seen))}')
        return replace(self, classes=tuple(names))

    def _nothing_to_learn(self, seen: Sequence[str]) -> str:
        found = ", ".join(map(repr, seen[:LISTED_CLASSES])) or "none"
        rule = "there must be two or more different tags in the training file"
        if self.scheme == "plain":
            return f"{rule}; found {found}"
        return (
            f"scheme {self.scheme!r} needs tags such as B-TYPE and I-TYPE in the training file; "
            f'found {found}; set scheme = "plain" if the tags do not mark spans, '
            "or list the classes to see which rows are wrong"
        )

    def strata(self, targets: Sequence[tuple[float, ...]]) -> Sequence[int]:
        """Rows with several tags, and rows with one."""
        return [int(len(set(target)) > 1) for target in targets]

    def make_loss(self, name: str, smoothing: float) -> Loss:
        return self.word.make_loss(name, smoothing)

    def divergence(self, a_NO: Tensor, b_NO: Tensor) -> Tensor:
        return self.word.divergence(a_NO, b_NO)

    def probabilities(self, logit_NO: Tensor) -> Tensor:
        return self.word.probabilities(logit_NO)

    def probe_targets(self, unit: Tensor) -> Tensor:
        return self.word.probe_targets(unit)

    def unreachable(self, low: float, high: float) -> tuple[str, str] | None:
        return self.word.unreachable(low, high)

    def averaged(self, outputs: Sequence[np.ndarray]) -> np.ndarray:
        return self.word.averaged(outputs)

    def histogram(self, target: np.ndarray) -> dict[str, int]:
        return self.word.histogram(target)

    def predict_labels(self, output: np.ndarray) -> np.ndarray:
        """The class of each word; under scheme ``plain``, NaN for a truncated word."""
        label_N = self.word.predict_labels(output)
        if self.scheme == "plain":
            return label_N
        return np.where(np.isnan(label_N), self._index[OUTSIDE], label_N)

    def metrics(self) -> Mapping[str, Metric]:
        """The metrics per word; entity F1 also needs the ends of rows (see ``scores``)."""
        return self.word.metrics()

    def scores(
        self, output: np.ndarray, target: np.ndarray, *, counts: np.ndarray | None = None
    ) -> Score:
        assert counts is not None
        if not np.isfinite(output).any():  # not truncated words: the network diverged
            return Score(self.metric, nan, nan, nan, len(counts), nan)
        predicted_N = self._predicted(output)
        words = measure(self.metrics(), "accuracy", predicted_N, target, counts=counts)
        words = replace(words, rows=len(counts), baseline=self.baseline(target))
        if self.scheme == "plain":
            return replace(words, per_class=self.word.per_class(predicted_N, target))
        return self._with_entities(words, self._entities(predicted_N, target, counts))

    def over_rows(
        self, output: np.ndarray, target: np.ndarray, *, counts: np.ndarray | None = None
    ) -> OverRows:
        assert counts is not None
        if not np.isfinite(output).any():
            return OverRows(nan, np.full(len(counts), nan), "unit", 0)
        predicted_N = self._predicted(output)
        if self.metric == "accuracy":
            return self.metrics()["accuracy"].over_rows(predicted_N, target, counts=counts)
        return f1_over_sentences(self._entities(predicted_N, target, counts).sentence_S3)

    def _entities(
        self, predicted_N: np.ndarray, target: np.ndarray, counts: np.ndarray
    ) -> EntityCounts:
        return count_entities(self._tags(target, counts), self._tags(predicted_N, counts))

    def _with_entities(self, words: Score, found: EntityCounts) -> Score:
        """``per_class`` is the F1 of each type of entity."""
        total_3 = found.total_3
        more = words.more | {
            "entity-f1": f1(total_3),
            "precision": precision(total_3),
            "recall": recall(total_3),
        }
        both = replace(
            words, more=more, per_class={name: f1(own_3) for name, own_3 in found.by_type.items()}
        )
        if self.metric == "accuracy":
            return both
        value, (low, high) = f1(total_3), interval(f1_over_sentences(found.sentence_S3))
        return replace(both, metric="entity-f1", score=value, low=low, high=high, unit=value)

    def _predicted(self, output: np.ndarray) -> np.ndarray:
        """The class of each word; for a word without one, the number of classes."""
        label_N = self.predict_labels(output)
        return np.where(np.isnan(label_N), self.outputs, label_N)

    def changed(self, one: np.ndarray, other: np.ndarray) -> float:
        return float(np.mean(self._predicted(one) != self._predicted(other)))

    def _tags(self, label_N: np.ndarray, counts: np.ndarray) -> list[list[Any]]:
        return [self.label_name(label) for label in by_row(label_N, counts)]

    def baselines(self, target: np.ndarray) -> dict[str, float]:
        """The scores of always predicting the most common tag, which finds no entity."""
        entities = () if self.scheme == "plain" else ("entity-f1", "precision", "recall")
        return self.word.baselines(target) | dict.fromkeys(entities, 0.0)

    def class_scores(
        self, output: np.ndarray, target: np.ndarray, *, counts: np.ndarray | None = None
    ) -> Sequence[outcomes.ClassScore]:
        """The scores of each type of entity or, under scheme ``plain``, of each tag."""
        assert counts is not None
        predicted_N = self._predicted(output)
        if self.scheme == "plain":
            return outcomes.class_scores(
                self.names, *class_counts(predicted_N, target, self.outputs)
            )
        by_type = self._entities(predicted_N, target, counts).by_type
        return outcomes.class_scores(by_type, *np.array(list(by_type.values())).reshape(-1, 3).T)

    def errors(
        self, output: np.ndarray, target: np.ndarray, *, counts: np.ndarray | None = None
    ) -> np.ndarray:
        """The mean over words of 1 - probability of the gold tag."""
        error_N = self.word.errors(output, target)
        wrong_N = self.predict_labels(output) != target
        return mean_by_row(np.where(np.isnan(error_N), wrong_N, error_N), counts)

    def confusion(self, output: np.ndarray, target: np.ndarray) -> outcomes.Confusion:
        """Counts single tags, not entities."""
        return outcomes.of_classes(self.predict_labels(output), target, self.names)

    def certainty(self, output: np.ndarray, target: np.ndarray) -> outcomes.Certainty:
        """One entry for every word that was not truncated."""
        return self.word.certainty(output, target)

    def label_name(self, label: Any) -> list[str | None]:
        """The tags of a row; under scheme ``plain``, None for a truncated word."""
        return [None if isnan(index) else self.names[int(index)] for index in label.tolist()]

    def spelled(self, label: Any) -> str:
        return " ".join(tag or NO_TAG for tag in self.label_name(label))

    def answers(self, output: np.ndarray, *, counts: np.ndarray | None = None) -> list[Answer]:
        assert counts is not None
        rows = self._tags(self.predict_labels(output), counts)
        if self.scheme == "plain":
            return [Answer(tags) for tags in rows]
        return [Answer(tags, more={"spans": list(map(list, spans(tags)))}) for tags in rows]

    def to_json(self, answer: Answer) -> dict[str, object]:
        return {"prediction": answer.prediction} | dict(answer.more)

    def to_columns(self, task: str, answer: Answer) -> dict[str, object]:
        return {task: " ".join(tag or NO_TAG for tag in answer.prediction)}


def _not_a_list(raw: object) -> LabelError:
    return LabelError(
        f"tags must be a list, one per word; found {shown(raw)}",
        fix="CSV and TSV cannot hold lists: use JSONL, Parquet or CoNLL",
    )
