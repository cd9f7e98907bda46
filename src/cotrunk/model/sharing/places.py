"""The places that a config can describe: encoder, neck, adapters, heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from cotrunk.errors import UserError
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.shape import Shape, masked_head_sizes, parameters
from cotrunk.model.head_plan import HeadPlan, head_size, input_widths
from cotrunk.model.sharing.low_rank_plan import (
    LowRankPlan,
    low_rank_places,
    refuse_merging_several,
)
from cotrunk.model.sharing.partition import (
    Group,
    Partition,
    parse_partition,
    parse_partitions,
    suggest,
)
from cotrunk.model.sharing.place import Place

if TYPE_CHECKING:
    from torch import nn

NO_OPTIONS: dict[str, object] = {}


@dataclass(frozen=True)
class ProjectedPlan:
    """Projected attention layers: one set per group of ``who``, beside the layers ``depths``."""

    who: Partition
    size: int
    heads: int
    depths: tuple[int, ...]
    gelu: bool = False
    bias: bool = False


def trunk_places(
    tasks: Sequence[str],
    shape: Shape,
    *,
    encoder: str,
    embeddings: str | None = None,
    pooler: str | None = None,
    neck: str = "",
    pooled_norm: str | None = None,
    projected: ProjectedPlan | None = None,
    low_rank: LowRankPlan | None = None,
    place: str = "sharing",
) -> list[Place]:
    """All places below the heads.

    By default the embeddings are shared like the first layer, and the pooler like the last.
    ``place`` is the section of the config, for errors.
    """
    depths = parse_partitions(encoder, tasks, place=f"{place}.encoder")
    if len(depths) != shape.layers:
        raise UserError(
            f"{place}.encoder = {encoder!r} covers {len(depths)} layers, but the encoder has "
            f"{shape.layers}; try {suggest(shape.layers, like=encoder)!r}"
        )

    def named(text: str | None, key: str, otherwise: Partition) -> Partition:
        return otherwise if text is None else parse_partition(text, tasks, place=f"{place}.{key}")

    layers = [layer_place(shape, partition, depth) for depth, partition in enumerate(depths)]
    norm = named(pooled_norm or None, "pooled_norm", ())
    if low_rank and low_rank.merge_at_save:
        refuse_merging_several(low_rank, layers, place=f"{place}.lora")
    necks = parse_partitions(neck, tasks, place=f"{place}.neck")
    return [
        embeddings_place(shape, named(embeddings, "embeddings", depths[0])),
        *layers,
        *([projected_place(shape, projected)] if projected else []),
        *(low_rank_places(shape, low_rank) if low_rank else []),
        pooler_place(shape, named(pooler, "pooler", depths[-1])),
        *([norm_place(shape, norm)] if norm else []),
        *(neck_place(shape, partition, depth) for depth, partition in enumerate(necks)),
    ]


def embeddings_place(shape: Shape, partition: Partition) -> Place:
    def make(_: Group) -> nn.Module:
        from cotrunk.model.encoder.embeddings import Embeddings

        return Embeddings(shape)

    return Place(
        name="embeddings",
        part="embeddings",
        partition=partition,
        make=make,
        size=parameters(shape)["embeddings"],
        acts="embed",
        pretrained=True,
        options=NO_OPTIONS,
    )


def layer_place(shape: Shape, partition: Partition, depth: int) -> Place:
    def make(_: Group) -> nn.Module:
        from cotrunk.model.encoder.layer import Layer

        return Layer(shape)

    return Place(
        name=f"layers.{depth}",
        part="layers",
        partition=partition,
        make=make,
        size=parameters(shape)["layer"],
        acts="layer",
        depth=depth,
        pretrained=True,
        options=NO_OPTIONS,
    )


def projected_place(shape: Shape, plan: ProjectedPlan) -> Place:
    """One copy has 2 s d + layers x 3 s^2 parameters, plus biases if there are any."""
    size, layers = plan.size, len(plan.depths)
    biases = size + shape.width + layers * 3 * size if plan.bias else 0

    def make(_: Group) -> nn.Module:
        from cotrunk.model.sharing.projected import ProjectedAttention

        return ProjectedAttention(
            shape,
            size=plan.size,
            heads=plan.heads,
            depths=plan.depths,
            gelu=plan.gelu,
            bias=plan.bias,
        )

    return Place(
        name="projected",
        part="pal",
        partition=plan.who,
        make=make,
        size=2 * size * shape.width + layers * 3 * size * size + biases,
        acts="beside",
        depths=plan.depths,
        rate="head",
        zeros=("leave.weight",),
        options={
            "size": plan.size,
            "heads": plan.heads,
            "layers": list(plan.depths),
            "gelu": plan.gelu,
            "bias": plan.bias,
        },
    )


def pooler_place(shape: Shape, partition: Partition) -> Place:
    def make(_: Group) -> nn.Module:
        from torch import nn

        return nn.Linear(shape.width, shape.width)

    return Place(
        name="pooler",
        part="pooler",
        partition=partition,
        make=make,
        size=parameters(shape)["pooler"],
        acts="pool",
        pretrained=True,
        options=NO_OPTIONS,
    )


def norm_place(shape: Shape, partition: Partition) -> Place:
    def make(_: Group) -> nn.Module:
        from torch import nn

        return nn.LayerNorm(shape.width, eps=1e-12)

    return Place(
        name="pooled_norm",
        part="neck",
        partition=partition,
        make=make,
        size=2 * shape.width,
        acts="vectors",
        rate="head",
        options=NO_OPTIONS,
    )


def neck_place(shape: Shape, partition: Partition, depth: int) -> Place:
    def make(_: Group) -> nn.Module:
        from cotrunk.model.sharing.neck import NeckLayer

        return NeckLayer(shape.width)

    return Place(
        name=f"neck.{depth}",
        part="neck",
        partition=partition,
        make=make,
        size=(shape.width + 1) * shape.width,
        acts="vectors",
        depth=depth,
        rate="head",
        draw="linear",
        options=NO_OPTIONS,
    )


def head_places(tasks: Sequence[Task], heads: Mapping[str, HeadPlan], shape: Shape) -> list[Place]:
    """A head for every task, wide enough for what it reads."""
    width = shape.width
    inputs = input_widths({task.name: task for task in tasks}, heads, width)
    return [
        masked_head_place(task.name, shape)
        if task.labels.is_tied_to_words
        else head_place(task, heads[task.name], width, inputs[task.name])
        for task in tasks
    ]


def linear_head_place(task: str, width: int, outputs: int) -> Place:
    """A head of one linear layer, for a task known only by its number of outputs."""

    def make(_: Group) -> nn.Module:
        from torch import nn

        return nn.Linear(width, outputs)

    return _head(task, make, (width + 1) * outputs)


def head_place(task: Task, plan: HeadPlan, width: int, inputs: Sequence[int]) -> Place:
    def make(_: Group) -> nn.Module:
        from cotrunk.model.heads import Head

        return Head(task, plan, width, inputs)

    return _head(task.name, make, head_size(task, plan, width, inputs))


def masked_head_place(task: str, shape: Shape) -> Place:
    """Without the word table, which belongs to the embeddings."""

    def make(_: Group) -> nn.Module:
        from cotrunk.model.masked_head import MaskedHead

        return MaskedHead(shape)

    place = _head(task, make, sum(map(prod, masked_head_sizes(shape).values())))
    return replace(place, draw="normal", weights="mlm", tied=True)


def _head(task: str, make: Callable[[Group], nn.Module], size: int) -> Place:
    return Place(
        name=f"heads.{task}",
        part="heads",
        partition=(frozenset([task]),),
        make=make,
        size=size,
        acts="head",
        rate="head",
        draw="linear",
        options=NO_OPTIONS,
    )
