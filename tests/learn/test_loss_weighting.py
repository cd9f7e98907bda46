import math

import pytest
import torch
from safetensors.torch import load, save

from cotrunk.errors import UserError
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task
from cotrunk.learn.loss_weighting import LEAST_WEIGHT, LOSS_WEIGHTINGS, loss_weighting

TASKS = (
    Task("sst", 1, Classes(("0", "1", "2"))),
    Task("para", 2, Binary()),
    Task("sts", 2, Scores(range=(0, 5.0))),
)
NAMES = [task.name for task in TASKS]
ONES = dict.fromkeys(NAMES, 1.0)
UNEVEN = {"sst": 0.5, "para": 2.0, "sts": 1.25}


def watched(name, *, steps, seed=0, initial=UNEVEN, method=None):
    """A balance that has seen ``steps`` steps, four to an epoch, and the weights it gave."""
    method = method or loss_weighting(name, TASKS, initial)
    random = torch.Generator().manual_seed(seed)
    given = []
    for step in range(steps):
        given.append(dict(method.weights(step // 4)))
        losses = dict(zip(NAMES, (0.1 + torch.rand(3, generator=random)).tolist(), strict=True))
        norms = dict(zip(NAMES, torch.rand(3, generator=random).tolist(), strict=True))
        method.observe(losses, norms, step // 4)
    return method, given


@pytest.mark.parametrize("name", sorted(set(LOSS_WEIGHTINGS) - {"gradnorm"}))
def test_every_method_begins_with_the_weights_it_is_given(name):
    assert loss_weighting(name, TASKS, UNEVEN).weights(0) == pytest.approx(UNEVEN)


def test_gradnorm_begins_with_the_weights_it_is_given_scaled_to_the_number_of_tasks():
    given = loss_weighting("gradnorm", TASKS, UNEVEN).weights(0)
    assert sum(given.values()) == pytest.approx(3)
    assert given["para"] / given["sst"] == pytest.approx(4)


@pytest.mark.parametrize("name", LOSS_WEIGHTINGS)
def test_weights_stay_positive_and_change_only_when_learned(name):
    _, given = watched(name, steps=200)
    assert all(weight > 0 for weights in given for weight in weights.values())
    assert (given[-1] == given[0]) == (name == "fixed")


@pytest.mark.parametrize("name", sorted(set(LOSS_WEIGHTINGS) - {"fixed"}))
@pytest.mark.parametrize("steps", [0, 1, 6, 9, 13])
def test_a_loaded_state_goes_on_bit_identically(name, steps):
    first, _ = watched(name, steps=steps)
    second = loss_weighting(name, TASKS, ONES if name != "dwa" else UNEVEN)
    second.load(load(save(first.state())))
    assert second.weights(steps // 4) == first.weights(steps // 4)
    assert watched(name, steps=20, method=first)[1] == watched(name, steps=20, method=second)[1]


@pytest.mark.parametrize("name", LOSS_WEIGHTINGS)
def test_a_state_of_other_tasks_is_refused(name):
    other = loss_weighting("gradnorm", TASKS[:2], {"sst": 1.0, "para": 1.0}).state()
    with pytest.raises(ValueError, match="loss weighting state: expected"):
        loss_weighting(name, TASKS, ONES).load(other)


def test_a_state_does_not_change_when_its_balance_goes_on():
    method, _ = watched("uncertainty", steps=3)
    kept = method.state()
    before = {name: value.clone() for name, value in kept.items()}
    watched("uncertainty", steps=3, method=method)
    torch.testing.assert_close(kept, before, rtol=0, atol=0)


@pytest.mark.parametrize("loss", [0.01, 0.3, 1.0, 7.0])
def test_uncertainty_comes_to_rest_where_each_weighted_loss_is_one_half(loss):
    method = loss_weighting("uncertainty", TASKS, ONES, {"rate": 0.1})
    for _ in range(3000):
        method.observe(dict.fromkeys(NAMES, loss), None, 0)
    for weight in method.weights(0).values():
        assert weight * loss == pytest.approx(0.5, rel=1e-6)
    log_variance = dict(zip(NAMES, method.state()["log_variance"].tolist(), strict=True))
    assert log_variance["sts"] == pytest.approx(math.log(loss), abs=1e-6)
    assert log_variance["sst"] == pytest.approx(math.log(2 * loss), abs=1e-6)


def test_uncertainty_equals_gradient_descent_by_autograd():
    """Kendall et al. 2018, equations 7 and 10, with s = log sigma^2."""
    method = loss_weighting("uncertainty", TASKS, ONES, {"rate": 0.05})
    half = torch.tensor([1.0, 1.0, 0.5], dtype=torch.float64)
    s = half.log().requires_grad_()
    optimizer = torch.optim.SGD([s], lr=0.05)
    random = torch.Generator().manual_seed(0)
    for _ in range(50):
        losses = 3 * torch.rand(3, generator=random, dtype=torch.float64)
        torch.testing.assert_close(
            torch.tensor(list(method.weights(0).values()), dtype=torch.float64),
            half * torch.exp(-s.detach()),
        )
        optimizer.zero_grad()
        (half * torch.exp(-s) * losses + s / 2).sum().backward()
        optimizer.step()
        method.observe(dict(zip(NAMES, losses.tolist(), strict=True)), None, 0)


def test_uncertainty_leaves_a_task_alone_that_had_no_turn():
    method = loss_weighting("uncertainty", TASKS, ONES)
    method.observe({"sst": 9.0}, None, 0)
    weights = method.weights(0)
    assert weights["sst"] < 1
    assert (weights["para"], weights["sts"]) == (1.0, 1.0)


def test_dynamic_weight_average_equals_the_formula_of_the_paper():
    """Liu et al. 2019, equation 7: T = 2, and 1 in the first two epochs."""
    method = loss_weighting("dwa", TASKS, ONES)
    epochs = [[1.0, 2.0, 4.0], [0.5, 1.9, 4.0], [0.4, 1.0, 5.0]]
    for epoch, means in enumerate(epochs):
        if epoch < 2:
            assert list(method.weights(epoch).values()) == pytest.approx([1, 1, 1])
        for wobble in (-0.1, 0.1):
            losses = {n: m + wobble for n, m in zip(NAMES, means, strict=True)}
            method.observe(losses, None, epoch)
    for epoch in (2, 3):
        last, before = torch.tensor(epochs[epoch - 1]), torch.tensor(epochs[epoch - 2])
        expected = 3 * torch.softmax(last / before / 2, 0)
        assert list(method.weights(epoch).values()) == pytest.approx(expected.tolist(), rel=1e-6)


def test_the_weights_of_dynamic_weight_average_hold_for_a_whole_epoch():
    _, given = watched("dwa", steps=20, initial=ONES)
    for epoch in range(5):
        mine = given[4 * epoch : 4 * epoch + 4]
        assert all(weights == mine[0] for weights in mine)
        assert sum(mine[0].values()) == pytest.approx(3)
    assert given[8] != given[4]


def test_dynamic_weight_average_takes_a_task_without_a_turn_for_one_that_stands_still():
    method = loss_weighting("dwa", TASKS, ONES)
    for epoch in (0, 1):
        method.observe({"sst": 1.0, "para": 1.0}, None, epoch)
    assert list(method.weights(2).values()) == pytest.approx([1, 1, 1])


def test_gradnorm_equals_autograd_on_two_linear_tasks():
    """Chen et al. 2018, algorithm 1, on a shared matrix that itself is trained."""
    tasks = TASKS[:2]
    names = [task.name for task in tasks]
    method = loss_weighting(
        "gradnorm", tasks, dict.fromkeys(names, 1.0), {"alpha": 1.5, "rate": 0.025}
    )
    random = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    shared = draw(4, 5).requires_grad_()
    heads = [draw(4) * 0.3, draw(4) * 0.6]
    goals = [draw(8), draw(8) * 0.5]
    reference = torch.ones(2, dtype=torch.float64, requires_grad=True)
    first = None
    for _ in range(30):
        x = draw(8, 5)
        pairs = zip(heads, goals, strict=True)
        losses = torch.stack([(x @ shared.T @ h - g).square().mean() for h, g in pairs])
        norms = []
        for weight, loss in zip(reference, losses, strict=True):
            (grad,) = torch.autograd.grad(weight * loss, shared, create_graph=True)
            norms.append(grad.norm())
        lengths = torch.stack(norms)
        first = losses.detach() if first is None else first
        left = losses.detach() / first
        wanted = lengths.detach().mean() * (left / left.mean()) ** 1.5
        (slope,) = torch.autograd.grad((lengths - wanted).abs().sum(), reference, retain_graph=True)
        (downhill,) = torch.autograd.grad(losses.sum(), shared)

        seen = dict(zip(names, losses.tolist(), strict=True))
        method.observe(seen, dict(zip(names, lengths.tolist(), strict=True)), 0)
        with torch.no_grad():
            moved = reference - 0.025 * slope
            reference.copy_(2 * moved / moved.sum())
            shared -= 0.01 * downhill
        found = list(method.weights(0).values())
        assert found == pytest.approx(reference.tolist(), rel=1e-9)
        assert sum(found) == pytest.approx(2)
    assert found != pytest.approx([1.0, 1.0], abs=0.05)


def test_gradnorm_lengthens_the_gradient_of_the_task_that_learns_more_slowly():
    method = loss_weighting("gradnorm", TASKS, ONES)
    method.observe(ONES, ONES, 0)
    assert method.weights(0) == pytest.approx(ONES)
    method.observe({"sst": 0.2, "para": 0.9, "sts": 0.2}, ONES, 0)
    weights = method.weights(0)
    assert weights["para"] > 1 > weights["sst"] == weights["sts"]
    assert sum(weights.values()) == pytest.approx(3)


def test_gradnorm_never_lets_a_weight_turn_negative():
    method = loss_weighting("gradnorm", TASKS, ONES)
    method.observe(ONES, {"sst": 1e4, "para": 1.0, "sts": 1.0}, 0)
    weights = method.weights(0)
    assert 0 < weights["sst"] <= 3 * LEAST_WEIGHT
    assert sum(weights.values()) == pytest.approx(3)


def test_gradnorm_learns_nothing_from_a_step_with_one_task():
    method = loss_weighting("gradnorm", TASKS, ONES)
    method.observe({"sst": 3.0}, {"sst": 2.0}, 0)
    method.observe({"sst": 1.0}, {"sst": 9.0}, 0)
    assert method.weights(0) == ONES


def test_zero_gradients_and_zero_losses_leave_gradnorm_finite():
    method = loss_weighting("gradnorm", TASKS, ONES)
    for losses in (ONES, dict.fromkeys(NAMES, 0.0), ONES):
        method.observe(losses, dict.fromkeys(NAMES, 0.0), 0)
        assert method.weights(0) == pytest.approx(ONES)


def test_wrong_names_options_and_weights_are_said_at_once():
    with pytest.raises(
        UserError, match="'gradnrm' is not one of fixed, uncertainty, dwa, gradnorm"
    ):
        loss_weighting("gradnrm", TASKS, ONES)
    with pytest.raises(UserError) as error:
        loss_weighting("dwa", TASKS, {"sst": 0.0}, {"alpha": 1.0, "temperature": -1.0})
    assert error.value.lines == (
        "loss_weighting_options: dwa has no option 'alpha'; its options are temperature",
        "loss_weighting_options.temperature = -1.0 must be a number above 0",
        "loss_weighting: weights are for sst, but the tasks are sst, para, sts",
        "loss_weighting: dwa needs initial weights above 0; sst has 0",
    )
    with pytest.raises(UserError, match="it has no options"):
        loss_weighting("fixed", TASKS, ONES, {"rate": 1.0})
    assert loss_weighting("fixed", TASKS, ONES | {"sst": 0.0}).weights(0)["sst"] == 0
