"""The error lines of a file with bad rows: rows that break the same rule are one finding."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cotrunk.errors import UserError, plural, shown
from cotrunk.numbers import number_of

LISTED = 50
FEW = 5
"""A cause of up to this many rows is listed row by row."""
VALUES = 8
REMEMBERED = 1000
"""Distinct values that are counted for each cause."""
SKIP = "skip_bad_rows = true"

# "rule; found value; did you mean 'x'?": how all findings about rows are written.
REASON = re.compile(
    r"(?:word [\d,]+: )?(?P<rule>.*?)"
    r"(?:; found (?P<found>.*?)(?:; (?P<hint>did you mean .*))?)?",
    re.DOTALL,
)

HINT = re.compile(r"; (did you mean '.*'\?)$", re.DOTALL)

About = Literal["text", "id", "label", "row", "encoding"]


@dataclass(frozen=True)
class BadRow:
    """What is wrong with a row: its place, the rule and what was found, and how to fix it.

    ``drops``: settings that leave such rows out. ``raw`` is a wrong label as it is in the file.
    """

    at: str
    line: int
    reason: str
    fix: str
    about: About = "row"
    column: str = ""
    drops: str = SKIP
    raw: object = None

    def __str__(self) -> str:
        """With a suggestion in brackets, because a fix may follow."""
        reason = HINT.sub(r" (\1)", self.reason)
        return f"{self.at}: {reason}"

    @property
    def parts(self) -> tuple[str, str, str]:
        """The rule, what was found and a hint about it; the last two may be empty."""
        found = REASON.fullmatch(self.reason)
        assert found
        return found["rule"], found["found"] or "", found["hint"] or ""


@dataclass
class Cause:
    """Rows that break the same rule. ``said`` and ``fix`` replace what the rows say, if set."""

    first: list[BadRow] = field(default_factory=list)
    count: int = 0
    last: int = 0
    values: dict[str, int] = field(default_factory=dict)
    raws: list[object] = field(default_factory=list)
    said: str = ""
    fix: str = ""

    def add(self, row: BadRow, found: str) -> None:
        if row.line == self.last and self.count:
            return  # another cell of a row that was counted
        self.count, self.last = self.count + 1, row.line
        if len(self.first) < FEW:
            self.first.append(row)
        if found in self.values:
            self.values[found] += 1
        elif len(self.values) < REMEMBERED:
            self.values[found] = 1
            self.raws.append(row.raw)

    @property
    def is_common(self) -> bool:
        return self.count > FEW

    def lines(self, *, rows: int, usable: int, bad: int, fixes: bool) -> Iterator[str]:
        if not self.is_common:
            for row in self.first:
                yield str(row) + (f"; {self._fix(row, usable, bad)}" if fixes else "")
            return
        row = self.first[0]
        many = f"all {rows:,} rows" if self.count == rows else f"{self.count:,} of {rows:,} rows"
        said = f"{row.at}: {self.said or self._summary()} ({many})"
        yield said + (f"; {self._fix(row, usable, bad)}" if fixes else "")

    def _fix(self, row: BadRow, usable: int, bad: int) -> str:
        """Does not suggest skipping bad rows if less than half of the rows would remain."""
        if self.fix:
            return self.fix
        fix = row.fix
        if self.is_common:
            fix = fix.replace(" the cell", " the cells").replace(" the row", " the rows")
        drops = row.drops if usable >= bad else row.drops.removesuffix(SKIP).removesuffix(" or ")
        if not usable or not drops:
            return fix
        return f"{fix}{',' if ' or ' in fix or ', ' in fix else ''} or set {drops}"

    def _summary(self) -> str:
        rule, found, hint = self.first[0].parts
        if not found:
            return rule
        first, *others = self.values  # the first is found at the place that is named
        common = [first, *sorted(others, key=lambda value: -self.values[value])]
        if len(common) == 1 or self.first[0].about == "encoding":
            return f"{rule}; found {found}" + (f" ({hint})" if hint else "")
        if len(common) <= VALUES:
            counted = (f"{value} in {plural(self.values[value], 'row')}" for value in common)
            return f"{rule}; found {', '.join(counted)}"
        return f"{rule}; found {', '.join(common[:3])}, ..."


class Refusal:
    """Findings by cause: a few rows are listed one by one, many become one line with a count."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.causes: dict[tuple[str, str, str], Cause] = {}
        self.is_cut = False
        self.bad = self.last = 0

    def add(self, row: BadRow) -> None:
        self.bad, self.last = self.bad + (row.line != self.last), row.line
        rule, found, _ = row.parts
        key = (row.column, rule, row.fix)
        if key not in self.causes and len(self.causes) == LISTED:
            self.is_cut = True
            return
        self.causes.setdefault(key, Cause()).add(row, found)

    def about(self, what: About) -> list[Cause]:
        return [cause for cause in self.causes.values() if cause.first[0].about == what]

    def lines(self, *, rows: int, usable: int, fixes: bool = True) -> list[str]:
        """``rows`` were read, of which ``usable`` ones are good."""
        found = [
            line
            for cause in self.causes.values()
            for line in cause.lines(rows=rows, usable=usable, bad=self.bad, fixes=fixes)
        ]
        if len(found) <= LISTED and not self.is_cut:
            return found
        return [*found[:LISTED], f"{self.place}: only the first {LISTED} errors are listed"]

    def error(self, *, rows: int, usable: int) -> UserError:
        return UserError(*self.lines(rows=rows, usable=usable))


def listed_values(values: Sequence[object]) -> str:
    """Labels as one short text: ``0..5``, ``numbers from -1 to 7.5``, or the first of them."""
    numbers = [number for value in values if (number := number_of(value)) is not None]
    if len(numbers) < len(values) or len(values) < 3:
        more = f" and {len(values) - VALUES:,} more" if len(values) > VALUES else ""
        return ", ".join(map(shown, values[:VALUES])) + more
    low, high = min(numbers), max(numbers)
    is_counted = set(numbers) == {low + step for step in range(len(numbers))}
    return f"{low:g}..{high:g}" if is_counted else f"numbers from {low:g} to {high:g}"
