"""The table of scores and costs, and the scores with their intervals."""

import math
from statistics import fmean

from cotrunk.kinds.metrics import OFFICIAL
from cotrunk.study.comparison import Comparison
from cotrunk.study.report import formats
from cotrunk.study.report.charts.scores import intervals
from cotrunk.study.report.parts import Cell, Figure, Section, Table
from cotrunk.study.report.sections.differences import differences
from cotrunk.study.report.subject import Series, Subject
from cotrunk.study.report.summary import FORMULAS, Summaries, Summary

MOST_ROWS = 12


def scores(subject: Subject, summaries: Summaries, comparison: Comparison | None) -> Section:
    """Long tables about differences and cost are folded away."""
    metrics = {task: subject.metric(task) for task in subject.tasks}
    first = _score_table(subject, summaries, metrics)
    others = [*([differences(subject, comparison)] if comparison else []), _cost_table(subject)]
    is_long = len(subject.series) > MOST_ROWS
    return Section(
        "scores",
        "Scores",
        _text(subject),
        tables=[first] if is_long else [first, *others],
        figures=[_figure(subject, summaries, task, metrics[task]) for task in subject.tasks],
        more=others if is_long else [],
    )


def _text(subject: Subject) -> list[str]:
    rows = {run.tasks[t].score["rows"] for _, _, run in subject.runs for t in run.tasks}
    few, many = min(rows, default=0), max(rows, default=0)
    spread = f"{few:,}" if few == many else f"{few:,} to {many:,}"
    lines = [
        f"Scores on the dev rows ({spread} per task), with 95 % intervals. The best step of a run "
        "was chosen on the same rows, so all scores are a little too high. A dashed line marks "
        "the score of a constant answer."
    ]
    seeds = {len(series.runs) for series in subject.series}
    if len(subject.runs) == 1:
        lines.append("The intervals cover the choice of dev rows, but not the seed.")
    elif seeds == {1}:
        lines.append(
            "Each plan was trained once: intervals cover the choice of dev rows, but not the seed."
        )
    else:
        lines.append(
            "Where a plan has several seeds, its score is their mean, and the interval covers "
            "seeds and dev rows together; ± is the standard deviation between seeds."
        )
    if subject.same_tasks:
        lines.append(f"Overall is {OFFICIAL}; the plain mean takes scores as they are.")
    return lines


def _score_table(subject: Subject, summaries: Summaries, metrics: dict[str, str]) -> Table:
    several = any(len(series.runs) > 1 for series in subject.series)
    columns = ["plan", *(["seeds"] if several else []), *subject.tasks]
    columns += FORMULAS if subject.same_tasks else []
    rows = [_score_row(series, subject, summaries, several=several) for series in subject.series]
    constant = [summaries.baseline(task) for task in subject.tasks]
    foot = [Cell("constant answer"), *([Cell("")] if several else [])]
    foot += [Cell(formats.score(value)) for value in constant]
    foot += [Cell(""), Cell("")] if subject.same_tasks else []
    named = formats.listed([f"{metrics[task]} ({task})" for task in subject.tasks])
    return Table(f"Scores: {named}", columns, rows, foot=[foot])


def _score_row(
    series: Series, subject: Subject, summaries: Summaries, *, several: bool
) -> list[Cell]:
    cells = [Cell(series.name, _state(series))]
    if several:
        cells.append(Cell(str(len(series.runs))))
    cells += [score_cell(summaries.of(series, task)) for task in subject.tasks]
    if subject.same_tasks:
        cells += [score_cell(summaries.of(series, name)) for name in FORMULAS]
    return cells


def _state(series: Series) -> str:
    """Says so if a run has not finished."""
    return ", ".join(dict.fromkeys(run.unfinished for run in series.runs if run.unfinished))


def score_cell(found: Summary | None) -> Cell:
    if found is None:
        return Cell(formats.NONE)
    spread = "" if math.isnan(found.sd) else f" ± {formats.score(found.sd)}"
    return Cell(formats.score(found.score) + spread, formats.interval(found.low, found.high))


def _cost_table(subject: Subject) -> Table:
    encodes = any(run.cost.seconds.get("encode") for _, _, run in subject.runs)
    columns = ["plan", "parameters", "trained", "training", "CPU time"]
    columns += ["encoding"] if encodes else []
    columns += ["evaluating", "peak memory", "weights", "checkpoint"]
    rows = []
    for series in subject.series:
        runs = series.runs
        cells = [
            Cell(series.name),
            Cell(formats.count(runs[0].parameters)),
            Cell(formats.count(runs[0].trained_parameters)),
            Cell(formats.seconds(fmean(run.cost.seconds["train"] for run in runs))),
            Cell(formats.seconds(fmean(run.cost.cpu_seconds["train"] for run in runs))),
        ]
        if encodes:
            cells.append(Cell(formats.seconds(fmean(run.cost.seconds["encode"] for run in runs))))
        cells += [
            Cell(formats.seconds(fmean(run.cost.seconds["evaluate"] for run in runs))),
            Cell(formats.size(max(run.cost.peak_memory or 0 for run in runs) or None)),
            Cell(formats.size(runs[0].bytes["weights"])),
            Cell(formats.size(runs[0].bytes["checkpoint"])),
        ]
        rows.append(cells)
    several = any(len(series.runs) > 1 for series in subject.series)
    return Table("Cost, as a mean over seeds" if several else "Cost", columns, rows)


def _figure(subject: Subject, summaries: Summaries, task: str, metric: str) -> Figure:
    found = {series.name: summaries.of(series, task) for series in subject.series}
    records = [
        {"series": name, "score": s.score, "low": s.low, "high": s.high}
        for name, s in found.items()
        if s is not None
    ]
    chart = intervals(
        records, subject.order, task=task, metric=metric, baseline=summaries.baseline(task)
    )
    return Figure(f"scores-{task}", {"": chart}, records)
