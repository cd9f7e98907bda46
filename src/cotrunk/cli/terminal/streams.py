"""Standard streams that are closed at the start, or while a command runs."""

import codecs
import io
import os
import sys
from typing import TextIO


def reopen_closed_streams() -> None:
    """Reopen closed streams (``2>&-``): otherwise the next open file would get their number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            _to_dev_null(number)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def write_utf8() -> None:
    """Write UTF-8 whatever the locale, and bytes of paths that are not UTF-8 as they are."""
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):  # not while tests capture it
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding="utf-8" if is_ascii else None, errors=errors)


def silence(stream: TextIO) -> None:
    """Discard what is buffered and everything written later."""
    _to_dev_null(stream.fileno())


def _to_dev_null(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)


class IgnoreBrokenPipe:
    """A stream that discards output without an error once its reader is gone."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.encoding = stream.encoding

    def write(self, text: str) -> int:
        try:
            return self.stream.write(text)
        except OSError:
            silence(self.stream)
            return len(text)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except OSError:
            silence(self.stream)

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()
