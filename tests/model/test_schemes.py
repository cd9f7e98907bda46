"""What holds for every sharing scheme."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from schemes import (
    NAMES,
    SCHEMES,
    SHAPE,
    TASKS,
    Pal,
    Scheme,
    filled,
    network_of,
    reading,
    texts,
)
from torch import Tensor

from cotrunk.kinds.binary import Binary
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.dropout import NO_DROPOUT, DropoutStream
from cotrunk.model.head_plan import HeadPlan, Read
from cotrunk.model.sharing.merge import merge
from cotrunk.model.sharing.network import Network
from cotrunk.model.weights.initial import initialise
from cotrunk.runs.checkpoint import read_checkpoint, write_checkpoint

BY_NAME = {task.name: task for task in TASKS}
with_schemes = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES.keys())
WITH_PAL = {name: scheme for name, scheme in SCHEMES.items() if scheme.pal}
WITH_LORA = {name: scheme for name, scheme in SCHEMES.items() if scheme.lora}
with_pals = pytest.mark.parametrize("scheme", WITH_PAL.values(), ids=WITH_PAL.keys())


@cache
def made(scheme: Scheme) -> Network:
    """The network of a scheme, for tests that leave it as it is."""
    return filled(network_of(scheme))


def answers(
    network: Network,
    scheme: Scheme,
    task: Task,
    asked: list[str],
    masks: DropoutStream = NO_DROPOUT,
) -> dict[str, Tensor]:
    text, index = texts(task, scheme.pair_format(task))
    return network(text, index, asked, masks)


def all_answers(network: Network, scheme: Scheme) -> dict[str, Tensor]:
    return {
        task.name: answers(network, scheme, task, [task.name])[task.name].detach()
        for task in TASKS
        if task.name in network.tasks
    }


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for task, output in expected.items():
        torch.testing.assert_close(found[task], output, rtol=0, atol=1e-12)


def gradients(
    network: Network, scheme: Scheme, task: str, masks: DropoutStream = NO_DROPOUT
) -> dict[str, Tensor]:
    """What a task's loss sends to each parameter that it reaches at all."""
    network.zero_grad(set_to_none=True)
    output = answers(network, scheme, BY_NAME[task], [task], masks)[task]
    weight = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)
    (output * weight).square().sum().backward()
    return {n: p.grad.to_dense() for n, p in network.named_parameters() if p.grad is not None}


def assert_moved_as_said(network: Network, scheme: Scheme, *key: int) -> None:
    """``updated_by`` names the tasks whose loss gives a parameter a gradient, and no others.

    ``key`` is that of the dropout; without one nothing is dropped.
    """
    updated_by = network.updated_by()
    for task in NAMES:
        expected = {name for name, group in updated_by.items() if task in group}
        found = gradients(network, scheme, task, DropoutStream(*key))
        assert found.keys() == expected
        assert all(grad.any() for grad in found.values())


@pytest.mark.slow
@with_schemes
def test_copies_that_start_equal_change_no_output(scheme):
    network = made(scheme)
    one = filled(network_of(scheme.all_shared()))
    assert_same(all_answers(network, scheme), all_answers(one, scheme))


@pytest.mark.slow
@with_schemes
def test_a_task_moves_exactly_the_parameters_it_is_said_to_move(scheme):
    assert_moved_as_said(made(scheme), scheme)


@pytest.mark.slow
@pytest.mark.parametrize("combine", ["concat", "attention"])
@pytest.mark.parametrize("gradient", ["stop", "frozen", "flow", 0.5])
@pytest.mark.parametrize("what", ["logits", "probabilities", "hidden"])
def test_a_reader_moves_exactly_what_it_is_said_to_move(what, gradient, combine):
    """rude and para read sst, sts reads both; above shared layers each has one of its own."""
    heads = reading(what, gradient, combine=combine)
    variants = {
        "two layers": {},
        "projection": {"projection": True},
        "dropout": {"dropout": 0.2, "inner_dropout": 0.2, "output_dropout": 0.2},
        "one layer": {"depth": 1},
        "three layers": {"depth": 3},
    }
    for changes in variants.values():
        # Not relu: of six units, all may be off in all three rows.
        changed = {n: replace(plan, activation="gelu", **changes) for n, plan in heads.items()}
        scheme = Scheme("S2 I", heads=changed)
        assert_moved_as_said(filled(network_of(scheme)), scheme, 1, 2, 3)


@pytest.mark.slow
def test_a_chain_moves_the_last_layer_that_only_some_of_its_readers_pass_by():
    """rude reads what sst says, para what it hides; sts reads one of the two."""

    def last_of_sst_moves(source: str, what: str) -> frozenset[str]:
        heads = {
            "sst": HeadPlan(depth=2, width=6),
            "rude": HeadPlan(depth=2, width=6, reads=(Read("sst", "logits", "flow"),)),
            "para": HeadPlan(depth=2, width=6, reads=(Read("sst", "hidden", "flow"),)),
            "sts": HeadPlan(reads=(Read(source, what, "flow"),)),
        }
        scheme = Scheme("I3", heads=heads)
        network = filled(network_of(scheme))
        assert_moved_as_said(network, scheme)
        return network.updated_by()["heads.sst.layers.1.weight"]

    for what in ("logits", "hidden"):
        assert last_of_sst_moves("rude", what) == {"sst", "rude", "sts"}
        assert last_of_sst_moves("para", what) == {"sst", "rude"}


