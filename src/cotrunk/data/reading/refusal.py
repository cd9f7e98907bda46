"""The error lines of a file with bad rows."""

from dataclasses import dataclass

from cotrunk.errors import UserError, plural

LISTED = 50


@dataclass(frozen=True)
class BadRow:
    """What is wrong with a row; ``common``: many rows probably have the same problem."""

    at: str
    reason: str
    fix: str
    common: bool = False

    def __str__(self) -> str:
        return f"{self.at}: {self.reason}"


class Refusal:
    """Findings, one line each; a common one is listed once, then only counted."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.lines: list[str] = []
        self.again: dict[str, int] = {}

    @property
    def is_long(self) -> bool:
        return len(self.lines) > LISTED

    def add(self, finding: BadRow) -> None:
        if finding.reason in self.again:
            self.again[finding.reason] += 1
            return
        self.lines.append(f"{finding}; {finding.fix}")
        if finding.common:
            self.again[finding.reason] = 0

    def error(self) -> UserError:
        if self.is_long:
            more = [f"{self.place}: only the first {LISTED} errors are listed"]
        else:
            more = [
                f"{self.place}: {plural(count, 'more row')} with the same error: {reason}"
                for reason, count in self.again.items()
                if count
            ]
        return UserError(*self.lines[:LISTED], *more)
