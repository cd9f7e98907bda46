"""Every guard meets a planted fault, which it must name, and a healthy case, where it is silent."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cotrunk.data.batches.packing import Packed, RowIndex, pack
from cotrunk.data.batches.samplers import Sampler
from cotrunk.data.batches.sampling import dry_run, epoch_batches, rows_of
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.losses import mse, probability_mse
from cotrunk.kinds.metrics import pearson
from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task
from cotrunk.learn import guards
from cotrunk.learn.combine import combiner
from cotrunk.learn.gradients import Surgery, blocks_of
from cotrunk.learn.optimizer import OPTIMIZERS, AdamW
from cotrunk.model.encoder.dropout import NO_DROPOUT, DropoutStream
from cotrunk.model.encoder.shape import Shape
from cotrunk.model.head_plan import HeadPlan, Read
from cotrunk.model.heads import scale_cosine
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.places import trunk_places
from cotrunk.model.sharing.plan import make_plan
from cotrunk.model.weights.initial import initialise

SST = Task("sst", 1, Classes(("0", "1", "2", "3", "4")))
PARA = Task("para", 1, Binary())
STS = Task("sts", 1, Scores(range=(0, 5.0)))
PAIR = Task("sts", 2, Scores(range=(0, 5.0)))
TASKS = (SST, PARA, STS)
TINY = Shape("bert", 2, 8, 2, 12, 40, 20, 2, 0, True, 1e-12, 0.1, 0.1)


def tiny(plan: str = "S1 I1", **heads: HeadPlan) -> Network:
    names = [task.name for task in TASKS]
    plans = {name: HeadPlan(depth=2, width=6, dropout=0.0) for name in names} | heads
    trunk = trunk_places(names, TINY, encoder=plan)
    network = Network(TINY, make_plan(trunk, TINY, TASKS, plans), TASKS, plans)
    initialise(network, {}, seed=1)
    return network


def batch(seed: int = 0, rows: int = 6) -> tuple[Packed, RowIndex]:
    random = np.random.default_rng(seed)
    tokens = [random.integers(0, 40, size=n) for n in random.integers(2, 9, size=rows)]
    text = pack(tokens, [np.zeros(len(t), np.int64) for t in tokens])
    return text, RowIndex((text.place_S,))


def targets(task: Task, rows: int = 6) -> torch.Tensor:
    return torch.arange(rows) % (2 if task.outputs == 1 and task.labels.span is None else 5) * 1.0


def rounded_mse(output_RO: torch.Tensor, target_R: torch.Tensor) -> torch.Tensor:
    """What MOPS trained paraphrases with: no gradient passes a rounding."""
    return (output_RO[:, 0].sigmoid().round() - target_R).square()


def watch_of(network: Network, *, patience: int = 3) -> guards.GradientWatch:
    parameters = dict(network.named_parameters())
    places = network.places_of()
    return guards.GradientWatch(parameters, network.updated_by(), places, patience=patience)


def specs(network, watch, losses, *, steps=4, tasks=TASKS) -> list[guards.Finding]:
    found = []
    for step in range(steps):
        network.zero_grad(set_to_none=True)
        text, index = batch(step)
        for number, task in enumerate(tasks):
            out = network(text, index, [task.name], DropoutStream(1, step, number))[task.name]
            losses[task.name](out, targets(task)).mean().backward()
        found += watch.look([task.name for task in tasks])
    return found


HEALTHY = {task.name: task.labels.loss() for task in TASKS}


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


@pytest.mark.slow
def test_a_healthy_network_has_no_still_block():
    for plan in ("S2", "I2", "S1 (sst+para)"):
        network = tiny(plan)
        assert specs(network, watch_of(network), HEALTHY) == []


def test_a_rounded_output_is_named_at_the_head_it_starves():
    network = tiny("S2")
    (found,) = specs(network, watch_of(network), HEALTHY | {"para": rounded_mse})
    assert (found.name, found.place) == ("rounded-output", "heads.para")
    assert "in 3 steps with para" in found.finding


@pytest.mark.slow
def test_all_blocks_below_a_rounded_output_are_one_finding():
    network = tiny("I2")
    (found,) = specs(network, watch_of(network), HEALTHY | {"para": rounded_mse})
    assert (found.name, found.place) == ("rounded-output", "heads.para")
    blocks = {
        name.rpartition(".")[0] for name, group in network.owners().items() if "para" in group
    }
    assert f"or {len(blocks) - 2} blocks below" in found.finding


def test_a_rounded_output_is_named_with_surgery_too():
    network = tiny("S2")
    moved = network.updated_by()
    blocks = blocks_of(network.named_parameters(), moved, network.places_of())
    surgery = Surgery(blocks, list(network.tasks), combiner("pcgrad"), seed=1)
    watch, found = watch_of(network), []
    for step in range(4):
        network.zero_grad(set_to_none=True)
        text, index = batch(step)
        for task in TASKS:
            loss = rounded_mse if task is PARA else HEALTHY[task.name]
            out = network(text, index, [task.name], NO_DROPOUT)[task.name]
            loss(out, targets(task)).mean().backward()
            surgery.stash(task.name)
        surgery.combine(step)
        found += watch.look([task.name for task in TASKS])
    assert [finding.place for finding in found] == ["heads.para"]


def test_a_dead_unit_is_named_at_its_block():
    network = tiny("S2")
    with torch.no_grad():
        network.heads["sst"].layers[0].bias.fill_(-100.0)
    (found,) = specs(network, watch_of(network), HEALTHY)
    assert found.name == "zero-gradient"
    assert found.place == "heads.sst.layers.0"


def test_a_block_that_no_task_had_a_turn_to_move_is_not_blamed():
    network = tiny("I2")
    watch = watch_of(network)
    assert specs(network, watch, HEALTHY, tasks=(SST,), steps=8) == []


@pytest.mark.slow
def test_a_head_that_another_reads_is_not_blamed_while_its_own_task_waits():
    """Reading hidden features moves all of the head but its last layer."""
    reads = (Read("sst", "hidden", "flow"),)
    network = tiny("S2", sts=HeadPlan(depth=2, width=6, reads=reads))
    assert network.updated_by()["heads.sst.layers.1.weight"] == {"sst"}
    assert specs(network, watch_of(network), HEALTHY, tasks=(STS,), steps=8) == []


def test_a_frozen_block_is_not_blamed():
    network = tiny("S2")
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name.startswith("heads."))
    assert specs(network, watch_of(network), HEALTHY) == []


@pytest.mark.slow
def test_a_block_that_falls_still_later_is_found_and_told_once():
    network = tiny("S2")
    watch = watch_of(network)
    assert specs(network, watch, HEALTHY, steps=2) == []
    found = specs(network, watch, HEALTHY | {"para": rounded_mse}, steps=guards.LOOK_EVERY + 10)
    assert [finding.name for finding in found] == ["rounded-output"]


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


def test_dev_rows_that_are_in_train_are_counted():
    found = guards.train_dev_overlap("sts", shared=2, rows=4)
    assert found.name == "train-dev-overlap"
    assert "2 of 4 rows (50.0%)" in found.finding
    assert guards.train_dev_overlap("sts", shared=0, rows=4) is None


def test_a_task_without_a_batch_in_some_epoch_is_named():
    sizes = {"sst": 8_544, "para": 141_506, "sts": 6_040}
    plans = dry_run(Sampler("proportional", steps_per_epoch=10), sizes, batch=32, seed=1, epochs=4)
    found = {
        finding.finding.split()[1]: finding
        for finding in guards.uneven_sampling(plans)
        if "no batch" in finding.finding
    }
    empty = {task for task in sizes if any(plan["batches"][task] == 0 for plan in plans)}
    assert set(found) == empty
    assert "sts" in empty
    assert all(finding.name == "starved-task" for finding in found.values())
    for task, finding in found.items():
        assert finding.fatal == all(plan["batches"][task] == 0 for plan in plans)


def test_a_sampler_that_serves_all_tasks_starves_none():
    sizes = {"sst": 8_544, "para": 141_506, "sts": 6_040}
    for sampler in ("proportional", "annealed", "sequential"):
        plans = dry_run(Sampler(sampler), sizes, batch=32, seed=1, epochs=2)
        assert guards.uneven_sampling(plans) == []
    assert guards.uneven_sampling([]) == []


def test_passes_count_how_often_an_epoch_sees_each_row():
    sizes = {"small": 70, "large": 640}
    sampler = Sampler("together", steps_per_epoch=30)
    (plan,) = dry_run(sampler, sizes, batch=32, seed=1, epochs=1)
    seen = {task: np.zeros(size) for task, size in sizes.items()}
    for step in epoch_batches(sampler, sizes, batch=32, seed=1, epoch=0, epochs=1):
        for spec in step:
            seen[spec.task][rows_of(spec, sizes[spec.task], seed=1, epoch=0)] += 1
    assert {task: count.mean() for task, count in seen.items()} == plan["passes"]


def test_a_task_that_is_repeated_or_hardly_seen_is_named_with_the_setting():
    sizes = {"small": 100, "large": 100_000}
    plans = dry_run(Sampler("together"), sizes, batch=32, seed=1, epochs=1)
    (often,) = guards.uneven_sampling(plans)
    assert (often.name, often.place, often.fatal) == ("repeated-task", "train.sampling", False)
    assert "task small" in often.finding
    assert "tasks.small.batch" in often.fix
    short = dry_run(Sampler("together", steps_per_epoch=400), sizes, batch=32, seed=1, epochs=2)
    starved = {finding.name: finding for finding in guards.uneven_sampling(short)}["starved-task"]
    assert "task large: an epoch sees 13% of its rows, the whole run 24%" in starved.finding
    assert not starved.fatal


def test_many_short_epochs_that_see_all_rows_are_fine():
    sizes = {"all": 3200}
    for epochs, finds in ((1, True), (5, True), (20, False)):
        sampler = Sampler("together", steps_per_epoch=30)
        plans = dry_run(sampler, sizes, batch=32, seed=1, epochs=epochs)
        assert bool(guards.uneven_sampling(plans)) is finds


def test_a_task_without_a_batch_before_training_stops_is_named():
    specs = ["para", "para", "sst", "para"]
    found = guards.unreached_tasks(["sst", "para", "sts"], specs, steps=4, whole=400)
    assert [finding.name for finding in found] == ["starved-task"]
    assert "task sts has no batch in the first 4 of 400 steps" in str(found[0])
    assert not found[0].fatal
    assert guards.unreached_tasks(["sst", "para"], specs, steps=4, whole=400) == []


def test_selection_by_test_rows_is_an_error_and_by_train_rows_a_warning():
    assert guards.selected_by_test("sst", {"train": "a", "dev": "b", "test": "c"}) == []
    assert guards.selected_by_test("sst", {"train": "a"}) == []
    (same,) = guards.selected_by_test("sst", {"train": "a", "dev": "c", "test": "c"})
    assert (same.name, same.place, same.fatal) == ("test-for-selection", "tasks.sst.test", True)
    (heart,) = guards.selected_by_test("sst", {"train": "a", "dev": "a", "test": "c"})
    assert (heart.place, heart.fatal) == ("tasks.sst.dev", False)
