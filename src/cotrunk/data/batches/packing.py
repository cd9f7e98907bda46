"""Sequences concatenated without padding, sorted by length.

Shapes: T tokens, S sequences, R rows, N sequences of a bucket, L the longest of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

MOST_BUCKETS = 8


@dataclass(frozen=True)
class Bucket:
    """Adjacent sequences that attention pads to one length: ``rows x longest`` cells.

    ``padding_NL`` is -inf in cells without a token; None if all lengths are equal.
    """

    rows: int
    longest: int
    padding_NL: Tensor | None

    @property
    def cells(self) -> int:
        return self.rows * self.longest

    def to(self, device: torch.device) -> "Bucket":
        return (
            self
            if self.padding_NL is None
            else replace(self, padding_NL=self.padding_NL.to(device))
        )


@dataclass(frozen=True, eq=False)
class Packed:
    """The tokens of many sequences, concatenated; sequence s starts at ``first_S[s]``.

    ``place_S`` maps the original order of sequences to the packed order. The padded cells of all
    buckets are concatenated, too: the sequence of token t has ``longest_T[t]`` cells from
    ``begin_T[t]`` on. ``layouts`` caches attention's padded layout, by number of heads.
    """

    token_T: Tensor
    segment_T: Tensor
    position_T: Tensor
    begin_T: Tensor
    longest_T: Tensor
    first_S: Tensor
    length_S: Tensor
    place_S: Tensor
    buckets: tuple[Bucket, ...]
    layouts: dict[int, Any] = field(default_factory=dict, repr=False)

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
        buckets = tuple(bucket.to(device) for bucket in self.buckets)
        return replace(self, **moved, buckets=buckets, layouts={})


@dataclass(frozen=True)
class RowIndex:
    """Which sequences of a packed batch belong to each row.

    ``places`` has the sequence of every row, or two if the texts of a pair are encoded separately.
    ``swapped``: the two are a joined pair in both orders, whose answers are averaged. Tasks about
    tokens have ``site_N``, the positions of their sites among the packed tokens, and ``count_R``,
    the number of sites of each row.
    """

    places: tuple[Tensor, ...]
    swapped: bool = False
    site_N: Tensor | None = None
    count_R: Tensor | None = None

    def to(self, device: torch.device) -> "RowIndex":
        site_N, count_R = (x if x is None else x.to(device) for x in (self.site_N, self.count_R))
        places = tuple(place.to(device) for place in self.places)
        return RowIndex(places, self.swapped, site_N, count_R)


def pack(sequences: Sequence[np.ndarray], segments: Sequence[np.ndarray]) -> Packed:
    """Concatenate sequences (token ids and segment ids), shortest first."""
    length = np.fromiter(map(len, sequences), np.int64, len(sequences))
    order = np.argsort(length, kind="stable")
    sorted_length = length[order]
    first = np.concatenate([[0], np.cumsum(sorted_length)[:-1]])
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    position = np.arange(int(sorted_length.sum())) - np.repeat(first, sorted_length)
    buckets = tuple(_buckets(sorted_length))
    longest = np.repeat([bucket.longest for bucket in buckets], [bucket.rows for bucket in buckets])
    begin = np.cumsum(longest) - longest
    return Packed(
        token_T=torch.from_numpy(np.concatenate([sequences[s] for s in order]).astype(np.int64)),
        segment_T=torch.from_numpy(np.concatenate([segments[s] for s in order]).astype(np.int64)),
        position_T=torch.from_numpy(position),
        begin_T=torch.from_numpy(np.repeat(begin, sorted_length)),
        longest_T=torch.from_numpy(np.repeat(longest, sorted_length)),
        first_S=torch.from_numpy(first),
        length_S=torch.from_numpy(sorted_length),
        place_S=torch.from_numpy(place),
        buckets=buckets,
    )


def bucket_ends(lengths: np.ndarray, most: int = MOST_BUCKETS) -> list[int]:
    """Where to end each bucket to minimise the sum of rows x longest^2.

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


def _buckets(lengths: np.ndarray) -> Iterator[Bucket]:
    begin = 0
    for end in bucket_ends(lengths):
        mine, longest = lengths[begin:end], int(lengths[end - 1])
        padding = None
        if mine[0] != longest:
            real = np.arange(longest)[None, :] < mine[:, None]
            padding = torch.from_numpy(np.where(real, 0.0, -np.inf).astype(np.float32))
        yield Bucket(end - begin, longest, padding)
        begin = end
