"""Low-rank adapters against `peft` on the same weights: outputs and gradients."""

import math
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import peft
import pytest
import torch
from test_network import CONFIGS, oracle, padded, reference_pooled, sequences
from torch import Tensor, nn

from cotrunk.data.batches.packing import Packed, pack
from cotrunk.infer.int8 import ENGINE, Int8Linear
from cotrunk.model.encoder import linear
from cotrunk.model.encoder.dropout import NO_DROPOUT, DropoutStream
from cotrunk.model.encoder.embeddings import Embeddings
from cotrunk.model.encoder.layer import Layer
from cotrunk.model.encoder.shape import linear_maps, named, shape_from_config, tensor_sizes
from cotrunk.model.sharing.low_rank import LowRank, LowRankPair
from cotrunk.model.sharing.low_rank_plan import low_rank_size
from cotrunk.model.sharing.merge import merge
from cotrunk.model.sharing.network import pool_tokens
from cotrunk.model.weights.rename import TABLES, from_hugging_face

EVERY = ("query", "key", "value", "out", "up", "down")
SUBSETS = [EVERY, ("query", "value"), ("key",), ("value", "down"), ("out",), ("up", "down")]
RANK, ALPHA, LAYERS = 3, 5, 3
MODULE = {"out": "layers.{}.attention.out", "up": "layers.{}.up", "down": "layers.{}.down"}


class Encoder(nn.Module):
    """Embeddings and layers on packed tokens, with or without adapters, up to pooled vectors."""

    def __init__(self, shape, tensors) -> None:
        super().__init__()
        self.embeddings = Embeddings(shape)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.load_state_dict({n: t for n, t in tensors.items() if not n.startswith("pooler")})

    def forward(
        self, text: Packed, adapters: Sequence[LowRank | None], pooling: str, masks=NO_DROPOUT
    ) -> Tensor:
        x_TD = self.embeddings(text, masks)
        for depth, (layer, deltas) in enumerate(zip(self.layers, adapters, strict=True)):
            first_only = pooling == "cls" and depth == LAYERS - 1
            x_TD = layer(x_TD, text, masks, first_only=first_only, deltas=deltas)
        pooled_SD = x_TD if pooling == "cls" else pool_tokens(pooling, x_TD, text)
        return pooled_SD[text.place_S]


def encoder(family: str) -> Encoder:
    hf = oracle(family)
    shape = shape_from_config(hf.config.to_dict(), "config.json")
    made = Encoder(shape, from_hugging_face(dict(hf.state_dict()), shape, "model")).double()
    made.shape = shape
    return made


def adapters(shape, on: Sequence[str] = EVERY, *, dropout: float = 0.0) -> list[LowRank]:
    """With values in B, too."""
    torch.manual_seed(3)
    made = [LowRank(shape, RANK, ALPHA, on, dropout=dropout).double() for _ in range(shape.layers)]
    for pair in (pair for low_rank in made for pair in low_rank.values()):
        nn.init.normal_(pair.B, std=0.5)
    return made


def published(family: str, depth: int, name: str) -> str:
    """What `transformers` calls a linear map."""
    table = TABLES[family]
    if name in MODULE:
        return table[MODULE[name]][0].format(depth)
    return table["layers.{}.attention.qkv"][EVERY.index(name)].format(depth)


def with_peft(family: str, made: Sequence[LowRank]) -> tuple[nn.Module, dict[str, LowRankPair]]:
    """The published model with the same adapters, and ours by the name of peft's module."""
    pairs = {
        published(family, depth, name): pair
        for depth, low_rank in enumerate(made)
        for name, pair in low_rank.items()
    }
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=list(pairs))
    model = peft.get_peft_model(oracle(family), config).double().eval()
    for name, pair in pairs.items():
        module = model.base_model.model.get_submodule(name)
        module.lora_A["default"].weight.data.copy_(pair.A)
        module.lora_B["default"].weight.data.copy_(pair.B)
    return model, pairs


def packed(rows: Sequence[np.ndarray]) -> Packed:
    return pack(rows, [np.zeros(len(row), np.int64) for row in rows])


