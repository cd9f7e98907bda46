"""The answer in words: which plan, how sure that is, what it costs."""

import math
from collections.abc import Mapping
from statistics import fmean

from cotrunk.errors import plural
from cotrunk.study.comparison import Comparison, TaskDifference
from cotrunk.study.report import formats
from cotrunk.study.report.subject import Series, Subject
from cotrunk.study.report.summary import OVERALL, Summaries

OFFICIAL = "official"
MOST_NAMED = 4


def verdict_lines(
    subject: Subject, summaries: Summaries, comparison: Comparison | None
) -> list[str]:
    """``comparison`` is with the best plan; None if there is only one, or runs are not alike."""
    weak = [*_not_finished(subject), *_not_above_constant(subject, summaries)]
    if len(subject.series) == 1:
        first, *rest = _of_one(subject, summaries)
        return [first, *weak, *rest]
    if comparison is None or not subject.same_tasks:
        return [*_by_task(subject, summaries), *weak]
    best = subject.series_of(comparison.baseline.group)
    found = {
        subject.series_of(each.group).name: each
        for each in comparison.overall_differences
        if each.task == OFFICIAL
    }
    if not found:
        return [*_by_task(subject, summaries), *weak]
    others = [series for series in subject.series if series is not best]
    return [
        _which(best, others, found, summaries),
        _how_sure(best, others, found),
        _costs(best, others, found),
        *weak,
        _how_tested(subject, comparison),
    ]


def _which(
    best: Series,
    others: list[Series],
    found: Mapping[str, TaskDifference],
    summaries: Summaries,
) -> str:
    scored = _scored(best, summaries, OVERALL)
    open_ones = [s.name for s in others if s.name not in found or found[s.name].verdict != "worse"]
    if not open_ones:
        return (
            f"{_take(best, [best, *others])}. Its overall score, {scored}, is shown to be higher "
            "than that of every other one."
        )
    alike = [s for s in others if s.name in found and found[s.name].verdict == "equivalent"]
    cheaper = [s for s in alike if _parameters(s) < _parameters(best)]
    if cheaper:
        cheapest = min(cheaper, key=_parameters)
        share = _parameters(cheapest) / _parameters(best)
        take = _take(cheapest, [best, *others])
        return (
            f"{take}. It is as good as {best.name}, which has the highest overall "
            f"score ({scored}), and has {formats.percent(share)} of its parameters."
        )
    tied = [s.name for s in others if s.name in found and found[s.name].difference.difference == 0]
    if tied == open_ones:
        return f"{_named([best.name, *tied])} have the same overall score, {scored}."
    return (
        f"{best.name} has the highest overall score, {scored}, but these runs do not show that it "
        f"is better than {_named(open_ones)}."
    )


def _take(series: Series, compared: list[Series]) -> str:
    """Single runs say which network is best, not which plan is: seeds differ, too."""
    of = "" if all(len(each.runs) > 1 for each in compared) else "Of these networks, take"
    return f"{of or 'Take'} {series.name}"


def _how_sure(best: Series, others: list[Series], found: Mapping[str, TaskDifference]) -> str:
    parts = [
        f"{series.name} {formats.signed(each.difference.difference)} "
        f"{formats.interval(each.difference.low, each.difference.high)}, {each.verdict} "
        f"(p {formats.p_value(each.p)})"
        for series in others
        if (each := found.get(series.name))
    ]
    more = f"; and {len(parts) - MOST_NAMED} more below" if len(parts) > MOST_NAMED else ""
    return f"Overall, compared with {best.name}: {'; '.join(parts[:MOST_NAMED])}{more}."


def _costs(best: Series, others: list[Series], found: Mapping[str, TaskDifference]) -> str:
    """What the best costs, and the cheapest plan that is not shown to be worse."""
    open_ones = [s for s in others if s.name in found and found[s.name].verdict != "worse"]
    cheaper = [series for series in open_ones if _parameters(series) < _parameters(best)]
    line = f"{best.name} costs {_cost(best)}."
    if not cheaper:
        return line
    cheapest = min(cheaper, key=_parameters)
    return f"{line} The smallest plan not shown to be worse, {cheapest.name}: {_cost(cheapest)}."


