import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from cotrunk.errors import UserError
from cotrunk.learn.optimizer import (
    OPTIMIZERS,
    SCHEDULES,
    AdamW,
    clip,
    load_optimizer_state,
    optimizer_state,
    parameter_groups,
    schedule,
    set_learning_rate,
    start_average,
    update_average,
)


def small_network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2))


def groups_of(network, *, lr=1e-2, decay=0.0, factors=None):
    return parameter_groups(network.named_parameters(), lr=lr, decay=decay, factors=factors or {})


def train(network, optimizer, steps):
    for step in steps:
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        network(x).pow(2).sum().backward()
        optimizer.step()


@pytest.mark.slow
def test_the_course_variant_gives_the_course_reference_after_1000_steps():
    torch.manual_seed(0)
    random = np.random.default_rng(seed=0)
    model = nn.Linear(3, 2, bias=False)
    optimizer = OPTIMIZERS["course"](groups_of(model, lr=1e-3, decay=1e-4))
    for _ in range(1000):
        optimizer.zero_grad()
        x = torch.tensor(random.uniform(size=3), dtype=torch.float32)
        wanted = torch.stack([x[0] + x[1], -x[2]])
        (wanted - model(x)).pow(2).sum().backward()
        optimizer.step()
    reference = [[0.554828, 0.866657, 0.072920], [-0.447245, -0.295123, -0.271727]]
    assert_close(model.weight.detach(), torch.tensor(reference), atol=1e-6, rtol=1e-4)


def test_the_course_variant_is_the_formula_of_the_handout():
    p = torch.tensor([[1.0, -2.0]], dtype=torch.float64, requires_grad=True)
    optimizer = OPTIMIZERS["course"](
        parameter_groups([("p", p)], lr=0.1, decay=0.5, factors={}), betas=(0.8, 0.9), eps=1e-6
    )
    expected, m, v = p.detach().clone(), torch.zeros(1, 2), torch.zeros(1, 2)
    for t in (1, 2, 3):
        p.grad = torch.tensor([[0.3 * t, -1.0]], dtype=torch.float64)
        optimizer.step()
        m, v = 0.8 * m + 0.2 * p.grad, 0.9 * v + 0.1 * p.grad**2
        rate = 0.1 * math.sqrt(1 - 0.9**t) / (1 - 0.8**t)
        expected = expected - rate * m / (v.sqrt() + 1e-6)
        expected = expected - 0.1 * 0.5 * expected
        assert_close(p.detach(), expected)


