"""The batches of an epoch and their rows: pure functions of (seed, epoch, step)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from cotrunk.data.batches.samplers import SAMPLERS, Epoch, EpochPlan, Sampler, random_for
from cotrunk.errors import UserError


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """Batch number ``index`` of a task in this epoch; its loss is multiplied by ``factor``."""

    task: str
    index: int
    rows: int
    factor: float = 1.0


@dataclass(frozen=True)
class EpochBatches(Sequence[tuple[BatchSpec, ...]]):
    """The batches of every optimizer step of an epoch, computed on access: there can be many."""

    plan: EpochPlan

    def __len__(self) -> int:
        return self.plan.steps

    def __getitem__(self, at: int) -> tuple[BatchSpec, ...]:  # type: ignore[override]
        step = range(len(self))[at]
        if self._task_S is None:
            return tuple(self._spec(task, step) for task in self._tasks)
        return (self._spec(self._tasks[self._task_S[step]], int(self._nth_S[step])),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpochBatches) and list(self) == list(other)

    def counts(self) -> dict[str, int]:
        """The number of batches of each task."""
        if self._task_S is None:
            return dict.fromkeys(self._tasks, len(self))
        found = np.bincount(self._task_S, minlength=len(self._tasks))
        return dict(zip(self._tasks, found.tolist(), strict=True))

    @cached_property
    def _tasks(self) -> list[str]:
        return list(self.plan.shares)

    @cached_property
    def _task_S(self) -> NDArray[np.uint32] | None:
        return None if self.plan.draw is None else self.plan.draw().astype(np.uint32)

    @cached_property
    def _nth_S(self) -> NDArray[np.uint32]:
        """How many batches of the same task came before."""
        assert self._task_S is not None
        nth_S = np.empty(len(self), np.uint32)
        for task in range(len(self._tasks)):
            mine = np.flatnonzero(self._task_S == task)
            nth_S[mine] = np.arange(len(mine))
        return nth_S

    def _spec(self, task: str, nth: int) -> BatchSpec:
        return BatchSpec(task, nth, self.plan.rows[task], self.plan.factors[task])


class EpochCounts(TypedDict):
    """An epoch before it is run. ``rows``: size of a full batch; ``factors``: of the losses.

    ``passes``: how often each row of a task is seen, on average.
    """

    epoch: int
    probabilities: dict[str, float]
    batches: dict[str, int]
    passes: dict[str, float]
    rows: dict[str, int]
    factors: dict[str, float]


def epoch_batches(
    sampler: Sampler,
    sizes: Mapping[str, int],
    *,
    batch: int | Mapping[str, int],
    seed: int,
    epoch: int,
    epochs: int,
) -> EpochBatches:
    """The batches of every optimizer step of an epoch."""
    return EpochBatches(_plan(sampler, sizes, batch=batch, seed=seed, epoch=epoch, epochs=epochs))


def rows_of(spec: BatchSpec, size: int, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """The row numbers of a batch. A pass has every row once, so its last batch may be short."""
    passes, place = divmod(spec.index, math.ceil(size / spec.rows))
    order = _orders(seed, spec.task, size)(epoch, passes)
    return order[place * spec.rows : (place + 1) * spec.rows].astype(np.int64)


def probabilities(
    sampler: Sampler,
    sizes: Mapping[str, int],
    *,
    epoch: int,
    epochs: int,
    batch: int | Mapping[str, int] = 1,
) -> dict[str, float]:
    """Each task's expected share of the epoch's batches."""
    return dict(_plan(sampler, sizes, batch=batch, seed=0, epoch=epoch, epochs=epochs).shares)


def dry_run(
    sampler: Sampler,
    sizes: Mapping[str, int],
    *,
    batch: int | Mapping[str, int],
    seed: int,
    epochs: int,
) -> list[EpochCounts]:
    """The batches of a run, epoch by epoch, counted as in ``epoch_batches``."""
    plans: list[EpochCounts] = []
    for epoch in range(epochs):
        plan = _plan(sampler, sizes, batch=batch, seed=seed, epoch=epoch, epochs=epochs)
        batches = EpochBatches(plan).counts()
        plans.append(
            EpochCounts(
                epoch=epoch,
                probabilities=dict(plan.shares),
                batches=batches,
                passes={
                    task: batches[task] / math.ceil(size / plan.rows[task])
                    for task, size in sizes.items()
                },
                rows={task: plan.rows[task] for task in sizes},
                factors=dict(plan.factors),
            )
        )
    return plans


def _plan(
    sampler: Sampler,
    sizes: Mapping[str, int],
    *,
    batch: int | Mapping[str, int],
    seed: int,
    epoch: int,
    epochs: int,
) -> EpochPlan:
    batches = dict.fromkeys(sizes, batch) if isinstance(batch, int) else batch
    wrong = [f"task {task!r} has no batch size" for task in sizes if task not in batches]
    wrong += [f"task {task!r} has {rows} rows" for task, rows in sizes.items() if rows < 1]
    wrong += [f"task {task!r} has batch = {rows}" for task, rows in batches.items() if rows < 1]
    if not sizes:
        wrong.append("there are no tasks")
    if not 0 <= epoch < epochs:
        wrong.append(f"epoch {epoch} is not one of 0..{epochs - 1}")
    if wrong:
        raise UserError(*(f"sampling: {line}" for line in wrong))
    return SAMPLERS[sampler.name](Epoch(sampler, sizes, batches, seed, epoch, epochs))


# A step takes a batch of each task in turn, so a cache with fewer entries than tasks never hits.
@lru_cache(maxsize=32)
def _orders(seed: int, task: str, size: int) -> Callable[[int, int], NDArray[np.uint32]]:
    """A task's row orders. Only the last one is cached: 8 MB for two million rows."""

    @lru_cache(maxsize=1)
    def order(epoch: int, passes: int) -> NDArray[np.uint32]:
        rows = np.arange(size, dtype=np.uint32)
        random_for(f"rows of {task}", seed, epoch, passes).shuffle(rows)
        return rows

    return order
