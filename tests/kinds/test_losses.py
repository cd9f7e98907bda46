import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.losses import probability_mse
from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task

TASKS = {
    "classes": Task("sst", 1, Classes(("0", "1", "2"))),
    "binary": Task("para", 2, Binary()),
    "score": Task("sts", 2, Scores(range=(0, 5.0))),
}
FITTING = [(name, task) for task in TASKS.values() for name in task.labels.losses]
LOSSES = ["cross-entropy", "binary-cross-entropy", "probability-mse", "mse"]


def rows(task, *, count=20, seed=0):
    random = torch.Generator().manual_seed(seed)
    output_RO = 3 * torch.randn(count, task.outputs, generator=random, dtype=torch.float64)
    target_R = torch.arange(count, dtype=torch.float64) % max(task.outputs, 2)
    return output_RO, target_R


def test_cross_entropy_equals_its_closed_form():
    output_RO, target_R = rows(TASKS["classes"])
    found = TASKS["classes"].labels.loss(None)(output_RO, target_R)
    chosen = output_RO[torch.arange(20), target_R.long()]
    assert_close(found, output_RO.exp().sum(1).log() - chosen)
    assert_close(found.mean(), F.cross_entropy(output_RO, target_R.long()))


def test_binary_cross_entropy_equals_its_closed_form():
    output_RO, target_R = rows(TASKS["binary"])
    found = TASKS["binary"].labels.loss(None)(output_RO, target_R)
    sign = 2 * target_R - 1
    assert_close(found, torch.log1p(torch.exp(-sign * output_RO[:, 0])))
    assert_close(found.mean(), F.binary_cross_entropy(output_RO[:, 0].sigmoid(), target_R))


def test_squared_errors_equal_torchs():
    output_RO, target_R = rows(TASKS["score"])
    found = TASKS["score"].labels.loss(None)(output_RO, target_R)
    assert_close(found, F.mse_loss(output_RO[:, 0], target_R, reduction="none"))
    found = TASKS["binary"].labels.loss("probability-mse")(output_RO, target_R)
    assert_close(found, F.mse_loss(output_RO[:, 0].sigmoid(), target_R, reduction="none"))


def test_the_squared_error_of_a_probability_has_a_gradient():
    """Its rounded twin, which one report trained with, has none."""
    output_RO, target_R = rows(TASKS["binary"])
    output_RO.requires_grad_()
    (slope,) = torch.autograd.grad(probability_mse(output_RO, target_R).sum(), output_RO)
    assert (slope[:, 0].sign() == 1 - 2 * target_R).all()
    rounded = (output_RO[:, 0].sigmoid().round() - target_R).square().sum()
    (slope,) = torch.autograd.grad(rounded, output_RO)
    assert not slope.any()


def test_smoothed_classes_equal_torchs_and_the_mixed_target():
    output_RO, target_R = rows(TASKS["classes"])
    found = TASKS["classes"].labels.loss(smoothing=0.1)(output_RO, target_R)
    mixed = 0.9 * F.one_hot(target_R.long(), 3).double() + 0.1 / 3
    assert_close(found, -(mixed * output_RO.log_softmax(1)).sum(1))


def test_a_smoothed_chance_equals_two_smoothed_classes():
    output_RO, target_R = rows(TASKS["binary"])
    found = TASKS["binary"].labels.loss(smoothing=0.1)(output_RO, target_R)
    two = torch.cat([torch.zeros_like(output_RO), output_RO], dim=1)
    assert_close(
        found, F.cross_entropy(two, target_R.long(), label_smoothing=0.1, reduction="none")
    )


@pytest.mark.parametrize(("name", "task"), FITTING)
def test_every_loss_is_one_number_per_row_with_the_right_slope(name, task):
    output_RO, target_R = rows(task, count=4)
    loss = task.labels.loss(name)
    assert loss(output_RO, target_R).shape == (4,)
    assert torch.autograd.gradcheck(lambda out: loss(out, target_R), output_RO.requires_grad_())


@pytest.mark.parametrize(("name", "task"), FITTING)
def test_every_loss_is_finite_for_extreme_outputs(name, task):
    output_RO = torch.tensor([[-1e4], [1e4]]).expand(2, task.outputs)
    assert task.labels.loss(name)(output_RO, torch.tensor([1.0, 0.0])).isfinite().all()


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_of_another_kind_is_refused(kind, name):
    labels = TASKS[kind].labels
    if name in labels.losses:
        assert labels.loss(name)
        return
    with pytest.raises(ValueError, match=f"loss = '{name}': must be {labels.losses[0]}"):
        labels.loss(name)


@pytest.mark.parametrize(("kind", "name"), [("score", "mse"), ("binary", "probability-mse")])
def test_smoothing_needs_a_cross_entropy(kind, name):
    with pytest.raises(ValueError, match="label_smoothing needs a cross-entropy"):
        TASKS[kind].labels.loss(name, smoothing=0.1)


def test_a_certain_wrong_chance_costs_its_logit():
    loss = TASKS["binary"].labels.loss(None)
    assert loss(torch.tensor([[50.0]]), torch.tensor([0.0])).item() == pytest.approx(50)
    assert loss(torch.tensor([[0.0]]), torch.tensor([1.0])).item() == pytest.approx(math.log(2))
