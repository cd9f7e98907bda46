"""Score against parameters, time and memory."""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple

from cotrunk.study.report import formats
from cotrunk.study.report.charts.pareto import pareto
from cotrunk.study.report.charts.theme import shade
from cotrunk.study.report.parts import Choice, Figure, Section
from cotrunk.study.report.subject import Series, Subject
from cotrunk.study.report.summary import OVERALL, Summaries, Summary


class Measure(NamedTuple):
    name: str
    title: str
    axis: str
    form: str
    of: Callable[[Series], float | None]


def _train_seconds(series: Series) -> float | None:
    return fmean(run.cost.cpu_seconds["train"] for run in series.runs) or None


def _memory(series: Series) -> float | None:
    peaks = [run.cost.peak_memory for run in series.runs if run.cost.peak_memory]
    return max(peaks) / 1e6 if peaks else None


MEASURES = (
    Measure("parameters", "Parameters", "parameters", "~s", lambda s: s.runs[0].parameters),
    Measure("time", "Time", "CPU-seconds of training", ",.4~r", _train_seconds),
    Measure("memory", "Memory", "peak memory in MB", ",.4~r", _memory),
)


def cost(subject: Subject, summaries: Summaries) -> Section | None:
    """None for a single series: there is nothing to compare."""
    if len(subject.series) < 2:
        return None
    scores = _scores(subject, summaries)
    figures = [
        figure for measure in MEASURES if (figure := _figure(subject, scores, measure)) is not None
    ]
    text = [
        "Dots are plans, lines their 95 % intervals. The dashed line joins the Pareto front: plans "
        "that no other one beats in both score and cost. Intervals that overlap leave the order "
        "open."
    ]
    missing = [m.axis for m in MEASURES if f"cost-{m.name}" not in [f.name for f in figures]]
    if missing:
        text.append(f"Not recorded by these runs: {formats.listed(missing)}.")
    return Section(
        "cost",
        "Score against cost",
        text,
        key=subject.order,
        choice=Choice("Score", "score", list(scores)),
        figures=figures,
    )


def _scores(subject: Subject, summaries: Summaries) -> dict[str, dict[str, Summary]]:
    """By score and series, the overall score first."""
    found = {
        score: {
            series.name: summary
            for series in subject.series
            if (summary := summaries.of(series, score)) is not None
        }
        for score in (OVERALL, *subject.tasks)
    }
    return {score: by_series for score, by_series in found.items() if by_series}


def _figure(
    subject: Subject, scores: dict[str, dict[str, Summary]], measure: Measure
) -> Figure | None:
    costs = {series.name: measure.of(series) for series in subject.series}
    known = {name: value for name, value in costs.items() if value is not None}
    if len(known) < 2 or not scores:
        return None
    records = []
    for of, summaries in scores.items():
        points = [(known[name], s.score, name) for name, s in summaries.items() if name in known]
        best = front([(c, s) for c, s, _ in points])
        records += [
            {
                "series": name,
                "shade": shade(name, subject.order),
                "of": of,
                "score": score,
                "low": summaries[name].low,
                "high": summaries[name].high,
                "cost": value,
                "front": (value, score) in best,
            }
            for value, score, name in reversed(points)  # the best on top
        ]
    chart = pareto(
        subject.order,
        scores=list(scores),
        cost=measure.axis,
        title=measure.title,
        form=measure.form,
    )
    return Figure(f"cost-{measure.name}", {"": chart}, records)


def front(points: Sequence[tuple[float, float]]) -> set[tuple[float, float]]:
    """The (cost, score) that no other point beats: none costs less and scores at least as much."""
    kept: set[tuple[float, float]] = set()
    best = float("-inf")
    for cost_, score in sorted(points, key=lambda point: (point[0], -point[1])):
        if score > best:
            kept.add((cost_, score))
            best = score
    return kept