def _cost(series: Series) -> str:
    run = series.runs[0]
    seconds = fmean(run.cost.cpu_seconds["train"] for run in series.runs)
    words = [f"{formats.count(run.parameters)} parameters"]
    if seconds:
        words.append(f"{formats.seconds(seconds)} of CPU time to train")
    if run.bytes["weights"]:
        words.append(f"{formats.size(run.bytes['weights'])} of weights")
    return formats.listed(words)


def _how_tested(subject: Subject, comparison: Comparison) -> str:
    seeds = sorted({len(series.runs) for series in subject.series})
    each = plural(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    noise = (
        "the choice of dev rows only: with other seeds, the order of plans may change"
        if seeds == [1]
        else "the choice of seeds and dev rows"
    )
    return (
        f"{each} per plan; tests and intervals cover {noise}. p is corrected for the number of "
        f"plans (Holm); equivalent: the 90 % interval is within ± {comparison.margin:g} "
        "(two one-sided tests at 5 %). The best plan and the best step of each run were chosen on "
        "the same dev rows."
    )


def _of_one(subject: Subject, summaries: Summaries) -> list[str]:
    (series,) = subject.series
    tasks = [
        f"{task} {_scored(series, summaries, task)} ({subject.metric(task)})"
        for task in subject.tasks
    ]
    first = f"{series.name} scores {formats.listed(tasks)} on the dev rows."
    if len(series.runs) == 1:
        run = series.runs[0]
        when = f"Step {run.best_step:,} of {run.steps:,} was best and is shown; it was chosen"
        noise = f"{when} on the same dev rows. One run says nothing about other seeds."
    else:
        noise = f"Means over {len(series.runs)} seeds; the intervals cover seeds and dev rows."
    return [first, f"It costs {_cost(series)}.", noise]


def _by_task(subject: Subject, summaries: Summaries) -> list[str]:
    """For runs without a common overall score."""
    lines = ["The runs have no overall score in common, so each task is compared separately."]
    for task in subject.tasks:
        scores = {s: found.score for s in subject.series if (found := summaries.of(s, task))}
        if scores:
            lines.append(f"{task}: {_highest(scores, summaries, task)}.")
    return lines


def _highest(scores: Mapping[Series, float], summaries: Summaries, task: str) -> str:
    highest = max(scores.values())
    best = [series for series, score in scores.items() if math.isclose(score, highest)]
    if len(scores) == 1:
        return f"only {best[0].name} has it, {_scored(best[0], summaries, task)}"
    if len(best) > 1:
        return f"{_named([series.name for series in best])} tie at {formats.score(highest)}"
    return f"{best[0].name} is highest, {_scored(best[0], summaries, task)}"


def _not_finished(subject: Subject) -> list[str]:
    early = [f"{name} ({run.unfinished})" for _, name, run in subject.runs if run.unfinished]
    if not early:
        return []
    return [f"Not finished, and scored by the best network so far: {_named(early)}."]


def _not_above_constant(subject: Subject, summaries: Summaries) -> list[str]:
    """Tasks that no network is shown to have learned."""
    constants = {task: summaries.baseline(task) for task in subject.tasks}
    weak = [
        task
        for task, constant in constants.items()
        if not summaries.is_above(constant or 0.0, task)
    ]
    compared = [f"{t} ({formats.score(constants[t])})" for t in weak if constants[t] is not None]
    others = [task for task in weak if constants[task] is None]
    whose = " with any plan" if len(subject.series) > 1 else ""
    lines = []
    if compared:
        lines.append(
            f"Not shown to be better than a constant answer{whose}: {formats.listed(compared)}."
        )
    if others:
        lines.append(
            f"Not shown to be above 0{whose}: {formats.listed(others)}, where a constant answer "
            "has no score."
        )
    return lines


def _scored(series: Series, summaries: Summaries, score: str) -> str:
    found = summaries.of(series, score)
    if found is None:
        return "without a score"
    return f"{formats.score(found.score)} {formats.interval(found.low, found.high)}".strip()


def _parameters(series: Series) -> int:
    return series.runs[0].parameters


def _named(names: list[str]) -> str:
    if len(names) <= MOST_NAMED:
        return formats.listed(names)
    return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