def test_the_configuration_everybody_uses_names_the_maps_that_ours_does():
    usual = ["query", "key", "value", "attention.output.dense", "intermediate.dense"]
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=[*usual, "output.dense"])
    model = peft.get_peft_model(oracle("bert").base_model, config)
    prefix = "base_model.model."
    found = {n.removeprefix(prefix).split(".lora_A")[0] for n, _ in model.named_parameters()
             if "lora_A" in n and "pooler" not in n}  # fmt: skip
    assert found == {published("bert", depth, name) for depth in range(LAYERS) for name in EVERY}


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("on", SUBSETS, ids="-".join)
@pytest.mark.parametrize("family", CONFIGS)
def test_outputs_and_gradients_equal_peft(family, on, pooling):
    model, rows = encoder(family), sequences(13)
    made = adapters(model.shape, on)
    theirs, pairs = with_peft(family, made)
    expected = reference_pooled(theirs, *padded(rows), None, pooling)
    found = model(packed(rows), made, pooling)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    direction = torch.randn_like(expected)
    (expected * direction).sum().backward()
    (found * direction).sum().backward()
    for name, pair in pairs.items():
        module = theirs.base_model.model.get_submodule(name)
        for mine, other in ((pair.A, module.lora_A), (pair.B, module.lora_B)):
            wanted = other["default"].weight.grad
            assert wanted.abs().max() > 1e-6
            torch.testing.assert_close(mine.grad, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("on", SUBSETS, ids="-".join)
def test_answers_alone_equal_peft(on, pooling):
    model, rows = encoder("bert"), sequences(13)
    made = adapters(model.shape, on)
    theirs, _ = with_peft("bert", made)
    with torch.inference_mode():
        expected = reference_pooled(theirs, *padded(rows), None, pooling)
        found = model(packed(rows), made, pooling)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_tokens_and_weights_pass_gradients_as_those_of_peft():
    """The encoder itself is trained too: its gradients are those of peft's base weights."""
    model, rows = encoder("bert"), sequences(9)
    made = adapters(model.shape)
    theirs, _ = with_peft("bert", made)
    theirs.requires_grad_(True)
    for pooling in ("mean", "cls"):
        expected = reference_pooled(theirs, *padded(rows), None, pooling)
        found = model(packed(rows), made, pooling)
        direction = torch.randn_like(expected)
        (expected * direction).sum().backward()
        (found * direction).sum().backward()
    base = theirs.base_model.model
    grads = {
        name.replace(".base_layer", ""): torch.zeros_like(p) if p.grad is None else p.grad
        for name, p in base.named_parameters()
        if "lora_" not in name
    }
    wanted = from_hugging_face(grads, model.shape, "gradients")
    for name, parameter in model.named_parameters():
        got = parameter.grad.to_dense().float()
        torch.testing.assert_close(got, wanted[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("on", SUBSETS, ids="-".join)
def test_the_network_starts_exactly_at_the_base_model(on, pooling):
    model = encoder("bert").float()
    text = packed(sequences(40))
    fresh = [LowRank(model.shape, 8, 16, on) for _ in range(LAYERS)]
    for masks in ((), (1, 2)):
        base = model(text, [None] * LAYERS, pooling, DropoutStream(*masks))
        found = model(text, fresh, pooling, DropoutStream(*masks))
        assert torch.equal(found, base)


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("on", SUBSETS, ids="-".join)
@pytest.mark.parametrize("family", CONFIGS)
@torch.inference_mode()
def test_merged_weights_answer_as_the_adapters_do(family, on, pooling):
    model = encoder(family).float()
    made = [low_rank.float() for low_rank in adapters(model.shape, on)]
    text = packed(sequences(13))
    unmerged = model(text, made, pooling)
    base = model(text, [None] * LAYERS, pooling)
    for layer, low_rank in zip(model.layers, made, strict=True):
        merge(layer, low_rank)
    merged = model(text, [None] * LAYERS, pooling)
    assert (unmerged - base).abs().max() > 1e-2
    torch.testing.assert_close(merged, unmerged, rtol=1e-5, atol=1e-5)


def test_merging_is_exact_to_the_rounding_of_a_weight():
    layer, low_rank = encoder("bert").layers[0], adapters(encoder("bert").shape)[0]
    layer.float(), low_rank.float()
    before = {name: p.detach().double() for name, p in layer.named_parameters()}
    merge(layer, low_rank)
    products = {name: low_rank.product(name) for name in EVERY}
    products["attention.qkv"] = torch.cat([products.pop(n) for n in EVERY[:3]])
    products["attention.out"] = products.pop("out")
    for name, parameter in layer.named_parameters():
        more = products.get(name.removesuffix(".weight"), 0)
        assert torch.equal(parameter.data, (before[name] + more).float())


@pytest.mark.parametrize("first_only", [False, True])
def test_dropout_gives_each_adapter_its_own_view_of_the_tokens(first_only):
    model = encoder("bert")
    layer, shape = model.layers[0], model.shape
    layer.dropout = layer.attention.dropout = layer.attention.attention_dropout = 0.0
    (low_rank, *_), text = adapters(shape, dropout=0.4), packed(sequences(9))
    x_TD = torch.randn(len(text.token_T), shape.width, dtype=torch.float64)
    found = layer(x_TD, text, DropoutStream(5), first_only=first_only, deltas=low_rank)

    masks = DropoutStream(5)

    def more(name: str, x: Tensor) -> Tensor:
        pair = low_rank[name]
        return ALPHA / RANK * masks.drop(x, 0.4) @ pair.A.T @ pair.B.T

    qkv_TD = layer.attention.qkv(x_TD) + torch.cat([more(n, x_TD) for n in EVERY[:3]], 1)
    attended = []
    for mine in qkv_TD.split(text.length_S.tolist()):
        q, k, v = (part.view(len(mine), 4, -1).transpose(0, 1) for part in mine.chunk(3, 1))
        probs = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        attended.append((probs @ v).transpose(0, 1).flatten(1))
    x_QD, at_QD = x_TD, torch.cat(attended)
    if first_only:
        x_QD, at_QD = x_TD[text.first_S], at_QD[text.first_S]
    h_QD = layer.attention.norm(x_QD + layer.attention.out(at_QD) + more("out", at_QD))
    inner_QF = nn.functional.gelu(layer.up(h_QD) + more("up", h_QD))
    expected = layer.norm(h_QD + layer.down(inner_QF) + more("down", inner_QF))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("first_only", [False, True])
def test_numpys_products_give_the_same(first_only, monkeypatch):
    model = encoder("bert").float()
    low_rank, text = adapters(model.shape)[0].float(), packed(sequences(40))
    x_TD = torch.randn(len(text.token_T), model.shape.width)
    found, threads = {}, torch.get_num_threads()
    torch.set_num_threads(1)
    for by_numpy in (False, True):
        monkeypatch.setattr(linear, "BY_NUMPY", by_numpy)
        out = model.layers[0](x_TD, text, NO_DROPOUT, first_only=first_only, deltas=low_rank)
        grads = torch.autograd.grad(out.square().sum(), list(low_rank.parameters()))
        found[by_numpy] = (out, *grads)
    torch.set_num_threads(threads)
    for one, other in zip(found[False], found[True], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(ENGINE not in torch.backends.quantized.supported_engines, reason="no fbgemm")
@torch.inference_mode()
def test_adapters_stay_exact_on_8_bit_layers():
    model = encoder("bert").float()
    layer, low_rank, text = model.layers[0], adapters(model.shape)[0].float(), packed(sequences(9))
    x_TD = torch.randn(len(text.token_T), model.shape.width)
    exact = layer(x_TD, text, NO_DROPOUT, deltas=low_rank)
    layer.attention.add_module("qkv", Int8Linear(layer.attention.qkv))
    layer.add_module("up", Int8Linear(layer.up))
    rough = layer(x_TD, text, NO_DROPOUT, deltas=low_rank)
    assert ((rough - exact).norm(dim=1) / exact.norm(dim=1)).max() < 0.05


def test_a_frozen_encoder_gets_no_gradients():
    model = encoder("bert").requires_grad_(False)
    made, text = adapters(model.shape), packed(sequences(9))
    for pooling in ("mean", "cls"):
        model(text, made, pooling).square().sum().backward()
    assert all(p.grad is None for p in model.parameters())
    assert all(p.grad.abs().max() > 0 for low_rank in made for p in low_rank.parameters())


def test_fresh_adapters_are_those_of_peft():
    shape = named("minilm", "test")
    made = LowRank(shape, 8, 16, EVERY)
    for name, (width_in, width_out) in linear_maps(shape).items():
        layer = nn.ModuleDict({"map": nn.Linear(width_in, width_out)})
        config = peft.LoraConfig(r=8, lora_alpha=16, target_modules=["map"])
        theirs = peft.inject_adapter_in_model(config, layer)["map"]
        for mine, other in ((made[name].A, theirs.lora_A), (made[name].B, theirs.lora_B)):
            wanted = other["default"].weight
            assert mine.shape == wanted.shape
            assert mine.abs().max().item() == pytest.approx(wanted.abs().max().item(), rel=0.02)
            assert mine.std().item() == pytest.approx(wanted.std().item(), rel=0.1)
        assert made.scale == theirs.scaling["default"]
    assert not torch.equal(made["query"].A, made["key"].A)


@pytest.mark.parametrize("on", SUBSETS, ids="-".join)
@pytest.mark.parametrize("rank", [1, 8])
def test_the_size_is_that_of_the_module(rank, on):
    shape = named("tiny", "test")
    made = LowRank(shape, rank, 16, on)
    assert low_rank_size(shape, rank, on) == sum(p.numel() for p in made.parameters())


def test_adapters_of_rank_8_on_every_map_of_minilm_are_under_3_percent():
    shape = named("minilm", "test")
    encoder = sum(math.prod(size) for size in tensor_sizes(shape).values())
    assert low_rank_size(shape, 8, EVERY) * shape.layers < 0.03 * encoder


def test_sizes_are_known_without_torch():
    code = "import sys, cotrunk.model.sharing.low_rank_plan; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
