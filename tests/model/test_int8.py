"""8-bit layers beside the float32 ones they replace."""

import numpy as np
import pytest
import torch
from schemes import SCHEMES, TASKS, TEMPLATE, Scheme, filled, network_of, pooled, texts
from torch import Tensor, nn

from cotrunk.data.batches.text import PairFormat, pack_rows
from cotrunk.errors import UserError
from cotrunk.infer import int8
from cotrunk.infer.int8 import STEPS, WEIGHT_STEPS, Int8Linear, to_int8
from cotrunk.model.encoder.dropout import NO_DROPOUT
from cotrunk.model.sharing.network import Network

at_hand = int8.ENGINE in torch.backends.quantized.supported_engines
needs_x86 = pytest.mark.skipif(not at_hand, reason="this torch has no fbgemm")
with_schemes = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES.keys())

# A linear layer errs by about 1 % of its length, as 63 and 127 steps let it, and a network of
# three layers has twelve of them: together 1 % x sqrt(12). The worst of the rows and outputs of all
# schemes lies at about twice that, with adapters or without: it depends on the drawn weights.
SHARE = 0.08


def linear(width: int = 48, outputs: int = 32, *, bias: bool = True) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(width, outputs, bias=bias)


def most_wrong(exact: nn.Linear, x_TD: Tensor) -> Tensor:
    """Half a step of every input and half a step of every weight, all to the same side."""
    x, w = x_TD.double().abs(), exact.weight.double().abs()
    half_x = x.amax(1, keepdim=True).expand_as(x) / (2 * STEPS)
    half_w = w.amax(1, keepdim=True).expand_as(w) / (2 * WEIGHT_STEPS)
    return half_x @ w.T + x @ half_w.T + half_x @ half_w.T


def vectors(network: Network, scheme: Scheme) -> dict[str, Tensor]:
    """What the encoder says about the texts of every task, [sequences, width]."""
    found = {}
    for task in TASKS:
        text, _ = texts(task, scheme.pair_format(task))
        states = network.encode(text, [task.name], NO_DROPOUT)
        found |= {f"{task.name}: {sorted(group)}": x_SD for group, x_SD in states.items()}
    return found


def answers(network: Network, rows: list[tuple[np.ndarray, ...]]) -> Tensor:
    text, index = pack_rows(TEMPLATE, rows, PairFormat(texts=1))
    return network(text, index, ["sst"], NO_DROPOUT)["sst"]


@needs_x86
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e3])
@torch.inference_mode()
def test_a_linear_layer_errs_by_half_a_step_at_most(bias, spread):
    exact = linear(bias=bias)
    x_TD = spread * torch.randn(200, 48) * torch.rand(200, 1)
    error = (Int8Linear(exact)(x_TD) - exact(x_TD)).double().abs()
    assert (error <= most_wrong(exact, x_TD) + 1e-5 * spread).all()


@needs_x86
@pytest.mark.parametrize("sign", [1.0, -1.0])
@torch.inference_mode()
def test_the_largest_sums_are_not_cut_off(sign):
    exact = linear(width=384, bias=False)
    exact.weight.fill_(0.5)
    x_TD = torch.full((7, 384), 3.0 * sign)
    torch.testing.assert_close(Int8Linear(exact)(x_TD), exact(x_TD))


@needs_x86
@torch.inference_mode()
def test_a_token_is_the_same_whoever_stands_beside_it():
    rough, x_TD = Int8Linear(linear()), torch.randn(20, 48)
    x_TD[3] *= 1e4
    together = rough(x_TD)
    assert torch.equal(together, torch.cat([rough(x_1D) for x_1D in x_TD.split(1)]))
    assert torch.equal(together[:3], rough(x_TD[:3]))


@needs_x86
@torch.inference_mode()
def test_nothing_and_no_number_come_out_as_they_go_in():
    exact = linear()
    rough = Int8Linear(exact)
    x_TD = torch.zeros(3, 48)
    x_TD[1, 5] = torch.nan
    out_TO = rough(x_TD)
    assert torch.equal(out_TO[0], exact.bias)
    assert out_TO[1].isnan().all()
    assert torch.equal(out_TO[2], exact.bias)
    assert rough(x_TD[:0]).shape == (0, 32)


@pytest.mark.slow
@needs_x86
@with_schemes
@torch.inference_mode()
def test_every_scheme_says_nearly_the_same(scheme):
    network = filled(network_of(scheme)).float()
    exact = vectors(network, scheme)
    to_int8(network)
    rough = vectors(network, scheme)
    assert exact.keys() == rough.keys()
    for place, x_SD in exact.items():
        apart = (rough[place] - x_SD).norm(dim=1) / x_SD.norm(dim=1)
        assert 0 < apart.max() < SHARE, place


@pytest.mark.slow
@needs_x86
@with_schemes
def test_only_linear_layers_of_the_encoder_are_replaced(scheme):
    network = filled(network_of(scheme)).float()
    before = dict(network.named_parameters())
    to_int8(network)
    after = dict(network.named_parameters())
    inside = (".qkv.", ".out.", ".up.", ".down.")
    gone = {n for n in before if n.startswith("layers.") and any(part in n for part in inside)}
    kept = {n for n in gone if n in after}
    assert before.keys() - gone <= after.keys()
    assert all(after[name] is before[name] for name in after)
    assert all(name.startswith("layers.2.") and ".qkv." in name for name in kept)
    first_only = {t for t in network.tasks if scheme.head(t).pooling in ("cls", "pooler")}
    assert {n.split(".")[2] for n in kept} == {
        name for name, group in network.owned["layers.2"].owners.items() if group & first_only
    }


@pytest.mark.slow
@needs_x86
@pytest.mark.parametrize("pooling", ["cls", "mean"])
@torch.inference_mode()
def test_neighbours_move_an_answer_only_where_rounding_tips_over(pooling):
    network = filled(network_of(Scheme("S2 I", heads=pooled(*[pooling] * 4)))).float()
    random = np.random.default_rng(0)
    rows = [(random.integers(5, 60, length),) for length in range(1, 31)]
    exact = answers(network, rows)
    to_int8(network)
    together, alone = answers(network, rows), torch.cat([answers(network, [row]) for row in rows])
    assert (together - alone).abs().median() < 1e-5
    assert (together - alone).abs().mean() < (together - exact).abs().mean() / 4


@needs_x86
def test_8_bit_layers_do_not_pretend_to_learn():
    network = filled(network_of(Scheme())).float()
    to_int8(network)
    text, index = texts(TASKS[0], PairFormat(texts=1))
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        network(text, index, ["sst"], NO_DROPOUT)


@needs_x86
def test_the_engine_of_others_stays_as_it_was():
    before = torch.backends.quantized.engine
    Int8Linear(linear())
    assert torch.backends.quantized.engine == before


@needs_x86
def test_a_network_elsewhere_than_on_the_cpu_is_refused():
    with pytest.raises(
        UserError, match="int8 runs only on the CPU, but the network is on meta; load it"
    ):
        to_int8(network_of(Scheme(), device="meta"))


def test_a_machine_without_the_kernels_is_refused(monkeypatch):
    monkeypatch.setattr(int8, "ENGINE", "abacus")
    network = network_of(Scheme())
    with pytest.raises(UserError, match="int8 needs torch's abacus"):
        to_int8(network)
    assert isinstance(next(network.layers["0"].children()).up, nn.Linear)
