"""Low-rank adapters in the format of ``peft``, beside a transformers model without them."""

from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from cotrunk.errors import UserError
from cotrunk.files import write_whole
from cotrunk.model.encoder.shape import LinearMap, Shape
from cotrunk.model.sharing.low_rank import LowRank, LowRankPair
from cotrunk.model.sharing.network import Network
from cotrunk.model.weights.rename import TABLES
from cotrunk.runs.checkpoint import to_json

FOLDER = "adapter"
# Our module of a layer, and which of the published modules that it stacks.
MODULES: dict[LinearMap, tuple[str, int]] = {
    "query": ("attention.qkv", 0),
    "key": ("attention.qkv", 1),
    "value": ("attention.qkv", 2),
    "out": ("attention.out", 0),
    "up": ("up", 0),
    "down": ("down", 0),
}


def write_adapter(network: Network, task: str, folder: Path) -> None:
    """The adapters of a task as a folder that ``peft`` opens on the model beside it."""
    pairs: dict[str, LowRankPair] = {}
    scale = dropout = 0.0
    for place in network.plan.acting("inside"):
        adapter = network.owned[place.name].copy_of(task)
        assert isinstance(adapter, LowRank)
        scale, dropout = adapter.scale, adapter.dropout
        for name, pair in adapter.items():
            assert isinstance(pair, LowRankPair)
            pairs[_module(network.shape, place.depth or 0, name)] = pair  # type: ignore[arg-type]
    rank = len(next(iter(pairs.values())).A)
    config = {
        "peft_type": "LORA",
        "task_type": None,
        "r": rank,
        "lora_alpha": scale * rank,
        "lora_dropout": dropout,
        "bias": "none",
        "target_modules": list(pairs),
        "inference_mode": True,
    }
    folder.mkdir()
    write_whole(folder / "adapter_config.json", to_json(config))
    save_file(_tensors(pairs), folder / "adapter_model.safetensors", metadata={"format": "pt"})


def refuse_without_adapters(network: Network) -> None:
    if not network.plan.acting("inside"):
        raise UserError("--keep-lora: the run has no low-rank adapters; remove the option")


def _module(shape: Shape, depth: int, name: LinearMap) -> str:
    """The published name of a linear map of a layer."""
    ours, number = MODULES[name]
    module = TABLES[shape.family][f"layers.{{}}.{ours}"][number]
    return f"{shape.family}.{module.format(depth)}"


def _tensors(pairs: dict[str, LowRankPair]) -> dict[str, Tensor]:
    return {
        f"base_model.model.{module}.{part}.weight": tensor.detach().cpu().contiguous()
        for module, pair in pairs.items()
        for part, tensor in (("lora_A", pair.A), ("lora_B", pair.B))
    }
