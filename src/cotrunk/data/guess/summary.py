"""Summary of a file: what its columns hold, guessed from the first rows, and all its labels."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from cotrunk.data.guess.columns import Column, column_of, is_empty, with_repeated_texts
from cotrunk.data.guess.headers import refuse_data_as_header
from cotrunk.data.guess.layout import header_of, is_conll, is_table
from cotrunk.data.reading.bad_rows import fault_of_row
from cotrunk.data.reading.cells import has_nul, is_undecoded
from cotrunk.data.reading.encodings import UTF8, guess_encoding
from cotrunk.data.reading.files import DELIMITED, PLAIN_TEXT, open_table
from cotrunk.data.reading.formats import Fault, Record, Table
from cotrunk.data.reading.refusal import Refusal
from cotrunk.errors import UserError

ROWS_SEEN = 20_000
LINES_SEEN = 1000
"""So many lines show the layout of a file."""
PARQUET = ".parquet"


@dataclass(frozen=True)
class FileSummary:
    """The columns of a file; ``rows`` were read, ``bad`` ones could not be.

    Plain text has no columns; its lines are its rows. ``cells`` are those of the columns that may
    have labels.
    """

    path: Path
    columns: tuple[Column, ...]
    rows: int
    bad: int
    encoding: str = UTF8
    is_plain_text: bool = False
    cells: Mapping[str, Sequence[Any]] = field(default_factory=dict, repr=False, compare=False)


class _FirstRows(NamedTuple):
    """``header`` is the line of the header; 0 if the format has none."""

    names: list[str]
    rows: list[tuple[Any, ...]]
    bad: int
    header: int


class LabelCells(NamedTuple):
    """The cells of some columns in all rows, and how many cells of others are empty."""

    cells: dict[str, list[Any]]
    empty: Counter[str]
    rows: int
    bad: int


def summarize(path: Path, encoding: str) -> FileSummary:
    """The roles of columns are guessed from the first rows, but all labels of the file are read.

    A class or a number that first occurs near the end belongs to the task as well.
    """
    if path.suffix.lower() == PLAIN_TEXT and (lines := _lines_of_text(path, encoding)):
        return FileSummary(path, (), lines[True], lines[False], encoding, is_plain_text=True)
    names, rows, bad, header = _first_rows(path, encoding)
    is_whole = len(rows) + bad <= ROWS_SEEN
    cells_of = dict(zip(names, zip(*rows[:ROWS_SEEN], strict=True), strict=True))
    columns = with_repeated_texts([column_of(name, cells) for name, cells in cells_of.items()])
    if header and tuple(names) not in rows:  # else files with a header were joined
        refuse_data_as_header(columns, place=f"{path}:{header}")
    labels = [c.name for c in columns if c.may_be_label or c.role == "words"]
    if is_whole:
        cells: Mapping[str, Sequence[Any]] = {name: cells_of[name] for name in labels}
        return FileSummary(path, tuple(columns), len(rows), bad, encoding, cells=cells)
    whole = label_cells(path, encoding, names, labels)
    columns = with_repeated_texts(
        [
            column_of(column.name, whole.cells[column.name])
            if column.name in whole.cells
            else replace(column, empty=whole.empty[column.name])
            for column in columns
        ]
    )
    return FileSummary(path, tuple(columns), whole.rows, whole.bad, encoding, cells=whole.cells)


def names_of_columns(path: Path, encoding: str) -> list[str]:
    """The columns of a file that has rows, most of which can be read."""
    return _first_rows(path, encoding).names


def label_cells(
    path: Path, encoding: str, names: Sequence[str], labels: Sequence[str]
) -> LabelCells:
    """The cells of ``labels``, which are some of ``names``; of the others, how many are empty."""
    kept = {name: (names.index(name), list[Any]()) for name in labels}
    others = {name: at for at, name in enumerate(names) if name not in kept}
    empty = Counter[str]()
    rows = bad = 0
    with _opened(path, encoding, needed=names) as table:
        for _, cells in table.select(names):
            if not _is_readable(cells):
                bad += 1
                continue
            rows += 1
            empty.update(name for name, at in others.items() if is_empty(cells[at]))
            for index, column in kept.values():
                column.append(cells[index])
    return LabelCells({name: column for name, (_, column) in kept.items()}, empty, rows, bad)


def encoding_of(path: Path) -> str:
    if path.suffix.lower() == PARQUET or not path.is_file():
        return UTF8
    if (guess := guess_encoding(path)) is not None:
        return guess
    with _opened(path, UTF8):
        pass  # refused if it is not text at all
    fix = f"save it as UTF-8, as in: iconv -f ENCODING -t utf-8 {path.name} > utf8-{path.name}"
    raise UserError(f"{path}: is not UTF-8, and its encoding cannot be detected; {fix}")


def _opened(
    path: Path, encoding: str, *, needed: Sequence[str] = (), is_plain_text: bool = False
) -> AbstractContextManager[Table]:
    return open_table(
        path,
        needed=needed,
        quoting="csv",
        place=str(path),
        encoding=encoding,
        is_plain_text=is_plain_text,
    )


def _lines_of_text(path: Path, encoding: str) -> Counter[bool]:
    """How many lines of plain text can and cannot be read; none if most have cells of a table."""
    with _opened(path, encoding, is_plain_text=True) as table:
        records = table.select(table.columns)
        seen = list(islice(records, LINES_SEEN))
        first = [(line, cells[0]) for line, cells in seen if _is_readable(cells)]
        if is_conll(first):
            raise UserError(
                f"{path}: looks like CoNLL, with a word and its tags in each line; "
                f"rename it to {path.with_suffix('.conll').name}"
            )
        if not first or is_table([text for _, text in first]):
            return Counter()
        return Counter(_is_readable(cells) for _, cells in chain(seen, records))


def _header(path: Path, encoding: str) -> list[str]:
    """The header of delimited text, by the delimiter that most rows fit; else empty."""
    if path.suffix.lower() not in DELIMITED:
        return []
    with _opened(path, encoding, is_plain_text=True) as table:
        records = [cells for _, cells in islice(table.select(table.columns), LINES_SEEN)]
    lines = [cells[0] for cells in records if _is_readable(cells)]
    return header_of(lines) if lines and _is_readable(records[0]) else []


def _first_rows(path: Path, encoding: str) -> _FirstRows:
    """One row more than ROWS_SEEN, if there is one, to know that the file goes on."""
    with _opened(path, encoding, needed=_header(path, encoding)) as table:
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
