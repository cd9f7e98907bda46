"""Statistics of a task's files: labels, lengths, duplicates, and overlap with train."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from cotrunk.data.reading.examples import Example, Rows, Source
from cotrunk.data.reading.splits import Text
from cotrunk.data.reading.text_hash import row_hash, text_hash
from cotrunk.errors import Errors, shown
from cotrunk.kinds.task import Task

Lengths = Callable[[Sequence[tuple[Text, ...]]], Sequence[int]]

TRAIN = "train"
ROWS_PER_BATCH = 1024
QUOTED = 3


@dataclass(frozen=True)
class SplitReport:
    """Rows are compared by text, ignoring case, blanks and the order of a pair.

    ``duplicate_rows`` repeat an earlier row, ``conflicting_texts`` occur with different labels, and
    ``rows_in_train`` have the texts of a train row (None: there is no train split). Bad rows and
    rows without a label of a file that is divided into splits count in ``train`` only, and so do
    ``held_out_by_others``: rows in no split, because another task holds out a text of theirs.
    """

    rows: int
    dropped: int
    dropped_messages: tuple[str, ...]
    unlabelled: int
    held_out_by_others: int
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


def check(
    task: Task,
    splits: Mapping[str, Source | Sequence[Source]],
    lengths: Lengths | None = None,
    *,
    cut: int = 0,
) -> TaskReport:
    """Reads every split once; ``lengths`` counts the tokens of rows (default: their words).

    ``cut``: the rows that the task itself has in no split, as a cut goes through them.
    Bad rows of all splits are reported together.
    """
    reports: dict[str, SplitReport] = {}
    errors = Errors()
    train: NDArray[np.uint64] | None = None
    read: dict[str, list[Rows]] = {}
    for split in sorted(splits, key=lambda name: name != TRAIN):
        files = splits[split]
        files = [files] if isinstance(files, Source) else files
        rows = read[split] = [Rows(task, source) for source in files]
        with errors.gathered():
            columns = _read(rows, lengths or _words, train)
            reports[split] = _report(rows, columns, compared=train is not None)
            if split == TRAIN:
                train = np.unique(columns.texts)
    errors.refuse()
    if TRAIN in reports:
        held = _in_no_split(read) - cut
        reports[TRAIN] = replace(reports[TRAIN], held_out_by_others=held)
    return TaskReport(task.name, {split: reports[split] for split in splits})


def _in_no_split(read: Mapping[str, Sequence[Rows]]) -> int:
    """The rows of training files that are neither in train nor in a split that is a share of it."""
    placed = [
        rows.in_part
        for split, files in read.items()
        for rows in files
        if split == TRAIN or rows.source.part is not None
    ]
    return sum(rows.usable for rows in read[TRAIN]) - sum(placed)


@dataclass(frozen=True)
class _Columns:
    """For each row of a split: hashes of its texts, id and target, and its length.

    ``targets`` has the numbers of all targets, concatenated.
    """

    texts: NDArray[np.uint64]
    ids: NDArray[np.uint64]
    labels: NDArray[np.uint64]
    targets: NDArray[np.float64]
    lengths: NDArray[np.uint32]
    in_train: int
    quoted: tuple[str, ...]


def _read(files: Sequence[Rows], lengths: Lengths, train: NDArray[np.uint64] | None) -> _Columns:
    texts, ids, counts = array("Q"), array("Q"), array("I")
    labels, targets = array("Q"), array("d")
    in_train = 0
    quoted: list[str] = []
    numbered = ((number, batch) for number, rows in enumerate(files) for batch in _batches(rows))
    for number, batch in numbered:
        keys = [row_hash(map(spelled_out, example.texts)) for example in batch]
        texts.extend(keys)
        ids.extend(text_hash(f"{number} {example.id}") for example in batch)
        labels.extend(_label_hash(row.target) for row in batch)
        targets.extend(chain.from_iterable(row.target or () for row in batch))
        counts.extend(lengths([example.texts for example in batch]))
        if train is not None:
            seen = _found(np.array(keys, dtype=np.uint64), train)
            in_train += len(seen)
            quoted += [_quoted(batch[at]) for at in seen[: QUOTED - len(quoted)]]
    return _Columns(
        np.asarray(texts, dtype=np.uint64),
        np.asarray(ids, dtype=np.uint64),
        np.asarray(labels, dtype=np.uint64),
        np.asarray(targets, dtype=np.float64),
        np.asarray(counts, dtype=np.uint32),
        in_train,
        tuple(quoted),
    )


def _label_hash(target: Sequence[float] | None) -> int:
    """Not Python's hash, which is the same for -1 and -2."""
    return text_hash(repr(target and [number + 0.0 for number in target]))  # -0.0 becomes 0.0


def _report(files: Sequence[Rows], columns: _Columns, *, compared: bool) -> SplitReport:
    labelled = all(rows.source.label is not None for rows in files)
    labels = files[0].task.labels
    moments = labels.moments(columns.targets) if labelled else {}
    own = [rows for rows in files if rows.source.part is None or rows.source.part.split == TRAIN]
    return SplitReport(
        rows=len(columns.texts),
        dropped=sum(rows.dropped_count for rows in own),
        dropped_messages=tuple(line for rows in own for line in rows.dropped),
        unlabelled=sum(rows.unlabelled for rows in own),
        held_out_by_others=0,
        labels=labels.histogram(columns.targets) if labelled else {},
        mean=moments.get("mean"),
        sd=moments.get("sd"),
        lengths=_percentiles(columns.lengths),
        duplicate_rows=_repeated(columns.texts),
        conflicting_texts=_conflicts(columns) if labelled else 0,
        duplicate_ids=_repeated(columns.ids),
        rows_in_train=columns.in_train if compared else None,
        seen_in_train=columns.quoted,
    )


def _percentiles(lengths: NDArray[np.uint32]) -> dict[str, int]:
    """Without interpolation, so that they are lengths that occur."""
    at = np.percentile(lengths, (50, 90, 99, 100), method="inverted_cdf")
    return {name: int(n) for name, n in zip(("p50", "p90", "p99", "max"), at, strict=True)}


def _repeated(keys: NDArray[np.uint64]) -> int:
    return len(keys) - len(np.unique(keys))


def _found(keys: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.intp]:
    """The indices of keys that are in ``known``, which is sorted."""
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.flatnonzero(known[at] == keys)


def _conflicts(columns: _Columns) -> int:
    order = np.argsort(columns.texts, kind="stable")
    texts, labels = columns.texts[order], columns.labels[order]
    differs = (texts[1:] == texts[:-1]) & (labels[1:] != labels[:-1])
    return len(np.unique(texts[1:][differs]))


def _batches(rows: Iterable[Example]) -> Iterator[list[Example]]:
    examples = iter(rows)
    while batch := list(islice(examples, ROWS_PER_BATCH)):
        yield batch


def spelled_out(text: Text) -> str:
    """A text as a string; words are joined by blanks."""
    return text if isinstance(text, str) else " ".join(text)


def _quoted(example: Example) -> str:
    return " | ".join(shown(spelled_out(text)) for text in example.texts)


def _words(texts: Sequence[tuple[Text, ...]]) -> list[int]:
    return [sum(len(spelled_out(text).split()) for text in row) for row in texts]
