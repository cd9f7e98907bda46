"""What the columns of a file hold: texts, labels or ids. Judged by their cells, not their names."""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeGuard

from cotrunk.data.reading.cells import is_undecoded
from cotrunk.data.reading.encodings import UTF8, guess_encoding
from cotrunk.data.reading.files import open_table
from cotrunk.data.reading.formats import Fault, Table
from cotrunk.errors import UserError
from cotrunk.kinds.kind import number_of

ROWS_SEEN = 20_000
MOST_CLASSES, MOST_NUMBERED = 200, 20
"""Distinct values that can be classes; distinct whole numbers that can."""
FEW_WORDS, MANY_WORDS = 2.5, 6.0
"""A text has more than FEW_WORDS on average; repeated texts of MANY_WORDS are still texts."""
SEPARATORS = "|;,"
PARQUET = ".parquet"
WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)

Role = Literal["text", "words", "number", "category", "set", "id", "empty", "unknown"]


@dataclass(frozen=True)
class Column:
    """``values`` are its distinct values, in order; empty if there are too many to be labels.

    ``low`` and ``high`` are those of numbers; ``is_spelled_whole``: none is written like 2.0.
    ``separator`` is that of a set of classes.
    """

    name: str
    role: Role
    filled: int
    distinct: int
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    is_spelled_whole: bool = False
    separator: str = ""

    @property
    def may_be_label(self) -> bool:
        """An empty column may have labels further down."""
        is_list = self.role == "words" and bool(self.values)
        return is_list or self.role in ("number", "category", "set", "empty")


@dataclass(frozen=True)
class FileSummary:
    """The columns of a file; ``rows`` were read, ``bad`` ones could not be."""

    path: Path
    columns: tuple[Column, ...]
    rows: int
    bad: int
    encoding: str = UTF8


def summarize(path: Path) -> FileSummary:
    """What columns hold is judged by the first rows, but all labels of the file are read.

    A class or a number that first occurs near the end belongs to the task as well.
    """
    encoding = _encoding(path)
    names, rows, bad = _first_rows(path, encoding)
    is_whole = len(rows) + bad <= ROWS_SEEN
    cells_of = dict(zip(names, zip(*rows[:ROWS_SEEN], strict=True), strict=True))
    columns = {name: _column(name, cells) for name, cells in cells_of.items()}
    if is_whole:
        return FileSummary(path, tuple(columns.values()), len(rows), bad, encoding)
    labels = [name for name, column in columns.items() if column.may_be_label]
    with _opened(path, encoding) as table:
        records = [cells for _, cells in table.select(labels)]
    found = [cells for cells in records if _is_readable(cells)]
    for name, cells in zip(labels, zip(*found, strict=True), strict=True):
        columns[name] = _column(name, cells)
    bad = len(records) - len(found)
    return FileSummary(path, tuple(columns.values()), len(found), bad, encoding)


def _encoding(path: Path) -> str:
    if path.suffix.lower() == PARQUET or not path.is_file():
        return UTF8
    if (guess := guess_encoding(path)) is not None:
        return guess
    with _opened(path, UTF8):
        pass  # refused if it is no text at all
    fix = f"save it as UTF-8, as in: iconv -f ENCODING -t utf-8 {path.name} > utf8-{path.name}"
    raise UserError(f"{path}: is not UTF-8, and no encoding fits it surely; {fix}")


def _opened(path: Path, encoding: str) -> AbstractContextManager[Table]:
    return open_table(path, needed=(), quoting="csv", place=str(path), encoding=encoding)


def _first_rows(path: Path, encoding: str) -> tuple[list[str], list[tuple[Any, ...]], int]:
    """The names of the columns, at most one row more than will be judged, and how many are bad."""
    with _opened(path, encoding) as table:
        names = list(table.columns)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UserError(f"{path}: two columns are called {twice!r}; rename one of them")
        records = list(islice((cells for _, cells in table.select(names)), ROWS_SEEN + 1))
    rows = [cells for cells in records if _is_readable(cells)]
    if not rows:
        raise UserError(f"{path}: has no row that can be read; check its delimiter and quotes")
    return names, rows, len(records) - len(rows)


def _is_readable(cells: tuple[Any, ...] | Fault) -> TypeGuard[tuple[Any, ...]]:
    return not isinstance(cells, Fault) and not is_undecoded(cells)


def _column(name: str, cells: Sequence[Any]) -> Column:
    filled = [cell for cell in cells if not _is_empty(cell)]
    if not filled:
        return Column(name, "empty", 0, 0)
    if all(isinstance(cell, list) for cell in filled):
        return _of_lists(name, filled)
    if not all(isinstance(cell, str | int | float) for cell in filled):
        return Column(name, "unknown", len(filled), 0)
    written = [_spelled(cell) for cell in filled]
    numbers = [number_of(cell) for cell in filled]
    if all(number is not None for number in numbers):
        return _of_numbers(name, written, [number for number in numbers if number is not None])
    return _of_texts(name, written)


def _of_numbers(name: str, written: list[str], numbers: list[float]) -> Column:
    distinct = len(set(numbers))
    is_whole = all(number.is_integer() for number in numbers)
    is_counter = is_whole and distinct == len(numbers) > 2
    ordered = sorted(set(numbers)) if is_whole and distinct <= MOST_NUMBERED else []
    return Column(
        name,
        "id" if is_counter else "number",
        len(numbers),
        distinct,
        values=tuple(str(int(number)) for number in ordered),
        low=min(numbers),
        high=max(numbers),
        is_spelled_whole=all(WHOLE.fullmatch(cell) for cell in written),
    )


def _of_texts(name: str, written: list[str]) -> Column:
    distinct = set(written)
    words = sum(len(cell.split()) for cell in written) / len(written)
    repeats = len(written) >= 2 * len(distinct)
    if repeats and len(distinct) <= MOST_CLASSES and words < MANY_WORDS:
        separator = _separator(written)
        parts = {part.strip() for cell in distinct for part in cell.split(separator or None)}
        values = parts if separator else distinct
        role: Role = "set" if separator else "category"
        return Column(
            name, role, len(written), len(distinct), tuple(sorted(values)), separator=separator
        )
    if (separator := _separator(written)) and words < MANY_WORDS:
        parts = {part.strip() for cell in distinct for part in cell.split(separator)}
        if len(parts) <= MOST_CLASSES and 2 * len(parts) <= len(written):
            return Column(
                name, "set", len(written), len(distinct), tuple(sorted(parts)), separator=separator
            )
    role = "text" if words > FEW_WORDS else "id"
    return Column(name, role, len(written), len(distinct))


def _separator(written: Sequence[str]) -> str:
    """What separates the names of a set, if splitting gives fewer values; else ""."""
    for separator in SEPARATORS:
        joined = [cell for cell in written if separator in cell]
        parts = Counter(part.strip() for cell in written for part in cell.split(separator))
        if joined and "" not in parts and len(parts) < len(set(written)):
            longest = max(len(part.split()) for part in parts)
            if longest <= FEW_WORDS:
                return separator
    return ""


def _of_lists(name: str, cells: Sequence[list[Any]]) -> Column:
    parts = [part for cell in cells for part in cell]
    if not all(isinstance(part, str) for part in parts):
        return Column(name, "unknown", len(cells), 0)
    distinct = set(parts)
    values = tuple(sorted(distinct)) if len(distinct) <= MOST_CLASSES else ()
    return Column(name, "words", len(cells), len(distinct), values)


def _is_empty(cell: object) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _spelled(cell: str | float) -> str:
    return cell if isinstance(cell, str) else repr(cell)
