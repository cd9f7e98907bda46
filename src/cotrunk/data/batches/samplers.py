"""Samplers: which tasks an epoch has, how often and in which order.

A task that runs out starts over, shuffled again; only some samplers end the epoch there.
Epochs count from 0.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cotrunk.errors import UserError


@dataclass(frozen=True)
class Sampler:
    """A sampler and its options, as the user wrote them.

    At most one option sets the length of an epoch: ``steps_per_epoch`` counts optimizer steps,
    ``batches_per_epoch`` batches of every task (if a step has only one task, this is multiplied by
    the number of tasks), and ``share_of_data`` is a share of the sampler's default length.
    ``shares`` fixes the share of batches of some tasks; the others divide the rest. Only samplers
    that draw at random use it.
    """

    name: str
    alpha: float = 1.0
    temperature: float = 1.0
    cap: int | None = None
    steps_per_epoch: int | None = None
    batches_per_epoch: int | None = None
    share_of_data: float | None = None
    shares: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        wrong = [*_wrong_names(self), *_wrong_numbers(self)]
        if wrong:
            raise UserError(*wrong)


@dataclass(frozen=True)
class Epoch:
    """The input of a sampler: epoch ``number`` of ``epochs``."""

    sampler: Sampler
    sizes: Mapping[str, int]
    batch: Mapping[str, int]
    seed: int
    number: int
    epochs: int

    @property
    def batches(self) -> dict[str, int]:
        """The number of batches in one pass over each task."""
        return {task: math.ceil(size / self.batch[task]) for task, size in self.sizes.items()}


Draw = Callable[[], NDArray[np.int64]]


@dataclass(frozen=True)
class EpochPlan:
    """The output of a sampler: each task's share of the batches, and the tasks of every step.

    ``draw`` returns the index of each step's only task; None: every step has all tasks.
    """

    shares: Mapping[str, float]
    steps: int
    draw: Draw | None
    rows: Mapping[str, int]
    factors: Mapping[str, float]


def together(epoch: Epoch) -> EpochPlan:
    """Every step has one batch of each task; an epoch has about as many rows as the data."""
    return _all_tasks(epoch, math.ceil(sum(epoch.batches.values()) / len(epoch.sizes)))


def largest(epoch: Epoch) -> EpochPlan:
    """Every step has one batch of each task, until the task with the most batches ends."""
    return _all_tasks(epoch, max(epoch.batches.values()))


def smallest(epoch: Epoch) -> EpochPlan:
    """Every step has one batch of each task, until the task with the fewest batches ends."""
    return _all_tasks(epoch, min(epoch.batches.values()))


def scaled(epoch: Epoch) -> EpochPlan:
    """Every step has all tasks, and an epoch has as many steps n as the largest task has batches.

    A task of N rows has ceil(N/n) rows per step; the factor of its loss is the number of rows of
    the other tasks in a step, divided by its own.
    """
    steps = max(epoch.batches.values())
    rows = {task: math.ceil(size / steps) for task, size in epoch.sizes.items()}
    everyone = sum(rows.values())
    alone = len(rows) == 1
    factors = {task: 1.0 if alone else (everyone - own) / own for task, own in rows.items()}
    return replace(_all_tasks(epoch, steps), rows=rows, factors=factors)


def sequential(epoch: Epoch) -> EpochPlan:
    """One pass over the first task, then one over the second, in the order of the config."""
    passes = {task: _share(batches, epoch.sampler) for task, batches in epoch.batches.items()}
    if epoch.sampler.batches_per_epoch is not None:
        passes = dict.fromkeys(passes, epoch.sampler.batches_per_epoch)
    total = sum(passes.values())
    shares = {task: batches / total for task, batches in passes.items()}
    counts = list(passes.values())
    return _plain(epoch, shares, total, lambda: np.repeat(np.arange(len(counts)), counts))


def round_robin(epoch: Epoch) -> EpochPlan:
    """One task per step, in turn; an epoch starts where the last one stopped."""
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
DRAWN = frozenset({"proportional", "sqrt", "power", "annealed", "temperature"})
"""Each step's only task is drawn at random."""
READ_BY = {"alpha": "power", "temperature": "temperature", "cap": "temperature"}
"""Options that belong to one sampler."""