def test_without_decay_both_variants_agree_when_eps_vanishes():
    networks = [small_network().double() for _ in OPTIMIZERS]
    for make, network in zip(OPTIMIZERS.values(), networks, strict=True):
        train_double = make(groups_of(network), eps=1e-30)
        for step in range(5):
            x = torch.randn(3, 4, generator=torch.Generator().manual_seed(step)).double()
            train_double.zero_grad()
            network(x).pow(2).sum().backward()
            train_double.step()
    for one, other in zip(*(network.parameters() for network in networks), strict=True):
        assert_close(one, other, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(("decay", "moved"), [(1e-4, 0.0), (1e-3, 0.0), (5e-3, 0.746), (1e-2, 1.0)])
def test_in_float32_a_small_decay_of_the_course_variant_does_nothing(decay, moved):
    weights = torch.randn(1000, 100, generator=torch.Generator().manual_seed(0))
    weights.requires_grad_(True)
    before = weights.detach().clone()
    optimizer = OPTIMIZERS["course"](
        parameter_groups([("w", weights)], lr=1e-5, decay=decay, factors={})
    )
    weights.grad = torch.zeros_like(weights)
    optimizer.step()
    assert (weights != before).double().mean().item() == pytest.approx(moved, abs=0.01)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_parameter_without_a_gradient_stays(name):
    network = small_network()
    before = network[0].weight.detach().clone()
    optimizer = OPTIMIZERS[name](groups_of(network, decay=0.1))
    network[2].bias.grad = torch.ones(2)
    optimizer.step()
    assert torch.equal(network[0].weight, before)


def test_adamw_is_bit_identical_to_the_fused_one_of_torch():
    ours, theirs = small_network(), small_network()
    train(ours, AdamW(groups_of(ours, decay=0.1)), range(8))
    train(theirs, torch.optim.AdamW(groups_of(theirs, decay=0.1), fused=True), range(8))
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
def test_training_does_not_import_the_compiler_of_torch(toy, tmp_path):
    lines = [
        "import sys, pathlib, toy",
        "toy.train(*map(pathlib.Path, sys.argv[1:]))",
        "assert 'torch._dynamo' not in sys.modules",
    ]
    asked = [sys.executable, "-c", "\n".join(lines), str(toy), str(tmp_path / "run")]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr


def test_vectors_do_not_decay():
    network = small_network()
    decays = {
        id(parameter): group["weight_decay"]
        for group in groups_of(network, decay=0.1)
        for parameter in group["params"]
    }
    for parameter in network.parameters():
        assert decays[id(parameter)] == (0.1 if parameter.ndim > 1 else 0.0)


def test_every_trainable_parameter_is_in_one_group_and_no_frozen_one():
    network = small_network()
    network[0].weight.requires_grad_(False)
    found = [id(p) for group in groups_of(network) for p in group["params"]]
    assert sorted(found) == sorted(id(p) for p in network.parameters() if p.requires_grad)


def test_a_factor_scales_the_learning_rate_of_its_parameter_alone():
    network = small_network()
    optimizer = AdamW(groups_of(network, lr=1.0, factors={"0.weight": 0.5}))
    set_learning_rate(optimizer, 3.0)
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in network.named_parameters():
        assert rates[id(parameter)] == (1.5 if name == "0.weight" else 3.0)


def test_a_factor_for_no_parameter_is_refused():
    with pytest.raises(ValueError, match=r"unknown parameters: \['9.weight'\]"):
        groups_of(small_network(), factors={"9.weight": 0.5})


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_resumed_optimizer_is_bit_identical(name, tmp_path):
    from safetensors.torch import load_file, save_file

    whole = small_network()
    train(whole, OPTIMIZERS[name](groups_of(whole, decay=0.1)), range(8))

    first = small_network()
    optimizer = OPTIMIZERS[name](groups_of(first, decay=0.1))
    train(first, optimizer, range(4))
    save_file(optimizer_state(optimizer, dict(first.named_parameters())), tmp_path / "state")

    second = small_network(seed=1)
    second.load_state_dict(first.state_dict())
    optimizer = OPTIMIZERS[name](groups_of(second, decay=0.1))
    named = dict(second.named_parameters())
    load_optimizer_state(optimizer, named, load_file(tmp_path / "state"))
    train(second, optimizer, range(4, 8))
    for expected, found in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(expected, found)


def test_the_state_has_a_name_for_every_moment_of_a_trained_parameter():
    network = small_network()
    network[0].requires_grad_(False)
    optimizer = AdamW(groups_of(network))
    assert optimizer_state(optimizer, dict(network.named_parameters())) == {}
    train(network, optimizer, range(1))
    state = optimizer_state(optimizer, dict(network.named_parameters()))
    trained = ["1.weight", "1.bias", "2.weight", "2.bias"]
    moments = ["exp_avg", "exp_avg_sq", "step"]
    assert sorted(state) == sorted(f"{name}.{moment}" for name in trained for moment in moments)


def test_a_loaded_state_is_a_copy():
    network = small_network()
    optimizer = AdamW(groups_of(network))
    train(network, optimizer, range(1))
    named = dict(network.named_parameters())
    state = {key: value.clone() for key, value in optimizer_state(optimizer, named).items()}
    load_optimizer_state(optimizer, named, state)
    before = state["0.weight.exp_avg"].clone()
    train(network, optimizer, range(1))
    assert torch.equal(state["0.weight.exp_avg"], before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"9.weight.exp_avg": torch.zeros(1)}, "unknown parameters"),
        ({"0.weight.exp_avg": torch.zeros(1)}, "0.weight does not fit"),
        ({"0.weight.step": None}, "0.weight does not fit"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change, message):
    network = small_network()
    optimizer = AdamW(groups_of(network))
    train(network, optimizer, range(1))
    named = dict(network.named_parameters())
    state = optimizer_state(optimizer, named) | change
    state = {key: value for key, value in state.items() if value is not None}
    with pytest.raises(ValueError, match=message):
        load_optimizer_state(optimizer, named, state)


