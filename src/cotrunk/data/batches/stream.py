"""The batches of every step. The step number is the only state, so any step can be resumed."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np

from cotrunk.data.batches.samplers import Sampler
from cotrunk.data.batches.sampling import (
    BatchSpec,
    EpochBatches,
    EpochCounts,
    dry_run,
    epoch_batches,
    probabilities,
    rows_of,
)
from cotrunk.data.tokens.cache import Corpus


@dataclass(frozen=True)
class Steps(Sequence[tuple[BatchSpec, ...]]):
    """The batches of every optimizer step of an epoch: ``accumulate`` sampler steps make one."""

    sampler_steps: EpochBatches
    accumulate: int

    def __len__(self) -> int:
        return -(-len(self.sampler_steps) // self.accumulate)

    def __getitem__(self, at: int) -> tuple[BatchSpec, ...]:  # type: ignore[override]
        first = range(len(self))[at] * self.accumulate
        together = range(first, min(first + self.accumulate, len(self.sampler_steps)))
        return tuple(spec for step in together for spec in self.sampler_steps[step])


@dataclass(frozen=True)
class Batch:
    """Rows of one task. ``share`` is the weight of this batch in the loss of its step."""

    task: str
    rows: np.ndarray
    share: float


@dataclass(frozen=True)
class Stream:
    """All batches of a run, as a pure function of (seed, step)."""

    corpora: Mapping[str, Corpus]
    sampler: Sampler
    batch: Mapping[str, int]
    seed: int
    epochs: int
    accumulate: int = 1

    @property
    def sizes(self) -> dict[str, int]:
        return {task: len(corpus) for task, corpus in self.corpora.items()}

    @cached_property
    def plans(self) -> list[EpochCounts]:
        """What each epoch will do."""
        return dry_run(
            self.sampler, self.sizes, batch=self.batch, seed=self.seed, epochs=self.epochs
        )

    def plans_until(self, step: int) -> list[EpochCounts]:
        """What each epoch will do if the run ends at ``step``."""
        plans, first = [], 0
        for plan, end in zip(self.plans, self.epoch_ends, strict=True):
            if first < step < end:
                specs = (spec.task for at in range(first, step) for spec in self.specs(at))
                plan = _shortened(plan, Counter(specs))
            if first < step:
                plans.append(plan)
            first = end
        return plans

    @cached_property
    def epoch_ends(self) -> list[int]:
        """The step at which each epoch ends."""
        return list(accumulate(len(self.steps_of(epoch)) for epoch in range(self.epochs)))

    @property
    def steps(self) -> int:
        return self.epoch_ends[-1]

    def epoch_of(self, step: int) -> int:
        return min(bisect_right(self.epoch_ends, step), self.epochs - 1)

    def specs(self, step: int) -> tuple[BatchSpec, ...]:
        epoch = self.epoch_of(step)
        first = self.epoch_ends[epoch - 1] if epoch else 0
        return self.steps_of(epoch)[step - first]

    def batches(self, step: int) -> Iterator[Batch]:
        """The batches of a step; with accumulation, a task may have several."""
        epoch = self.epoch_of(step)
        first = self.epoch_ends[epoch - 1] if epoch else 0
        # The last step of an epoch may have fewer to accumulate.
        left = len(self._sampler_steps(epoch)) - (step - first) * self.accumulate
        for spec in self.specs(step):
            corpus = self.corpora[spec.task]
            rows = rows_of(spec, len(corpus), seed=self.seed, epoch=epoch)
            yield Batch(spec.task, rows, spec.factor / min(left, self.accumulate))

    def drawn(self, epoch: int) -> dict[str, int]:
        """The number of batches of each task in an epoch."""
        return self._sampler_steps(epoch).counts()

    def planned(self, epoch: int) -> dict[str, float]:
        """The expected number of batches of each task in an epoch."""
        shares = probabilities(
            self.sampler, self.sizes, epoch=epoch, epochs=self.epochs, batch=self.batch
        )
        total = sum(self.drawn(epoch).values())
        return {task: share * total for task, share in shares.items()}

    def steps_of(self, epoch: int) -> Steps:
        return Steps(self._sampler_steps(epoch), self.accumulate)

    def _sampler_steps(self, epoch: int) -> EpochBatches:
        return _sampler_steps(
            self.sampler, _frozen(self.sizes), _frozen(self.batch), self.seed, epoch, self.epochs
        )


def _shortened(plan: EpochCounts, batches: Mapping[str, int]) -> EpochCounts:
    """An epoch that has only these batches."""
    made = {task: batches.get(task, 0) for task in plan["batches"]}
    passes = {
        task: some * made[task] / (plan["batches"][task] or 1)
        for task, some in plan["passes"].items()
    }
    return {**plan, "batches": made, "passes": passes}


def _frozen(numbers: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(numbers.items())


@lru_cache(maxsize=2)
def _sampler_steps(
    sampler: Sampler,
    sizes: tuple[tuple[str, int], ...],
    batch: tuple[tuple[str, int], ...],
    seed: int,
    epoch: int,
    epochs: int,
) -> EpochBatches:
    return epoch_batches(
        sampler, dict(sizes), batch=dict(batch), seed=seed, epoch=epoch, epochs=epochs
    )
