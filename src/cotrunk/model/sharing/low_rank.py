"""Low-rank adapters (Hu et al. 2022): ``W x + alpha / rank B A x`` inside a layer.

Shapes: T tokens, D input width, O output width, R sum of the ranks of all maps.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.encoder.shape import LinearMap, Shape, linear_maps


class LowRankPair(nn.Module):
    """The adapter of one linear map, initialised as in peft: B is zero, so it adds nothing."""

    def __init__(self, width_in: int, width_out: int, rank: int) -> None:
        super().__init__()
        self.A = nn.Parameter(torch.empty(rank, width_in))
        self.B = nn.Parameter(torch.zeros(width_out, rank))
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))


class LowRank(nn.ModuleDict):
    """The adapters of one layer: a pair for each linear map of ``on``."""

    def __init__(
        self,
        shape: Shape,
        rank: int,
        alpha: float,
        on: Sequence[LinearMap],
        *,
        dropout: float = 0.0,
    ) -> None:
        maps = linear_maps(shape)
        assert maps.keys() >= set(on), on
        super().__init__({name: LowRankPair(*maps[name], rank) for name in maps if name in on})
        self.width_out = {name: width for name, (_, width) in maps.items()}
        self.scale = alpha / rank
        self.dropout = dropout

    def add(
        self, maps: Sequence[LinearMap], x_TD: Tensor, out_TO: Tensor, masks: DropoutStream
    ) -> Tensor:
        if not self._on(maps):
            return out_TO
        out_RO = self._blocks_B(maps).T
        return torch.addmm(out_TO, self._project(maps, x_TD, masks), out_RO, alpha=self.scale)

    def fold(
        self, maps: Sequence[LinearMap], x_TD: Tensor, weight_OD: Tensor, masks: DropoutStream
    ) -> tuple[Tensor, Tensor]:
        """``x`` and ``W + scale B A``; with dropout before A, ``[x, A x]`` and ``[W, scale B]``.

        With B = 0 the sum is bit-identical to W; the wider product would round differently.
        """
        if not self._on(maps):
            return x_TD, weight_OD
        out_OR = self._blocks_B(maps)
        if self._drops_nothing(masks):
            return x_TD, torch.addmm(weight_OD, out_OR, self._stacked_A(maps), alpha=self.scale)
        wide_x = torch.cat([x_TD, self._project(maps, x_TD, masks)], dim=1)
        return wide_x, torch.cat([weight_OD, self.scale * out_OR], dim=1)

    def product(self, name: LinearMap) -> Tensor:
        """``scale B A`` in float64: what the adapter adds to the weight of a map."""
        pair = self._pair(name)
        return self.scale * (pair.B.detach().double() @ pair.A.detach().double())

    def _on(self, maps: Sequence[LinearMap]) -> list[LinearMap]:
        return [name for name in maps if name in self]

    def _pair(self, name: LinearMap) -> LowRankPair:
        pair = self[name]
        assert isinstance(pair, LowRankPair)
        return pair

    def _drops_nothing(self, masks: DropoutStream) -> bool:
        return masks.disabled or self.dropout == 0

    def _project(self, maps: Sequence[LinearMap], x_TD: Tensor, masks: DropoutStream) -> Tensor:
        """``A x`` of every map; with dropout each map has its own mask."""
        if self._drops_nothing(masks):
            return F.linear(x_TD, self._stacked_A(maps))
        inputs = ((self._pair(name), masks.drop(x_TD, self.dropout)) for name in self._on(maps))
        return torch.cat([F.linear(x, pair.A) for pair, x in inputs], dim=1)

    def _stacked_A(self, maps: Sequence[LinearMap]) -> Tensor:
        """The A of all maps, stacked as [R, D]."""
        return torch.cat([self._pair(name).A for name in self._on(maps)])

    def _blocks_B(self, maps: Sequence[LinearMap]) -> Tensor:
        """The B of every map as blocks [O, R]; a map without an adapter has rows of zeros.

        One product including the zeros is cheaper than one per map and a concatenation.
        """
        like = self._pair(self._on(maps)[0]).B
        blocks = [
            self._pair(name).B if name in self else like.new_zeros(self.width_out[name], 0)
            for name in maps
        ]
        return torch.block_diag(*blocks)
