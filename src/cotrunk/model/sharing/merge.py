"""Merging low-rank adapters into the weights of their layers when saving."""

from copy import deepcopy

import torch
from torch import Tensor

from cotrunk.model.encoder.layer import Layer
from cotrunk.model.encoder.shape import LinearMap
from cotrunk.model.sharing.low_rank import LowRank
from cotrunk.model.sharing.network import Network


@torch.no_grad()
def merge(layer: Layer, low_rank: LowRank) -> None:
    """Add the adapters to the layer's weights, which gives the same outputs without them."""
    query, key, value = layer.attention.qkv.weight.chunk(3)
    weights: dict[LinearMap, Tensor] = {
        "query": query,
        "key": key,
        "value": value,
        "out": layer.attention.out.weight,
        "up": layer.up.weight,
        "down": layer.down.weight,
    }
    for name, weight in weights.items():
        if name in low_rank:
            weight.copy_(weight.double() + low_rank.product(name))


def merged_tensors(network: Network) -> dict[str, Tensor]:
    """All parameters by name, with the adapters merged that have ``merged_at_save``."""
    tensors = dict(network.state_dict())
    for place in (place for place in network.plan.places if place.merged_at_save):
        adapters = network.owned[place.name]
        layer = network.plan.acting("layer")[place.depth or 0]
        for name, copy in network.owned[layer.name].items():
            group = network.owned[layer.name].owners[name]
            twin, mine = deepcopy(copy), adapters.copy_of(min(group))
            assert isinstance(twin, Layer)
            assert isinstance(mine, LowRank)
            merge(twin, mine)
            prefix = layer.prefix(group)
            tensors |= {f"{prefix}.{key}": tensor for key, tensor in twin.state_dict().items()}
        for name, owned in network.places_of().items():
            if owned is place:
                del tensors[name]
    return {name: tensor.detach().cpu() for name, tensor in tensors.items()}
