"""The padded layout in which attention works: per bucket, per head.

Shapes: T tokens, D width, H heads, E width of a head, N rows of a bucket, L its longest sequence,
C cells (token positions, padding included) of all buckets and heads. Two letters on one axis
(``NH``) are flattened together.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from cotrunk.data.batches.packing import Bucket, Packed


@dataclass(frozen=True)
class PaddedLayout:
    """The buckets end to end, each as [rows, heads, longest].

    ``place_TH`` is the cell of every token and head; ``source_C`` is the inverse: token x heads +
    head. Padding cells point at the first token.
    """

    heads: int
    place_TH: Tensor
    source_C: Tensor
    buckets: tuple[Bucket, ...]

    @staticmethod
    def of(text: Packed, *, heads: int = 1) -> "PaddedLayout":
        """The layout of a batch, cached for all layers."""
        if heads not in text.layouts:
            text.layouts[heads] = PaddedLayout._make(text, heads)
        found: PaddedLayout = text.layouts[heads]
        return found

    @staticmethod
    def _make(text: Packed, heads: int) -> "PaddedLayout":
        head_H = torch.arange(heads, device=text.begin_T.device)
        first_T1 = (text.begin_T * heads + text.position_T)[:, None]
        place_TH = (first_T1 + head_H * text.longest_T[:, None]).flatten()
        source_C = place_TH.new_zeros(heads * sum(bucket.cells for bucket in text.buckets))
        source_C[place_TH] = torch.arange(len(place_TH), device=place_TH.device)
        return PaddedLayout(heads, place_TH, source_C, text.buckets)

    def spread(self, x: Tensor, *, parts: int = 1) -> Tensor:
        """[T, parts x D] -> [parts, C, E]."""
        part_P1 = torch.arange(parts, device=x.device)[:, None]
        token_C = self.source_C.div(self.heads, rounding_mode="floor")
        source_PC = self.source_C + (token_C * (parts - 1) + part_P1) * self.heads
        width = x.shape[1] // (parts * self.heads)
        return x.view(-1, width).index_select(0, source_PC.flatten()).view(parts, -1, width)

    def spread_over_zeros(self, x_TD: Tensor) -> Tensor:
        """[T, D] -> [C, E], with zeros in padding cells."""
        x_THE = x_TD.reshape(len(self.place_TH), -1)
        out_CE = x_TD.new_zeros(len(self.source_C), x_THE.shape[1])
        return out_CE.index_copy_(0, self.place_TH, x_THE)

    def collect(self, x_PCE: Tensor) -> Tensor:
        """[parts, C, E] -> [T, parts x D]."""
        parts, cells, width = x_PCE.shape
        part_P1 = torch.arange(parts, device=x_PCE.device)[:, None]
        place_TPH = self.place_TH.view(-1, 1, self.heads) + part_P1 * cells
        taken = x_PCE.view(-1, width).index_select(0, place_TPH.flatten())
        return taken.view(len(place_TPH), -1)

    def split(self, x_CE: Tensor) -> list[Tensor]:
        """The buckets of [C, E], as [NH, L, E]."""
        parts = x_CE.split([self.heads * bucket.cells for bucket in self.buckets])
        return [
            part.view(self.heads * bucket.rows, bucket.longest, -1)
            for bucket, part in zip(self.buckets, parts, strict=True)
        ]

    @property
    def scores(self) -> int:
        """The number of attention scores of all buckets and heads."""
        return sum(self.heads * bucket.cells * bucket.longest for bucket in self.buckets)

    def split_scores(self, x: Tensor) -> list[Tensor]:
        """The buckets of [scores], as [NH, L, L]."""
        parts = x.split([self.heads * bucket.cells * bucket.longest for bucket in self.buckets])
        return [
            part.view(self.heads * bucket.rows, bucket.longest, bucket.longest)
            for bucket, part in zip(self.buckets, parts, strict=True)
        ]
