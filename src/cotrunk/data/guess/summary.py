"""Summary of a file: what its columns hold, guessed from the first rows, and all its labels."""

import csv
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from cotrunk.data.guess.columns import Column, column_of
from cotrunk.data.guess.headers import refuse_data_as_header
from cotrunk.data.reading.bad_rows import fault_of_row
from cotrunk.data.reading.cells import has_nul, is_undecoded
from cotrunk.data.reading.encodings import UTF8, guess_encoding
from cotrunk.data.reading.files import PLAIN_TEXT, open_table
from cotrunk.data.reading.formats import DELIMITERS, Fault, Record, Table
from cotrunk.data.reading.refusal import Refusal
from cotrunk.errors import UserError

ROWS_SEEN = 20_000
LINES_SEEN, LONGEST_LINE = 1000, 10_000
"""Limits for a file that may be plain text."""
PIPE = "|"
PARQUET = ".parquet"


@dataclass(frozen=True)
class FileSummary:
    """The columns of a file; ``rows`` were read, ``bad`` ones could not be.

    Plain text has no columns; its lines are its rows.
    """

    path: Path
    columns: tuple[Column, ...]
    rows: int
    bad: int
    encoding: str = UTF8
    is_plain_text: bool = False


class _FirstRows(NamedTuple):
    """``header`` is the line of the header; 0 if the format has none."""

    names: list[str]
    rows: list[tuple[Any, ...]]
    bad: int
    header: int


def summarize(path: Path) -> FileSummary:
    """The roles of columns are guessed from the first rows, but all labels of the file are read.

    A class or a number that first occurs near the end belongs to the task as well.
    """
    encoding = _encoding(path)
    if path.suffix.lower() == PLAIN_TEXT and (lines := _lines_of_text(path, encoding)):
        return FileSummary(path, (), lines[True], lines[False], encoding, is_plain_text=True)
    names, rows, bad, header = _first_rows(path, encoding)
    is_whole = len(rows) + bad <= ROWS_SEEN
    cells_of = dict(zip(names, zip(*rows[:ROWS_SEEN], strict=True), strict=True))
    columns = {name: column_of(name, cells) for name, cells in cells_of.items()}
    if header and tuple(names) not in rows:  # else files with a header were joined
        refuse_data_as_header(list(columns.values()), place=f"{path}:{header}")
    labels = [
        name for name, column in columns.items() if column.may_be_label or column.role == "words"
    ]
    if is_whole or not labels:
        return FileSummary(path, tuple(columns.values()), len(rows), bad, encoding)
    all_cells_of, readable, bad = _all_rows(path, encoding, names, labels)
    columns |= {name: column_of(name, cells) for name, cells in all_cells_of.items()}
    return FileSummary(path, tuple(columns.values()), readable, bad, encoding)


def _all_rows(
    path: Path, encoding: str, names: Sequence[str], labels: Sequence[str]
) -> tuple[dict[str, list[Any]], int, int]:
    """The cells of the label columns, and how many rows can and cannot be read."""
    rows = bad = 0
    kept = {name: (names.index(name), list[Any]()) for name in labels}
    with _opened(path, encoding) as table:
        for _, cells in table.select(names):
            if not _is_readable(cells):
                bad += 1
                continue
            rows += 1
            for index, column in kept.values():
                column.append(cells[index])
    return {name: column for name, (_, column) in kept.items()}, rows, bad


def _encoding(path: Path) -> str:
    if path.suffix.lower() == PARQUET or not path.is_file():
        return UTF8
    if (guess := guess_encoding(path)) is not None:
        return guess
    with _opened(path, UTF8):
        pass  # refused if it is not text at all
    fix = f"save it as UTF-8, as in: iconv -f ENCODING -t utf-8 {path.name} > utf8-{path.name}"
    raise UserError(f"{path}: is not UTF-8, and its encoding cannot be detected; {fix}")


def _opened(
    path: Path, encoding: str, *, is_plain_text: bool = False
) -> AbstractContextManager[Table]:
    return open_table(
        path,
        needed=(),
        quoting="csv",
        place=str(path),
        encoding=encoding,
        is_plain_text=is_plain_text,
    )


def _lines_of_text(path: Path, encoding: str) -> Counter[bool]:
    """How many lines of plain text can and cannot be read; none if most have cells of a table."""
    with _opened(path, encoding, is_plain_text=True) as table:
        records = (cells for _, cells in table.select(table.columns))
        seen = list(islice(records, LINES_SEEN))
        first = [cells[0] for cells in seen if _is_readable(cells)]
        if not first or any(_is_table(first, delimiter) for delimiter in DELIMITERS):
            return Counter()
        if _is_table(first, PIPE):
            fix = "separate them by tabs, commas or semicolons"
            raise UserError(f"{path}: its columns seem to be separated by {PIPE!r}; {fix}")
        return Counter(_is_readable(cells) for cells in chain(seen, records))


def _is_table(lines: Sequence[str], delimiter: str) -> bool:
    """Whether nine of ten lines have as many cells as the first, which has several."""
    widths = [len(next(csv.reader([line[:LONGEST_LINE]], delimiter=delimiter))) for line in lines]
    return widths[0] > 1 and widths.count(widths[0]) >= 0.9 * len(widths)


def _first_rows(path: Path, encoding: str) -> _FirstRows:
    """One row more than ROWS_SEEN, if there is one, to know that the file goes on."""
    with _opened(path, encoding) as table:
        names = list(table.columns)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UserError(f"{path}: two columns are called {twice!r}; rename one of them")
        records = list(islice(table.select(names), ROWS_SEEN + 1))
    rows = [cells for _, cells in records if _is_readable(cells)]
    _refuse_without_rows(table, records, good=len(rows))
    return _FirstRows(names, rows, len(records) - len(rows), table.line)


def _refuse_without_rows(table: Table, records: Sequence[Record], *, good: int) -> None:
    """Refuse a table without rows, or with more bad rows than good ones."""
    if not records:
        raise UserError(f"{table.place}: has {'a header but ' if table.line else ''}no rows")
    refused = Refusal(table.place)
    for line, cells in records:
        if isinstance(cells, Fault):
            refused.add(fault_of_row(table, line, cells))
    if refused.bad > good:
        raise refused.error(rows=len(records), usable=good)
    if not good:
        raise UserError(f"{table.place}: has no row that can be read")


def _is_readable(cells: tuple[Any, ...] | Fault) -> TypeGuard[tuple[Any, ...]]:
    return not isinstance(cells, Fault) and not is_undecoded(cells) and not has_nul(cells)
