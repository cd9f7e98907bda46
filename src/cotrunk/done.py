"""How far something that takes long has come."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    """Rows that were done since the last time, and the share of all that is done by now."""

    what: str
    rows: int
    share: float


Tell = Callable[[Done], None]


def untold(_done: Done) -> None:
    """For callers who need not know."""
