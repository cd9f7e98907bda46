"""Reads delimited text, JSON lines and Parquet as a stream of records with line numbers."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cotrunk.data.reading.encodings import SAVE_AS_UTF8, UNDECODED, UTF8, encoding_fix
from cotrunk.errors import UserError, did_you_mean, plural, shown
from cotrunk.numbers import exact_float

if TYPE_CHECKING:
    from _csv import Reader

Quoting = Literal["csv", "none"]

LONGEST_CELL = 1_000_000
SNIFFED_OBJECTS = 100
ROWS_PER_BATCH = 8192
DELIMITERS = "\t,;|"
LINE = "line"
"""The name of the only column of a plain text file."""
AS_TEXT = 'set quoting = "none" if quotes are ordinary characters'
UNCLOSED, CLOSE_IT = "opens a quote and never closes it", f"close it, or {AS_TEXT}"
STYLES: dict[Quoting, Literal[0, 3]] = {"csv": csv.QUOTE_MINIMAL, "none": csv.QUOTE_NONE}


@dataclass(frozen=True)
class Fault:
    """Why a record could not be parsed; ``number`` is the column within its line, if known.

    ``is_undecoded``: because of bytes that do not belong to the encoding.
    """

    reason: str
    number: int | None = None
    fix: str = "correct the row"
    is_undecoded: bool = False


Record = tuple[int, tuple[Any, ...] | Fault]


@dataclass(frozen=True)
class Table:
    """A file opened for reading. ``select(names)`` yields line numbers and the cells of columns.

    ``line`` is that of the header (0: the format has none). ``numbered``: columns have an order
    that a user can count; the keys of JSON objects do not. ``share()`` is the share of the file
    read so far, 0 if unknown. ``word_per_line``: a record is a sentence, at its first word's line.
    ``encoding`` is that of its text.
    """

    place: str
    columns: Sequence[str]
    line: int
    numbered: bool
    select: Callable[[Sequence[str]], Iterator[Record]]
    share: Callable[[], float] = lambda: 0.0
    word_per_line: bool = False
    encoding: str = UTF8
    path: Path | None = None

    def require(self, name: str) -> None:
        at = [str(number) for number, column in enumerate(self.columns, 1) if column == name]
        if len(at) == 1:
            return
        where = f"{self.place}:{self.line}" if self.line else self.place
        if at:
            numbers = ", ".join(at[:5])
            raise UserError(f"{where}: {name!r} must name one column; found columns {numbers}")
        found = ", ".join(shown(column, 40) for column in self.columns[:20]) or "none"
        more = f" and {len(self.columns) - 20:,} more" if len(self.columns) > 20 else ""
        hint = did_you_mean(name, self.columns)
        if any(map(UNDECODED.search, self.columns)):
            fix = self.path and encoding_fix(self.path, self.encoding)
            hint = f"; the names are not {self.encoding.upper()}; {fix or SAVE_AS_UTF8}"
        raise UserError(f"{where}: no column {name!r}; columns found: {found}{more}{hint}")


class _Ending:
    """A blank line that is added at the end: a record that includes it has an open quote."""

    is_read = False

    def __iter__(self) -> Iterator[str]:
        self.is_read = True
        yield "\n"


@dataclass(frozen=True)
class _Delimited:
    """Delimited text after its header, which is at ``line``."""

    reader: "Reader"
    columns: Sequence[str]
    line: int
    delimiter: str
    ending: _Ending


def read_delimited(
    text: Iterator[str], place: str, *, needed: Sequence[str], default: str, quoting: Quoting
) -> Table:
    """``default`` is the delimiter if the header has none because it is a single column."""
    found = _after_header(text, place, needed, default, STYLES[quoting])
    return Table(
        place, found.columns, line=found.line, numbered=True, select=partial(_records, found)
    )


def _after_header(
    text: Iterator[str], place: str, needed: Sequence[str], default: str, style: Literal[0, 3]
) -> _Delimited:
    csv.field_size_limit(LONGEST_CELL)
    line, header = next(
        ((n, line) for n, line in enumerate(text, 1) if not line.isspace()), (0, "")
    )
    if not header:
        raise UserError(f"{place}: the file is empty")
    ending, delimiter = _Ending(), _delimiter(header, needed, default, style)
    # Strict: otherwise text after a closing quote joins the cell, and rows may join a row above.
    reader = csv.reader(
        chain([header], text, ending), delimiter=delimiter, quoting=style, strict=True
    )
    try:
        columns = next(reader)
    except csv.Error as error:
        if ending.is_read:
            raise UserError(f"{place}:{line}: the header {UNCLOSED}; {CLOSE_IT}") from None
        fault = _unreadable(error, reader.line_num)
        why = f"{fault.reason}; {fault.fix}"
        raise UserError(f"{place}:{line}: the header cannot be parsed: {why}") from None
    return _Delimited(reader, columns, line, delimiter, ending)


def _records(found: _Delimited, names: Sequence[str]) -> Iterator[Record]:
    reader, delimiter = found.reader, found.delimiter
    cells = [found.columns.index(name) for name in names]
    pick = itemgetter(*cells) if len(cells) > 1 else lambda row: (row[cells[0]],)
    width, above = len(found.columns), found.line - 1
    last = reader.line_num + above
    blank: list[int] = []
    while True:
        try:
            for row in reader:
                start, last = last + 1, reader.line_num + above
                if row and blank:
                    yield from [(at, pick([""])) for at in blank]
                    blank.clear()
                if len(row) == width:
                    yield start, pick(row)
                elif row:
                    yield start, _wrong_width(len(row), width, last - start + 1, delimiter)
                elif width == 1:  # an empty cell, unless nothing follows
                    blank.append(start)
            return
        except csv.Error as error:
            start, last = last + 1, reader.line_num + above
            lines = last - start + 1
            is_open = found.ending.is_read
            yield (
                start,
                Fault(f"the row {UNCLOSED}", fix=CLOSE_IT)
                if is_open
                else _unreadable(error, lines),
            )


def _delimiter(header: str, needed: Sequence[str], default: str, style: Literal[0, 3]) -> str:
    for delimiter in DELIMITERS:
        if delimiter in header:
            try:
                columns = next(csv.reader([header], delimiter=delimiter, quoting=style))
            except csv.Error:
                continue
            if set(needed) <= set(columns):
                return delimiter
    likeliest = max(DELIMITERS, key=header.count)
    return likeliest if likeliest in header else default


def _wrong_width(found: int, width: int, lines: int, delimiter: str) -> Fault:
    over = f" over {lines} lines (is a quote left open?)" if lines > 1 else ""
    rule = f"a row must have {plural(width, 'cell')}, as the header has"
    named = "tabs" if delimiter == "\t" else repr(delimiter)
    quote = f'put quotes around cells that contain {named}, as in "one{delimiter} two"'
    fix = quote.replace("\t", "<tab>") if found > width else "correct the row"
    return Fault(f"{rule}; found {found:,}{over}", fix=fix)


def _unreadable(error: csv.Error, lines: int) -> Fault:
    over = f" over {lines} lines (is a quote left open?)" if lines > 1 else ""
    if "field larger" in str(error):
        return Fault(f"a cell must not exceed {LONGEST_CELL:,} characters; found more{over}")
    if "expected after" not in str(error):
        return Fault(f"the row cannot be parsed: {error}")
    over = f"; found it {plural(lines - 1, 'line')} below the opening one" if lines > 1 else ""
    fix = f"double the quotes inside a cell, or {AS_TEXT}"
    return Fault(f"text follows a closing quote{over}", fix=fix)


def read_objects(text: Iterable[str], place: str) -> Table:
    """JSON lines. Columns are the keys of the first objects; others can still be selected."""
    objects = _parsed(text)
    opening = list(islice(objects, SNIFFED_OBJECTS))
    columns = list(
        dict.fromkeys(key for _, entry in opening if type(entry) is dict for key in entry)
    )

    def select(names: Sequence[str]) -> Iterator[Record]:
        for line, entry in chain(opening, objects):
            if isinstance(entry, Fault):
                yield line, entry
            else:
                yield line, tuple([entry.get(name) for name in names])

    return Table(place, columns, line=0, numbered=False, select=select)


def _parsed(text: Iterable[str]) -> Iterator[tuple[int, dict[str, Any] | Fault]]:
    decode = json.JSONDecoder(object_pairs_hook=_once, parse_float=exact_float).decode
    for line, written in enumerate(text, 1):
        if written.isspace():
            continue
        try:
            entry = decode(written.rstrip("\r\n"))
        except json.JSONDecodeError as error:
            rest = error.doc[error.pos :]
            found = f"{shown(rest, 20) if rest else 'its end'} ({error.msg.lower()})"
            yield line, Fault(f"a line must be one JSON object; found {found}", error.pos + 1)
        except RecursionError:
            yield line, Fault("a line must be one JSON object; this one is nested too deeply")
        except ValueError as error:
            yield line, Fault(f"a line must be one JSON object; {str(error).splitlines()[0]}")
        else:
            if isinstance(entry, dict):
                yield line, entry
            else:
                yield line, Fault(f"a line must be one JSON object; found {shown(entry)}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entry = dict(pairs)
    if len(entry) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in entry if keys.count(key) > 1)
        raise ValueError(f"the key {shown(twice)} occurs twice")
    return entry


def read_lines(text: Iterable[str], place: str) -> Table:
    """Plain text: each line that is not blank is a cell of the one column ``line``."""

    def select(names: Sequence[str]) -> Iterator[Record]:
        for line, written in enumerate(text, 1):
            if not written.isspace():
                yield line, (written.rstrip("\r\n"),) * len(names)

    return Table(place, [LINE], line=0, numbered=False, select=select)


def read_parquet(stream: io.BufferedIOBase, place: str) -> Table:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        fix = 'pip install "cotrunk[parquet]"'
        raise UserError(f"{place}: Parquet files need pyarrow; run: {fix}") from None
    broken = (pyarrow.ArrowException, OSError, ValueError)
    try:
        file = parquet.ParquetFile(stream, page_checksum_verification=True)
        columns = list(file.schema_arrow.names)
    except broken as error:
        raise UserError(f"{place}: {_damaged(error)}") from None

    def plain(column: pyarrow.Array) -> list[Any]:
        try:
            values: list[Any] = column.to_pylist()
        except UnicodeDecodeError:  # Arrow does not check that text is UTF-8
            values = [
                value if value is None else value.decode("utf-8", "surrogateescape")
                for value in column.cast(pyarrow.large_binary()).to_pylist()
            ]
        return values

    row = 0

    def select(names: Sequence[str]) -> Iterator[Record]:
        nonlocal row
        row = 0
        try:
            for batch in file.iter_batches(ROWS_PER_BATCH, columns=list(names)):
                found = batch.schema.names
                chosen = [plain(batch.column(found.index(name))) for name in names]
                for cells in zip(*chosen, strict=True):
                    row += 1
                    yield row, cells
        except broken as error:
            raise UserError(f"{place}: after row {row:,}, {_damaged(error)}") from None

    def share() -> float:
        return row / max(file.metadata.num_rows, 1)

    return Table(place, columns, line=0, numbered=True, select=select, share=share)


def _damaged(error: Exception) -> str:
    return f"the Parquet file is damaged: {shown(str(error).partition(chr(10))[0], 200)}"
