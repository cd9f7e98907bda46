"""Surgery on real tiny networks against the textbook on flattened gradients, in float64."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from cotrunk.data.batches.packing import RowIndex, pack
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task
from cotrunk.learn.combine import COMBINERS, combiner
from cotrunk.learn.gradients import Surgery, blocks_of
from cotrunk.learn.optimizer import clip
from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.encoder.shape import Shape
from cotrunk.model.head_plan import HeadPlan, Read
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.places import trunk_places
from cotrunk.model.sharing.plan import make_plan
from cotrunk.model.weights.initial import generator, initialise

TASKS = {
    "a": Task("a", 1, Classes(("0", "1", "2"))),
    "b": Task("b", 1, Binary()),
    "c": Task("c", 1, Scores(range=(0, 1))),
}
NAMES = list(TASKS)
PLANS = ["S2", "S1 I1", "(a+b)2"]
TINY = Shape("bert", 2, 8, 2, 12, 30, 20, 2, 0, True, 1e-12, 0.1, 0.1)
SEED = 5


def tiny(plan="S2", **heads):
    names = list(TASKS)
    plans = {name: HeadPlan(dropout=0.1) for name in names} | heads
    tasks = list(TASKS.values())
    shared = make_plan(trunk_places(names, TINY, encoder=plan), TINY, tasks, plans)
    network = Network(TINY, shared, tasks, plans).double()
    initialise(network, {}, seed=1)
    for name, parameter in network.named_parameters():  # so that gradients differ and conflict
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator(2, name)).double()
    return network


def loss_of(network, task, turn=0):
    """The loss of one batch: a function of (task, turn) alone."""
    random = np.random.default_rng([NAMES.index(task), turn])
    tokens = [random.integers(0, 30, size=n) for n in (2, 5, 3, 6)]
    text = pack(tokens, [np.zeros(len(t), np.int64) for t in tokens])
    masks = DropoutStream(1, NAMES.index(task), turn)
    output_RO = network(text, RowIndex((text.place_S,)), [task], masks)[task]
    target_R = torch.from_numpy(random.integers(0, 2, size=4).astype(np.float64))
    return TASKS[task].labels.loss()(output_RO, target_R).mean()


def surgery_of(network, method="sum", *, scope="group", options=None):
    blocks = blocks_of(network.named_parameters(), network.updated_by(), network.places_of())
    return Surgery(blocks, NAMES, combiner(method, options or {}), seed=SEED, scope=scope)


def after_surgery(network, surgery, turns, *, step=0):
    """The gradients of a step with these (task, turn)s, and the conflicts."""
    network.zero_grad(set_to_none=True)
    for task, turn in turns:
        loss_of(network, task, turn).backward()
        surgery.stash(task)
    conflicts = surgery.combine(step)
    return gradients(network), conflicts


def gradients(network):
    return {
        name: p.grad.to_dense().clone()
        for name, p in network.named_parameters()
        if p.grad is not None
    }


def plain(network, turns):
    """What backward of the summed losses gives."""
    network.zero_grad(set_to_none=True)
    torch.stack([loss_of(network, task, turn) for task, turn in turns]).sum().backward()
    return gradients(network)


def textbook(network, turns, *, step=0, scope="group"):
    """PCGrad (Yu et al. 2020, algorithm 1) on flattened gradients, unit by unit."""
    present = [name for name in NAMES if name in {task for task, _ in turns}]
    own = {name: plain(network, [turn for turn in turns if turn[0] == name]) for name in present}
    moved, random = network.updated_by(), generator(SEED, f"surgery {step}")
    places, units = network.places_of(), {}
    for name in moved:
        unit = (moved[name], places[name].name if scope == "layer" else "")
        units.setdefault(unit, []).append(name)
    expected = {}
    for (group, _), names in units.items():
        tasks = [task for task in present if task in group and any(n in own[task] for n in names)]
        if not tasks:
            continue
        sizes = [dict(network.named_parameters())[name].shape for name in names]
        zero = [torch.zeros(size, dtype=torch.float64) for size in sizes]
        flat = torch.stack(
            [
                torch.cat([own[t].get(n, z).flatten() for n, z in zip(names, zero, strict=True)])
                for t in tasks
            ]
        )
        combined = flat.clone()
        # The order is the only chance in it, so it is drawn as surgery draws it.
        count = len(tasks) if len(group) > 1 and len(tasks) > 1 else 0
        orders = [torch.randperm(count, generator=random).tolist() for _ in range(count)]
        for i, order in enumerate(orders):
            for j in order:
                if j != i and combined[i] @ flat[j] < 0:
                    combined[i] -= (combined[i] @ flat[j]) / (flat[j] @ flat[j]) * flat[j]
        parts = combined.sum(0).split([size.numel() for size in sizes])
        for name, size, part in zip(names, sizes, parts, strict=True):
            if any(name in own[task] for task in tasks):
                expected[name] = part.reshape(size)
    return expected


def one_turn_each():
    return [(task, 0) for task in NAMES]


@pytest.mark.parametrize("scope", ["group", "layer"])
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    "step", [0, *(pytest.param(step, marks=pytest.mark.slow) for step in range(1, 5))]
)
def test_pcgrad_equals_the_textbook(plan, scope, step):
    network = tiny(plan)
    turns = [(task, step) for task in NAMES]
    found, _ = after_surgery(network, surgery_of(network, "pcgrad", scope=scope), turns, step=step)
    expected = textbook(network, turns, step=step, scope=scope)
    assert_close(found, expected, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_the_gradients_of_these_networks_do_conflict():
    changed = 0
    for plan, step in itertools.product(PLANS, range(5)):
        network, turns = tiny(plan), [(task, step) for task in NAMES]
        found, _ = after_surgery(network, surgery_of(network, "pcgrad"), turns, step=step)
        summed = plain(network, turns)
        changed += any(not torch.allclose(found[name], summed[name]) for name in found)
    assert changed >= 5


def test_layer_scope_differs_from_group_scope():
    network = tiny("S2")
    scopes = [
        after_surgery(network, surgery_of(network, "pcgrad", scope=scope), [(t, 1) for t in NAMES])
        for scope in ("group", "layer")
    ]
    (group, _), (layer, _) = scopes
    assert any(not torch.allclose(group[name], layer[name]) for name in group)


@pytest.mark.parametrize("plan", PLANS)
def test_a_sum_equals_backward_of_the_summed_losses(plan):
    network = tiny(plan)
    found, _ = after_surgery(network, surgery_of(network), one_turn_each())
    assert_close(found, plain(network, one_turn_each()), rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("method", COMBINERS)
@pytest.mark.parametrize("plan", PLANS)
def test_no_method_touches_what_one_task_updates_alone(method, plan):
    network = tiny(plan)
    moved = network.updated_by()
    found, _ = after_surgery(network, surgery_of(network, method), one_turn_each())
    private = [name for name in found if len(moved[name]) == 1]
    assert any(name.startswith("heads.") for name in private)
    expected = plain(network, one_turn_each())
    for name in private:
        assert_close(found[name], expected[name], rtol=0, atol=1e-13)


def test_a_group_of_two_of_three_tasks_gets_surgery_among_those_two_only():
    network = tiny("(a+b)2")
    three, _ = after_surgery(network, surgery_of(network, "pcgrad"), one_turn_each())
    two, conflicts = after_surgery(network, surgery_of(network, "pcgrad"), one_turn_each()[:2])
    ours = [name for name, group in network.updated_by().items() if group == {"a", "b"}]
    assert ours
    assert_close({n: three[n] for n in ours}, {n: two[n] for n in ours}, rtol=0, atol=0)
    assert all(set(pairs) == {"a|b"} for pairs in conflicts.values())


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(set(COMBINERS) - {"pcgrad", "gradvac"}))
def test_groups_that_overlap_in_one_task_do_not_see_each_other(method):
    """a+b share the lower layer, b+c the upper one."""
    names = list(TASKS)
    heads, tasks = {name: HeadPlan() for name in names}, list(TASKS.values())
    trunk = trunk_places(names, TINY, encoder="(a+b) (b+c)")
    network = Network(TINY, make_plan(trunk, TINY, tasks, heads), tasks, heads).double()
    initialise(network, {}, seed=1)
    surgery = surgery_of(network, method)
    groups = {block.place: "".join(sorted(block.group)) for block in surgery.blocks}
    assert groups == {"embeddings": "ab", "layers.0": "ab", "layers.1": "bc"}
    found, _ = after_surgery(network, surgery, one_turn_each())
    for pair, group in ((("a", "b"), {"a", "b"}), (("b", "c"), {"b", "c"})):
        alone, _ = after_surgery(network, surgery_of(network, method), [(task, 0) for task in pair])
        for name in (
            n for n, moved in network.updated_by().items() if moved == group and n in found
        ):
            assert_close(found[name], alone[name], rtol=1e-6, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sum", "pcgrad"])
@pytest.mark.parametrize("plan", PLANS)
def test_a_task_with_two_turns_in_a_step_counts_with_their_sum(method, plan):
    network = tiny(plan)
    turns = [("a", 0), ("b", 0), ("a", 1), ("c", 0), ("b", 1)]
    found, _ = after_surgery(network, surgery_of(network, method), turns)
    expected = textbook(network, turns) if method == "pcgrad" else plain(network, turns)
    assert_close(found, expected, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sum", "mean", "pcgrad", "gradvac"])
@pytest.mark.parametrize("plan", PLANS)
def test_a_task_without_a_turn_has_no_say(method, plan):
    network = tiny(plan)
    turns = [("a", 0), ("c", 0)]
    found, conflicts = after_surgery(network, surgery_of(network, method), turns)
    owned_by_b = [name for name, group in network.updated_by().items() if group == {"b"}]
    assert not set(owned_by_b) & set(found)
    assert all(set(pairs) == {"a|c"} for pairs in conflicts.values())
    if method == "pcgrad":
        assert_close(found, textbook(network, turns), rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("method", COMBINERS)
def test_a_single_task_keeps_its_gradient(method):
    network = tiny("S2")
    found, conflicts = after_surgery(network, surgery_of(network, method), [("b", 0)])
    assert_close(found, plain(network, [("b", 0)]), rtol=0, atol=0)
    assert conflicts == {}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sum", "mean", "upgrad", "nash-mtl"])
def test_the_order_of_the_turns_changes_no_bit(method):
    network = tiny("S1 I1")
    first, _ = after_surgery(network, surgery_of(network, method), one_turn_each())
    for turns in itertools.permutations(one_turn_each()):
        again, _ = after_surgery(network, surgery_of(network, method), turns)
        assert_close(again, first, rtol=0, atol=0)


def test_pcgrad_is_the_same_for_every_order_of_turns_and_again_for_the_same_step():
    network = tiny("S2")
    first, _ = after_surgery(network, surgery_of(network, "pcgrad"), one_turn_each(), step=3)
    for turns in itertools.permutations(one_turn_each()):
        again, _ = after_surgery(network, surgery_of(network, "pcgrad"), turns, step=3)
        assert_close(again, first, rtol=0, atol=0)


def test_surgery_holds_nothing_between_steps():
    network = tiny("S2")
    surgery = surgery_of(network, "pcgrad")
    after_surgery(network, surgery, [("a", 7), ("b", 7)], step=0)
    assert surgery.held == {}
    found, _ = after_surgery(network, surgery, one_turn_each(), step=1)
    fresh, _ = after_surgery(network, surgery_of(network, "pcgrad"), one_turn_each(), step=1)
    assert_close(found, fresh, rtol=0, atol=0)


def test_cosines_are_those_of_the_flattened_gradients_at_each_place():
    network = tiny("S1 I1")
    _, conflicts = after_surgery(network, surgery_of(network), one_turn_each())
    own = {task: plain(network, [(task, 0)]) for task in NAMES}
    moved, places = network.updated_by(), network.places_of()
    assert set(conflicts) == {"embeddings", "layers.0"}
    for place, pairs in conflicts.items():
        assert set(pairs) == {"a|b", "a|c", "b|c"}
        names = [n for n in moved if places[n].name == place and n in own["a"]]
        for pair, cosine in pairs.items():
            u, v = (torch.cat([own[t][n].flatten() for n in names]) for t in pair.split("|"))
            assert cosine == pytest.approx((u @ v / (u.norm() * v.norm())).item(), abs=1e-12)


@pytest.mark.parametrize(("plan", "place"), [("S2", "layers.1"), ("S1 I1", "layers.0")])
def test_norms_are_those_of_the_last_block_that_all_tasks_update(plan, place):
    network = tiny(plan)
    surgery = surgery_of(network, "pcgrad")
    after_surgery(network, surgery, one_turn_each())
    assert list(surgery.norms) == NAMES
    for task, length in surgery.norms.items():
        grads = plain(network, [(task, 0)])
        own = [g for n, g in grads.items() if network.places_of()[n].name == place]
        assert length == pytest.approx(torch.cat([g.flatten() for g in own]).norm().item())
    after_surgery(network, surgery, [("a", 0), ("c", 0)])
    assert list(surgery.norms) == ["a", "c"]


def test_there_are_no_norms_where_the_tasks_of_a_step_share_nothing():
    network = tiny("(a+b)2")
    surgery = surgery_of(network)
    after_surgery(network, surgery, one_turn_each())
    assert surgery.norms == {}


def test_a_head_that_is_read_with_its_gradient_is_shared():
    network = tiny("S2", c=HeadPlan(reads=(Read("a", "logits", "flow"),)))
    surgery = surgery_of(network, "pcgrad")
    assert {"a", "c"} in [set(block.group) for block in surgery.blocks if block.place == "heads.a"]
    turns = [(task, 2) for task in NAMES]
    found, _ = after_surgery(network, surgery, turns)
    assert_close(found, textbook(network, turns), rtol=0, atol=1e-10)


def test_gradvac_remembers_per_unit_and_per_set_of_tasks():
    network = tiny("S1 (a+b)")
    surgery = surgery_of(network, "gradvac")
    after_surgery(network, surgery, one_turn_each(), step=0)
    assert set(surgery.state) == {"a+b+c/a+b+c", "a+b/a+b"}
    assert surgery.state["a+b+c/a+b+c"]["target"].shape == (3, 3)
    before = {unit: state["target"].clone() for unit, state in surgery.state.items()}
    after_surgery(network, surgery, [("a", 1), ("c", 1)], step=1)
    assert set(surgery.state) == {"a+b+c/a+b+c", "a+b/a+b", "a+b+c/a+c"}
    for unit, target in before.items():
        assert_close(surgery.state[unit]["target"], target, rtol=0, atol=0)


def test_gradvac_of_layers_remembers_each_layer():
    network = tiny("S2")
    surgery = surgery_of(network, "gradvac", scope="layer")
    after_surgery(network, surgery, one_turn_each())
    places = {unit.split("/")[0] for unit in surgery.state}
    assert places == {"a+b+c@embeddings", "a+b+c@layers.0", "a+b+c@layers.1"}


def test_gradvac_with_its_state_handed_over_goes_on_bit_identically():
    network = tiny("S2")
    first, second = surgery_of(network, "gradvac"), surgery_of(network, "gradvac")
    for step in range(4):
        after_surgery(network, first, [(task, step) for task in NAMES], step=step)
    second.state = {
        unit: {key: value.clone() for key, value in state.items()}
        for unit, state in first.state.items()
    }
    turns = [(task, 4) for task in NAMES]
    found, _ = after_surgery(network, first, turns, step=4)
    again, _ = after_surgery(network, second, turns, step=4)
    fresh, _ = after_surgery(network, surgery_of(network, "gradvac"), turns, step=4)
    assert_close(again, found, rtol=0, atol=0)
    assert any(not torch.equal(fresh[name], found[name]) for name in found)


@pytest.mark.slow
@pytest.mark.parametrize("method", COMBINERS)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_is_handed_on_and_not_remembered(method, bad):
    """The loop stops or skips such a step by the length of the gradient it is given."""
    network = tiny("S2")
    surgery = surgery_of(network, method)
    after_surgery(network, surgery, one_turn_each(), step=0)
    before = {unit: state["target"].clone() for unit, state in surgery.state.items()}
    network.zero_grad(set_to_none=True)
    for task in NAMES:
        (loss_of(network, task, 1) * (bad if task == "b" else 1)).backward()
        surgery.stash(task)
    conflicts = surgery.combine(1)
    norm = clip(network.parameters(), 1.0)
    assert not norm.isfinite()
    assert surgery.held == {}
    after = {unit: state["target"] for unit, state in surgery.state.items()}
    assert_close(after, before, rtol=0, atol=0)
    assert all(set(pairs) == {"a|c"} for pairs in conflicts.values())
    assert surgery.norms == {}


def test_frozen_parameters_are_in_no_block():
    network = tiny("S2")
    network.embeddings.requires_grad_(False)
    blocks = blocks_of(network.named_parameters(), network.updated_by(), network.places_of())
    assert [block.place for block in blocks] == ["layers.0", "layers.1"]
