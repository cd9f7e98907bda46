"""Which tasks, when, how many rows: pure functions of (seed, epoch, step).

A law says how an epoch is filled. Tasks that run out begin again, newly shuffled, so no task ends
an epoch unless its law says so. Epochs count from 0.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from cotrunk.errors import UserError


@dataclass(frozen=True)
class Sampler:
    """How an epoch is filled; every field is a number a user wrote. At most one sets the length.

    ``steps_per_epoch`` counts optimizer steps. ``batches_per_epoch`` counts batches of every task:
    as many steps where each step has all tasks, times the number of tasks where a step has one.
    ``share_of_data`` is a share of the epoch that the law has by itself.
    """

    name: str
    alpha: float = 1.0
    temperature: float = 1.0
    cap: int | None = None
    steps_per_epoch: int | None = None
    batches_per_epoch: int | None = None
    share_of_data: float | None = None

    def __post_init__(self) -> None:
        wrong = [*_wrong_names(self), *_wrong_numbers(self)]
        if wrong:
            raise UserError(*(f"sampling: {line}" for line in wrong))


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """The ``index``-th batch of a task in this epoch; its loss is multiplied by ``factor``."""

    task: str
    index: int
    rows: int
    factor: float = 1.0


@dataclass(frozen=True)
class Epoch:
    """What a law is asked to fill: epoch ``number`` of ``epochs``."""

    sampler: Sampler
    sizes: Mapping[str, int]
    batch: Mapping[str, int]
    seed: int
    number: int
    epochs: int

    @property
    def batches(self) -> dict[str, int]:
        """How many batches one pass over each task is."""
        return {task: math.ceil(size / self.batch[task]) for task, size in self.sizes.items()}


Draw = Callable[[], NDArray[np.int64]]


@dataclass(frozen=True)
class EpochPlan:
    """A law's answer: each task's share of the batches, and the tasks of every step.

    ``draw`` gives the number of each step's one task, on demand; None: every step has all tasks.
    """

    shares: Mapping[str, float]
    steps: int
    draw: Draw | None
    rows: Mapping[str, int]
    factors: Mapping[str, float]


@dataclass(frozen=True)
class EpochBatches(Sequence[tuple[BatchSpec, ...]]):
    """The batches of every optimizer step of an epoch, made when asked for: steps can be many."""

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
        """How many batches of each task there are."""
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


class Plan(TypedDict):
    """An epoch before it is run. ``rows`` are those of a full batch, ``factors`` of the losses."""

    epoch: int
    probabilities: dict[str, float]
    batches: dict[str, int]
    rows: dict[str, int]
    factors: dict[str, float]


def together(epoch: Epoch) -> EpochPlan:
    """Every step has one batch of each task; an epoch shows about as many rows as the data hold."""
    return _all_tasks(epoch, math.ceil(sum(epoch.batches.values()) / len(epoch.sizes)))


def largest(epoch: Epoch) -> EpochPlan:
    """Every step has one batch of each task, until the task with most batches is used up."""
    return _all_tasks(epoch, max(epoch.batches.values()))


def smallest(epoch: Epoch) -> EpochPlan:
    """Every step has one batch of each task, until the task with fewest batches is used up."""
    return _all_tasks(epoch, min(epoch.batches.values()))


def scaled(epoch: Epoch) -> EpochPlan:
    """n = most batches; a task's batch is ceil(N/n), its loss times (sum of the others' / own)."""
    steps = max(epoch.batches.values())
    rows = {task: math.ceil(size / steps) for task, size in epoch.sizes.items()}
    everyone = sum(rows.values())
    alone = len(rows) == 1
    factors = {task: 1.0 if alone else (everyone - own) / own for task, own in rows.items()}
    return replace(_all_tasks(epoch, steps), rows=rows, factors=factors)


def sequential(epoch: Epoch) -> EpochPlan:
    """One pass over the first task, then one over the second, in the order given."""
    passes = {task: _share(batches, epoch.sampler) for task, batches in epoch.batches.items()}
    if epoch.sampler.batches_per_epoch is not None:
        passes = dict.fromkeys(passes, epoch.sampler.batches_per_epoch)
    total = sum(passes.values())
    shares = {task: batches / total for task, batches in passes.items()}
    counts = list(passes.values())
    return _plain(epoch, shares, total, lambda: np.repeat(np.arange(len(counts)), counts))


def round_robin(epoch: Epoch) -> EpochPlan:
    """One task per step, each in its turn; an epoch begins where the last one stopped."""
    steps, tasks = _one_task_steps(epoch), len(epoch.sizes)
    first = epoch.number * steps
    return _plain(epoch, _even(epoch.sizes), steps, lambda: np.arange(first, first + steps) % tasks)


def proportional(epoch: Epoch) -> EpochPlan:
    """One task per step, p ~ N."""
    return _drawn(epoch, 1.0)


def square_root(epoch: Epoch) -> EpochPlan:
    """One task per step, p ~ N^0.5."""
    return _drawn(epoch, 0.5)


def power(epoch: Epoch) -> EpochPlan:
    """One task per step, p ~ N^alpha; alpha 1 is proportional, 0 uniform."""
    return _drawn(epoch, epoch.sampler.alpha)


def annealed(epoch: Epoch) -> EpochPlan:
    """One task per step, p ~ N^a, a = 1 - 0.8 (e-1)/(E-1) in epoch e = 1..E; a = 1 when E = 1."""
    return _drawn(epoch, 1.0 - 0.8 * epoch.number / max(epoch.epochs - 1, 1))


def temperature(epoch: Epoch) -> EpochPlan:
    """One task per step, p ~ min(N, cap)^(1/temperature)."""
    return _drawn(epoch, 1.0 / epoch.sampler.temperature)


SAMPLERS: dict[str, Callable[[Epoch], EpochPlan]] = {
    "together": together,
    "largest": largest,
    "smallest": smallest,
    "scaled": scaled,
    "sequential": sequential,
    "round-robin": round_robin,
    "proportional": proportional,
    "sqrt": square_root,
    "power": power,
    "annealed": annealed,
    "temperature": temperature,
}

ALL_TASKS_PER_STEP = frozenset({"together", "largest", "smallest", "scaled"})


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
    return EpochBatches(_fill(sampler, sizes, batch=batch, seed=seed, epoch=epoch, epochs=epochs))


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
    return dict(_fill(sampler, sizes, batch=batch, seed=0, epoch=epoch, epochs=epochs).shares)


def dry_run(
    sampler: Sampler,
    sizes: Mapping[str, int],
    *,
    batch: int | Mapping[str, int],
    seed: int,
    epochs: int,
) -> list[Plan]:
    """What a run will see, epoch by epoch; the counts are those of ``epoch_batches``."""
    plans = []
    for epoch in range(epochs):
        plan = _fill(sampler, sizes, batch=batch, seed=seed, epoch=epoch, epochs=epochs)
        plans.append(
            Plan(
                epoch=epoch,
                probabilities=dict(plan.shares),
                batches=EpochBatches(plan).counts(),
                rows={task: plan.rows[task] for task in sizes},
                factors=dict(plan.factors),
            )
        )
    return plans


def _fill(
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


def _all_tasks(epoch: Epoch, own_steps: int) -> EpochPlan:
    steps = _steps(epoch.sampler, own_steps, steps_per_batch=1)
    return _plain(epoch, _even(epoch.sizes), steps, None)


def _drawn(epoch: Epoch, alpha: float) -> EpochPlan:
    sizes = epoch.sizes.values()
    cap = epoch.sampler.cap or max(sizes)
    powers = np.array([min(size, cap) for size in sizes], dtype=np.float64) ** alpha
    shares = powers / powers.sum()
    steps = _one_task_steps(epoch)

    def draw() -> NDArray[np.int64]:
        random = _random("tasks", epoch.seed, epoch.number)
        return random.choice(len(shares), size=steps, p=shares)

    return _plain(epoch, dict(zip(epoch.sizes, shares.tolist(), strict=True)), steps, draw)


def _plain(epoch: Epoch, shares: Mapping[str, float], steps: int, draw: Draw | None) -> EpochPlan:
    return EpochPlan(shares, steps, draw, epoch.batch, dict.fromkeys(epoch.sizes, 1.0))


def _even(tasks: Mapping[str, int]) -> dict[str, float]:
    return dict.fromkeys(tasks, 1.0 / len(tasks))


def _one_task_steps(epoch: Epoch) -> int:
    return _steps(epoch.sampler, sum(epoch.batches.values()), steps_per_batch=len(epoch.sizes))


def _steps(sampler: Sampler, own: int, *, steps_per_batch: int) -> int:
    if sampler.steps_per_epoch is not None:
        return sampler.steps_per_epoch
    if sampler.batches_per_epoch is not None:
        return sampler.batches_per_epoch * steps_per_batch
    return _share(own, sampler)


def _share(batches: int, sampler: Sampler) -> int:
    # Rounded first: 0.07 * 100 is a little more than 7.
    return math.ceil(round((sampler.share_of_data or 1.0) * batches, 9))


def _random(purpose: str, *numbers: int) -> np.random.Generator:
    digest = hashlib.blake2b(purpose.encode(), digest_size=8).digest()
    return np.random.default_rng([int.from_bytes(digest, "big"), *numbers])


# A step asks for a batch of each task in turn, so fewer places than tasks would never hit.
@lru_cache(maxsize=32)
def _orders(seed: int, task: str, size: int) -> Callable[[int, int], NDArray[np.uint32]]:
    """A task's shuffles. Only the last is kept: of two million rows it takes 8 MB."""

    @lru_cache(maxsize=1)
    def order(epoch: int, passes: int) -> NDArray[np.uint32]:
        rows = np.arange(size, dtype=np.uint32)
        _random(f"rows of {task}", seed, epoch, passes).shuffle(rows)
        return rows

    return order


