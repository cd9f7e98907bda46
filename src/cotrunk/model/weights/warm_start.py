"""Start a network from a trained one of another plan: each owner copies what its tasks had."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from cotrunk.data.batches.text import PairFormat, Template, pack_rows
from cotrunk.errors import UserError
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.dropout import NO_DROPOUT
from cotrunk.model.heads import HeadPlan
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.owned import Owned
from cotrunk.model.sharing.plan import Group


@torch.no_grad()
def warm_start(network: Network, source: Network) -> list[str]:
    """Copy every module whose owners had one owner before; returns the names of the others.

    A module is copied as a whole or not at all: half of a trained head is of no use.
    """
    before = dict(source.owned_modules())
    _refuse_other_parts(network, source)
    fresh: list[str] = []
    for place, owned in network.owned_modules():
        for name, copy in owned.items():
            group = owned.owners[name]
            old = before.get(place)
            parameters = dict(copy.named_parameters())
            tensors = _tensors(old, group, place, source) if old is not None else {}
            if _sizes(tensors) == _sizes(parameters):
                for key, parameter in parameters.items():
                    parameter.copy_(tensors[key])
            else:
                fresh.append(f"{place}.{name}")
    return fresh


def _sizes(parameters: Mapping[str, torch.nn.Parameter]) -> dict[str, torch.Size]:
    return {name: parameter.shape for name, parameter in parameters.items()}


def _tensors(
    old: Owned, group: Group, place: str, source: Network
) -> dict[str, torch.nn.Parameter]:
    """The parameters of the one copy that served the group's tasks."""
    known = group & set(source.tasks)
    serving = [name for name, owners in old.owners.items() if owners & known]
    if not known:  # a new task: it starts from the trunk all others share, if they do
        serving = [name for name in old if place != "heads"]
    if not serving:
        return {}
    if len(serving) > 1:
        raise UserError(
            f"train.init_from: {place} of {'+'.join(sorted(group))} was {len(serving)} copies "
            f"({', '.join(serving)}); copies cannot be merged: start from a run that shares more"
        )
    return dict(old[serving[0]].named_parameters())


def _refuse_other_parts(network: Network, source: Network) -> None:
    """What the run has and this plan has not, or has otherwise, could only be thrown away."""
    places = dict(network.owned_modules())
    lost = [place for place, old in source.owned_modules() if len(old) and place not in places]
    if lost:
        raise UserError(
            f"train.init_from: the run has {', '.join(lost)}, and this plan has not; "
            "write sharing as it is there, and change only who owns what"
        )
    one, other = network.plan.projected, source.plan.projected
    if one and other and replace(one, who=()) != replace(other, who=()):
        raise UserError(
            "train.init_from: sharing.pal of the run has "
            f"size = {other.size}, heads = {other.heads}, layers = {list(other.depths)}, "
            f"gelu = {other.gelu}, bias = {other.bias}; write the same, only who may differ"
        )


@torch.inference_mode()
def difference(
    one: Network,
    other: Network,
    tasks: Sequence[str],
    template: Template,
    pair_formats: Mapping[str, PairFormat],
) -> float:
    """How far apart two networks' outputs are at most, on rows of random tokens."""
    random = np.random.default_rng(0)
    largest = 0.0
    for task in tasks:
        rows = [
            tuple(
                random.integers(0, one.shape.vocabulary, size=n)
                for _ in range(pair_formats[task].texts)
            )
            for n in (1, 5, 17)
        ]
        sites = (
            [np.arange(len(row[0])) for row in rows] if one.tasks[task].is_about_tokens else None
        )
        text, index = pack_rows(template, rows, pair_formats[task], sites)
        apart = (
            one(text, index, [task], NO_DROPOUT)[task]
            - other(text, index, [task], NO_DROPOUT)[task]
        )
        largest = max(largest, apart.abs().max().item())
    return largest


def have_same_heads(one: Network, other: Network, task: str) -> bool:
    """Else there are no outputs to compare."""
    return _heads_for(one, task) == _heads_for(other, task)


def _heads_for(network: Network, task: str) -> list[tuple[Task, HeadPlan]]:
    """The task and those it reads, as far as they decide about outputs."""
    plans = network.head_plans
    return [
        (
            network.tasks[name],
            replace(plans[name], dropout=0.0, inner_dropout=0.0, output_dropout=0.0),
        )
        for name in network.needed_by([task])
    ]
