"""Initial weights: pretrained tensors if there are any, else keyed random values."""

import hashlib
from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.place import Place


@torch.no_grad()
def initialise(
    network: Network, tensors: Mapping[str, Tensor], *, seed: int, reset: Collection[str] = ()
) -> dict[str, Place]:
    """Fill every parameter; all copies of a module start equal. Returns those drawn at random.

    A random value depends only on the seed and the module's place, not on the other tasks or the
    number of copies. The places ``reset`` are drawn even if there are tensors for them.
    """
    drawn: dict[str, Place] = {}
    for place, owned in network.places():
        for copy in owned.values():
            for name, parameter in copy.named_parameters():
                key = f"{place.weights or place.name}.{name}"
                if key in tensors and place.name not in reset:
                    parameter.copy_(tensors[key])
                else:
                    _draw(copy, name, parameter, place, seed)
                    drawn[f"{place.name}.{name}"] = place
    _centre_heads(network)
    return drawn


def _draw(module: nn.Module, name: str, parameter: Tensor, place: Place, seed: int) -> None:
    random = generator(seed, f"{place.name}.{name}")
    owner = module.get_submodule(name.rpartition(".")[0])
    if isinstance(owner, nn.LayerNorm):
        parameter.fill_(1.0 if name.endswith("weight") else 0.0)
    elif name.endswith("bias") or name in place.zeros:
        parameter.zero_()
    elif place.draw == "linear":
        bound = parameter[0].numel() ** -0.5
        parameter.uniform_(-bound, bound, generator=random)
    else:
        parameter.normal_(0.0, 0.02, generator=random)


def generator(seed: int, key: str) -> torch.Generator:
    """A separate random stream for every (seed, key)."""
    digest = hashlib.sha256(f"{seed}:{key}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))


def _centre_heads(network: Network) -> None:
    """Set the output biases that kinds ask for, such as the middle of a score's range."""
    for name, task in network.tasks.items():
        bias = task.labels.initial_bias()
        if bias is None:
            continue
        layers = network.head_of[name].layers
        assert isinstance(layers, nn.ModuleList)
        if len(layers):
            layers[-1].bias.fill_(bias)  # type: ignore[operator]
