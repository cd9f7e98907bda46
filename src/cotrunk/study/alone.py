"""What each task gains or loses by being trained with others, compared with single-task runs."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from cotrunk.study.comparison import TaskTransfer
from cotrunk.study.records import RunGroup, identity_of
from cotrunk.study.same_rows import Scored, not_testable
from cotrunk.study.statistics.transfer import negative_transfer

BETWEEN_TASKS = {
    "sampling",
    "alpha",
    "temperature",
    "cap",
    "gradients",
    "gradient_scope",
    "gradient_options",
    "gradient_seed",
    "loss_weighting",
    "loss_weighting_options",
}
"""Keys of [train] that mean nothing, or something else, to a single task."""
LENGTH = {"epochs", "max_steps", "max_seconds", "steps_per_epoch", "batches_per_epoch"}
"""Keys of [train] about the length of training; the steps of a task are compared instead."""
OWN = {"weight", "share", "reads", "reading"}
"""Keys of a task that relate it to others."""


def transfers(
    groups: Sequence[RunGroup], scored: Scored, *, margin: float, notes: dict[str, None]
) -> Iterator[TaskTransfer]:
    """For each group with several tasks, those of its tasks that also have single-task runs.

    These must have the same settings, except for those about several tasks and about the length of
    training. Of several such groups, the one with the nearest number of steps of the task is taken.
    ``notes`` gets the single-task runs that match no group.
    """
    single = [group for group in groups if len(group.runs[0].settings["tasks"]) == 1]
    several = [group for group in groups if group not in single]
    for group in several:
        nearest = {
            task: _nearest(task, group, _alike(task, group, single, scored))
            for task in group.runs[0].tasks
        }
        alone = {task: one for task, one in nearest.items() if one}
        judged = negative_transfer(
            {task: [scored[run][task] for run in group.runs] for task in alone},
            {task: [scored[run][task] for run in one.runs] for task, one in alone.items()},
            margin=margin,
        )
        for task, transfer in judged.items():
            one = alone[task]
            yield TaskTransfer(group, one, task, transfer, _steps(task, group), _steps(task, one))
    notes |= dict.fromkeys(_unmatched(several, single))


def _alike(
    task: str, group: RunGroup, single: Sequence[RunGroup], scored: Scored
) -> list[RunGroup]:
    return [
        one
        for one in single
        if _same(task, group, one) and not not_testable(task, group.runs[0], one.runs[0], scored)
    ]


def _nearest(task: str, group: RunGroup, alone: Sequence[RunGroup]) -> RunGroup | None:
    steps = _steps(task, group)
    return min(alone, key=lambda one: abs(_steps(task, one) - steps), default=None)


def _same(task: str, group: RunGroup, one: RunGroup) -> bool:
    return task in one.runs[0].tasks and not _different(task, group, one)


def _different(task: str, group: RunGroup, one: RunGroup) -> list[str]:
    """The settings in which single-task runs differ from a group, except those that always do."""
    mine, its = _settings(task, group), _settings(task, one)
    keys = dict.fromkeys([*mine, *its])
    return [key for key in keys if mine.get(key) != its.get(key)]


def _settings(task: str, group: RunGroup) -> Mapping[str, Any]:
    found = identity_of(group.runs[0])
    return {key: value for key, value in found.items() if _concerns(key, task)}


def _concerns(key: str, task: str) -> bool:
    table, _, rest = key.partition(".")
    if table == "sharing":
        return False
    if table == "tasks":
        name, _, own = rest.partition(".")
        return name == task and own.split(".")[0] not in OWN
    return table != "train" or rest.split(".")[0] not in BETWEEN_TASKS | LENGTH


def _steps(task: str, group: RunGroup) -> float:
    """In how many steps the task was trained: the mean over seeds."""
    return fmean(
        sum(
            entry.get("event") == "step" and task in entry["loss"] and not entry.get("skipped")
            for entry in run.history
        )
        for run in group.runs
    )


def _unmatched(several: Sequence[RunGroup], single: Sequence[RunGroup]) -> Iterator[str]:
    """Single-task runs that no group with more tasks can be compared with, and why."""
    for one in single:
        for task in one.runs[0].tasks:
            groups = [group for group in several if task in group.runs[0].tasks]
            keys = min((_different(task, group, one) for group in groups), key=len, default=[])
            if keys:
                yield (
                    f"{one.runs[0].path}: no transfer to {task} is shown, because no run with more "
                    f"tasks has the same {', '.join(keys[:3])}"
                )
