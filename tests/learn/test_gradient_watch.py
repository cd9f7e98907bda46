"""Blocks without a gradient are named, and no others."""

import pytest
import torch
from guarded import PARA, SST, STS, TASKS, batch, rounded_mse, targets, tiny

from cotrunk.learn.combine import combiner
from cotrunk.learn.gradient_watch import LOOK_EVERY, GradientWatch
from cotrunk.learn.gradients import Surgery, blocks_of
from cotrunk.model.encoder.dropout import NO_DROPOUT, DropoutStream
from cotrunk.model.head_plan import HeadPlan, Read
from cotrunk.model.sharing.network import Network
from cotrunk.runs.events import Finding


def watch_of(network: Network, *, patience: int = 3) -> GradientWatch:
    parameters = dict(network.named_parameters())
    places = network.places_of()
    return GradientWatch(parameters, network.updated_by(), places, patience=patience)


def specs(network, watch, losses, *, steps=4, tasks=TASKS) -> list[Finding]:
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
    found = specs(network, watch, HEALTHY | {"para": rounded_mse}, steps=LOOK_EVERY + 10)
    assert [finding.name for finding in found] == ["rounded-output"]
