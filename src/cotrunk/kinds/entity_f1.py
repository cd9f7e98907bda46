"""Entity F1 as in seqeval and conlleval: an entity is correct if its bounds and its type are.

Shapes: S sentences; the last axis of 3 counts correct, predicted and gold entities.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cotrunk import late_numpy as np
from cotrunk.kinds.influence import OverRows, jackknife
from cotrunk.kinds.spans import spans


@dataclass(frozen=True)
class EntityCounts:
    """``by_type`` sums over sentences; its types are in alphabetical order."""

    sentence_S3: np.ndarray
    by_type: Mapping[str, np.ndarray]

    @cached_property
    def total_3(self) -> np.ndarray:
        return self.sentence_S3.sum(axis=0)


def count_entities(
    gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]
) -> EntityCounts:
    """``gold`` and ``predicted`` are the tags of each sentence."""
    by_type: defaultdict[str, np.ndarray] = defaultdict(lambda: np.zeros(3, np.int64))
    sentence_S3 = []
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        true, guessed = set(spans(gold_tags)), set(spans(predicted_tags))
        counted = (true & guessed, guessed, true)
        sentence_S3.append([len(entities) for entities in counted])
        for column, entities in enumerate(counted):
            for entity in entities:
                by_type[entity.type][column] += 1
    counts_S3 = np.array(sentence_S3, np.int64).reshape(-1, 3)
    return EntityCounts(counts_S3, {name: by_type[name] for name in sorted(by_type)})


def precision(counts_3: np.ndarray) -> float:
    return float(_ratio(counts_3[0], counts_3[1]))


def recall(counts_3: np.ndarray) -> float:
    return float(_ratio(counts_3[0], counts_3[2]))


def f1(counts_3: np.ndarray) -> float:
    """The harmonic mean of precision and recall: 2 correct / (predicted + gold)."""
    return float(_ratio(2 * counts_3[0], counts_3[1] + counts_3[2]))


def f1_over_sentences(counts_S3: np.ndarray) -> OverRows:
    """Sentences are the rows, because the words of one are not independent."""

    def of_sums(sums: np.ndarray) -> np.ndarray:
        return _ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2])

    total_3 = counts_S3.sum(axis=0)
    size = (total_3[1] + total_3[2]) / 2
    return OverRows(f1(total_3), jackknife(counts_S3, of_sums), "unit", float(size))


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """0 where there is nothing to count, as in seqeval."""
    return np.divide(part, whole, out=np.zeros(np.shape(part)), where=np.asarray(whole) > 0)
