"""Starts a network from a trained one with another plan (``train.init_from``)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from cotrunk.data.batches.text import PairFormat, Template, pack_rows
from cotrunk.errors import UserError
from cotrunk.model.encoder.dropout import NO_DROPOUT
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.owned import Owned
from cotrunk.model.sharing.partition import Group, group_name
from cotrunk.model.sharing.place import Place
from cotrunk.model.sharing.plan import SERVES_SOME


@torch.no_grad()
def warm_start(network: Network, source: Network) -> list[str]:
    """Copy every module whose tasks shared one copy before; returns the names of the others.

    A module is copied completely or not at all.
    """
    _refuse_other_parts(network, source)
    fresh: list[str] = []
    for place, owned in network.places():
        old = source.owned.get(place.name)
        for name, copy in owned.items():
            group = owned.owners[name]
            parameters = dict(copy.named_parameters())
            tensors = _tensors(old, group, place, source) if old is not None else {}
            if _sizes(tensors) == _sizes(parameters):
                for key, parameter in parameters.items():
                    parameter.copy_(tensors[key])
            else:
                fresh.append(place.prefix(group))
    return fresh


def _sizes(parameters: Mapping[str, torch.nn.Parameter]) -> dict[str, torch.Size]:
    return {name: parameter.shape for name, parameter in parameters.items()}


def _tensors(
    old: Owned, group: Group, place: Place, source: Network
) -> dict[str, torch.nn.Parameter]:
    """The parameters of the one copy that served the group's tasks."""
    known = group & set(source.tasks)
    serving = [name for name, owners in old.owners.items() if owners & known]
    if not known:  # new tasks start from the copy that all others share
        serving = list(old)
    if not serving:
        return {}
    if len(serving) > 1:
        raise UserError(
            f"train.init_from: {group_name(group)} share {place.name}, but in the run it has "
            f"{len(serving)} copies ({', '.join(serving)}), which cannot be merged; "
            "start from a run that shares more"
        )
    return dict(old[serving[0]].named_parameters())


def _refuse_other_parts(network: Network, source: Network) -> None:
    """Every place of the run must be in this plan, with the same options."""
    lost = [
        place.name
        for place in source.plan.places
        if place.name not in network.owned and place.acts not in SERVES_SOME
    ]
    if lost:
        raise UserError(
            f"train.init_from: the run has {', '.join(lost)}, but this plan does not; "
            "only the owners in [sharing] may differ"
        )
    now = {place.name: place for place in network.plan.places}
    for old in source.plan.places:
        new = now.get(old.name, old)
        if new.options != old.options:
            had = ", ".join(f"{key} = {value}" for key, value in (old.options or {}).items())
            raise UserError(
                f"train.init_from: {old.part} of the run has {had}; "
                "use the same values; only its owners may differ"
            )


@torch.inference_mode()
def difference(
    one: Network,
    other: Network,
    tasks: Sequence[str],
    template: Template,
    pair_formats: Mapping[str, PairFormat],
) -> float:
    """The largest difference of two networks' outputs, on rows of random tokens.

    It is measured in units of the heads.
    """
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
        unit = one.tasks[task].labels.output_unit[1]
        largest = max(largest, apart.abs().max().item() / unit)
    return largest


def have_same_heads(one: Network, other: Network, task: str) -> bool:
    """Whether the outputs of two networks can be compared."""
    return _heads_for(one, task) == _heads_for(other, task)


def _heads_for(network: Network, task: str) -> list[tuple[int, list[object], HeadPlan]]:
    """The task and those it reads, without dropout and losses, which do not affect outputs."""
    plans, tasks = network.head_plans, network.tasks
    return [
        (
            tasks[name].texts,
            tasks[name].labels.reading_key(),
            replace(plans[name], dropout=0.0, inner_dropout=0.0, output_dropout=0.0),
        )
        for name in network.needed_by([task])
    ]
