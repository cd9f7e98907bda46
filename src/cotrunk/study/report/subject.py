"""The runs of a page: named, grouped by plan, the best first."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from cotrunk.study.records import Broken, RunGroup, RunRecord
from cotrunk.study.report import formats

MOST_LEADING = 12
DOT = "\N{MIDDLE DOT}"


@dataclass(frozen=True, eq=False)
class Series:
    """Runs that differ in their seed only, the best first; ``run_names`` in the same order."""

    name: str
    group: RunGroup
    runs: tuple[RunRecord, ...]
    run_names: tuple[str, ...]

    @property
    def choices(self) -> Mapping[str, Any]:
        return self.group.choices

    @property
    def overall(self) -> float | None:
        """The mean of the official overall score; None if a run has none."""
        values = [run.overall.get("official") for run in self.runs]
        known = [value for value in values if value is not None]
        return fmean(known) if known and len(known) == len(values) else None


@dataclass(frozen=True, eq=False)
class Subject:
    """``tasks``: all tasks, in the order of the runs' configs."""

    series: tuple[Series, ...]
    broken: tuple[Broken, ...]
    tasks: tuple[str, ...]

    @property
    def order(self) -> list[str]:
        return [series.name for series in self.series]

    @property
    def runs(self) -> list[tuple[str, str, RunRecord]]:
        """Series, name and record of every run."""
        return [
            (series.name, name, run)
            for series in self.series
            for name, run in zip(series.run_names, series.runs, strict=True)
        ]

    def series_of(self, group: RunGroup) -> Series:
        return next(each for each in self.series if each.runs[0] in group.runs)

    @property
    def leading(self) -> list[tuple[str, RunRecord]]:
        """The best run of each series, for what can be shown of a few runs only."""
        return [(s.run_names[0], s.runs[0]) for s in self.series[:MOST_LEADING]]

    def metric(self, task: str) -> str:
        """What a task is scored by."""
        found = (run.tasks[task] for _, _, run in self.runs if task in run.tasks)
        return str(next(found).score["metric"])

    @property
    def same_tasks(self) -> bool:
        return len({frozenset(run.tasks) for _, _, run in self.runs}) <= 1


def subject_of(groups: Sequence[RunGroup], broken: Sequence[Broken]) -> Subject:
    records = [record for group in groups for record in group.runs]
    names = run_names([record.path for record in records])
    tasks = dict.fromkeys(task for record in records for task in record.tasks)
    titles = _titles(groups, names)
    series = [_series(title, group, names) for title, group in zip(titles, groups, strict=True)]
    if len({frozenset(record.tasks) for record in records}) == 1:
        series.sort(key=lambda s: -2.0 if s.overall is None else s.overall, reverse=True)
    return Subject(tuple(series), tuple(broken), tuple(tasks))


def run_names(paths: Sequence[Path]) -> dict[Path, str]:
    """The paths without the folders that all of them are in."""
    if len(paths) == 1:
        return {paths[0]: paths[0].resolve().name}
    whole = {path: path.resolve() for path in paths}
    above = Path(os.path.commonpath([path.parent for path in whole.values()])) if paths else Path()
    return {path: full.relative_to(above).as_posix() for path, full in whole.items()}


def _series(title: str, group: RunGroup, names: Mapping[Path, str]) -> Series:
    runs = sorted(group.runs, key=_official, reverse=True)
    return Series(title, group, tuple(runs), tuple(names[run.path] for run in runs))


def _official(run: RunRecord) -> float:
    score = run.overall.get("official")
    return float("-inf") if score is None else score


def _titles(groups: Sequence[RunGroup], names: Mapping[Path, str]) -> list[str]:
    """The name of the run, if each group has one; else what the group's settings are."""
    if all(len(group.runs) == 1 for group in groups):
        return [names[group.runs[0].path] for group in groups]
    titles = [_spelled(group.choices) or "all runs" for group in groups]
    alike = len(set(titles)) < len(titles) or any(len(title) > 60 for title in titles)
    return [names[group.runs[0].path] for group in groups] if alike else titles


def _spelled(choices: Mapping[str, Any]) -> str:
    """``S3 I3`` for settings that are words, ``lr 1e-05`` for others."""
    return f" {DOT} ".join(
        value
        if isinstance(value, str) and value
        else f"{key.rpartition('.')[2]} {formats.setting(value)}"
        for key, value in choices.items()
    )
