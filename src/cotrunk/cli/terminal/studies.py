"""How a study is shown: its tables with the printed values, and its verdicts."""

from collections.abc import Iterable, Mapping
from typing import Any

from cotrunk.cli.terminal.output import duration, out, table
from cotrunk.study.claims import evidence
from cotrunk.study.layout import Filled, both, footnotes
from cotrunk.study.study import Outcome

WIDEST = len("not testable here")


def show(outcome: Outcome) -> None:
    for made in outcome.tables:
        _show_table(made)
        out().print()
    for name, why in outcome.skipped.items():
        out().print(f"skipped: {name}: {why}")
    for judged in outcome.judged:
        out().print(f"{judged.verdict:<{WIDEST}}  {judged.claim.id}: {judged.claim.claim}")
        for line in evidence(judged):
            out().print(f"{'':<{WIDEST}}      {line}")
    out().print()
    for note in (*footnotes(outcome.tables), *outcome.study.notes):
        out().print(f"note: {note}")


def _show_table(made: Filled) -> None:
    """The printed value follows ours in parentheses."""
    rows = [
        [
            line.name,
            *(
                " ".join(both(c, column))
                for c, column in zip(line.cells, made.columns, strict=True)
            ),
        ]
        for line in made.lines
    ]
    title = f"{made.title}; in parentheses: as printed in the report"
    out().print(table(title if made.has_printed else made.title, ["", *made.columns], rows))


def show_dry_run(
    document: Mapping[str, Any], bases: Iterable[str], notes: Iterable[str] = ()
) -> None:
    """``bases``: what the expected times are estimated from."""
    _show_choices(document)
    rows = []
    for name, sweep in document["sweeps"].items():
        steps = sweep["steps"]
        span = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
        counts = [str(len(sweep["trials"])), str(sweep["finished"])]
        rows.append([name, *counts, span, duration(sweep["seconds"])])
    sweeps = document["sweeps"].values()
    total = sum(len(sweep["trials"]) for sweep in sweeps)
    finished = sum(sweep["finished"] for sweep in sweeps)
    rows.append(["all", str(total), str(finished), "", duration(document["seconds"])])
    columns = ["sweep", "trials", "finished", "steps each", "time left"]
    out().print(table("", columns, rows))
    for basis in dict.fromkeys(bases):
        out().print(f"estimated from {basis}")
    for note in notes:
        out().print(f"note: {note}")


def _show_choices(document: Mapping[str, Any]) -> None:
    """What each sweep tries, once, with the number of seeds."""
    rows: dict[tuple[str, str, int], int] = {}
    for name, sweep in document["sweeps"].items():
        for trial in sweep["trials"]:
            choices = ", ".join(f"{key} = {value}" for key, value in trial["choices"].items())
            row = name, choices, trial["steps"]
            rows[row] = rows.get(row, 0) + 1
    listed = [[name, tried, str(n), f"{steps:,}"] for (name, tried, steps), n in rows.items()]
    made = table("", ["sweep", "choices", "seeds", "steps"], listed)
    made.columns[1].justify = "left"
    out().print(made)
    out().print()
