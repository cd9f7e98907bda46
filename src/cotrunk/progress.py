"""How far something that takes long has come."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ProgressUpdate:
    """Rows that were done since the last time, and the share of all that is done by now."""

    what: str
    rows: int
    share: float


OnProgress = Callable[[ProgressUpdate], None]


def ignore_progress(_done: ProgressUpdate) -> None:
    """For callers who need not know."""
