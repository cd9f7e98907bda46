"""Heads, neck and projected attention beside what their papers write, one sequence at a time."""

import math

import pytest
import torch
import torch.nn.functional as F
from schemes import TASKS, Pal, Scheme, filled, network_of, texts
from torch import Tensor, nn

from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.dropout import NO_DROPOUT, DropoutStream
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.heads import Head, pair_features, scale_cosine

SST, _, PARA, STS = TASKS
U, V = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -1.0]])


def attention(x_LD: Tensor, qkv: nn.Linear, heads: int) -> Tensor:
    q, k, v = qkv(x_LD).chunk(3, dim=1)
    out = []
    for q_h, k_h, v_h in zip(*(x.chunk(heads, dim=1) for x in (q, k, v)), strict=True):
        chance_LL = torch.softmax(q_h @ k_h.T / math.sqrt(q_h.shape[1]), dim=1)
        out.append(chance_LL @ v_h)
    return torch.cat(out, dim=1)


def layer_beside(layer: nn.Module, pal: nn.Module, depth: int, x_LD: Tensor, heads: int) -> Tensor:
    """``LN(h + FFN(h) + TS(x))``, with ``TS(x) = V_D g(V_E x)`` of the layer's own input."""
    at = layer.attention
    h_LD = at.norm(x_LD + at.out(attention(x_LD, at.qkv, heads)))
    aside_LD = pal.leave(attention(pal.enter(x_LD), pal.qkv[str(depth)], pal.heads))
    if pal.gelu:
        aside_LD = F.gelu(aside_LD)
    return layer.norm(h_LD + layer.down(F.gelu(layer.up(h_LD))) + aside_LD)


@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_projected_attention_is_added_as_its_paper_says(gelu, bias):
    scheme = Scheme(pal=Pal("I", gelu=gelu, bias=bias))
    network = filled(network_of(scheme))
    seen: list[tuple[Tensor, Tensor]] = []
    for depth in range(3):
        network.owned[f"layers.{depth}"].copy_of("sst").register_forward_hook(
            lambda _module, given, out: seen.append((given[0], out))
        )
    text, index = texts(SST, scheme.pair_format(SST))
    network(text, index, ["sst"], NO_DROPOUT)
    assert len(seen) == 3
    for depth, (x_TD, found_TD) in enumerate(seen):
        layer = network.owned[f"layers.{depth}"].copy_of("sst")
        pal = network.owned["projected"].copy_of("sst")
        lengths = text.length_S.tolist()
        for x_LD, found_LD in zip(x_TD.split(lengths), found_TD.split(lengths), strict=True):
            expected_LD = layer_beside(layer, pal, depth, x_LD, network.shape.heads)
            torch.testing.assert_close(found_LD, expected_LD, rtol=0, atol=1e-12)


def test_the_neck_is_linear_layers_each_cut_at_zero():
    scheme = Scheme(neck="S-I")
    network = filled(network_of(scheme))
    text, index = texts(SST, scheme.pair_format(SST))
    (x_SD,) = network.encode(text, ["sst"], NO_DROPOUT).values()
    for place in network.on_vectors:
        dense = network.owned[place.name].copy_of("sst").dense
        x_SD = torch.clamp(x_SD @ dense.weight.T + dense.bias, min=0)
    last = network.head_of["sst"].layers[0]
    expected_RO = (x_SD @ last.weight.T + last.bias)[index.places[0]]
    found_RO = network(text, index, ["sst"], NO_DROPOUT)["sst"]
    torch.testing.assert_close(found_RO, expected_RO, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ("concat", [1, 2, 3, -1]),
        ("hadamard", [1, 2, 3, -1, 3, -2]),
        ("difference", [1, 2, 3, -1, 2, 3]),
        ("all", [1, 2, 3, -1, 3, -2, 2, 3]),
        ("sum", [4, 1]),
    ],
)
def test_the_features_of_a_pair(pair, expected):
    assert pair_features(pair, U, V).tolist() == [expected]


@pytest.mark.parametrize(
    ("scaling", "unit"), [("shifted", 0.75), ("sigmoid", 1 / (1 + math.exp(-0.5))), ("relu", 0.5)]
)
def test_a_cosine_of_a_half_on_the_scale_of_the_labels(scaling, unit):
    task = Task("sts", 2, Scores(range=(1.0, 5.0)))
    found = scale_cosine(scaling, torch.tensor([0.5]), task.labels.span)
    assert found.item() == pytest.approx(1 + 4 * unit, abs=1e-6)


def test_the_head_of_a_cosine_compares_projected_vectors():
    head = Head(STS, HeadPlan(pair="cosine", projection=True), 2, [4])
    a, b = head.project(U)[0], head.project(V)[0]
    cosine = (a @ b / (a.norm() * b.norm())).item()
    found = head([U, V], [], NO_DROPOUT).logit_RO.item()
    assert found == pytest.approx(5 * (cosine + 1) / 2, abs=1e-5)


@pytest.mark.parametrize("activate_last", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh"])
def test_a_deep_head_drops_before_within_and_after(activation, activate_last):
    plan = HeadPlan(
        pair="concat",
        depth=3,
        width=7,
        activation=activation,
        activate_last=activate_last,
        dropout=0.2,
        inner_dropout=0.4,
        output_dropout=0.3,
    )
    head, masks = Head(PARA, plan, 6, [12]), DropoutStream(7)
    u_RD, v_RD = torch.randn(2, 50, 6)
    act = getattr(F, activation) if activation != "tanh" else torch.tanh
    x_RF = torch.cat([x * masks.mask(x.shape, 0.2) for x in (u_RD, v_RD)], dim=1)
    for layer in head.layers[:2]:
        x_RF = act(x_RF @ layer.weight.T + layer.bias)
        x_RF = x_RF * masks.mask(x_RF.shape, 0.4)
    out_RO = x_RF @ head.layers[2].weight.T + head.layers[2].bias
    if activate_last:
        out_RO = act(out_RO)
    out_RO = out_RO * masks.mask(out_RO.shape, 0.3)
    found = head([u_RD, v_RD], [], DropoutStream(7)).logit_RO
    torch.testing.assert_close(found, out_RO, rtol=0, atol=1e-6)
