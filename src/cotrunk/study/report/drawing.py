"""A sharing plan as boxes: one row per depth, one box per group of tasks that shares a copy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotrunk.model.sharing.levels import Box, Level, levels_of
from cotrunk.model.sharing.plan import Plan

LABELS, BOX, GAP = 92, 62, 4
LETTER, ROW, DEPTH = 6.4, 24, 9
"""Pixels: the width of a letter, the height of a row, and what each further depth adds to it."""


@dataclass(frozen=True)
class Rectangle:
    x: float
    y: float
    width: float
    height: float
    label: str
    mark: str
    """How many share it: ``all``, ``some`` or ``one``."""
    lines: Sequence[float]
    """Where depths of the same owners meet."""


@dataclass(frozen=True)
class Row:
    label: str
    middle: float
    boxes: Sequence[Rectangle]


@dataclass(frozen=True)
class PlanDrawing:
    width: float
    height: float
    rows: Sequence[Row]
    says: str
    """The drawing in words."""


def draw(plan: Plan, reads: Mapping[str, Sequence[str]]) -> PlanDrawing:
    """The network from top to bottom."""
    levels = list(reversed(levels_of(plan)))
    column = max(BOX, *(LETTER * len(task) + 14 for task in plan.tasks))
    rows: list[Row] = []
    y = 0.0
    for level in levels:
        height = ROW + DEPTH * (level.depths - 1)
        rows.append(_row(level, len(plan.tasks), column, y, height))
        y += height + GAP
    words = [f"{level.name}: {_in_words(level.boxes)}" for level in levels]
    words += [f"{task} reads {', '.join(sources)}" for task, sources in reads.items()]
    return PlanDrawing(LABELS + column * len(plan.tasks), y - GAP, rows, "; ".join(words))


def _row(level: Level, tasks: int, column: float, y: float, height: float) -> Row:
    boxes: list[Rectangle] = []
    x = float(LABELS)
    for box in level.boxes:
        width = column * len(box.tasks)
        if box.owned:
            lines = [y + height * n / level.depths for n in range(1, level.depths)]
            label = f"{' + '.join(box.tasks)} {box.mark}".strip()
            mark = _mark(box, tasks)
            boxes.append(Rectangle(x + GAP / 2, y, width - GAP, height, label, mark, lines))
        x += width
    return Row(level.name, y + height / 2, boxes)


def _mark(box: Box, tasks: int) -> str:
    if len(box.tasks) == tasks and tasks > 1:
        return "all"
    return "some" if len(box.tasks) > 1 or box.mark else "one"


def _in_words(boxes: Sequence[Box]) -> str:
    return ", ".join("+".join(box.tasks) for box in boxes if box.owned)
