"""A comparison as a table: for the terminal, Markdown, LaTeX, and CSV."""

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from cotrunk.formats import score_text, signed_text
from cotrunk.kinds.metrics import OFFICIAL, scored_on
from cotrunk.study.comparison import ComparedGroup, Comparison, TaskDifference
from cotrunk.study.records import OVERALL, RunRecord
from cotrunk.study.statistics.difference import Difference, Mean

NOTHING = "-"
LISTED_CHOICES = 3


@dataclass(frozen=True)
class Table:
    """Text for people. Under each group's scores is a row with its differences.

    Columns from ``cost`` on are about cost, not about scores. ``broken`` has a line for each run
    that is left out.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    broken: Sequence[str]
    cost: int

    @property
    def footnotes(self) -> list[str]:
        """All that a reader must know who sees nothing but the table."""
        return [*self.notes, *self.broken]


@dataclass(frozen=True)
class _Cost:
    """A column with the mean over a group's runs."""

    name: str
    value: Callable[[RunRecord], float | None]
    shown: Callable[[float], str]


def _costs(comparison: Comparison) -> list[_Cost]:
    def seconds(phase: str) -> _Cost:
        return _Cost(f"{phase} s", lambda run: run.cost.seconds[phase], "{:,.1f}".format)

    encodes = any(run.record.cost.seconds["encode"] for run in comparison.runs)
    phases = ["evaluate", "prepare", *(["encode"] if encodes else [])]
    return [
        _Cost("parameters", lambda run: run.parameters, "{:,.0f}".format),
        _Cost("trained", lambda run: run.trained_parameters, "{:,.0f}".format),
        _Cost("weights MB", lambda run: _mega(run.bytes["weights"]), "{:,.1f}".format),
        _Cost("checkpoint MB", lambda run: _mega(run.bytes["checkpoint"]), "{:,.1f}".format),
        _Cost("peak MB", lambda run: _mega(run.cost.peak_memory), "{:,.0f}".format),
        _Cost("train CPU s", lambda run: run.cost.cpu_seconds["train"], "{:,.1f}".format),
        *map(seconds, ["train", *phases]),
    ]


def table_of(comparison: Comparison) -> Table:
    costs = _costs(comparison)
    tasks = comparison.tasks
    columns = ["run", "settings", *tasks, *OVERALL]
    rows: list[list[str]] = []
    for group in comparison.groups:
        rows.append(
            [
                _name(group, comparison),
                _settings(group) if comparison.has_tasks_in_common else "",
                *(_score(group.scores.get(task)) for task in tasks),
                *(_score(group.overall_mean(key)) for key in OVERALL),
                *(score_text(group.tm[key]) for key in ("defined", "printed")),
                *(_cost(cost, group) for cost in costs),
            ]
        )
        found = comparison.differences_of(group)
        if found:
            differences = [_difference(found.get(key)) for key in (*tasks, *OVERALL)]
            rest = [""] * (len(rows[-1]) - 2 - len(differences))
            rows.append(["", "against the baseline", *differences, *rest])
    cost = len(columns)
    columns += ["TM (baseline = 1)", "TM (as MOPS prints it)", *(cost.name for cost in costs)]
    broken = [f"broken: {run.path}: {run.why}" for run in comparison.broken]
    return Table(columns, rows, _notes(comparison), broken, cost)


TRANSFER_COLUMNS = [
    "run",
    "task",
    "together - alone",
    "p",
    "transfer",
    "steps",
    "single-task run",
    "its steps",
]


def transfer_rows(comparison: Comparison) -> list[list[str]]:
    """What each task gains or loses by the others; empty without single-task runs."""
    return [
        [
            str(found.group.runs[0].path),
            found.task,
            _interval(found.transfer.difference),
            _p(found.transfer.p),
            found.transfer.word,
            f"{found.steps:,.0f}",
            str(found.alone.runs[0].path),
            f"{found.steps_alone:,.0f}",
        ]
        for found in comparison.transfers
    ]


def _interval(found: Difference) -> str:
    return f"{signed_text(found.difference)} [{signed_text(found.low)}, {signed_text(found.high)}]"


def _p(value: float) -> str:
    if math.isnan(value):
        return NOTHING
    return "<.001" if value < 0.001 else f"{value:.3f}"


def _name(group: ComparedGroup, comparison: Comparison) -> str:
    first, more = group.group.runs[0].path, len(group.group.runs) - 1
    seeds = f" and {more} more seed{'s' if more > 1 else ''}" if more else ""
    return (
        f"{first}{seeds}{' (baseline)' if group is comparison.baseline else ''}{_unfinished(group)}"
    )


def _unfinished(group: ComparedGroup) -> str:
    runs = group.group.runs
    states = [run.unfinished for run in runs if run.unfinished]
    if not states:
        return ""
    return f" ({states[0]})" if len(runs) == 1 else f" ({len(states)} of {len(runs)} not finished)"


def _settings(group: ComparedGroup) -> str:
    chosen = [f"{key} = {value}" for key, value in group.group.choices.items()]
    more = len(chosen) - LISTED_CHOICES
    return "; ".join(chosen[:LISTED_CHOICES]) + (f"; and {more} more" if more > 0 else "")


def _score(found: Mean | None) -> str:
    if found is None:
        return NOTHING
    spread = "" if math.isnan(found.sd) else f" ± {found.sd:.3f}"
    return f"{score_text(found.mean)}{spread} [{score_text(found.low)}, {score_text(found.high)}]"


def _difference(found: TaskDifference | None) -> str:
    if found is None:
        return ""
    return f"{signed_text(found.difference.difference)} (p {_p(found.p)}) {found.verdict}"


