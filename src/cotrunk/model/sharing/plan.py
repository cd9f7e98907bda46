"""Who owns what: at every depth a partition of the tasks; each group owns a copy of the module."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cotrunk.errors import UserError, did_you_mean

Group = frozenset[str]
Partition = tuple[Group, ...]

ENCODER = ("embeddings", "layers", "pooler")
"""The places that pretrained weights are for, and that ``freeze = "encoder"`` holds."""
TOKEN = re.compile(r"(S|I|\([^()]*\))(\d*)")


def is_in_encoder(name: str) -> bool:
    """Of a place or a parameter."""
    return name.split(".")[0] in ENCODER


@dataclass(frozen=True)
class ProjectedPlan:
    """Projected attention layers: one set per group of ``who``, beside the layers ``depths``."""

    who: Partition
    size: int
    heads: int
    depths: tuple[int, ...]
    gelu: bool = False
    bias: bool = False


@dataclass(frozen=True)
class Plan:
    """A partition of the tasks for every module of the network, from the embeddings to the neck."""

    tasks: tuple[str, ...]
    embeddings: Partition
    layers: tuple[Partition, ...]
    pooler: Partition
    neck: tuple[Partition, ...] = ()
    pooled_norm: Partition | None = None
    projected: ProjectedPlan | None = None

    def __post_init__(self) -> None:
        for place, partition in self.partitions():
            owned = sorted(task for group in partition for task in group)
            if owned != sorted(self.tasks):
                raise ValueError(
                    f"{place}: every task needs exactly one owner; "
                    f"tasks are {sorted(self.tasks)} but the groups cover {owned}"
                )

    def partitions(self) -> list[tuple[str, Partition]]:
        """Every place of the network with its partition, from the input upwards."""
        places = [("embeddings", self.embeddings)]
        places += [(f"layers.{depth}", groups) for depth, groups in enumerate(self.layers)]
        if self.projected:
            places.append(("projected", self.projected.who))
        places.append(("pooler", self.pooler))
        if self.pooled_norm:
            places.append(("pooled_norm", self.pooled_norm))
        places += [(f"neck.{depth}", groups) for depth, groups in enumerate(self.neck)]
        return places


def everyone(tasks: Sequence[str]) -> Partition:
    return (frozenset(tasks),)


def alone(tasks: Sequence[str]) -> Partition:
    return tuple(frozenset([task]) for task in tasks)


def group_name(group: Group) -> str:
    """The members by name, e.g. ``sst+sts``: names a copy in checkpoints, in whatever order the
    tasks are written."""
    return "+".join(sorted(group))


def parse_partitions(text: str, tasks: Sequence[str], *, place: str) -> tuple[Partition, ...]:
    """``"S4 (para+sts)2 I"`` as one partition per depth: S shares among all, I among none.

    Tokens are separated by blanks or ``-``, each with an optional count; a task that a
    parenthesis does not name is alone.
    """
    depths: list[Partition] = []
    rest = text.strip()
    while rest:
        token = TOKEN.match(rest)
        if token is None or (token.end() < len(rest) and rest[token.end()] not in " \t-"):
            raise UserError(
                f"{place} = {text!r}: a plan is made of S, I or (a+b|c+d), each with an optional "
                f"count, separated by blanks or '-'; cannot read {rest!r}"
            )
        count = int(token[2] or 1)
        if not 1 <= count <= 1000:
            raise UserError(f"{place} = {text!r}: a count lies in 1..1000; found {token[2]}")
        depths += [_partition(token[1], tasks, place=f"{place} = {text!r}")] * count
        rest = rest[token.end() :].lstrip(" \t-")
    return tuple(depths)


def parse_partition(text: str, tasks: Sequence[str], *, place: str) -> Partition:
    """One token of the grammar, where a single module is meant."""
    depths = parse_partitions(text, tasks, place=place)
    if len(depths) != 1:
        raise UserError(f"{place} = {text!r}: exactly one token is needed; found {len(depths)}")
    return depths[0]


def make_plan(
    tasks: Sequence[str],
    *,
    layers: int,
    encoder: str,
    embeddings: str | None = None,
    pooler: str | None = None,
    neck: str = "",
    pooled_norm: str | None = None,
    projected: ProjectedPlan | None = None,
    place: str = "sharing",
) -> Plan:
    """Read a plan: embeddings follow the first layer and the pooler the last unless named."""
    depths = parse_partitions(encoder, tasks, place=f"{place}.encoder")
    if len(depths) != layers:
        raise UserError(
            f"{place}.encoder = {encoder!r} covers {len(depths)} layers, but the encoder has "
            f"{layers}; write for example {suggest(layers)!r}"
        )

    def named(text: str | None, key: str, otherwise: Partition) -> Partition:
        return otherwise if text is None else parse_partition(text, tasks, place=f"{place}.{key}")

    return Plan(
        tasks=tuple(tasks),
        embeddings=named(embeddings, "embeddings", depths[0]),
        layers=depths,
        pooler=named(pooler, "pooler", depths[-1]),
        neck=parse_partitions(neck, tasks, place=f"{place}.neck"),
        pooled_norm=(
            pooled_norm and parse_partition(pooled_norm, tasks, place=f"{place}.pooled_norm")
        )
        or None,
        projected=projected,
    )


def suggest(layers: int) -> str:
    half = layers // 2
    return f"S{half} I{layers - half}" if half else f"S{layers}"


def _partition(token: str, tasks: Sequence[str], *, place: str) -> Partition:
    if token == "S":
        return everyone(tasks)
    if token == "I":
        return alone(tasks)
    groups = [
        [name.strip() for name in part.split("+") if name.strip()]
        for part in token[1:-1].split("|")
    ]
    named = [name for group in groups for name in group]
    unknown = [name for name in named if name not in tasks]
    if unknown or not all(groups):
        finding = f"{token} has an empty group"
        if unknown:
            finding = f"{unknown[0]!r} is no task{did_you_mean(unknown[0], tasks)}"
        raise UserError(f"{place}: a group names tasks, which are {', '.join(tasks)}; {finding}")
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise UserError(f"{place}: a task has one owner; {twice[0]!r} stands twice in {token}")
    rest = [[task] for task in tasks if task not in named]
    return tuple(frozenset(group) for group in groups + rest)
