"""The encodings of text files, and a guess which one a file has."""

import codecs
import io
import re
from pathlib import Path

from cotrunk.errors import did_you_mean

UTF8 = "utf-8"
COMMON = (UTF8, "latin-1", "cp1252", "utf-16", "gb18030", "shift_jis")
LATIN1, WINDOWS = "latin-1", "cp1252"
READ_BYTES = 1 << 26
LINE_BYTES = 1 << 20
HEAD_BYTES = 8
HIGH = re.compile(rb"[\x80-\xff]+")
CONTROLS = bytes(range(0x80, 0xA0))
"""Bytes that are control characters in Latin-1, but quotes and dashes in Windows-1252."""
SAVE_AS_UTF8 = "save the file as UTF-8"
UNDECODED = re.compile("[\ud800-\udfff]")
"""Lone surrogates, which is how Python keeps bytes that it could not decode."""


def wrong_encoding(name: str) -> str | None:
    """Why an encoding cannot be used, or None; some of Python's codecs are not for text."""
    try:
        io.TextIOWrapper(io.BytesIO(b""), name).read()
    except (LookupError, ValueError):
        rule = f"must be a text encoding that Python knows, such as {', '.join(COMMON)}"
        return f"{rule}{did_you_mean(name, COMMON)}"
    return None


def is_utf8(name: str) -> bool:
    return codecs.lookup(name).name in ("utf-8", "utf-8-sig")


def is_wide(name: str) -> bool:
    """Whether even plain letters have NUL bytes, as in UTF-16."""
    return b"\0" in "a".encode(name)


def guess_encoding(path: Path) -> str | None:
    """UTF-8 if most lines are, else the encoding if it is a western one; None: unknown.

    Western texts have single letters outside ASCII, texts in other scripts whole words of them.
    """
    decoded = undecoded = 0
    runs: list[bytes] = []
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if wide := _wide_without_mark(head):
            return wide
        file.seek(0)
        while file.tell() < READ_BYTES and (line := file.readline(LINE_BYTES)):
            if line.isascii():
                continue
            if is_valid_utf8(line):
                decoded += 1
            else:
                undecoded += 1
                runs += HIGH.findall(line) if len(runs) < LINE_BYTES else []
    if decoded >= undecoded:
        return UTF8
    high = b"".join(runs)
    if 10 * decoded > undecoded or len(high) >= 2 * len(runs):
        return None
    if len(high.translate(None, delete=CONTROLS)) == len(high):
        return LATIN1
    try:
        high.decode(WINDOWS)
    except UnicodeDecodeError:
        return None
    return WINDOWS


def _wide_without_mark(head: bytes) -> str | None:
    """UTF-16 without a byte order mark, if the file starts with plain letters."""
    evens, odds = head[::2], head[1::2]
    if odds and not any(odds) and all(evens):
        return "utf-16-le"
    return "utf-16-be" if evens and not any(evens) and all(odds) else None


def is_valid_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def encoding_fix(path: Path, encoding: str) -> str:
    """What to do about text that could not be decoded; "" if only single rows are damaged."""
    guess = guess_encoding(path) if path.is_file() else None
    if guess == LATIN1 and is_utf8(encoding):
        return 'the file looks like Latin-1: set encoding = "latin-1"'
    if guess == WINDOWS and codecs.lookup(encoding).name != WINDOWS:
        return 'the file looks like Windows-1252: set encoding = "cp1252"'
    if guess == UTF8 and not is_utf8(encoding):
        return 'the file is UTF-8: remove the key encoding, or set it to "utf-8"'
    if guess is None:
        return "set encoding to that of the file, or save it as UTF-8"
    return ""
