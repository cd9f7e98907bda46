"""The settings of the runs, and how they differ."""

from collections.abc import Mapping, Sequence
from typing import Any

from cotrunk.runs.dotted import flattened
from cotrunk.study.records import RunRecord
from cotrunk.study.report import formats
from cotrunk.study.report.parts import Cell, Section, Table
from cotrunk.study.report.subject import Series, Subject

MOST_ROWS = 30
ALIKE = "Settings that all runs have in common"
ALIKE_IF_PRESENT = "Settings that are the same in all runs with the task"


def settings(subject: Subject) -> Section:
    """Tables that are long are folded away."""
    flat = {name: flattened(run.settings) for _, name, run in subject.runs}
    keys = dict.fromkeys(key for each in flat.values() for key in each)
    differ = [key for key in keys if _differs(subject, key, flat)]
    by_series = [series.choices for series in subject.series]
    chosen = [key for key in differ if any(key in choices for choices in by_series)]
    common = [[Cell(key), Cell(_common(key, flat))] for key in keys if key not in differ]
    tasks = [f"tasks.{task}" for task in _tasks_of_some(subject)]
    title = ALIKE_IF_PRESENT if tasks else ALIKE
    alike = Table(title, ["key", "value"], common, numbers=False)
    tables = [_differing(subject, [*tasks, *chosen])] if tasks or chosen else []
    is_long = any(len(table.rows) > MOST_ROWS for table in tables)
    return Section(
        "settings",
        "Settings",
        [] if tables else ["All runs have the same settings, apart from their seeds."],
        tables=[] if is_long else tables,
        more=[*(tables if is_long else []), alike, _runs(subject)],
    )


def _tasks_of_some(subject: Subject) -> list[str]:
    """The tasks that at least one run lacks."""
    found = [run.settings["tasks"] for _, _, run in subject.runs]
    every = dict.fromkeys(task for tasks in found for task in tasks)
    return [task for task in every if not all(task in tasks for tasks in found)]


def _concerns(run: RunRecord, key: str) -> bool:
    """False for a setting of a task that the run does not have."""
    table, _, rest = key.partition(".")
    return table != "tasks" or not rest or rest.partition(".")[0] in run.settings["tasks"]


def _differs(subject: Subject, key: str, flat: Mapping[str, Mapping[str, Any]]) -> bool:
    values = {repr(flat[name].get(key)) for _, name, run in subject.runs if _concerns(run, key)}
    return len(values) > 1


def _common(key: str, flat: Mapping[str, Mapping[str, Any]]) -> str:
    return formats.setting(next((each[key] for each in flat.values() if key in each), None))


def _differing(subject: Subject, keys: Sequence[str]) -> Table:
    """One row per plan or, if there are more settings than plans, per setting."""
    cells = [[_value(series, key) for key in keys] for series in subject.series]
    columns, names = ["plan", *keys], subject.order
    if len(keys) > len(names):
        cells = list(map(list, zip(*cells, strict=True)))
        columns, names = ["setting", *names], list(keys)
    rows = [[Cell(name), *map(Cell, row)] for name, row in zip(names, cells, strict=True)]
    return Table("Settings that differ", columns, rows, numbers=False)


def _value(series: Series, key: str) -> str:
    if key.startswith("tasks.") and key.count(".") == 1:
        has_it = key.removeprefix("tasks.") in series.runs[0].settings["tasks"]
        return "in this run" if has_it else "not in this run"
    if not _concerns(series.runs[0], key):
        return formats.NONE
    return formats.setting(series.choices.get(key))


def _runs(subject: Subject) -> Table:
    rows = [
        [
            Cell(name),
            Cell(series),
            Cell(str(run.seed)),
            Cell(run.state),
            Cell(f"{run.steps:,}"),
            Cell(formats.NONE if run.best_step is None else f"{run.best_step:,}"),
            Cell(formats.score(run.overall.get("official"))),
        ]
        for series, name, run in subject.runs
    ]
    columns = ["run", "plan", "seed", "state", "steps", "best step", "overall"]
    return Table("Runs", columns, rows)
