"""The batches of a step. The only position in the stream is the number of the step."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from cotrunk.data.cache import Corpus
from cotrunk.data.sampling import Law, Turn, Turns, epoch_turns, probabilities, rows_of


@dataclass(frozen=True)
class Steps(Sequence[tuple[Turn, ...]]):
    """The turns of every optimizer step of an epoch: ``accumulate`` steps of the law make one."""

    law_steps: Turns
    accumulate: int

    def __len__(self) -> int:
        return -(-len(self.law_steps) // self.accumulate)

    def __getitem__(self, at: int) -> tuple[Turn, ...]:  # type: ignore[override]
        first = range(len(self))[at] * self.accumulate
        together = range(first, min(first + self.accumulate, len(self.law_steps)))
        return tuple(turn for step in together for turn in self.law_steps[step])


@dataclass(frozen=True)
class Batch:
    """Rows of one task. ``share`` is what this batch counts for in its step's loss."""

    task: str
    rows: np.ndarray
    target_R: Tensor
    share: float


@dataclass(frozen=True)
class Stream:
    """All batches of a run, as a pure function of (seed, step)."""

    corpora: Mapping[str, Corpus]
    law: Law
    batch: Mapping[str, int]
    seed: int
    epochs: int
    accumulate: int = 1

    @property
    def sizes(self) -> dict[str, int]:
        return {task: len(corpus) for task, corpus in self.corpora.items()}

    @cached_property
    def epoch_ends(self) -> list[int]:
        """The step at which each epoch is over."""
        return list(accumulate(len(self.steps_of(epoch)) for epoch in range(self.epochs)))

    @property
    def steps(self) -> int:
        return self.epoch_ends[-1]

    def epoch_of(self, step: int) -> int:
        return min(bisect_right(self.epoch_ends, step), self.epochs - 1)

    def turns(self, step: int) -> tuple[Turn, ...]:
        epoch = self.epoch_of(step)
        first = self.epoch_ends[epoch - 1] if epoch else 0
        return self.steps_of(epoch)[step - first]

    def batches(self, step: int) -> Iterator[Batch]:
        """One batch per turn of the step; with accumulation a task may have several."""
        epoch = self.epoch_of(step)
        first = self.epoch_ends[epoch - 1] if epoch else 0
        # The last step of an epoch may have fewer to accumulate.
        left = len(self._law_steps(epoch)) - (step - first) * self.accumulate
        for turn in self.turns(step):
            corpus = self.corpora[turn.task]
            rows = rows_of(turn, len(corpus), seed=self.seed, epoch=epoch)
            target_R = torch.from_numpy(corpus.label[rows].astype(np.float32))
            yield Batch(turn.task, rows, target_R, turn.factor / min(left, self.accumulate))

    def drawn(self, epoch: int) -> dict[str, int]:
        """How many batches of each task an epoch has."""
        return self._law_steps(epoch).counts()

    def planned(self, epoch: int) -> dict[str, float]:
        """How many batches of each task its law expects an epoch to have."""
        shares = probabilities(
            self.law, self.sizes, epoch=epoch, epochs=self.epochs, batch=self.batch
        )
        total = sum(self.drawn(epoch).values())
        return {task: share * total for task, share in shares.items()}

    def steps_of(self, epoch: int) -> Steps:
        return Steps(self._law_steps(epoch), self.accumulate)

    def _law_steps(self, epoch: int) -> Turns:
        return _law_steps(
            self.law, _frozen(self.sizes), _frozen(self.batch), self.seed, epoch, self.epochs
        )


def _frozen(numbers: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(numbers.items())


@lru_cache(maxsize=2)
def _law_steps(
    law: Law,
    sizes: tuple[tuple[str, int], ...],
    batch: tuple[tuple[str, int], ...],
    seed: int,
    epoch: int,
    epochs: int,
) -> Turns:
    return epoch_turns(law, dict(sizes), batch=dict(batch), seed=seed, epoch=epoch, epochs=epochs)
