"""A plan as rows of boxes, for drawings: who owns which copy, from the embeddings up."""

from collections.abc import Sequence
from dataclasses import dataclass

from cotrunk.model.sharing.partition import Partition, alone
from cotrunk.model.sharing.place import Place
from cotrunk.model.sharing.plan import Plan


@dataclass(frozen=True)
class Box:
    """Adjacent tasks that share a copy; ``owned`` is False for tasks without one.

    For example, not every task uses the pooler. ``mark`` is the letter of a group whose tasks are
    not all adjacent, else "".
    """

    tasks: tuple[str, ...]
    owned: bool
    mark: str = ""


@dataclass(frozen=True)
class Level:
    """``depths`` places of one series, one above the other, with the same owners."""

    name: str
    depths: int
    boxes: tuple[Box, ...]


def levels_of(plan: Plan) -> list[Level]:
    """All places in the order of the forward pass; the heads are one level."""
    levels = [
        Level(f"{run[0].series} {_span(run)}".strip(), len(run), _boxes(run[0].partition, plan))
        for run in _runs(plan)
    ]
    return [*levels, Level("heads", 1, _boxes(alone(plan.tasks), plan))]


def _runs(plan: Plan) -> list[list[Place]]:
    """The places below the heads; depths of one series with the same owners are one run."""
    runs: list[list[Place]] = []
    for place in plan.places:
        last = next((run for run in reversed(runs) if run[0].series == place.series), None)
        if last and set(last[0].partition) == set(place.partition):
            last.append(place)
        elif place.acts != "head":
            runs.append([place])
    return runs


def _span(run: Sequence[Place]) -> str:
    first, last = run[0].depth, run[-1].depth
    if first is None or last is None:
        return ""
    return str(first + 1) if first == last else f"{first + 1}-{last + 1}"


def _boxes(partition: Partition, plan: Plan) -> tuple[Box, ...]:
    owner = {task: index for index, group in enumerate(partition) for task in group}
    cells: list[list[str]] = []
    for task in plan.tasks:
        if cells and task in owner and owner.get(cells[-1][-1]) == owner[task]:
            cells[-1].append(task)
        else:
            cells.append([task])
    owned = [cell for cell in cells if cell[0] in owner]
    split = {owner[cell[0]] for cell in owned if len(cell) < len(partition[owner[cell[0]]])}
    return tuple(
        Box(
            tuple(cell),
            cell[0] in owner,
            _mark(owner[cell[0]]) if owner.get(cell[0]) in split else "",
        )
        for cell in cells
    )


def _mark(number: int) -> str:
    return chr(ord("a") + number % 26)
