"""What the files of a task hold: labels, lengths, duplicates, and what train gives away."""

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from cotrunk.data.reading.examples import Example, Rows, Source
from cotrunk.data.reading.labels import shown
from cotrunk.errors import Errors
from cotrunk.kinds.task import Task

Lengths = Callable[[Sequence[tuple[str, ...]]], Sequence[int]]

TRAIN = "train"
ROWS_PER_BATCH = 1024
SCORE_BINS = 10
QUOTED = 3


@dataclass(frozen=True)
class SplitReport:
    """Rows are compared by their texts with case and blanks evened out, a pair in either order.

    ``duplicate_rows`` repeat an earlier row, ``conflicting_texts`` occur with different labels, and
    ``rows_in_train`` (None without a train split to compare with) have the texts of a train row.
    """

    rows: int
    dropped: int
    dropped_messages: tuple[str, ...]
    unlabelled: int
    labels: dict[str, int]
    mean: float | None
    sd: float | None
    lengths: dict[str, int]
    duplicate_rows: int
    conflicting_texts: int
    duplicate_ids: int
    rows_in_train: int | None
    seen_in_train: tuple[str, ...]


@dataclass(frozen=True)
class TaskReport:
    task: str
    splits: dict[str, SplitReport]


def check(task: Task, splits: Mapping[str, Source], lengths: Lengths | None = None) -> TaskReport:
    """Reads every split once; ``lengths`` counts the tokens of many texts, by default the words.

    Bad rows of all splits are raised together.
    """
    reports: dict[str, SplitReport] = {}
    errors = Errors()
    train: NDArray[np.uint64] | None = None
    for split in sorted(splits, key=lambda name: name != TRAIN):
        rows = Rows(task, splits[split])
        with errors.gathered():
            columns = _read(rows, lengths or _words, train)
            reports[split] = _report(rows, columns, compared=train is not None)
            if split == TRAIN:
                train = np.unique(columns.texts)
    errors.refuse()
    return TaskReport(task.name, {split: reports[split] for split in splits})


@dataclass(frozen=True)
class _Columns:
    """28 bytes for each row of a split: hashes of its texts and its id, label and length."""

    texts: NDArray[np.uint64]
    ids: NDArray[np.uint64]
    labels: NDArray[np.float64]
    lengths: NDArray[np.uint32]
    in_train: int
    quoted: tuple[str, ...]


def _read(rows: Rows, lengths: Lengths, train: NDArray[np.uint64] | None) -> _Columns:
    texts, ids, labels, counts = array("Q"), array("Q"), array("d"), array("I")
    in_train = 0
    quoted: list[str] = []
    for batch in _batches(iter(rows)):
        keys = [_hash("\0".join(_evened(example.texts))) for example in batch]
        texts.extend(keys)
        ids.extend(_hash(example.id) for example in batch)
        labels.extend(math.nan if row.label is None else row.label for row in batch)
        counts.extend(lengths([example.texts for example in batch]))
        if train is not None:
            seen = _found(np.array(keys, dtype=np.uint64), train)
            in_train += len(seen)
            quoted += [_quoted(batch[at]) for at in seen[: QUOTED - len(quoted)]]
    return _Columns(
        np.asarray(texts, dtype=np.uint64),
        np.asarray(ids, dtype=np.uint64),
        np.asarray(labels, dtype=np.float64),
        np.asarray(counts, dtype=np.uint32),
        in_train,
        tuple(quoted),
    )


def _report(rows: Rows, columns: _Columns, *, compared: bool) -> SplitReport:
    labelled = rows.source.label is not None
    is_score = labelled and rows.task.kind == "score"
    return SplitReport(
        rows=len(columns.texts),
        dropped=rows.dropped_count,
        dropped_messages=tuple(rows.dropped),
        unlabelled=rows.unlabelled,
        labels=_histogram(rows.task, columns.labels) if labelled else {},
        mean=float(columns.labels.mean()) if is_score else None,
        sd=float(columns.labels.std()) if is_score else None,
        lengths=_percentiles(columns.lengths),
        duplicate_rows=_repeated(columns.texts),
        conflicting_texts=_conflicts(columns) if labelled else 0,
        duplicate_ids=_repeated(columns.ids),
        rows_in_train=columns.in_train if compared else None,
        seen_in_train=columns.quoted,
    )


def _histogram(task: Task, labels: NDArray[np.float64]) -> dict[str, int]:
    if task.kind == "score":
        counts, edges = np.histogram(labels, SCORE_BINS, (task.low, task.high))
        bounds = [f"{a:g}..{b:g}" for a, b in pairwise(edges)]
        return {name: int(n) for name, n in zip(bounds, counts, strict=True)}
    names = task.classes if task.kind == "classes" else ("0", "1")
    counts = np.bincount(labels.astype(np.int64), minlength=len(names))
    return {name: int(n) for name, n in zip(names, counts, strict=True)}


def _percentiles(lengths: NDArray[np.uint32]) -> dict[str, int]:
    """Lengths that occur: no interpolation."""
    at = np.percentile(lengths, (50, 90, 99, 100), method="inverted_cdf")
    return {name: int(n) for name, n in zip(("p50", "p90", "p99", "max"), at, strict=True)}


def _repeated(keys: NDArray[np.uint64]) -> int:
    return len(keys) - len(np.unique(keys))


def _found(keys: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Which of the keys are among the known, which are sorted."""
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.flatnonzero(known[at] == keys)


def _conflicts(columns: _Columns) -> int:
    order = np.argsort(columns.texts, kind="stable")
    texts, labels = columns.texts[order], columns.labels[order]
    differs = (texts[1:] == texts[:-1]) & (labels[1:] != labels[:-1])
    return len(np.unique(texts[1:][differs]))


def _batches(examples: Iterator[Example]) -> Iterator[list[Example]]:
    while batch := list(islice(examples, ROWS_PER_BATCH)):
        yield batch


def _evened(texts: tuple[str, ...]) -> list[str]:
    return sorted(" ".join(text.split()).casefold() for text in texts)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def _quoted(example: Example) -> str:
    return " | ".join(shown(text) for text in example.texts)


def _words(texts: Sequence[tuple[str, ...]]) -> list[int]:
    return [sum(len(text.split()) for text in row) for row in texts]
