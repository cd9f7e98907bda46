"""Several networks as one system: the union of their tasks; a task of several is averaged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tokenizers import Tokenizer

from cotrunk.data.tokens.cache import Corpus
from cotrunk.errors import Errors, UserError
from cotrunk.kinds.alike import reading_difference
from cotrunk.kinds.task import Task


@dataclass(frozen=True, eq=False)
class TaskOutputs:
    """The outputs of a run for the rows of a task; ``run`` is its name in errors."""

    run: str
    task: Task
    corpus: Corpus
    tokenizer: Tokenizer
    output: np.ndarray
    averaged: int = 1
    """How many runs this is the mean of."""


def as_one_system(found: Sequence[TaskOutputs]) -> dict[str, TaskOutputs]:
    """By task, in the order of the first run that has it; all errors are reported at once."""
    by_task: dict[str, list[TaskOutputs]] = {}
    for part in found:
        by_task.setdefault(part.task.name, []).append(part)
    errors = Errors()
    system: dict[str, TaskOutputs] = {}
    for name, parts in by_task.items():
        with errors.gathered():
            system[name] = _averaged(parts)
    errors.refuse()
    return system


def _averaged(parts: Sequence[TaskOutputs]) -> TaskOutputs:
    first = parts[0]
    if len(parts) == 1:
        return first
    for part in parts:
        if why := _cannot_join(part, first):
            raise UserError(
                f"{part.run} and {first.run} cannot be combined for {part.task.name}: {why}"
            )
    output = first.task.labels.averaged([part.output for part in parts])
    labels = first.task.labels.of_several([part.task.labels for part in parts])
    task = replace(first.task, labels=labels)
    return replace(first, task=task, output=output, averaged=len(parts))


def _cannot_join(one: TaskOutputs, first: TaskOutputs) -> str:
    labels = one.task.labels
    if not labels.can_answer:
        return "it makes no predictions that could be averaged; choose others with --task"
    if why := reading_difference(first.task.labels, labels):
        return f"{why}; choose other tasks with --task"
    if not np.array_equal(one.corpus.fingerprint, first.corpus.fingerprint):
        return f"they read different rows ({len(first.corpus):,} and {len(one.corpus):,})"
    if not np.array_equal(one.corpus.target, first.corpus.target, equal_nan=True):
        return "their rows have different labels"
    if len(one.output) and not np.isfinite(one.output).any():
        return f"the outputs of {one.run} are not finite; train it again"
    return ""
