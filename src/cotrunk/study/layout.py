"""The tables of a report, with the printed value beside ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotrunk.kinds.metrics import OFFICIAL
from cotrunk.study.definition import Table
from cotrunk.study.measures import shown_number, shown_spread
from cotrunk.study.records import RunRecord

Printed = float | str | None


@dataclass(frozen=True)
class Cell:
    """``ours`` is the mean over seeds, ``spread`` their standard deviation; None where unknown."""

    ours: float | None
    printed: Printed
    spread: float | None = None


@dataclass(frozen=True)
class Line:
    name: str
    seeds: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Filled:
    """A table of the report, filled with our runs."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def has_printed(self) -> bool:
        return any(cell.printed is not None for line in self.lines for cell in line.cells)

    def document(self) -> dict[str, Any]:
        rows = [
            {
                "name": line.name,
                "seeds": line.seeds,
                "ours": {c: cell.ours for c, cell in self._cells(line)},
                "spread": {c: cell.spread for c, cell in self._cells(line)},
                "printed": {c: cell.printed for c, cell in self._cells(line)},
            }
            for line in self.lines
        ]
        return {"title": self.title, "columns": list(self.columns), "rows": rows}

    def _cells(self, line: Line) -> list[tuple[str, Cell]]:
        return list(zip(self.columns, line.cells, strict=True))


def filled(table: Table, groups: Mapping[str, Sequence[RunRecord]]) -> Filled:
    baseline = groups.get(table.baseline or "", ())
    lines = []
    for row in table.rows:
        runs = groups.get(row.runs or "", ())
        missing = len(table.columns) - len(row.printed)
        printed = [value if value != "" else None for value in (*row.printed, *[None] * missing)]
        cells = [
            Cell(
                ours=shown_number(runs, column, baseline=baseline),
                printed=value,
                spread=shown_spread(runs, column),
            )
            for column, value in zip(table.columns, printed, strict=True)
        ]
        lines.append(Line(row.name, len(runs), tuple(cells)))
    return Filled(table.title, tuple(table.columns), tuple(lines))


def footnotes(tables: Sequence[Filled]) -> list[str]:
    """The meaning of columns whose names do not say it."""
    shown = {column for made in tables for column in made.columns}
    return [f"official: {OFFICIAL}"] if "official" in shown else []


def spelled(value: float, column: str) -> str:
    """Scores with three digits, counts with separators, seconds with one digit."""
    if column.startswith(("parameters", "trained", "memory", "steps", "best-step")):
        return f"{value:,.0f}"
    return f"{value:,.1f}" if "seconds" in column else f"{value:.3f}"


def both(cell: Cell, column: str) -> tuple[str, str]:
    """Our value and the printed one; "" if none was printed."""
    ours = "-" if cell.ours is None else spelled(cell.ours, column)
    if cell.printed is None:
        return ours, ""
    printed = cell.printed if isinstance(cell.printed, str) else spelled(cell.printed, column)
    return ours, f"({printed})"
