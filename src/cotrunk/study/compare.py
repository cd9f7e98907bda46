"""Runs side by side: scores, differences from a baseline, and cost."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

from cotrunk.errors import UserError, option, plural, spelled
from cotrunk.kinds import KINDS
from cotrunk.kinds.influence import OverRows
from cotrunk.study.alone import transfers
from cotrunk.study.comparison import ComparedGroup, ComparedRun, Comparison, TaskDifference
from cotrunk.study.records import (
    OVERALL,
    Broken,
    Kinds,
    RunGroup,
    RunRecord,
    find_runs,
    group_runs,
    read_runs,
    without_scores,
)
from cotrunk.study.same_rows import Scored, not_testable, refuse_other_rows
from cotrunk.study.statistics.difference import mean_over_seeds, seeds_and_rows
from cotrunk.study.statistics.overall import Formula, overall_over_rows
from cotrunk.study.statistics.verdict import verdicts
from cotrunk.study.tm import NO_TM, tm_of

MARGIN = 0.01
"""Smallest difference of a score that matters."""
FORMULAS: tuple[Formula, ...] = ("official", "mean")


def compare(
    runs: Sequence[Path],
    *,
    baseline: Path | None = None,
    margin: float = MARGIN,
    kinds: Kinds = KINDS,
) -> Comparison:
    """Compare runs, and the runs inside folders, with a baseline: a run or a folder of its seeds.

    Without ``baseline``, it is the first run given, with its other seeds. ``margin``: differences
    below it do not matter.
    """
    if not 0 < margin < 1:
        given = spelled(command=f"--margin {margin:g}", python=f"margin={margin!r}")
        raise UserError(f"{given}: must be between 0 and 1, as in 0.01")
    first = [baseline] if baseline else []
    if not (first or runs):
        raise UserError("no runs to compare; name at least one run or folder of runs")
    records, broken = read_runs(find_runs([*first, *runs]), kinds=kinds)
    broken += without_scores(records)
    records = [record for record in records if record.tasks]
    if not records:
        raise UserError(*(f"{run.path}: {run.why}" for run in broken))
    groups = group_runs(records)
    base = _baseline(groups, baseline, broken) if baseline else groups[0]
    compared = compare_groups(groups, base, margin=margin, broken=broken)
    moved = ""
    if not baseline and runs[0] in [run.path for run in broken]:
        moved = f"the baseline is {base.runs[0].path}, because {runs[0]} is left out"
    notes = (*([moved] if moved else []), *_repeated(runs), *compared.notes)
    return replace(compared, moved=moved, notes=notes)


def _repeated(runs: Sequence[Path]) -> list[str]:
    places = Counter(path.resolve() for path in runs)
    given = {path.resolve(): path for path in runs}
    return [f"{given[p]}: given {n} times, counted once" for p, n in places.items() if n > 1]


def compare_groups(
    groups: Sequence[RunGroup],
    base: RunGroup,
    *,
    margin: float = MARGIN,
    broken: Sequence[Broken] = (),
) -> Comparison:
    """Compare runs that were read and grouped already; ``base`` is one of the groups."""
    others = [group for group in groups if group is not base]
    records = [record for group in (base, *others) for record in group.runs]
    refuse_other_rows(records)
    scored = {record: _scored(record) for record in records}
    compared = {group: _compared(group, base, scored) for group in groups}
    repeats = [run for group in groups for run in group.counted_once]
    notes = dict.fromkeys(f"{run.path}: {run.why}" for run in repeats)
    notes |= dict.fromkeys(_unrelated(group, base) for group in others if not _common(group, base))
    notes |= dict.fromkeys(_unfinished(records))
    tasks = dict.fromkeys(task for record in records for task in record.tasks)
    return Comparison(
        groups=tuple(compared.values()),
        baseline=compared[base],
        differences=tuple(
            difference
            for task in tasks
            for difference in _task_differences(task, others, base, scored, margin, notes)
        ),
        overall_differences=tuple(
            difference
            for formula in FORMULAS
            for difference in _overall_differences(formula, others, base, scored, margin)
        ),
        transfers=tuple(transfers(groups, scored, margin=margin, notes=notes)),
        margin=margin,
        broken=tuple(broken),
        notes=tuple(notes),
    )


def _common(group: RunGroup, base: RunGroup) -> set[str]:
    return set(group.runs[0].tasks) & set(base.runs[0].tasks)


def _unrelated(group: RunGroup, base: RunGroup) -> str:
    return f"{group.runs[0].path} has no task in common with the baseline, {base.runs[0].path}"


def _unfinished(records: Sequence[RunRecord]) -> list[str]:
    early = [record for record in records if record.unfinished]
    if not early:
        return []
    return [
        f"{len(early)} of {plural(len(records), 'run')} not finished (marked in the table): scores "
        "are those of the best network so far, so a longer training may reverse a difference"
    ]


def _baseline(groups: Sequence[RunGroup], named: Path, broken: Sequence[Broken]) -> RunGroup:
    """The group of the runs in the folder of ``--baseline``."""
    chosen = {path.resolve() for path in find_runs([named])}
    for run in broken:
        if run.path.resolve() in chosen:
            raise UserError(f"{option('baseline', str(named))}: {run.path}: {run.why}")
    base = [
        group
        for group in groups
        if any(run.path.resolve() in chosen for run in (*group.runs, *group.repeats))
    ]
    if len(base) > 1:
        plans = ", ".join(str(group.runs[0].path) for group in base[:4])
        raise UserError(
            f"{option('baseline', str(named))}: has runs of {len(base)} different settings "
            f"({plans}); give one run, or a folder whose runs differ only in train.seed"
        )
    return base[0]


def _scored(record: RunRecord) -> dict[str, OverRows]:
    return {
        name: task.labels.over_rows(task.output, task.target, counts=task.counts)
        for name, task in record.tasks.items()
    }


def _compared(group: RunGroup, base: RunGroup, scored: Scored) -> ComparedGroup:
    comparable = _tasks_of(group) == _tasks_of(base)
    runs = tuple(
        ComparedRun(
            record,
            record.overall if comparable else dict.fromkeys(OVERALL),
            tm_of([record], base.runs) if comparable else NO_TM,
        )
        for record in group.runs
    )
    return ComparedGroup(
        group,
        runs,
        scores={
            task: mean_over_seeds([scored[run][task] for run in group.runs])
            for task in _tasks_of(group)
        },
        overall={key: _mean(run.overall[key] for run in runs) for key in OVERALL},
        overall_sd={key: _sd(run.overall[key] for run in runs) for key in OVERALL},
        overall_interval={key: _interval(group, key, scored, comparable) for key in FORMULAS},
        tm=tm_of(group.runs, base.runs) if comparable else NO_TM,
    )


def _interval(
    group: RunGroup, formula: Formula, scored: Scored, comparable: bool
) -> tuple[float | None, float | None]:
    """Of the overall score; None for runs that have none in common with the baseline."""
    counted = _counted(group.runs[0])
    if not comparable or not counted:
        return None, None
    found = mean_over_seeds(_overall(group, counted, formula, scored))
    return found.low, found.high


def _counted(run: RunRecord) -> list[str]:
    """The tasks that count in the overall score."""
    return [name for name, task in run.tasks.items() if task.labels.in_overall]


def _overall(
    group: RunGroup, counted: Sequence[str], formula: Formula, scored: Scored
) -> list[OverRows]:
    return [
        overall_over_rows({task: scored[run][task] for task in counted}, formula)
        for run in group.runs
    ]


def _tasks_of(group: RunGroup) -> list[str]:
    return sorted(group.runs[0].tasks)


def _mean(values: Iterable[float | None]) -> float | None:
    found = list(values)
    return None if any(v is None for v in found) else fmean(v for v in found if v is not None)


def _sd(values: Iterable[float | None]) -> float | None:
    found = list(values)
    if len(found) < 2 or any(value is None for value in found):
        return None
    return stdev(value for value in found if value is not None)


def _task_differences(
    task: str,
    others: Sequence[RunGroup],
    base: RunGroup,
    scored: Scored,
    margin: float,
    notes: dict[str, None],
) -> Iterator[TaskDifference]:
    """The groups that have the task, if the baseline has it too."""
    if task not in base.runs[0].tasks:
        return
    testable = []
    for group in (group for group in others if task in group.runs[0].tasks):
        if why := not_testable(task, group.runs[0], base.runs[0], scored):
            notes[f"{task}: {group.runs[0].path} is not tested against the baseline: {why}"] = None
        else:
            testable.append(group)
    sides = [[scored[run][task] for run in group.runs] for group in testable]
    yield from _judged(task, testable, sides, [scored[run][task] for run in base.runs], margin)


def _overall_differences(
    formula: Formula, others: Sequence[RunGroup], base: RunGroup, scored: Scored, margin: float
) -> Iterator[TaskDifference]:
    """The groups whose tasks can all be tested against the baseline's."""
    first = base.runs[0]
    counted = _counted(first)
    alike = [
        group
        for group in others
        if _tasks_of(group) == _tasks_of(base)
        and not any(not_testable(task, group.runs[0], first, scored) for task in counted)
    ]
    if not counted:
        return

    sides = [_overall(group, counted, formula, scored) for group in (base, *alike)]
    yield from _judged(formula, alike, sides[1:], sides[0], margin)


def _judged(
    task: str,
    groups: Sequence[RunGroup],
    sides: Sequence[Sequence[OverRows]],
    base: Sequence[OverRows],
    margin: float,
) -> Iterator[TaskDifference]:
    differences = [seeds_and_rows(side, base) for side in sides]
    judged = verdicts(differences, margin=margin)
    for group, difference, (p, word) in zip(groups, differences, judged, strict=True):
        yield TaskDifference(group, task, difference, p, word)