@pytest.mark.slow
@with_schemes
def test_a_task_answers_the_same_alone_and_in_company(scheme):
    network = made(scheme)
    for task in TASKS:
        company = [t.name for t in TASKS if scheme.pair_format(t) == scheme.pair_format(task)]
        together = answers(network, scheme, task, company)
        alone = {name: answers(network, scheme, task, [name])[name] for name in company}
        assert_same(together, alone)


@pytest.mark.slow
@with_schemes
def test_a_network_survives_its_checkpoint_whatever_the_order_of_its_tasks(scheme, tmp_path):
    network = made(scheme)
    write_checkpoint(tmp_path / "c", tensors={"model": network.state_dict()}, documents={})
    again = network_of(scheme, TASKS[::-1])
    again.load_state_dict(read_checkpoint(tmp_path / "c").tensors("model"), strict=True)
    assert_same(all_answers(again, scheme), all_answers(network, scheme))


@pytest.mark.slow
@with_schemes
def test_a_task_answers_the_same_without_the_tasks_it_does_not_read(scheme):
    network = made(scheme)
    for task in ("sst", "sts"):
        if "(" in f"{scheme.encoder}{scheme.neck}{scheme.pal}{scheme.lora and scheme.lora.who}":
            continue  # groups name tasks that would be missing
        kept = [t for t in TASKS if t.name in network.needed_by([task])]
        small = filled(network_of(scheme, kept))
        expected = answers(network, scheme, BY_NAME[task], [task])
        assert_same(answers(small, scheme, BY_NAME[task], [task]), expected)


@pytest.mark.parametrize("scheme", WITH_LORA.values(), ids=WITH_LORA.keys())
def test_adapters_answer_as_layers_of_each_task_with_their_products_added(scheme):
    network, plain = network_of(scheme), network_of(replace(scheme, encoder="I3", lora=None))
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():  # copies that differ, as after training
            parameter.copy_(torch.randn_like(parameter) * 0.3)
        for place, owned in plain.places():
            for name, copy in owned.items():
                source = network.owned[place.name].copy_of(min(owned.owners[name]))
                copy.load_state_dict(source.state_dict())
    for depth in scheme.lora.depths:
        for task, layer in plain.owned[f"layers.{depth}"].items():
            merge(layer, network.owned[f"lora.{depth}"].copy_of(task))
    assert_same(all_answers(plain, scheme), all_answers(network, scheme))


@with_pals
def test_projected_attention_changes_nothing_at_the_start(scheme):
    plain = replace(scheme, pal=None)
    one, other = (network_of(s).float() for s in (scheme, plain))
    initialise(one, {}, seed=3)
    initialise(other, {}, seed=3)
    expected = all_answers(other, plain)
    for task, output in all_answers(one, scheme).items():
        assert torch.equal(output, expected[task])


@pytest.mark.slow
@with_pals
def test_projected_attention_is_trained_fully_after_50_steps(scheme):
    network = network_of(scheme).float()
    initialise(network, {}, seed=3)
    mine = {n: p for n, p in network.named_parameters() if n.startswith("projected.")}
    before = {name: parameter.detach().clone() for name, parameter in mine.items()}
    optimizer = torch.optim.AdamW(mine.values(), lr=1e-3, weight_decay=0, fused=True)
    for step in range(50):
        task = NAMES[step % len(NAMES)]
        optimizer.zero_grad()
        output = answers(network, scheme, BY_NAME[task], [task])[task]
        (output - torch.arange(len(output))[:, None]).square().mean().backward()
        optimizer.step()
    depths = scheme.pal.depths
    assert {int(n.split(".")[3]) for n in mine if ".qkv." in n} == set(depths)
    for name, parameter in mine.items():
        assert (parameter != before[name]).float().mean() > 0.9, name


def test_what_is_added_depends_on_the_tokens_of_the_same_text_only():
    scheme = SCHEMES["pal with gelu and bias"]
    network, task = made(scheme), BY_NAME["sst"]
    many = answers(network, scheme, task, ["sst"])["sst"]
    text, index = texts(task, scheme.pair_format(task), rows=1)
    torch.testing.assert_close(network(text, index, ["sst"], NO_DROPOUT)["sst"], many[:1])


def heads_of(names: dict[str, Tensor], task: str) -> dict[str, Tensor]:
    return {name: grad for name, grad in names.items() if name.startswith(f"heads.{task}.")}


def trunk_of(names: dict[str, Tensor], task: str) -> dict[str, Tensor]:
    return {name: g for name, g in names.items() if name.startswith(f"layers.0.{task}.")}


