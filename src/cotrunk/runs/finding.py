"""A mistake that a guard found."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A mistake found by the guard ``name``; ``place`` is a key, file, task or block.

    A ``fatal`` finding stops training.
    """

    name: str
    place: str
    finding: str
    fix: str
    fatal: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.finding}; {self.fix} [{self.name}]"
