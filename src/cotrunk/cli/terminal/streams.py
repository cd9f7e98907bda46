"""Standard streams that may be closed, before we start or while we run."""

import os
import sys
from typing import TextIO


def open_closed_ones() -> None:
    """Reopen closed ones (``2>&-``), because the next file we open would get their number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            _to_dev_null(number)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def silence(stream: TextIO) -> None:
    """Discard what is buffered and all that follows."""
    _to_dev_null(stream.fileno())


def _to_dev_null(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)


class IgnoreBrokenPipe:
    """A stream whose reader may go away: what is written after that is lost, without an error."""

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
