"""Progress of a long operation."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ProgressUpdate:
    """``rows`` finished since the last update, and the ``share`` of all work done so far."""

    what: str
    rows: int
    share: float


OnProgress = Callable[[ProgressUpdate], None]


def ignore_progress(_done: ProgressUpdate) -> None:
    """A no-op progress callback."""
