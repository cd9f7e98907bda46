"""Opens a file as a table, or reports what it is instead."""

import codecs
import contextlib
import difflib
import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from cotrunk.data.reading.conll import read_conll
from cotrunk.data.reading.encodings import UTF8, is_utf8, is_valid_utf8, is_wide
from cotrunk.data.reading.formats import (
    Quoting,
    Table,
    read_delimited,
    read_lines,
    read_objects,
    read_parquet,
)
from cotrunk.errors import UserError

SNIFFED_BYTES = 1 << 16
DELIMITED = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
OBJECTS = (".jsonl", ".ndjson")
CONLL = (".conll", ".bio", ".iob")
PLAIN_TEXT = ".txt"
KNOWN = (*DELIMITED, *OBJECTS, ".parquet", *CONLL)
ALIKE = 0.7
BOM = b"\xef\xbb\xbf"
MAGIC = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\x1f\x8b": "compressed with gzip",
    b"BZh9": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstandard",
    b"\x80\x02": "a Python pickle",
    b"\x80\x03": "a Python pickle",
    b"\x80\x04": "a Python pickle",
    b"\x80\x05": "a Python pickle",
    b"\x93NUMPY": "a NumPy array",
    b"\x89HDF": "an HDF5 file",
    b"SQLite format 3\0": "an SQLite database",
    b"%PDF-": "a PDF document",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"version https://git-lfs": "a Git LFS pointer (run: git lfs pull)",
}
WEB_PAGE = re.compile(rb"<(!doctype )?html", re.IGNORECASE)


@contextlib.contextmanager
def open_table(
    path: Path,
    *,
    needed: Sequence[str],
    quoting: Quoting,
    place: str,
    encoding: str = UTF8,
    columns: Sequence[str] = (),
    words: str | None = None,
    is_plain_text: bool = False,
) -> Iterator[Table]:
    """The extension gives the format; the delimiter is the one that yields the ``needed`` columns.

    ``columns`` names the columns of a CoNLL file, which has no header; ``words`` is the one that it
    may have alone. ``is_plain_text``: the lines are texts, not rows of a table.
    """
    with _as_user_errors(path, place, encoding):
        suffix = _extension_of(path, place)
        with _bytes_of(path) as stream:
            head = stream.peek()[:SNIFFED_BYTES]
            if not head:
                raise UserError(f"{place}: the file is empty")
            if suffix == ".parquet":
                yield read_parquet(stream, place)
                return
            _check_encoding(head, place, encoding)
            if not is_wide(encoding):
                _check_is_text(head, place)
            with _text_of(stream, encoding) as text:
                if suffix in CONLL:
                    table = read_conll(text, place, columns=columns, words=words, encoding=encoding)
                elif is_plain_text:
                    table = read_lines(text, place)
                else:
                    _check_is_named_for_its_format(head, place, suffix)
                    table = _read_rows(text, place, suffix, needed=needed, quoting=quoting)
                    is_binary = b"\0" in head and not is_wide(encoding) and suffix in DELIMITED
                    if is_binary and not set(needed) <= set(table.columns):
                        raise UserError(f"{place}: is a binary file, not a table of text")
                yield replace(
                    table, share=partial(_share_read, stream), encoding=encoding, path=path
                )


@contextlib.contextmanager
def _as_user_errors(path: Path, place: str, encoding: str) -> Iterator[None]:
    """Turn errors while a file is opened or read into a ``UserError`` of one line."""
    try:
        yield
    except FileNotFoundError:
        near = near_name(path.name, tables_in(path.parent))
        hint = f"; did you mean {near!r}?" if near else ""
        raise UserError(f"{place}: no such file{hint}") from None
    except UnicodeError as error:  # of an encoding in which single bytes cannot be skipped
        why = f"is not {encoding.upper()} ({error.reason})" if hasattr(error, "reason") else error
        raise UserError(f"{place}: {why}; set encoding to that of the file") from None
    except OSError as error:
        raise UserError(f"{place}: cannot be read: {error.strerror or error}") from None


