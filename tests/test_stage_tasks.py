"""Stages that train some of the tasks, and tasks with a fixed share of the batches."""

import json
from pathlib import Path

import pytest
import torch

from cotrunk.learn.stage import Progress
from cotrunk.runs.checkpoint import read_checkpoint
from toy import contents, cut, prepared, train

STEPS = 5  # of an epoch: 40 rows, 8 in a batch
FIRST = '\n[[stages]]\ntasks = ["mood"]\nepochs = 1\n'
SECOND = '\n[[stages]]\ntasks = ["alike", "same"]\nepochs = 1\n'


@pytest.fixture
def staged(toy: Path) -> Path:
    """One task for an epoch, then the other two."""
    toy.write_text(toy.read_text() + FIRST + SECOND)
    return toy


def weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    return read_checkpoint(run / "checkpoints" / f"step-{step:08d}").tensors("model")


def changed(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def records(run: Path, event: str) -> list[dict]:
    found = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record for record in found if record["event"] == event]


MORE = {
    "plain": [],
    "decay and soft": ["train.decay=0.5", "sharing.soft.l2=1e-2"],
    "pcgrad": ["train.gradients=pcgrad"],
    "gradnorm": ["train.loss_weighting=gradnorm"],
    "ema": ["train.ema=0.9"],
    "reads": ["tasks.same.reads=['mood']", "tasks.same.reading.gradient=flow"],
}


@pytest.mark.slow
@pytest.mark.parametrize("more", MORE.values(), ids=MORE.keys())
def test_a_stage_moves_what_its_tasks_train_and_nothing_else(staged, tmp_path, more):
    ready = prepared(staged, *more)
    start, updated_by = ready.network.state_dict(), ready.network.updated_by()
    run = tmp_path / "run"
    assert train(staged, run, "--set", f"train.checkpoint={STEPS}", *more) == 0
    middle, end = weights(run, STEPS), weights(run, 2 * STEPS)
    assert changed(start, middle) == {n for n, group in updated_by.items() if "mood" in group}
    others = {n for n, group in updated_by.items() if group & {"same", "alike"}}
    assert changed(middle, end) == others


@pytest.mark.slow
def test_a_stage_gives_batches_of_its_tasks_and_measures_all(staged, tmp_path):
    assert train(staged, tmp_path / "run") == 0
    tasks = [set(record["loss"]) for record in records(tmp_path / "run", "step")]
    assert tasks == [{"mood"}] * STEPS + [{"same", "alike"}] * STEPS
    for record in records(tmp_path / "run", "dev"):
        assert set(record["scores"]) == {"mood", "same", "alike"}


@pytest.mark.slow
def test_alone_in_a_stage_a_task_with_private_layers_learns_as_if_it_were_the_only_one(
    staged, tmp_path
):
    """The oracle is a config without the other tasks."""
    changes = ["sharing.encoder=I2", f"train.checkpoint={STEPS}"]
    assert train(staged, tmp_path / "staged", "--set", *changes) == 0
    text = staged.read_text()
    mood = text[text.index("[tasks.mood]") : text.index("[tasks.same]")]
    head, tail = text[: text.index("[tasks.mood]")], text[text.index("[train]") :]
    alone = staged.with_name("alone.toml")
    alone.write_text((head + mood + tail).split("\n[[stages]]")[0])
    assert train(alone, tmp_path / "alone", "--set", *changes, "train.epochs=1") == 0
    expected, found = weights(tmp_path / "alone", STEPS), weights(tmp_path / "staged", STEPS)
    assert expected.keys() <= found.keys()
    assert not changed(expected, found)


@pytest.mark.slow
@pytest.mark.parametrize("more", MORE.values(), ids=MORE.keys())
def test_a_run_cut_in_a_stage_of_some_tasks_and_resumed_is_bit_identical(staged, tmp_path, more):
    changes = ["train.checkpoint=1", *more]
    assert train(staged, tmp_path / "whole", "--set", *changes) == 0
    # In the first stage, at the boundary, in the second; in the second alone where more is set.
    for after in (STEPS + 2,) if more else (2, STEPS, STEPS + 2):
        run = tmp_path / f"cut {after}"
        cut(staged, run, changes, after=after)
        assert train(staged, run, "--resume", "--set", *changes) == 0
        assert contents(run) == contents(tmp_path / "whole"), after


def test_early_stopping_asks_only_the_tasks_of_the_stage(staged):
    run = prepared(staged, "train.early_stopping=1")
    stage = run.make_stage(run, 0)
    assert not Progress(stale={"same": 9, "alike": 9}).are_done(stage)
    assert Progress(stale={"mood": 1}).are_done(stage)


@pytest.mark.slow
def test_a_stage_that_stops_early_gives_way_to_the_next(toy, tmp_path):
    stages = '\n[[stages]]\ntasks = ["mood"]\nepochs = 9\nlr = 1e-30\nearly_stopping = 1\n'
    toy.write_text(toy.read_text() + stages + SECOND)
    assert train(toy, tmp_path / "run") == 0
    tasks = [set(record["loss"]) for record in records(tmp_path / "run", "step")]
    assert [some for some in tasks if some] == [{"mood"}] * 2 * STEPS + [{"same", "alike"}] * STEPS


def test_a_frozen_stage_encodes_only_what_it_trains_and_measures(toy):
    stages = FIRST + 'freeze = "encoder"\n' + SECOND
    toy.write_text(toy.read_text() + stages)
    run = prepared(toy, "sharing.encoder=S2")
    stage = run.make_stage(run, 0)
    assert list(stage.forward.features) == ["mood"]
    assert list(stage.dev_forward.features) == ["mood", "same", "alike"]


@pytest.mark.slow
def test_a_share_is_what_a_task_gets_of_the_batches(toy, tmp_path):
    changes = ["train.sampling=proportional", "tasks.same.share=0.6", "train.steps_per_epoch=200"]
    changes += ["train.max_steps=200", "train.epochs=1", "train.evaluate=never", "train.batch=1"]
    assert train(toy, tmp_path / "run", "--set", *changes) == 0
    (record,) = [r for r in records(tmp_path / "run", "step") if "batches" in r]
    planned = record["batches"]["planned"]
    assert planned == pytest.approx({"mood": 40, "same": 120, "alike": 40})
    assert record["batches"]["drawn"]["same"] == pytest.approx(120, abs=25)
