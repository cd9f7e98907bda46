"""How much each plan differs from another one, and whether that is more than chance."""

from cotrunk.study.comparison import Comparison, TaskDifference
from cotrunk.study.report import formats
from cotrunk.study.report.parts import Cell, Table
from cotrunk.study.report.subject import Subject

FORMULAS = {"official": "overall", "mean": "plain mean"}


def differences(subject: Subject, comparison: Comparison) -> Table:
    base = subject.series_of(comparison.baseline.group)
    found: dict[str, dict[str, TaskDifference]] = {}
    for each in (*comparison.differences, *comparison.overall_differences):
        found.setdefault(subject.series_of(each.group).name, {})[each.task] = each
    columns = [task for task in (*subject.tasks, *FORMULAS) if _occurs(task, found)]
    rows = [
        [Cell(name), *(_cell(found[name].get(column)) for column in columns)]
        for name in subject.order
        if name in found
    ]
    caption = (
        f"Differences from {base.name}, with 95 % intervals and p corrected for the number of "
        f"plans; equivalent: the 90 % interval is within ± {comparison.margin:g} (two one-sided "
        "tests at 5 %)"
    )
    return Table(caption, ["plan", *(FORMULAS.get(c, c) for c in columns)], rows)


def _occurs(column: str, found: dict[str, dict[str, TaskDifference]]) -> bool:
    return any(column in by_column for by_column in found.values())


def _cell(found: TaskDifference | None) -> Cell:
    if found is None:
        return Cell(formats.NONE)
    value = found.difference
    interval = formats.interval(value.low, value.high)
    return Cell(
        f"{formats.signed(value.difference)} {found.verdict}",
        f"{interval} p {formats.p_value(found.p)}",
        found.verdict,
    )