def _all_tasks(epoch: Epoch, own_steps: int) -> EpochPlan:
    steps = _steps(epoch.sampler, own_steps, steps_per_batch=1)
    return _plain(epoch, _even(epoch.sizes), steps, None)


def _drawn(epoch: Epoch, alpha: float) -> EpochPlan:
    sizes = epoch.sizes.values()
    cap = epoch.sampler.cap or max(sizes)
    powers = np.array([min(size, cap) for size in sizes], dtype=np.float64) ** alpha
    shares = _with_fixed(powers / powers.sum(), list(epoch.sizes), dict(epoch.sampler.shares))
    steps = _one_task_steps(epoch)

    def draw() -> NDArray[np.int64]:
        random = random_for("tasks", epoch.seed, epoch.number)
        return random.choice(len(shares), size=steps, p=shares)

    return _plain(epoch, dict(zip(epoch.sizes, shares.tolist(), strict=True)), steps, draw)


def _with_fixed(
    shares: NDArray[np.float64], tasks: Sequence[str], fixed: Mapping[str, float]
) -> NDArray[np.float64]:
    """The tasks that are not ``fixed`` divide the rest in proportion to ``shares``."""
    if not fixed:
        return shares
    is_free = np.array([task not in fixed for task in tasks])
    left = 1 - sum(fixed.values())
    own = [fixed.get(task, 0.0) for task in tasks]
    found = np.where(is_free, left * shares / max(shares[is_free].sum(), 1e-300), own)
    return found / found.sum()


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


def random_for(purpose: str, *numbers: int) -> np.random.Generator:
    digest = hashlib.blake2b(purpose.encode(), digest_size=8).digest()
    return np.random.default_rng([int.from_bytes(digest, "big"), *numbers])


def _wrong_names(sampler: Sampler) -> list[str]:
    if sampler.name not in SAMPLERS:
        return [f"sampling: {sampler.name!r} is not one of {', '.join(SAMPLERS)}"]
    wrong = []
    usual = Sampler.__dataclass_fields__
    for key, reader in READ_BY.items():
        value = getattr(sampler, key)
        if sampler.name != reader and value != usual[key].default:
            only = f'only used if sampling = "{reader}", but sampling is "{sampler.name}"'
            wrong.append(f"{key} = {value}: {only}")
    if sampler.name == "sequential" and sampler.steps_per_epoch is not None:
        wrong.append(
            f'steps_per_epoch = {sampler.steps_per_epoch}: not used if sampling = "sequential"; '
            "set batches_per_epoch instead"
        )
    return wrong


def _wrong_numbers(sampler: Sampler) -> list[str]:
    wrong = []
    if not 0.0 <= sampler.alpha <= 1.0:
        wrong.append(f"alpha = {sampler.alpha}: must be in [0, 1]")
    if not sampler.temperature >= 1.0:
        wrong.append(f"temperature = {sampler.temperature}: must be 1 or more")
    counts = {
        name: getattr(sampler, name) for name in ("cap", "steps_per_epoch", "batches_per_epoch")
    }
    for name, count in counts.items():
        if count is not None and count < 1:
            wrong.append(f"{name} = {count}: must be 1 or more")
    if sampler.share_of_data is not None and not 0.0 < sampler.share_of_data <= 1.0:
        wrong.append(f"share_of_data = {sampler.share_of_data}: must be in (0, 1]")
    lengths = ("steps_per_epoch", "batches_per_epoch", "share_of_data")
    given = [name for name in lengths if getattr(sampler, name) is not None]
    if len(given) > 1:
        wrong.append(f"{' and '.join(given)} each set the length of an epoch; keep only one")
    return wrong
