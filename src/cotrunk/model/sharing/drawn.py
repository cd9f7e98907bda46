"""A plan drawn as text."""

from collections.abc import Mapping, Sequence

from cotrunk.model.sharing.levels import Box, levels_of
from cotrunk.model.sharing.plan import Plan


def draw_owners(plan: Plan, reads: Mapping[str, Sequence[str]]) -> str:
    """The network from top to bottom; tasks that share a copy are in one box."""
    width = max(7, *(len(task) + 2 for task in plan.tasks))
    levels = reversed(levels_of(plan))
    lines = [
        f"{level.name:>16} {''.join(_box(box, width) for box in level.boxes)}" for level in levels
    ]
    for task, sources in reads.items():
        lines += [f"{'':>16} {source} ──reads──> {task}" for source in sources]
    return "\n".join(lines)


def _box(box: Box, width: int) -> str:
    if not box.owned:
        return " " * (width + 2) * len(box.tasks)
    room = (width + 2) * len(box.tasks) - 2
    return "[" + f"{'+'.join(box.tasks)} {box.mark}".strip()[:room].center(room) + "]"
