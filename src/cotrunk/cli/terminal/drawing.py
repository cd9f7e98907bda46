"""A plan on the terminal: its parameters, and who owns which part of the network."""

from collections.abc import Mapping, Sequence

from cotrunk.cli.terminal.output import megabytes, out, table
from cotrunk.model.sharing.parameter_table import PARTS, ParameterTable
from cotrunk.model.sharing.plan import Partition


def show_plan(parameter_table: ParameterTable, reads: Mapping[str, Sequence[str]]) -> None:
    counts, bytes_ = parameter_table.parameters, parameter_table.bytes
    rows = [[part, f"{counts[part]:,}"] for part in PARTS if counts[part]]
    rows += [["total", f"{counts['total']:,}"], ["weights", megabytes(bytes_["weights"])]]
    rows += [["checkpoint with optimizer", megabytes(bytes_["checkpoint"])]]
    out().print(draw_owners(parameter_table, reads), markup=False)
    out().print()
    out().print(table("", ["part", "parameters"], rows))


def draw_owners(parameter_table: ParameterTable, reads: Mapping[str, Sequence[str]]) -> str:
    """The network from the top down; tasks that share a copy stand in one box."""
    width = max(7, *(len(task) + 2 for task in parameter_table.tasks))
    lines = []
    for place, partition in reversed(_runs(parameter_table)):
        lines.append(f"{place:>16} {_boxes(partition, parameter_table.tasks, width)}")
    for task, sources in reads.items():
        lines += [f"{'':>16} {source} ──reads──> {task}" for source in sources]
    return "\n".join(lines)


def _runs(parameter_table: ParameterTable) -> list[tuple[str, Partition]]:
    """Neighbouring depths with equal owners as one line."""
    runs: list[tuple[str, str, str, Partition]] = []
    for entry in parameter_table.entries:
        if entry.part == "heads":
            continue
        kind, _, depth = entry.place.partition(".")
        if runs and depth and runs[-1][0] == kind and set(runs[-1][3]) == set(entry.partition):
            runs[-1] = (kind, runs[-1][1], depth, entry.partition)
        else:
            runs.append((kind, depth, depth, entry.partition))
    heads = tuple(frozenset([task]) for task in parameter_table.tasks)
    named = [
        (f"{kind} {_span(first, last)}".strip(), partition) for kind, first, last, partition in runs
    ]
    return [*named, ("heads", heads)]


def _span(first: str, last: str) -> str:
    if not first:
        return ""
    low, high = int(first) + 1, int(last) + 1
    return str(low) if low == high else f"{low}-{high}"


def _boxes(partition: Partition, tasks: Sequence[str], width: int) -> str:
    """Boxes side by side; a group that is torn apart by the order of tasks is marked by letter."""
    owner = {task: index for index, group in enumerate(partition) for task in group}
    cells: list[list[str]] = []
    for task in tasks:
        if cells and owner[cells[-1][-1]] == owner[task]:
            cells[-1].append(task)
        else:
            cells.append([task])
    torn = {owner[cell[0]] for cell in cells if len(cell) < len(partition[owner[cell[0]]])}
    boxes = []
    for cell in cells:
        mark = f" {chr(ord('a') + owner[cell[0]] % 26)}" if owner[cell[0]] in torn else ""
        room = (width + 2) * len(cell) - 2
        boxes.append("[" + f"{'+'.join(cell)}{mark}"[:room].center(room) + "]")
    return "".join(boxes)
