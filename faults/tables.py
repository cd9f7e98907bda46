"""Data files with known rows, written by the format's own library and then damaged."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

COLUMNS = ("id", "text", "label", "note")
DELIMITERS = {"csv": ",", "tsv": "\t", "semicolon": ";"}
FORMATS = ("csv", "tsv", "semicolon", "jsonl", "parquet")
TEXTS = (
    "good", "a slow plot", "NA", "null", "nan", "None", "N/A", "-", "0", "1e5", " padded ",
    "a,b;c\td", 'say "so"', '"', '""', "'", "it's", "\\", "line\nbreak", "cr\rhere", "שלום עולם",
    "مرحبا", "👍🏽 fine", "e\u0301", "\u202eright to left", "\ufeffmark", "\u2028", "x" * 300,
    "=1+1", "#", "\x1b[31mred",
)  # fmt: skip
LABELS = ("0", "1", "2", "3", "4")
WRONG_LABELS = ("5", "-1", "x", "", "nan", "inf", "1e-400", "2.5", "NA", "1e999", "٣", "1_0")


@dataclass(frozen=True)
class Made:
    """``known``: the rows that were written; None if the bytes were changed afterwards."""

    name: str
    delimiter: str | None
    content: bytes
    known: list[tuple[str, str, str]] | None


def made_file(draw: Random) -> Made:
    kind = draw.choice(FORMATS)
    rows = [_row(draw, number) for number in range(draw.choice((0, 1, 2, 3, 5, 8, 30)))]
    suffix = "csv" if kind == "semicolon" else kind
    if kind == "parquet":
        content = _parquet(draw, rows)
    elif kind == "jsonl":
        content = _jsonl(draw, rows)
    else:
        content = _delimited(draw, rows, DELIMITERS[kind])
    damaged = content
    if draw.random() < 0.5:
        for _ in range(draw.randint(1, 3)):
            damaged = draw.choice(BYTE_FAULTS)(draw, damaged)
    known = [row[:3] for row in rows] if damaged == content else None
    return Made(f"rows.{suffix}", DELIMITERS.get(kind), damaged, known)


def _row(draw: Random, number: int) -> tuple[str, str, str, str]:
    text = draw.choice(TEXTS)
    name = str(number if draw.random() < 0.95 else draw.randint(0, 3))
    if draw.random() < 0.005:
        text = "y" * draw.choice((999_999, 1_000_000, 1_000_001))
    if draw.random() < 0.01:
        text = draw.choice(("", " ", "nul\0here"))
    label = draw.choice(LABELS if draw.random() < 0.99 else WRONG_LABELS)
    return name, text, label, draw.choice(TEXTS)


def _delimited(draw: Random, rows: Sequence[tuple[str, ...]], delimiter: str) -> bytes:
    text = io.StringIO()
    writer = csv.writer(
        text,
        delimiter=delimiter,
        lineterminator=draw.choice(("\n", "\r\n")),
        quoting=draw.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)),
    )
    extra = [f"c{number}" for number in range(100_000)] if draw.random() < 0.002 else []
    writer.writerow([*COLUMNS, *extra])
    for row in rows:
        cells = [*row, *("" for _ in extra)]
        if draw.random() < 0.01:
            cells = draw.choice((cells[:-1], [*cells, "more"], cells[:1]))
        writer.writerow(cells)
    return text.getvalue().encode("utf-8-sig" if draw.random() < 0.1 else "utf-8")


def _jsonl(draw: Random, rows: Sequence[tuple[str, ...]]) -> bytes:
    lines = []
    for row in rows:
        entry: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
        if entry["label"] in LABELS and draw.random() < 0.5:
            entry["label"] = int(entry["label"])
        if draw.random() < 0.02:
            entry["text"] = draw.choice((None, 7, ["a"], {"a": 1}, True, 1.5))
        lines.append(json.dumps(entry, ensure_ascii=draw.random() < 0.5))
    return "".join(line + draw.choice(("\n", "\r\n")) for line in lines).encode()


def _parquet(draw: Random, rows: Sequence[tuple[str, ...]]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    columns = list(zip(*rows, strict=True)) if rows else [()] * len(COLUMNS)
    labels = list(columns[2])
    if draw.random() < 0.5 and all(label in LABELS for label in labels):
        labels = [int(label) for label in labels]
    values = dict(zip(COLUMNS, columns, strict=True)) | {"label": labels}
    types = {"label": None if labels else pyarrow.string()}
    arrays = {
        name: pyarrow.array(v, types.get(name, pyarrow.string())) for name, v in values.items()
    }
    buffer = io.BytesIO()
    parquet.write_table(
        pyarrow.table(arrays),
        buffer,
        row_group_size=draw.choice((1, 3, 100)),
        compression=draw.choice(("NONE", "snappy", "zstd", "gzip")),
        use_dictionary=draw.random() < 0.5,
        write_page_checksum=draw.random() < 0.5,
    )
    return buffer.getvalue()


def _insert(*pieces: bytes) -> Callable[[Random, bytes], bytes]:
    def fault(draw: Random, data: bytes) -> bytes:
        at = draw.randint(0, len(data))
        return data[:at] + draw.choice(pieces) + data[at:]

    return fault


def _flip(draw: Random, data: bytes) -> bytes:
    if not data:
        return data
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def _cut(draw: Random, data: bytes) -> bytes:
    return data[: draw.randint(0, len(data))]


def _without_part(draw: Random, data: bytes) -> bytes:
    at, end = sorted(draw.randint(0, len(data)) for _ in range(2))
    return data[:at] + data[min(end, at + 20) :]


def _repeated(draw: Random, data: bytes) -> bytes:
    at = draw.randint(0, len(data))
    return data[:at] + data[max(0, at - 40) : at] + data[at:]


def _carriage_returns(draw: Random, data: bytes) -> bytes:  # noqa: ARG001
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r")


BYTE_FAULTS: tuple[Callable[[Random, bytes], bytes], ...] = (
    _insert(b'"', b'""', b'" ', b'"x', b"'"),
    _insert(b",", b"\t", b";", b",,,,"),
    _insert(b"\n", b"\r", b"\r\n", b"\n\n", b"\x0b", b"\xc2\x85"),
    _insert(b"\0", b"\0\0\0\0"),
    _insert(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xef\xbb\xbf"),
    _insert(b"{", b"}", b"[", b"]", b":", b"\\", b"\\ud800", b"NaN", b"1e-400", b"1e999"),
    _insert(b"7", b"-", b" ", b"e", b"."),
    _flip,
    _flip,
    _cut,
    _without_part,
    _repeated,
    _carriage_returns,
)