def test_stop_sends_nothing_upstream():
    scheme = SCHEMES["reads, stop"]
    found = gradients(made(scheme), scheme, "sts")
    assert {name.split(".")[1 if name.startswith(("heads", "emb")) else 2] for name in found} == {
        "sts"
    }


def test_frozen_moves_the_trunk_of_the_upstream_task_and_not_its_head():
    scheme = SCHEMES["reads, frozen"]
    found = gradients(made(scheme), scheme, "sts")
    for upstream in ("sst", "rude", "para"):
        assert not heads_of(found, upstream)
        assert trunk_of(found, upstream)


def test_frozen_and_flow_move_the_trunk_alike():
    scheme, flow = SCHEMES["reads, frozen"], SCHEMES["reads, flow"]
    frozen = gradients(made(scheme), scheme, "sts")
    flowing = gradients(filled(network_of(flow)), flow, "sts")
    for name, grad in frozen.items():
        torch.testing.assert_close(grad, flowing[name], rtol=0, atol=1e-12)


def test_a_head_read_frozen_by_one_and_flowing_by_another_obeys_both():
    heads = {
        "sst": HeadPlan(),
        "para": HeadPlan(reads=(Read("sst", gradient="frozen"),)),
        "sts": HeadPlan(reads=(Read("sst", gradient="flow"),)),
    }
    scheme = Scheme("I3", heads=heads)
    network = made(scheme)
    assert not heads_of(gradients(network, scheme, "para"), "sst")
    assert heads_of(gradients(network, scheme, "sts"), "sst")
    # Asked together they are still apart.
    network.zero_grad(set_to_none=True)
    answers(network, scheme, BY_NAME["para"], ["sst", "para", "sts"])["para"].sum().backward()
    assert all(p.grad is None for p in network.heads["sst"].parameters())


@pytest.mark.slow
def test_a_factor_scales_what_flows_upstream_and_nothing_else():
    def scheme(gradient: str | float) -> Scheme:
        heads = {"sts": HeadPlan(pair="concat", reads=(Read("sst", gradient=gradient),))}
        return Scheme("I3", heads=heads)

    whole = gradients(filled(network_of(scheme("flow"))), scheme("flow"), "sts")
    quarter = gradients(filled(network_of(scheme(0.25))), scheme(0.25), "sts")
    assert whole.keys() == quarter.keys()
    for name, grad in whole.items():
        upstream = ".sst." in name
        assert torch.equal(quarter[name], grad * 0.25 if upstream else grad), name


@pytest.mark.slow
def test_a_factor_changes_no_output():
    flow, factor = SCHEMES["reads, flow"], SCHEMES["reads, factor"]
    expected = all_answers(filled(network_of(flow)), flow)
    for task, output in all_answers(filled(network_of(factor)), factor).items():
        assert torch.equal(output, expected[task])


def test_what_is_read_decides_how_wide_a_head_is():
    def first(what: str, pair: str) -> int:
        network = network_of(Scheme(heads=reading(what, pair=pair)))
        return network.heads["sts"].layers[0].in_features

    width = SHAPE.width
    assert first("logits", "joined") == width + 1 + 1
    assert first("logits", "concat") == 2 * width + 2 * 1 + 1  # rude says one thing about each text
    assert first("probabilities", "concat") == 2 * width + 2 * 1 + 1
    assert first("hidden", "concat") == 2 * width + 2 * 6 + 6


def test_attention_over_sources_is_a_mixture_of_them():
    network = filled(network_of(SCHEMES["reads by attention"]))
    mix = network.heads["sts"].mix
    sources = [torch.randn(3, bring.in_features, dtype=torch.float64) for bring in mix.bring]
    brought = torch.stack([b(x) for b, x in zip(mix.bring, sources, strict=True)])
    mixed = mix(sources)
    assert (mixed <= brought.amax(0) + 1e-12).all()
    assert (mixed >= brought.amin(0) - 1e-12).all()


def test_one_pal_for_all_beside_layers_of_their_own_with_different_pooling():
    """The top layer of a task that reads one token, and the addition made for all tokens."""
    scheme = SCHEMES["pal S, pooled differently"]
    network = made(scheme)
    text, index = texts(BY_NAME["sst"], scheme.pair_format(BY_NAME["sst"]))
    together = network(text, index, ["sst", "rude"], NO_DROPOUT)
    for task in ("sst", "rude"):
        alone = network(text, index, [task], NO_DROPOUT)[task]
        torch.testing.assert_close(together[task], alone, rtol=0, atol=1e-12)


def test_a_task_may_be_called_like_a_method_of_a_module():
    tasks = [Task(name, 1, Binary()) for name in ("type", "values", "train")]
    scheme = Scheme("S2 I")
    network = filled(network_of(scheme, tasks))
    text, index = texts(tasks[0], scheme.pair_format(tasks[0]))
    assert set(network(text, index, ["type", "values"], NO_DROPOUT)) == {"type", "values"}


def test_scores_start_in_the_middle_of_their_range():
    network = network_of(Scheme(pal=Pal()))
    initialise(network, {}, seed=1)
    assert network.heads["sts"].layers[-1].bias.item() == 2.5