def _cost(cost: _Cost, group: ComparedGroup) -> str:
    mean = _mean_cost(cost, group)
    return NOTHING if mean is None else cost.shown(mean)


def _mean_cost(cost: _Cost, group: ComparedGroup) -> float | None:
    values = [cost.value(run) for run in group.group.runs]
    return None if None in values else fmean(value for value in values if value is not None)


def _mega(count: int | None) -> float | None:
    return None if count is None else count / 1e6


def _notes(comparison: Comparison) -> list[str]:
    constants = {
        task: "" if math.isnan(value) else f" (constant answer {value:.3f})"
        for task, value in comparison.constants.items()
    }
    metrics = dict.fromkeys(
        f"{task}: {found.score['metric']} on {_scored_on(found.score)}{constants[task]}"
        for run in comparison.runs
        for task, found in run.record.tasks.items()
    )
    seeds = any(len(group.runs) > 1 for group in comparison.groups)
    between = " ± standard deviation over seeds" if seeds else ""
    score = f"score{between} [95 % interval]"
    tests = [
        f"{score}; p of differences is corrected by Holm's method",
        f"equivalent: shown to differ by less than {comparison.margin:g}; "
        "undecided: the dev rows and seeds cannot tell",
    ]
    return [
        "; ".join(metrics),
        *(tests if comparison.has_differences else [score]),
        f"official: {OFFICIAL}",
        "TM: mean score divided by training time and memory, all relative to the baseline; as MOPS "
        "prints it, the score itself is not relative",
        *_transfer_notes(comparison),
        *comparison.notes,
    ]


def _scored_on(score: Mapping[str, Any]) -> str:
    return scored_on(score["rows"], score.get("masked_tokens"))


def _transfer_notes(comparison: Comparison) -> list[str]:
    if not comparison.transfers:
        return []
    uneven = any(found.steps != found.steps_alone for found in comparison.transfers)
    budget = "; where the steps differ, the difference also measures the budget" if uneven else ""
    return [f"transfer: trained together minus alone, p corrected for the tasks{budget}"]


def to_markdown(comparison: Comparison) -> str:
    table, transfer = table_of(comparison), transfer_rows(comparison)
    lines = _markdown(table.columns, table.rows)
    more = ["", *_markdown(TRANSFER_COLUMNS, transfer)] if transfer else []
    return "\n".join([*lines, *more, "", *(f"- {note}" for note in table.footnotes)]) + "\n"


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (columns, *rows)]
    rule = ["---", "---", *["---:"] * (len(columns) - 2)]
    return [f"| {' | '.join(row)} |" for row in (cells[0], rule, *cells[1:])]


ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}


def to_latex(comparison: Comparison) -> str:
    """Tabulars of the booktabs package; the notes are comments."""
    table, transfer = table_of(comparison), transfer_rows(comparison)
    notes = [f"% {note}" for note in table.footnotes]
    more = ["", *_latex(TRANSFER_COLUMNS, transfer)] if transfer else []
    return "\n".join([*notes, *_latex(table.columns, table.rows), *more]) + "\n"


def _latex(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [" & ".join(map(_escaped, row)) + r" \\" for row in (columns, *rows)]
    return [
        rf"\begin{{tabular}}{{ll{'r' * (len(columns) - 2)}}}",
        r"\toprule",
        cells[0],
        r"\midrule",
        *cells[1:],
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _escaped(text: str) -> str:
    return "".join(ESCAPES.get(letter, letter) for letter in text)


def to_csv(comparison: Comparison) -> str:
    """One line per group, numbers in full; empty where there is none."""
    lines = [dict(_values(group, comparison)) for group in comparison.groups]
    text = io.StringIO()
    columns = list(dict.fromkeys(key for line in lines for key in line))
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _values(group: ComparedGroup, comparison: Comparison) -> Iterator[tuple[str, object]]:
    yield "run", group.group.runs[0].path
    yield "seeds", len(group.runs)
    yield "baseline", int(group is comparison.baseline)
    yield "finished", sum(run.state == "finished" for run in group.group.runs)
    for key, value in group.group.choices.items():
        yield key, value
    found = comparison.differences_of(group)
    for task in comparison.tasks:
        mean = group.scores.get(task)
        for key in ("mean", "sd", "low", "high"):
            yield f"{task} {key}", _exact(getattr(mean, key) if mean else None)
        yield from _difference_values(task, found.get(task))
    for one in (one for one in comparison.transfers if one.group is group.group):
        yield f"{one.task} transfer difference", _exact(one.transfer.difference.difference)
        yield f"{one.task} transfer p", _exact(one.transfer.p)
        yield f"{one.task} transfer", one.transfer.word
    for key in OVERALL:
        yield f"overall {key}", _exact(group.overall[key])
        yield f"overall {key} sd", _exact(group.overall_sd[key])
        low, high = group.overall_interval[key]
        yield f"overall {key} low", _exact(low)
        yield f"overall {key} high", _exact(high)
        yield from _difference_values(f"overall {key}", found.get(key))
    for key in ("defined", "printed"):
        yield f"TM {key}", _exact(group.tm[key])
    for cost in _costs(comparison):
        yield cost.name, _exact(_mean_cost(cost, group))


def _difference_values(name: str, found: TaskDifference | None) -> Iterator[tuple[str, object]]:
    value = found.difference if found else None
    yield f"{name} difference", _exact(value.difference if value else None)
    yield f"{name} difference low", _exact(value.low if value else None)
    yield f"{name} difference high", _exact(value.high if value else None)
    yield f"{name} p", _exact(found.p if found else None)
    yield f"{name} verdict", found.verdict if found else ""


def _exact(value: float | None) -> object:
    return "" if value is None or math.isnan(value) else value
