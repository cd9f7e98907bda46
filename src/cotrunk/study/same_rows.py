"""Whether runs were evaluated on the same dev rows, and if not, what differs."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from cotrunk.errors import UserError, plural
from cotrunk.kinds.alike import reading_difference
from cotrunk.kinds.influence import OverRows
from cotrunk.study.records import RunRecord, TaskRecord

Scored = Mapping[RunRecord, Mapping[str, OverRows]]
"""The score of every task of every run, with the influence of each row."""


def refuse_other_rows(records: Sequence[RunRecord]) -> None:
    """All runs of a task must have the dev rows of the first one that has the task."""
    first: dict[str, RunRecord] = {}
    lines = []
    for record in records:
        for name, task in record.tasks.items():
            reference = first.setdefault(name, record)
            if difference := _difference(task, reference.tasks[name]):
                lines.append(
                    f"{record.path}: the dev rows of {name} are not those of {reference.path}: "
                    f"{difference}; compare runs that were evaluated on the same rows"
                )
    if lines:
        raise UserError(*lines)


def reads_alike(one: TaskRecord, other: TaskRecord) -> bool:
    """Whether labels mean the same in both, so that targets and outputs can be compared."""
    return not reading_difference(one.labels, other.labels)


def not_testable(task: str, one: RunRecord, other: RunRecord, scored: Scored) -> str:
    """Why the difference of two runs on a task cannot be tested; "" if it can."""
    mine, its = one.tasks[task], other.tasks[task]
    if why := reading_difference(mine.labels, its.labels):
        return why
    if mine.labels.metric != its.labels.metric:
        return f"its metric is {mine.labels.metric}, not {its.labels.metric}"
    if scored[one][task].rows != scored[other][task].rows:
        return "its outputs are for other positions in the texts"
    return ""


def _difference(one: TaskRecord, other: TaskRecord) -> str:
    """What sets the rows of a task apart from those of another run; "" if nothing does."""
    if one.dev == other.dev:
        return ""
    if not np.array_equal(one.rows, other.rows):
        return _other_texts(one, other)
    if not reads_alike(one, other):
        return ""  # the same texts with other labels: shown, but not tested
    if one.target.shape != other.target.shape:
        return f"{one.file} and {other.file} have different numbers of labels for the same texts"
    wrong = int((one.labels.shaped(one.target) != other.labels.shaped(other.target)).sum())
    return f"{plural(wrong, 'label')} of {one.file} differ from {other.file}"


def _other_texts(one: TaskRecord, other: TaskRecord) -> str:
    mine, others = Counter(one.rows.tolist()), Counter(other.rows.tolist())
    if mine == others:
        return f"{one.file} and {other.file} have the same rows in another order"
    common = (mine & others).total()
    sizes = f"{one.file} has {plural(len(one.rows), 'row')}, {other.file} {len(other.rows):,}"
    return f"{sizes}, of which {common:,} have the same texts"
