"""Labels of dev and test files: they may have classes, numbers or gaps that train has not."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cotrunk.data.guess.columns import Column, column_of, is_empty
from cotrunk.data.guess.label_kinds import listed
from cotrunk.data.guess.markers import without_markers
from cotrunk.data.guess.summary import (
    FileSummary,
    encoding_of,
    label_cells,
    names_of_columns,
)
from cotrunk.data.reading.encodings import LATIN1, UTF8, WINDOWS
from cotrunk.data.reading.files import CONLL, OBJECTS
from cotrunk.errors import UserError, plural, shown
from cotrunk.numbers import number_of

CHUNK = 1 << 20


@dataclass(frozen=True)
class OtherSplits:
    """By column, then split: why a split has no labels for it, and what only this split has.

    That is values, or numbers from a lowest to a highest one. ``names`` are the columns of each
    split.
    """

    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unlabelled: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    new_values: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    new_ranges: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)

    def notes(self, column: str, files: Mapping[str, Path]) -> Iterator[str]:
        """What only some splits have."""
        for split, values in self.new_values.get(column, {}).items():
            yield f"{listed(values)} only in {files[split].name}"
        for split, (low, high) in self.new_ranges.get(column, {}).items():
            yield f"numbers from {low:g} to {high:g} in {files[split].name}"


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
    columns, unlabelled, new_values, new_ranges = [], {}, {}, {}
    for column in train.columns:
        cells = {split: found.cells.get(column.name, []) for split, found in read.items()}
        empty = column.empty + sum(found.empty[column.name] for found in read.values())
        if column.name not in train.cells or column.role == "empty":
            columns.append(replace(column, empty=empty))
            continue
        own = train.cells[column.name]
        without = {split: _why_unlabelled(found, column, own) for split, found in cells.items()}
        labelled = {split: found for split, found in cells.items() if not without[split]}
        columns.append(_joined(column, [own, *labelled.values()]))
        described = {split: column_of(column.name, found) for split, found in labelled.items()}
        unlabelled[column.name] = {split: why for split, why in without.items() if why}
        new_values[column.name] = {
            split: new for split, found in described.items() if (new := _new_values(column, found))
        }
        new_ranges[column.name] = {
            split: (found.low, found.high)
            for split, found in described.items()
            if _is_wider(column, found)
        }
    rows = train.rows + sum(found.rows for found in read.values())
    bad = train.bad + sum(found.bad for found in read.values())
    seen = replace(train, columns=tuple(columns), rows=rows, bad=bad)
    return seen, OtherSplits(names, unlabelled, new_values, new_ranges)


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


def _why_unlabelled(cells: Sequence[Any], train: Column, own: Sequence[Any]) -> str:
    """What cells of another split are instead of labels; "" if they are labels."""
    if not _has_labels(cells, train, own):
        return "no such labels"
    labels, _ = without_markers([cell for cell in cells if not is_empty(cell)])
    others = [label for label in labels if number_of(label) is None]
    if others and _is_score(train):
        return f"labels that are not numbers, such as {shown(others[0])}"
    return ""


def _has_labels(cells: Sequence[Any], column: Column, own: Sequence[Any]) -> bool:
    """Not if all are empty, or the same placeholder, such as the -1 of hidden labels."""
    found = column_of(column.name, cells)
    if not found.filled:
        return False
    first = next(cell for cell in cells if not is_empty(cell))
    return column.role == "text" or found.distinct > 1 or first in own


def _is_score(column: Column) -> bool:
    """Whether a column has numbers that are not classes."""
    return column.role == "number" and not column.values


def _joined(column: Column, cells: Sequence[Sequence[Any]]) -> Column:
    """The column over all splits; that of train if it is something else, such as ids."""
    if len(cells) == 1:
        return column
    joined = column_of(column.name, [cell for part in cells for cell in part])
    if column.role == "category" and joined.role == "text" and joined.values:
        return replace(joined, role="category")
    return joined if joined.may_be_label or joined.role == column.role else column


def _new_values(train: Column, other: Column) -> tuple[str, ...]:
    return tuple(value for value in other.values if train.values and value not in train.values)


def _is_wider(train: Column, other: Column) -> bool:
    """Names such as 007 are numbers, too, but have no range."""
    is_number = other.role in ("number", "counter")
    return is_number and _is_score(train) and (other.low < train.low or other.high > train.high)
