"""The result of comparing runs, and its JSON form."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotrunk.files import without_nan
from cotrunk.study.records import Broken, RunGroup, RunRecord, TaskRecord
from cotrunk.study.statistics.difference import Difference, Mean
from cotrunk.study.statistics.transfer import Transfer
from cotrunk.study.statistics.verdict import Verdict

SHOWN = ("metric", "score", "low", "high", "rows")


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """``overall`` and ``tm`` are None where the run has other tasks than the baseline."""

    record: RunRecord
    overall: Mapping[str, float | None]
    tm: Mapping[str, float | None]

    def document(self) -> dict[str, Any]:
        record = self.record
        scores = {
            task: {key: found.score[key] for key in SHOWN} for task, found in record.tasks.items()
        }
        return {
            "run": str(record.path),
            "seed": record.seed,
            "state": record.state,
            "scores": scores,
            "overall": dict(self.overall),
            "tm": dict(self.tm),
            "parameters": record.parameters,
            "trained_parameters": record.trained_parameters,
            "bytes": dict(record.bytes),
            **record.cost.document(),
        }


@dataclass(frozen=True, eq=False)
class ComparedGroup:
    """Runs that differ in their seed only.

    ``scores``: of each task the mean over seeds, its standard deviation, and an interval for seeds
    and rows together. ``overall`` and ``tm`` are those of the means; ``overall_sd``: None for one.
    ``overall_interval``: the bounds, None where ``overall`` is.
    """

    group: RunGroup
    runs: tuple[ComparedRun, ...]
    scores: Mapping[str, Mean]
    overall: Mapping[str, float | None]
    overall_sd: Mapping[str, float | None]
    overall_interval: Mapping[str, tuple[float | None, float | None]]
    tm: Mapping[str, float | None]

    def overall_mean(self, formula: str) -> Mean | None:
        numbers = (
            self.overall[formula],
            self.overall_sd[formula],
            *self.overall_interval[formula],
        )
        if numbers[0] is None:
            return None
        return Mean(*(math.nan if number is None else number for number in numbers))

    def document(self) -> dict[str, Any]:
        return {
            "choices": dict(self.group.choices),
            "runs": [str(run.path) for run in self.group.runs],
            "mean": {task: found.mean for task, found in self.scores.items()} | dict(self.overall),
            "sd": {task: found.sd for task, found in self.scores.items()} | dict(self.overall_sd),
            "low": {task: found.low for task, found in self.scores.items()}
            | {key: low for key, (low, _) in self.overall_interval.items()},
            "high": {task: found.high for task, found in self.scores.items()}
            | {key: high for key, (_, high) in self.overall_interval.items()},
        }


@dataclass(frozen=True, eq=False)
class TaskDifference:
    """A group's score minus the baseline's; ``task`` may be an overall formula.

    ``p`` is corrected for the number of groups that are compared with the baseline (Holm).
    """

    group: RunGroup
    task: str
    difference: Difference
    p: float
    verdict: Verdict

    def document(self) -> dict[str, Any]:
        found = self.difference
        paths = [str(run.path) for run in self.group.runs]
        return {
            "run": paths[0],
            "runs": paths,
            "task": self.task,
            "difference": found.difference,
            "low": found.low,
            "high": found.high,
            "p": self.p,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, eq=False)
class TaskTransfer:
    """A task in a group that has others too, minus the same task in single-task runs.

    ``steps`` and ``steps_alone``: in how many steps the task was trained. If they are not equal,
    the difference also measures the budget.
    """

    group: RunGroup
    alone: RunGroup
    task: str
    transfer: Transfer
    steps: float
    steps_alone: float

    def document(self) -> dict[str, Any]:
        found = self.transfer.difference
        return {
            "runs": [str(run.path) for run in self.group.runs],
            "alone": [str(run.path) for run in self.alone.runs],
            "task": self.task,
            "difference": found.difference,
            "low": found.low,
            "high": found.high,
            "p": self.transfer.p,
            "transfer": self.transfer.word,
            "steps": self.steps,
            "steps_alone": self.steps_alone,
        }


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs compared with a baseline.

    ``differences`` are those of the tasks that a group and the baseline have in common,
    ``overall_differences`` those of groups with exactly the tasks of the baseline. ``transfers``
    compare groups with single-task runs, if there are any.
    """

    groups: tuple[ComparedGroup, ...]
    baseline: ComparedGroup
    differences: tuple[TaskDifference, ...]
    overall_differences: tuple[TaskDifference, ...]
    transfers: tuple[TaskTransfer, ...]
    margin: float
    broken: tuple[Broken, ...]
    notes: tuple[str, ...]
    moved: str = ""
    """Why the baseline is not the first run given, if it is not."""

    @property
    def runs(self) -> list[ComparedRun]:
        return [run for group in self.groups for run in group.runs]

    @property
    def warnings(self) -> list[str]:
        """What may make the comparison mean something else than intended."""
        first = self.baseline.group.runs[0]
        early = [run for run in self.baseline.group.runs if run.unfinished]
        if not early:
            return [self.moved] if self.moved else []
        which = "the baseline" if early[0] is first else "a seed of the baseline"
        line = f"{which}, {early[0].path}, has not finished: {early[0].unfinished}"
        return [*([self.moved] if self.moved else []), line]

    @property
    def has_differences(self) -> bool:
        return bool(self.differences or self.overall_differences or self.transfers)

    @property
    def has_tasks_in_common(self) -> bool:
        """Whether any other group has scores on a task of the baseline, if on another scale."""
        others = (group for group in self.groups if group is not self.baseline)
        return any(group.scores.keys() & self.baseline.scores.keys() for group in others)

    @property
    def tasks(self) -> list[str]:
        """All tasks of all runs, in the order of the configs."""
        return list(dict.fromkeys(task for run in self.runs for task in run.record.tasks))

    @property
    def constants(self) -> dict[str, float]:
        """By task, the score of the constant answer; NaN if it has none."""
        found = {task: one for run in self.runs for task, one in run.record.tasks.items()}
        return {task: _constant_answer(found[task]) for task in self.tasks}

    def differences_of(self, group: ComparedGroup) -> dict[str, TaskDifference]:
        """By task and overall formula; empty for the baseline."""
        found = (*self.differences, *self.overall_differences)
        return {one.task: one for one in found if one.group is group.group}

    def to_json(self) -> dict[str, Any]:
        """NaN becomes None, because JSON has none."""
        document = {
            "runs": [run.document() for run in self.runs],
            "groups": [group.document() for group in self.groups],
            "differences": [found.document() for found in self.differences],
            "overall_differences": [found.document() for found in self.overall_differences],
            "baseline": [str(run.path) for run in self.baseline.group.runs],
            "margin": self.margin,
            "broken": [{"run": str(run.path), "why": run.why} for run in self.broken],
            "notes": list(self.notes),
            "negative_transfer": [found.document() for found in self.transfers],
            "constants": self.constants,
        }
        return {key: without_nan(value) for key, value in document.items()}


def _constant_answer(task: TaskRecord) -> float:
    """Its score; for a task without labels, as the run recorded it."""
    if task.labels.has_labels:
        return task.labels.baseline(task.target)
    recorded = task.score.get("baseline")
    return math.nan if recorded is None else recorded