def _wrong_names(sampler: Sampler) -> list[str]:
    if sampler.name not in SAMPLERS:
        return [f"{sampler.name!r} is not one of {', '.join(SAMPLERS)}"]
    wrong = []
    if sampler.name != "power" and sampler.alpha != 1.0:
        wrong.append(f"alpha is read by power only, but the law is {sampler.name}")
    if sampler.name != "temperature" and (sampler.temperature != 1.0 or sampler.cap is not None):
        wrong.append(f"temperature and cap are read by temperature only; the law is {sampler.name}")
    if sampler.name == "sequential" and sampler.steps_per_epoch is not None:
        wrong.append("sequential goes task by task: give batches_per_epoch, not steps_per_epoch")
    return wrong


def _wrong_numbers(sampler: Sampler) -> list[str]:
    wrong = []
    if not 0.0 <= sampler.alpha <= 1.0:
        wrong.append(f"alpha = {sampler.alpha} is not in [0, 1]")
    if not sampler.temperature >= 1.0:
        wrong.append(f"temperature = {sampler.temperature} is not 1 or more")
    counts = {
        name: getattr(sampler, name) for name in ("cap", "steps_per_epoch", "batches_per_epoch")
    }
    for name, count in counts.items():
        if count is not None and count < 1:
            wrong.append(f"{name} = {count} is not 1 or more")
    if sampler.share_of_data is not None and not 0.0 < sampler.share_of_data <= 1.0:
        wrong.append(f"share_of_data = {sampler.share_of_data} is not in (0, 1]")
    lengths = ("steps_per_epoch", "batches_per_epoch", "share_of_data")
    given = [name for name in lengths if getattr(sampler, name) is not None]
    if len(given) > 1:
        wrong.append(f"{' and '.join(given)} each set the length of an epoch; give one")
    return wrong
