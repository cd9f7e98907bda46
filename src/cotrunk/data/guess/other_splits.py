"""Labels of dev and test files: they may have classes, numbers or gaps that train has not."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cotrunk.data.guess.columns import Column, column_of, is_empty
from cotrunk.data.guess.label_kinds import listed
from cotrunk.data.guess.summary import (
    FileSummary,
    encoding_of,
    label_cells,
    names_of_columns,
)
from cotrunk.data.reading.encodings import LATIN1, UTF8, WINDOWS
from cotrunk.data.reading.files import CONLL, OBJECTS
from cotrunk.errors import UserError, plural

CHUNK = 1 << 20


@dataclass(frozen=True)
class OtherSplits:
    """By column: the splits without its labels, and what only they have.

    ``names`` are the columns of each split.
    """

    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unlabelled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def common_encoding(files: Iterable[Path]) -> str:
    """The encoding that reads all splits of a table, because a task has one for all its files."""
    found = {file: encoding_of(file) for file in files}
    needed = {name: file for file, name in found.items() if name != UTF8 or not _is_ascii(file)}
    if set(needed) == {LATIN1, WINDOWS}:
        return WINDOWS  # of which Latin-1 without control characters is a part
    if len(needed) > 1:
        (name, file), (other, _), *_ = sorted(needed.items(), key=lambda item: item[0] == UTF8)
        raise UserError(
            f"{file}: is {name}, but another split of the table is {other}; save all as UTF-8, "
            f"as in: iconv -f {name} -t utf-8 {file.name} > utf8-{file.name}"
        )
    return next(iter(needed), UTF8)


def _is_ascii(path: Path) -> bool:
    if not path.is_file():
        return True
    with path.open("rb") as file:
        return all(chunk.isascii() for chunk in iter(lambda: file.read(CHUNK), b""))


def with_other_splits(
    train: FileSummary, others: Mapping[str, Path]
) -> tuple[FileSummary, OtherSplits]:
    """The columns of train with the labels of the ``others``."""
    names = {split: _names_of(train, path) for split, path in others.items()}
    read = {
        split: label_cells(path, train.encoding, found, [n for n in train.cells if n in found])
        for split, path in others.items()
        if (found := names[split])
    }
    columns, unlabelled, notes = [], {}, {}
    for column in train.columns:
        cells = {split: found.cells.get(column.name, []) for split, found in read.items()}
        empty = column.empty + sum(found.empty[column.name] for found in read.values())
        if column.name not in train.cells or column.role == "empty":
            columns.append(replace(column, empty=empty))
            continue
        own = train.cells[column.name]
        without = tuple(split for split in cells if not _has_labels(cells[split], column, own))
        labelled = {split: found for split, found in cells.items() if split not in without}
        columns.append(_joined(column, [own, *labelled.values()]))
        unlabelled[column.name] = without
        notes[column.name] = tuple(
            note
            for split, found in labelled.items()
            for note in _only_in(others[split], column, column_of(column.name, found))
        )
    rows = train.rows + sum(found.rows for found in read.values())
    bad = train.bad + sum(found.bad for found in read.values())
    seen = replace(train, columns=tuple(columns), rows=rows, bad=bad)
    return seen, OtherSplits(names, unlabelled, notes)


def _names_of(train: FileSummary, path: Path) -> list[str]:
    own = [column.name for column in train.columns]
    names = names_of_columns(path, train.encoding)
    if path.suffix.lower() in OBJECTS:  # an object may lack keys of others
        return list(dict.fromkeys([*names, *own]))
    if path.suffix.lower() in CONLL and names != own:
        raise UserError(
            f"{path}: has {plural(len(names), 'column')}, but {train.path} has {len(own)}; "
            "give the splits of a table the same columns"
        )
    return names


def _has_labels(cells: Sequence[Any], column: Column, own: Sequence[Any]) -> bool:
    """Not if all are empty, or the same placeholder, such as the -1 of hidden labels."""
    found = column_of(column.name, cells)
    if not found.filled:
        return False
    first = next(cell for cell in cells if not is_empty(cell))
    return column.role == "text" or found.distinct > 1 or first in own


def _joined(column: Column, cells: Sequence[Sequence[Any]]) -> Column:
    """The column over all splits; that of train if it is something else, such as ids."""
    if len(cells) == 1:
        return column
    joined = column_of(column.name, [cell for part in cells for cell in part])
    if column.role == "category" and joined.role == "text" and joined.values:
        return replace(joined, role="category")
    return joined if joined.may_be_label or joined.role == column.role else column


def _only_in(path: Path, train: Column, other: Column) -> Iterator[str]:
    if train.values:
        if new := [value for value in other.values if value not in train.values]:
            yield f"{listed(new)} only in {path.name}"
    elif train.role == "number" and (other.low < train.low or other.high > train.high):
        yield f"numbers from {other.low:g} to {other.high:g} in {path.name}"
