"""Sequences laid end to end, sorted by length, with no padding.

Shapes: T tokens, S sequences, R rows, N sequences of a bucket, L the longest of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

MOST_BUCKETS = 8


@dataclass(frozen=True)
class Bucket:
    """Neighbouring sequences that attention pads to one length.

    ``spread`` lists, for every cell of [rows, longest], its token within the bucket (a padding
    cell repeats the first one); ``collect`` lists the cells that hold tokens. Both are None
    where all lengths are equal: then the tokens already lie as [rows, longest].
    """

    first_token: int
    tokens: int
    rows: int
    longest: int
    spread: Tensor | None
    collect: Tensor | None
    padding_NL: Tensor | None

    def part_of(self, x: Tensor) -> Tensor:
        """What belongs to this bucket among all tokens."""
        return x.narrow(0, self.first_token, self.tokens)

    def to(self, device: torch.device) -> "Bucket":
        if self.spread is None or self.collect is None or self.padding_NL is None:
            return self
        return replace(
            self,
            spread=self.spread.to(device),
            collect=self.collect.to(device),
            padding_NL=self.padding_NL.to(device),
        )


@dataclass(frozen=True)
class Packed:
    """The tokens of many sequences in one row; sequence s starts at ``first_S[s]``.

    ``place_S`` gives, for the sequences in the order they came, where they now stand.
    """

    token_T: Tensor
    segment_T: Tensor
    position_T: Tensor
    first_S: Tensor
    length_S: Tensor
    place_S: Tensor
    buckets: tuple[Bucket, ...]

    @property
    def sequences(self) -> int:
        return len(self.first_S)

    def to(self, device: torch.device) -> "Packed":
        if device.type == "cpu":
            return self
        moved = {
            field: value.to(device)
            for field, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved, buckets=tuple(b.to(device) for b in self.buckets))


@dataclass(frozen=True)
class Sides:
    """Where the rows of a batch find their sequences.

    For every row the place of its one sequence, or of its two when a pair is encoded separately.
    ``swapped``: the two are one joined pair in both orders, whose answers are to be averaged.
    """

    places: tuple[Tensor, ...]
    swapped: bool = False

    def to(self, device: torch.device) -> "Sides":
        return Sides(tuple(place.to(device) for place in self.places), self.swapped)


def pack(sequences: Sequence[np.ndarray], segments: Sequence[np.ndarray]) -> Packed:
    """Lay the sequences (token ids and segment ids each) end to end, shortest first."""
    length = np.fromiter(map(len, sequences), np.int64, len(sequences))
    order = np.argsort(length, kind="stable")
    sorted_length = length[order]
    first = np.concatenate([[0], np.cumsum(sorted_length)[:-1]])
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    position = np.arange(int(sorted_length.sum())) - np.repeat(first, sorted_length)
    return Packed(
        token_T=torch.from_numpy(np.concatenate([sequences[s] for s in order]).astype(np.int64)),
        segment_T=torch.from_numpy(np.concatenate([segments[s] for s in order]).astype(np.int64)),
        position_T=torch.from_numpy(position),
        first_S=torch.from_numpy(first),
        length_S=torch.from_numpy(sorted_length),
        place_S=torch.from_numpy(place),
        buckets=tuple(_buckets(sorted_length, first)),
    )


def cuts(lengths: np.ndarray, most: int = MOST_BUCKETS) -> list[int]:
    """Where to end each bucket so that the sum of rows x longest^2 is least.

    Dynamic programming over the distinct values of the sorted ``lengths``.
    """
    value, count = np.unique(lengths, return_counts=True)
    end = np.cumsum(count)
    begin = end - count
    # cost[i, j]: one bucket holding the distinct lengths i..j
    cost = (end[None, :] - begin[:, None]) * value[None, :].astype(np.float64) ** 2
    cost[np.tril_indices(len(value), -1)] = np.inf
    best, choices = cost[0], []
    for _ in range(min(most, len(value)) - 1):
        total = np.concatenate([[0.0], best[:-1]])[:, None] + cost
        total[0] = cost[0]
        choices.append(np.argmin(total, axis=0))
        best = np.min(total, axis=0)
    ends, last = [], len(value) - 1
    for choice in reversed(choices):
        ends.append(int(end[last]))
        if choice[last] == 0:
            return ends[::-1]
        last = int(choice[last]) - 1
    ends.append(int(end[last]))
    return ends[::-1]


def _buckets(lengths: np.ndarray, first: np.ndarray) -> list[Bucket]:
    buckets, begin = [], 0
    for end in cuts(lengths):
        mine = lengths[begin:end]
        rows, longest, tokens = end - begin, int(mine[-1]), int(mine.sum())
        spread = collect = padding = None
        if mine[0] != longest:
            offset = np.arange(longest)
            real = offset[None, :] < mine[:, None]
            cells = np.where(real, (first[begin:end] - first[begin])[:, None] + offset, 0)
            spread = torch.from_numpy(cells.reshape(-1))
            collect = torch.from_numpy(np.flatnonzero(real))
            padding = torch.from_numpy(np.where(real, 0.0, -np.inf).astype(np.float32))
        buckets.append(Bucket(int(first[begin]), tokens, rows, longest, spread, collect, padding))
        begin = end
    return buckets
