"""A label for each word: entities (``bio``, ``iob1``) or plain tags, such as parts of speech.

Shapes: N words of all rows, O classes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from cotrunk.errors import did_you_mean, plural
from cotrunk.kinds.entity_f1 import count_entities, f1, f1_interval, precision, recall
from cotrunk.kinds.metrics import Score, wilson
from cotrunk.kinds.spans import OUTSIDE, Scheme, faults, prefix_and_type, spans

if TYPE_CHECKING:
    from torch import Tensor

FROM_TRAIN = "from-train"
LISTED_CLASSES = 20


@dataclass(frozen=True)
class Tags:
    """Each class has an output; the label of a word is the head's answer at its first piece."""

    classes: tuple[str, ...] | Literal["from-train"]
    scheme: Literal["bio", "iob1", "plain"] = "bio"
    metric: Literal["entity-f1", "accuracy"] | None = None

    level: ClassVar[str] = "token"
    width: ClassVar[int | None] = None
    in_overall: ClassVar[bool] = True
    can_answer: ClassVar[bool] = True
    noise_factor: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if self.metric == "entity-f1" and self.entities is None:
            raise ValueError('metric "entity-f1" needs scheme "bio" or "iob1"; found "plain"')
        if self.classes != FROM_TRAIN:
            self._check_classes(self.classes)

    def _check_classes(self, classes: Sequence[str]) -> None:
        if len(classes) < 2 or len(set(classes)) < len(classes):
            raise ValueError("classes must name at least two tags, each once")
        if self.entities is None:
            return
        for fault in faults(classes, "iob1"):
            raise ValueError(f"classes: {fault.rule}; found {fault.found}")
        if OUTSIDE not in classes:
            raise ValueError(f"classes: scheme {self.scheme} needs the tag {OUTSIDE!r}")

    @property
    def entities(self) -> Scheme | None:
        """How tags make entities; None where they make none."""
        return None if self.scheme == "plain" else self.scheme

    @property
    def chosen_metric(self) -> str:
        return self.metric or ("entity-f1" if self.entities else "accuracy")

    @property
    def outputs(self) -> int:
        return len(self.classes)

    @property
    def needs_fitting(self) -> bool:
        return self.classes == FROM_TRAIN

    def fitted(self, raw_labels: Iterable[object]) -> "Tags":
        """Classes from labels. Of each entity type both tags, because dev may have the other one.

        What is not a tag is left to ``read``, which says so.
        """
        if not self.needs_fitting:
            return self
        seen = {tag for raw in raw_labels if isinstance(raw, list | tuple) for tag in raw}
        names = sorted(tag for tag in seen if isinstance(tag, str) and tag)
        if self.entities:
            types = sorted({tag[1:] for tag in names if prefix_and_type(tag)[1]})
            names = [OUTSIDE, *(prefix + ending for ending in types for prefix in "BI")]
        return replace(self, classes=tuple(names))

    @cached_property
    def _index(self) -> dict[str, int]:
        return {tag: index for index, tag in enumerate(self.classes)}

    def is_empty(self, raw: object) -> bool:
        """No label at all; a list with empty tags in it is wrong instead."""
        return raw is None or (isinstance(raw, str | list | tuple) and not raw)

    def read(self, raw: object) -> tuple[float, ...]:
        """The class of each word; words are counted from 1 in what is wrong."""
        if not isinstance(raw, list | tuple):
            found = f"a value of type {type(raw).__name__}"
            raise ValueError(f"tags must be a list with one for each word; found {found}")
        for word, tag in enumerate(raw, 1):
            if not isinstance(tag, str):
                raise ValueError(f"word {word}: a tag must be a string; found {tag!r:.60}")
            if tag not in self._index:
                raise ValueError(f"word {word}: {self._not_a_class(tag)}")
        for fault in faults(raw, self.entities) if self.entities else ():
            hint = '(scheme = "iob1" allows it)'
            raise ValueError(f"word {fault.word + 1}: {fault.rule}; found {fault.found} {hint}")
        return tuple(float(self._index[tag]) for tag in raw)

    def _not_a_class(self, tag: str) -> str:
        listed = ", ".join(map(repr, self.classes[:LISTED_CLASSES]))
        more = ", ..." if len(self.classes) > LISTED_CLASSES else ""
        hint = did_you_mean(tag, self.classes)
        return f"a tag must be one of {listed}{more}; found {tag[:60]!r}{hint}"

    def loss(self, name: str | None, *, smoothing: float) -> "Callable[[Tensor, Tensor], Tensor]":
        """Cross-entropy of each word."""
        from torch.nn.functional import cross_entropy

        if name not in (None, "cross-entropy"):
            raise ValueError(f"{name!r} does not fit kind tags; use 'cross-entropy'")

        def of_words(output_NO: "Tensor", target_N: "Tensor") -> "Tensor":
            target_N = target_N.long()
            return cross_entropy(output_NO, target_N, reduction="none", label_smoothing=smoothing)

        return of_words

    def divergence(self, a_NO: "Tensor", b_NO: "Tensor") -> "Tensor":
        """KL in both directions, of each word."""
        log_p_NO, log_q_NO = a_NO.log_softmax(1), b_NO.log_softmax(1)
        return ((log_p_NO.exp() - log_q_NO.exp()) * (log_p_NO - log_q_NO)).sum(1)

    def probabilities(self, logit_NO: "Tensor") -> "Tensor":
        return logit_NO.softmax(-1)

    def predict_labels(self, output: np.ndarray) -> np.ndarray:
        """Class of each word. Words cut off (NaN) are outside entities; a plain one has no tag."""
        cut_N = np.isnan(output).any(axis=1)
        class_N = np.where(cut_N[:, None], -np.inf, output).argmax(axis=1).astype(np.float64)
        outside = self._index[OUTSIDE] if self.entities else np.nan
        return np.where(cut_N, outside, class_N)

    def scores(
        self, output: np.ndarray, target: np.ndarray, *, counts: np.ndarray, seed: int
    ) -> Score:
        """``counts`` is the number of words of each row: an entity ends where its row does."""
        if not np.isfinite(output).any():  # no word has an answer: the network diverged
            return Score(self.chosen_metric, np.nan, np.nan, np.nan, len(counts))
        label_N = self.predict_labels(output)
        if self.chosen_metric == "accuracy":
            hits = float((label_N == target).mean())
            return Score("accuracy", hits, *wilson(hits, len(target)), len(counts))
        found = count_entities(self._rows(target, counts), self._rows(label_N, counts))
        low, high = f1_interval(found.sentence_S3, seed=seed)
        return Score("entity-f1", f1(found.total_3), low, high, len(counts))

    def more_scores(
        self, output: np.ndarray, target: np.ndarray, *, counts: np.ndarray
    ) -> dict[str, float]:
        """Every metric of the kind, and F1, precision and recall of each type of entity."""
        label_N = self.predict_labels(output)
        more = {"accuracy": float((label_N == target).mean())}
        if self.entities:
            found = count_entities(self._rows(target, counts), self._rows(label_N, counts))
            more |= _named(found.total_3, "entity-f1", "precision", "recall")
            for entity, counts_3 in found.by_type.items():
                names = (f"{entity} {name}" for name in ("f1", "precision", "recall"))
                more |= _named(counts_3, *names)
        return more

    def baseline(self, target: np.ndarray) -> float:
        """What a constant answer scores: no entity at all, or the commonest tag."""
        if self.chosen_metric == "entity-f1":
            return 0.0
        return float(np.unique(target, return_counts=True)[1].max() / len(target))

    def changed(self, one: np.ndarray, other: np.ndarray) -> float:
        """The share of words that are labelled differently."""
        return float((self.predict_labels(one) != self.predict_labels(other)).mean())

    def answers(self, output: np.ndarray, counts: np.ndarray) -> list[dict[str, Any]]:
        """Tags of each row, None for plain words cut off, and entities as half-open intervals."""
        rows = self._rows(self.predict_labels(output), counts)
        if self.entities is None:
            return [{"prediction": tags} for tags in rows]
        return [{"prediction": tags, "spans": list(map(list, spans(tags)))} for tags in rows]

    def _rows(self, label_N: np.ndarray, counts: np.ndarray) -> Iterator[list[Any]]:
        tags = [None if label != label else self.classes[int(label)] for label in label_N.tolist()]
        for start, end in pairwise(accumulate(counts.tolist(), initial=0)):
            yield tags[start:end]


def refuse_other_lengths(words: Sequence[str], tags: Sequence[object]) -> None:
    """A ``ValueError`` unless each word has its tag."""
    if len(words) != len(tags):
        found = f"{plural(len(tags), 'tag')} for {plural(len(words), 'word')}"
        raise ValueError(f"each word needs one tag; found {found}")


def _named(counts_3: np.ndarray, *names: str) -> dict[str, float]:
    values = (f1(counts_3), precision(counts_3), recall(counts_3))
    return dict(zip(names, values, strict=True))
