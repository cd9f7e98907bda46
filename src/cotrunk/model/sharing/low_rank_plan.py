"""Low-rank adapters as places of a plan; parameter counts without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cotrunk.errors import UserError
from cotrunk.model.encoder.shape import LinearMap, Shape, linear_maps
from cotrunk.model.sharing.partition import Group, Partition, group_name
from cotrunk.model.sharing.place import Place

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class LowRankPlan:
    """Adapters on the linear maps ``on`` of the layers ``depths``: one set per group of ``who``."""

    who: Partition
    rank: int
    alpha: float
    on: tuple[LinearMap, ...]
    depths: tuple[int, ...]
    dropout: float = 0.0
    merge_at_save: bool = False


def low_rank_size(shape: Shape, rank: int, on: Sequence[LinearMap]) -> int:
    """Parameters of one layer's adapters: ``rank x (in + out)`` for each map."""
    return sum(rank * sum(linear_maps(shape)[name]) for name in on)


def low_rank_places(shape: Shape, plan: LowRankPlan) -> list[Place]:
    return [low_rank_place(shape, plan, depth) for depth in plan.depths]


def low_rank_place(shape: Shape, plan: LowRankPlan, depth: int) -> Place:
    def make(_: Group) -> nn.Module:
        from cotrunk.model.sharing.low_rank import LowRank

        return LowRank(shape, plan.rank, plan.alpha, plan.on, dropout=plan.dropout)

    return Place(
        name=f"lora.{depth}",
        part="lora",
        partition=plan.who,
        make=make,
        size=low_rank_size(shape, plan.rank, plan.on),
        acts="inside",
        depth=depth,
        rate="head",
        draw="linear",
        zeros=tuple(f"{name}.B" for name in plan.on),
        options={"rank": plan.rank, "alpha": plan.alpha, "on": list(plan.on)},
        merged_at_save=plan.merge_at_save,
    )


def refuse_merging_several(plan: LowRankPlan, layers: Sequence[Place], *, place: str) -> None:
    """The adapters of several owners cannot be merged into one shared layer."""
    for layer in (layer for layer in layers if layer.depth in plan.depths):
        for group in layer.partition:
            mine = [adapter for adapter in plan.who if adapter & group]
            if len(mine) > 1:
                owners = " and ".join(map(group_name, mine))
                raise UserError(
                    f"{place}.merge_at_save = true: {group_name(group)} share {layer.name}, but "
                    f"{owners} have different adapters; share adapters and layers alike, or "
                    "set merge_at_save = false"
                )