def factors(name, steps, warmup=None):
    factor = schedule(name, steps=steps, warmup=warmup)
    return [factor(step) for step in range(steps)]


def torch_factors(scheduler, steps):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    made = scheduler(optimizer)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(found) < steps:
            made.step()
    return found


@pytest.mark.parametrize("steps", [2, 7, 100, 1001])
@pytest.mark.parametrize("warmup", [0.3, 0.55])
def test_one_cycle_is_that_of_torch(steps, warmup):
    def one_cycle(optimizer):
        return torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=1.0, total_steps=steps, pct_start=warmup, cycle_momentum=False
        )

    assert factors("one-cycle", steps, warmup) == pytest.approx(torch_factors(one_cycle, steps))


def test_one_cycle_warms_up_for_three_tenths_unless_told():
    assert factors("one-cycle", 50) == factors("one-cycle", 50, 0.3)


@pytest.mark.parametrize("steps", [1, 2, 7, 100])
def test_linear_and_cosine_without_warmup_are_those_of_torch(steps):
    kinds = torch.optim.lr_scheduler
    linear = torch_factors(lambda o: kinds.LinearLR(o, 1.0, 0.0, total_iters=steps), steps)
    cosine = torch_factors(lambda o: kinds.CosineAnnealingLR(o, T_max=steps), steps)
    assert factors("linear", steps) == pytest.approx(linear)
    assert factors("cosine", steps) == pytest.approx(cosine)


@pytest.mark.parametrize("name", ["none", "linear", "cosine"])
def test_warmup_rises_evenly_over_its_share_of_the_steps(name):
    found = factors(name, 100, 0.1)
    assert found[:11] == pytest.approx([step / 10 for step in range(11)])
    assert found[11:] == sorted(found[11:], reverse=True)


def test_none_is_constant():
    assert set(factors("none", 10)) == {1.0}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("warmup", [None, 0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 10])
def test_factors_are_between_0_and_1(name, steps, warmup):
    assert all(0.0 <= factor <= 1.0 for factor in factors(name, steps, warmup))


@pytest.mark.parametrize(
    ("name", "steps", "warmup", "message"),
    [
        ("linaer", 10, 0.1, "'linaer' is not one of none, linear, cosine, one-cycle"),
        ("linear", 10, 1.5, r"warmup = 1.5 is not in \[0, 1\]"),
        ("linear", 0, 0.5, "steps = 0 must be 1 or more"),
    ],
)
def test_a_wrong_schedule_is_refused(name, steps, warmup, message):
    with pytest.raises(UserError, match=message):
        schedule(name, steps=steps, warmup=warmup)


def test_clip_shortens_a_long_gradient_and_reports_its_length():
    p = torch.zeros(2, requires_grad=True)
    p.grad = torch.tensor([3.0, 4.0])
    assert clip([p], 1.0).item() == pytest.approx(5.0)
    assert p.grad.norm().item() == pytest.approx(1.0, abs=1e-5)
    assert clip([p], 2.0).item() == pytest.approx(1.0, abs=1e-5)
    assert p.grad.norm().item() == pytest.approx(1.0, abs=1e-5)


def test_the_average_follows_the_weights():
    p = torch.tensor([1.0], dtype=torch.float64, requires_grad=True)
    average = start_average({"p": p})
    with torch.no_grad():
        p.fill_(3.0)
    update_average(average, {"p": p}, decay=0.9)
    assert average["p"].item() == pytest.approx(1.2)
    update_average(average, {"p": p}, decay=0.9)
    assert average["p"].item() == pytest.approx(1.38)
    assert not average["p"].requires_grad
