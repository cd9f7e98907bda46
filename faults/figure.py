"""What one line of the table found."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Size = Literal["quick", "long"]


@dataclass(frozen=True)
class Figure:
    """``held`` of ``tried`` attacks ended as ``claim`` says; ``note`` has what was measured."""

    name: str
    claim: str
    tried: int
    held: int
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.tried > 0 and self.held == self.tried


Line = Callable[[int, Size], Figure]
"""A test with a seed and a size."""
