"""What a network starts from: pretrained tensors where there are any, else keyed random values."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.owned import Owned


@torch.no_grad()
def initialise(network: Network, tensors: Mapping[str, Tensor], *, seed: int) -> list[str]:
    """Fill every parameter; all copies of one module start equal. Returns what was drawn afresh.

    A drawn value is a function of the seed and of the module's place alone: neither the other
    tasks nor the number of copies change it.
    """
    drawn: list[str] = []
    for place, owned in network.owned_modules():
        for owner, copy in owned.items():
            for name, parameter in copy.named_parameters():
                key = f"{place}.{owner}.{name}" if place == "heads" else f"{place}.{name}"
                if key in tensors:
                    parameter.copy_(tensors[key])
                else:
                    _draw(copy, name, parameter, key, seed)
                    drawn.append(key)
    _centre_heads(network)
    return list(dict.fromkeys(drawn))


def _draw(module: nn.Module, name: str, parameter: Tensor, key: str, seed: int) -> None:
    place = key.split(".")[0]
    owner = module.get_submodule(name.rpartition(".")[0])
    if isinstance(owner, nn.LayerNorm):
        parameter.fill_(1.0 if name.endswith("weight") else 0.0)
    elif name.endswith("bias") or name == "leave.weight":
        parameter.zero_()
    elif place in ("heads", "neck"):
        assert isinstance(owner, nn.Linear)
        bound = owner.in_features**-0.5
        parameter.uniform_(-bound, bound, generator=generator(seed, key))
    else:
        parameter.normal_(0.0, 0.02, generator=generator(seed, key))


def generator(seed: int, key: str) -> torch.Generator:
    """A stream of its own for every (seed, key)."""
    digest = hashlib.sha256(f"{seed}:{key}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))


def _centre_heads(network: Network) -> None:
    """A head starts where its kind says, such as the middle of the range of a score."""
    heads = network.heads
    assert isinstance(heads, Owned)
    for name, task in network.tasks.items():
        layers = heads[name].layers
        assert isinstance(layers, nn.ModuleList)
        bias = task.labels.initial_bias()
        if bias is not None and len(layers):
            layers[-1].bias.fill_(bias)  # type: ignore[operator]