def _extension_of(path: Path, place: str) -> str:
    suffix = path.suffix.lower()
    if path.is_dir():
        raise UserError(f"{place}: is a folder; give a file")
    if suffix == ".conllu":
        fix = f"grep -v '^[0-9][0-9]*[-.]' {path.name} > {path.stem}.conll"
        raise UserError(
            f"{place}: CoNLL-U is read without multiword tokens and empty nodes; "
            f"leave them out, as in: {fix}"
        )
    if suffix not in KNOWN:
        known = " ".join(KNOWN)
        raise UserError(f"{place}: the extension must be one of {known}; found {suffix!r}")
    return suffix


@contextlib.contextmanager
def _text_of(stream: "io.BufferedReader[io.FileIO]", encoding: str) -> Iterator[io.TextIOWrapper]:
    codec = "utf-8-sig" if is_utf8(encoding) else encoding
    text = io.TextIOWrapper(stream, codec, errors="surrogateescape", newline="")
    try:
        yield text
    finally:
        text.detach()  # the caller closes the stream


def _read_rows(
    text: io.TextIOWrapper, place: str, suffix: str, *, needed: Sequence[str], quoting: Quoting
) -> Table:
    if suffix in OBJECTS:
        return read_objects(text, place)
    return read_delimited(text, place, needed=needed, default=DELIMITED[suffix], quoting=quoting)


def tables_in(folder: Path) -> list[str]:
    """The files of a folder with a known extension; none if there is no such folder."""
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if p.suffix.lower() in KNOWN and p.is_file())


def near_name(name: str, others: Sequence[str]) -> str | None:
    """The file that was probably meant: the words of its name are close to those of ``name``.

    Whole names are not compared: a.csv and b.csv, or topics-dev.csv and topics-test.csv, are
    similar strings but different files.
    """
    likeness = {other: _likeness(_words(name), _words(other)) for other in others}
    near = max(likeness, key=lambda other: likeness[other], default="")
    return near if near and likeness[near] >= ALIKE else None


def _words(name: str) -> list[str]:
    return re.split(r"[\W_]+", Path(name).stem.casefold())


def _likeness(some: Sequence[str], others: Sequence[str]) -> float:
    """Similarity of the least similar words, or of the whole names if their counts differ."""
    if len(some) != len(others):
        some, others = ["".join(some)], ["".join(others)]
    return min(
        difflib.SequenceMatcher(None, a, b).ratio() for a, b in zip(some, others, strict=True)
    )


@contextlib.contextmanager
def _bytes_of(path: Path) -> "Iterator[io.BufferedReader[io.FileIO]]":
    if "\0" in str(path):
        raise UserError(f"{str(path)!r}: a path must not contain NUL")
    with io.BufferedReader(io.FileIO(path), SNIFFED_BYTES) as stream:
        yield stream


def _share_read(stream: "io.BufferedReader[io.FileIO]") -> float:
    if not stream.seekable():  # the size of a pipe is unknown
        return 0.0
    return stream.tell() / max(os.fstat(stream.fileno()).st_size, 1)


def _check_encoding(head: bytes, place: str, encoding: str) -> None:
    """Refuse text certainly in another encoding: Latin-1, for example, decodes any bytes."""
    is_utf16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if is_utf16 and not is_wide(encoding):
        raise UserError(f'{place}: is UTF-16 text; set encoding = "utf-16", or save it as UTF-8')
    if is_utf8(encoding) or head.isascii():
        return
    whole = head[: head.rfind(b"\n") + 1] or head
    if not whole.isascii() and is_valid_utf8(whole):
        raise UserError(f'{place}: is UTF-8 text, not {encoding.upper()}; set encoding = "utf-8"')


def _check_is_text(head: bytes, place: str) -> None:
    what = next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)
    start = head.removeprefix(BOM).lstrip()
    if WEB_PAGE.match(start):
        what = "a web page"
    if what is None and b"\0" in re.split(rb"[\r\n]", start, maxsplit=1)[0]:
        what = "a binary file"
    if what is not None:
        raise UserError(f"{place}: is {what}, not a table of text")


def _check_is_named_for_its_format(head: bytes, place: str, suffix: str) -> None:
    first = head.removeprefix(BOM).lstrip()[:1]
    if suffix in OBJECTS and first == b"[":
        raise UserError(f"{place}: must have one JSON object per line; found an array")
    if suffix not in OBJECTS and first == b"{":
        raise UserError(f"{place}: contains JSON, not {suffix} text; rename it to .jsonl")
