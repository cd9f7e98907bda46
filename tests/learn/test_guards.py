"""Every guard meets a planted fault, which it must name, and a healthy case, where it is silent."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from guarded import PAIR, PARA, SST, STS, TASKS, batch, rounded_mse, targets, tiny

from cotrunk.kinds.classes import Classes
from cotrunk.kinds.losses import mse, probability_mse
from cotrunk.kinds.metrics import pearson
from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task
from cotrunk.learn import guards
from cotrunk.learn.optimizer import OPTIMIZERS, AdamW
from cotrunk.model.encoder.dropout import NO_DROPOUT, DropoutStream
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.heads import scale_cosine


def test_a_finding_is_one_line_with_place_finding_fix_and_name():
    finding = guards.Finding("idle-decay", "train.decay", "nothing decays", "raise it")
    assert str(finding) == "train.decay: nothing decays; raise it [idle-decay]"
    assert not finding.fatal


@pytest.mark.parametrize(
    ("positive", "named"), [(0, True), (2, True), (5, True), (175, False), (20212, True)]
)
def test_predictions_that_are_constant_but_for_a_few_rows_are_named(positive, named):
    gold = np.zeros(20_212)
    gold[:7_585] = 1
    predicted = np.zeros(20_212)
    predicted[:positive] = 1
    found = guards.constant_predictions(PARA, predicted, gold)
    assert (found is not None) == named
    if positive == 0:
        assert "all 20212 rows get the same prediction, 0 (accuracy 0.625)" in str(found)


def test_a_class_that_is_always_predicted_is_named_as_the_data_have_it():
    mood = Task("mood", 1, Classes(("sad", "glad")))
    found = guards.constant_predictions(mood, np.ones(8), np.arange(8) % 2)
    assert "all 8 rows get the same prediction, glad (accuracy 0.500)" in str(found)


def test_constant_predictions_are_right_where_the_labels_are_constant():
    assert guards.constant_predictions(PARA, np.ones(9), np.ones(9)) is None
    assert guards.constant_predictions(PARA, np.ones(0), np.ones(0)) is None


def test_the_prediction_for_a_single_row_is_not_called_constant():
    assert guards.constant_predictions(PARA, np.ones(1), np.zeros(1)) is None


def test_a_network_that_was_trained_by_a_rounded_loss_predicts_a_constant():
    """MOPS's paraphrase task: the head is where it started, and its outputs are all alike."""
    network = tiny("S2")
    with torch.no_grad():
        network.heads["para"].layers[-1].bias.fill_(-2.0)
    optimizer = AdamW([{"params": list(network.parameters()), "lr": 1e-3}])
    text, index = batch()
    for step in range(5):
        optimizer.zero_grad()
        out = network(text, index, ["para"], DropoutStream(1, step))["para"]
        rounded_mse(out, targets(PARA)).mean().backward()
        optimizer.step()
    with torch.no_grad():
        output = network(text, index, ["para"], NO_DROPOUT)["para"].numpy()
    (found,) = guards.on_dev(PARA, PARA.labels.predict_labels(output), targets(PARA).numpy())
    assert found.name == "constant-predictions"
    assert "para" in found.place


def test_an_undefined_correlation_says_which_side_is_constant():
    values = np.array([0.0, 2.5, 5.0])
    cases = [
        (np.full(3, 0.1), values, "the prediction is 0.1"),
        (values, np.full(3, 0.1), "label 0.1"),
        (np.array([1.0, np.nan, 2.0]), values, "not finite"),
        (values[:1], values[:1], "only 1 row"),
    ]
    for predicted, gold, why in cases:
        (found,) = guards.on_dev(STS, predicted, gold)
        assert found.name == "undefined-score"
        assert why in str(found)
        assert math.isnan(pearson(predicted, gold))
    assert guards.on_dev(STS, values, values[::-1]) == []
    assert guards.undefined_score(PARA, np.zeros(3), np.zeros(3)) is None
    (found,) = guards.on_dev(PARA, np.array([0.0, np.nan, 1.0]), np.zeros(3))
    assert "accuracy is NaN: the outputs for 1 row of 3 are not finite" in str(found)


@pytest.mark.parametrize("kind", TASKS, ids=lambda task: task.name)
def test_a_loss_without_a_gradient_is_found_before_training(kind):
    assert guards.rounded_output(kind, kind.labels.loss()) is None

    def detached(output_RO, target_R):
        return (output_RO.detach()[:, 0] - target_R).square()

    def rounds(output_RO, target_R):
        return (output_RO[:, 0].round() - target_R).square()

    for fault in (detached, rounds):
        found = guards.rounded_output(kind, fault)
        assert found.fatal
        assert found.name == "rounded-output"


