"""Standard streams that others may close, before we begin or meanwhile."""

import os
import sys
from typing import TextIO


def open_closed_ones() -> None:
    """A stream that came closed (``2>&-``) would lend its number to the next file we open."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            _lead_nowhere(number)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def silence(stream: TextIO) -> None:
    """What it still holds, and what follows, goes nowhere."""
    _lead_nowhere(stream.fileno())


def _lead_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)


class IgnoreBrokenPipe:
    """Its reader may leave, or its terminal: what is written then is lost, the writer goes on."""

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
