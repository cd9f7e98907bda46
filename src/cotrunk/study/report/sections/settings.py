"""The settings of the runs, and how they differ."""

from collections.abc import Sequence

from cotrunk.runs.dotted import flattened
from cotrunk.study.report import formats
from cotrunk.study.report.parts import Cell, Section, Table
from cotrunk.study.report.subject import Subject


def settings(subject: Subject) -> Section:
    flat = {name: flattened(run.settings) for _, name, run in subject.runs}
    keys = dict.fromkeys(key for each in flat.values() for key in each)
    differ = [key for key in keys if len({repr(each.get(key)) for each in flat.values()}) > 1]
    by_series = [series.choices for series in subject.series]
    chosen = [key for key in differ if any(key in choices for choices in by_series)]
    tables = []
    if chosen:
        tables.append(_differing(subject, chosen))
    first = next(iter(flat.values()), {})
    common = [
        [Cell(key), Cell(formats.setting(first.get(key)))] for key in keys if key not in differ
    ]
    return Section(
        "settings",
        "Settings",
        [] if chosen else ["All runs have the same settings, apart from their seeds."],
        tables=tables,
        more=[
            Table("Settings that all runs have in common", ["key", "value"], common, numbers=False),
            _runs(subject),
        ],
    )


def _differing(subject: Subject, keys: Sequence[str]) -> Table:
    """One row per plan or, if there are more settings than plans, per setting."""
    cells = [[formats.setting(s.choices.get(key)) for key in keys] for s in subject.series]
    columns, names = ["plan", *keys], subject.order
    if len(keys) > len(names):
        cells = list(map(list, zip(*cells, strict=True)))
        columns, names = ["setting", *names], list(keys)
    rows = [[Cell(name), *map(Cell, row)] for name, row in zip(names, cells, strict=True)]
    return Table("Settings that differ", columns, rows, numbers=False)


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