def test_the_probability_loss_passes_where_its_rounded_twin_does_not():
    assert guards.rounded_output(PARA, probability_mse) is None
    assert guards.rounded_output(PARA, rounded_mse).place == "tasks.para.loss"
    assert guards.rounded_output(STS, mse) is None


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("decay", [0.0, 1e-4, 1e-3, 2.9e-3, 3.1e-3, 5e-3, 0.01])
@pytest.mark.parametrize("lr", [1e-5, 1e-3])
def test_a_decay_is_called_idle_exactly_when_no_weight_changes(optimizer, decay, lr):
    weights = torch.nn.Parameter(torch.randn(100_000, generator=torch.Generator().manual_seed(0)))
    weights.grad = torch.zeros_like(weights)
    before = weights.detach().clone()
    group = {"params": [weights], "lr": lr, "factor": 1.0, "weight_decay": decay}
    OPTIMIZERS[optimizer]([group]).step()
    idle = torch.equal(weights, before) and decay > 0
    assert (guards.idle_decay([lr], decay) is not None) == idle


def test_an_idle_decay_says_from_where_it_acts():
    found = guards.idle_decay([1e-3, 1e-5], 1e-3)
    assert found.name == "idle-decay"
    assert "at lr = 1e-05 and decay = 0.001" in found.finding
    assert "above 0.003" in found.fix
    assert guards.idle_decay([1e-5], 0.003 * 1.01) is None


def test_five_sigmoids_of_a_cosine_cannot_reach_the_labels():
    found = guards.unreachable_labels(PAIR, HeadPlan(pair="cosine", cosine="sigmoid"))
    assert found.name == "unreachable-labels"
    assert "1.34..3.66, but labels span 0..5" in found.finding
    for scaling in ("shifted", "relu"):
        assert guards.unreachable_labels(PAIR, HeadPlan(pair="cosine", cosine=scaling)) is None


@pytest.mark.parametrize("scaling", ["shifted", "sigmoid", "relu"])
def test_the_reach_of_a_cosine_is_what_its_scaling_gives(scaling):
    ends = scale_cosine(
        scaling, torch.tensor([-1.0, 1.0], dtype=torch.float64), PAIR.labels.span
    ).tolist()
    assert guards.reach(PAIR, HeadPlan(pair="cosine", cosine=scaling)) == pytest.approx(ends)


@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh"])
def test_the_reach_of_an_activation_is_what_it_gives(activation):
    x = torch.linspace(-20, 20, 400_001, dtype=torch.float64)
    y = {"relu": F.relu, "gelu": F.gelu, "tanh": torch.tanh}[activation](x)
    low, high = guards.reach(STS, HeadPlan(activate_last=True, activation=activation))
    assert low == pytest.approx(y.min().item(), abs=1e-5)
    assert math.isinf(high) if activation != "tanh" else high == pytest.approx(y.max().item())


def test_an_activated_last_layer_is_named_unless_it_reaches_every_label():
    relu, tanh = HeadPlan(activate_last=True), HeadPlan(activate_last=True, activation="tanh")
    assert guards.unreachable_labels(STS, relu) is None
    assert "-1.00..1.00" in str(guards.unreachable_labels(STS, tanh))
    below = Task("sts", 1, Scores(range=(-1.0, 1.0)))
    assert guards.unreachable_labels(below, relu) is not None
    assert guards.unreachable_labels(below, tanh) is None
    assert "probabilities of 0.50..1.00" in str(guards.unreachable_labels(PARA, relu))
    assert "logits of 0.00 or more" in str(guards.unreachable_labels(SST, relu))
    assert "probabilities of at most 0.65" in str(guards.unreachable_labels(SST, tanh))
    for task in TASKS:
        assert guards.unreachable_labels(task, HeadPlan()) is None


def test_a_loss_that_is_not_finite_names_task_step_and_rows():
    ids = {"sst": ["a1", "a2"], "sts": ["b1"]}
    healthy = guards.not_finite(7, {"sst": 1.0, "sts": 2.0}, 3.0, ids.__getitem__)
    assert healthy is None
    network = tiny()
    with torch.no_grad():
        network.heads["sts"].layers[-1].weight.fill_(math.inf)
    text, index = batch()
    out = network(text, index, ["sts"], NO_DROPOUT)["sts"]
    loss = mse(out, targets(STS)).mean().item()
    found = guards.not_finite(7, {"sst": 1.0, "sts": loss}, math.nan, ids.__getitem__)
    assert found.fatal
    assert found.place == "step 7"
    assert "the loss is not finite (task sts, rows b1)" in found.finding


def test_a_gradient_that_is_not_finite_blames_every_task_of_the_step():
    found = guards.not_finite(0, {"sst": 1.0, "sts": 2.0}, math.inf, lambda task: [f"{task}-1"])
    assert "the gradient is not finite (task sst, rows sst-1; task sts, rows sts-1)" in str(found)
