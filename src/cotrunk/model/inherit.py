"""Start a network from a trained one of another plan: each owner copies what its tasks had."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from cotrunk.data.text import Template, View, lay_out
from cotrunk.errors import UserError
from cotrunk.model.network import Network
from cotrunk.model.noise import SILENCE
from cotrunk.model.owned import Owned
from cotrunk.model.plan import Group


@torch.no_grad()
def inherit(network: Network, source: Network) -> list[str]:
    """Copy every parameter whose owners had one owner before; returns the names of the others."""
    before = dict(source.owned_modules())
    fresh: list[str] = []
    for place, owned in network.owned_modules():
        for name, copy in owned.items():
            group = owned.owners[name]
            old = before.get(place)
            parameters = dict(copy.named_parameters())
            tensors = _tensors(old, group, place, source) if old is not None else {}
            for key, parameter in parameters.items():
                if key in tensors and tensors[key].shape == parameter.shape:
                    parameter.copy_(tensors[key])
                else:
                    fresh.append(f"{place}.{name}.{key}")
    return fresh


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


@torch.inference_mode()
def difference(
    one: Network,
    other: Network,
    tasks: Sequence[str],
    template: Template,
    views: Mapping[str, View],
) -> float:
    """How far apart two networks' outputs are at most, on rows of random tokens."""
    random = np.random.default_rng(0)
    largest = 0.0
    for task in tasks:
        rows = [
            tuple(
                random.integers(0, one.shape.vocabulary, size=n) for _ in range(views[task].texts)
            )
            for n in (1, 5, 17)
        ]
        text, sides = lay_out(template, rows, views[task])
        apart = one(text, sides, [task], SILENCE)[task] - other(text, sides, [task], SILENCE)[task]
        largest = max(largest, apart.abs().max().item())
    return largest
