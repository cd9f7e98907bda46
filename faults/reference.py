"""What a data file holds, according to Python's csv and json modules and to pyarrow."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from faults.tables import COLUMNS, LABELS, Made

LONGEST = 1_000_000
Verdict = Literal["good", "bad", "unsure"]


@dataclass(frozen=True)
class Row:
    """``unsure``: the label is a number in an unusual spelling, which may be accepted or not."""

    line: int
    verdict: Verdict
    cells: tuple[Any, ...] = ()


def reference(made: Made) -> list[Row] | None:
    """All records; None if the file as a whole cannot be read, or not in one way only."""
    if made.name.endswith(".parquet"):
        return _parquet(made.content)
    if made.name.endswith(".jsonl"):
        rows = list(_objects(_text(made.content)))
        return rows if any(row.cells and row.cells[0] is not None for row in rows) else None
    assert made.delimiter is not None
    return _delimited(_text(made.content), made.delimiter)


def _text(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", errors="surrogateescape", newline="")


def _delimited(text: io.TextIOWrapper, delimiter: str) -> list[Row] | None:
    csv.field_size_limit(LONGEST)
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
    except csv.Error:
        return None
    if any(header.count(name) != 1 for name in COLUMNS[:3]) or "\0" in "".join(header):
        return None
    at = [header.index(name) for name in COLUMNS[:3]]
    rows, last = [], reader.line_num
    while True:
        try:
            for record in reader:
                line, last = last + 1, reader.line_num
                if record and len(record) == len(header):
                    cells = tuple(record[index] for index in at)
                    rows.append(Row(line, _verdict(*cells), cells))
                elif record:
                    rows.append(Row(line, "bad"))
            return rows
        except csv.Error:
            rows.append(Row(last + 1, "bad"))
            last = reader.line_num


def _objects(text: io.TextIOWrapper) -> Iterator[Row]:
    for line, written in enumerate(text, 1):
        if written.isspace():
            continue
        try:
            pairs = json.loads(written, object_pairs_hook=list)
            entry = json.loads(written)
        except (ValueError, RecursionError):
            yield Row(line, "bad")
            continue
        if not isinstance(entry, dict) or len(entry) < len(pairs) or not _same_depth(entry):
            yield Row(line, "bad")
        else:
            cells = tuple(entry.get(name) for name in COLUMNS[:3])
            yield Row(line, _verdict(*cells), cells)


def _same_depth(entry: dict[str, Any]) -> bool:
    """Values are plain: inner objects, which could have a key twice, are not made here."""
    return not any(isinstance(value, dict) and value for value in entry.values())


def _parquet(content: bytes) -> list[Row] | None:
    from pyarrow import parquet

    try:
        table = parquet.read_table(io.BytesIO(content), page_checksum_verification=True)
        if any(table.column_names.count(name) != 1 for name in COLUMNS[:3]):
            return None
        columns = [table.column(name).to_pylist() for name in COLUMNS[:3]]
    except Exception:
        return None
    rows = zip(*columns, strict=True)
    return [Row(line, _verdict(*cells), cells) for line, cells in enumerate(rows, 1)]


def _verdict(name: Any, text: Any, label: Any) -> Verdict:
    if type(name) is not int and not _is_text(name):
        return "bad"
    if not _is_text(text) or isinstance(label, bool) or label is None:
        return "bad"
    if str(label) in LABELS and type(label) in (str, int):
        return "good"
    return "unsure" if number(label) in range(5) else "bad"


def number(label: Any) -> float | None:
    try:
        return float(label)
    except (TypeError, ValueError, OverflowError):
        return None


def _is_text(cell: Any) -> bool:
    if not isinstance(cell, str) or not cell.strip() or "\0" in cell or len(cell) > LONGEST:
        return False
    return not any("\ud800" <= letter <= "\udfff" for letter in cell)
