"""Portions of a step: every row once, even parts, and the gradient of the uncut step."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from cotrunk.learn import microbatches as microbatches
from cotrunk.learn.microbatches import (
    TOKENS_PER_PART,
    TOKENS_UNCUT,
    add_gradients,
    cuts_of,
    microbatches_of,
)
from cotrunk.model.encoder.dropout import NO_DROPOUT
from toy import prepared

STEPS = st.lists(
    st.lists(st.integers(1, 128), min_size=1, max_size=64).map(np.array), min_size=1, max_size=6
)


def cut(step):
    return microbatches_of(step, cuts=cuts_of(sum(int(batch.sum()) for batch in step)))


@pytest.mark.slow
@given(STEPS)
def test_every_row_is_in_one_portion(step):
    microbatches = cut(step)
    for number, lengths in enumerate(step):
        mine = [microbatch.chosen for microbatch in microbatches if microbatch.batch == number]
        assert sorted(np.concatenate(mine).tolist()) == list(range(len(lengths)))


@given(STEPS)
def test_shares_of_a_batch_add_up_to_one(step):
    microbatches = cut(step)
    for number in range(len(step)):
        shares = [microbatch.share for microbatch in microbatches if microbatch.batch == number]
        assert sum(shares) == pytest.approx(1)


@given(STEPS)
def test_parts_of_a_batch_are_numbered_from_nought(step):
    microbatches = cut(step)
    for number in range(len(step)):
        parts = sorted(microbatch.part for microbatch in microbatches if microbatch.batch == number)
        assert parts == list(range(len(parts)))


@pytest.mark.slow
@given(STEPS)
def test_the_longest_come_first(step):
    tokens = [microbatch.tokens for microbatch in cut(step)]
    assert tokens == sorted(tokens, reverse=True)


def test_a_short_step_is_not_cut():
    step = [np.full(16, 15), np.full(16, 15)]
    assert sum(batch.sum() for batch in step) <= TOKENS_UNCUT
    assert [len(microbatch.chosen) for microbatch in cut(step)] == [16, 16]


@pytest.mark.parametrize("batches", [1, 3, 5])
def test_two_threads_that_take_the_next_portion_end_within_a_row_a_batch_of_each_other(batches):
    random = np.random.default_rng(0)
    step = [random.integers(5, 60, 40) for _ in range(batches)]
    assert sum(batch.sum() for batch in step) > TOKENS_UNCUT
    ends = [0, 0]
    for microbatch in cut(step):
        ends[ends.index(min(ends))] += microbatch.tokens
    assert abs(ends[0] - ends[1]) <= 60 * batches


def test_a_long_step_has_more_parts():
    assert len(cut([np.full(100, 6 * TOKENS_PER_PART // 100)])) == 6


def test_without_tokens_nothing_is_cut():
    assert len(cut([np.zeros(500, int), np.zeros(3, int)])) == 2


READING = [
    *("tasks.same.pair=concat", "tasks.same.reads=['mood']", "tasks.same.reading.gradient=frozen"),
    *("tasks.alike.pair=concat", "tasks.alike.reads=['mood']"),
]


@pytest.fixture
def cut_all(monkeypatch):
    """Steps as short as the toy's are cut too, into several parts."""
    monkeypatch.setattr(microbatches, "TOKENS_UNCUT", 16)
    monkeypatch.setattr(microbatches, "TOKENS_PER_PART", 128)


def stage_of(toy, *changes):
    run = prepared(toy, *changes)
    return run.make_stage(run, 0)


def whole_batch(stage, batch):
    """Outputs and targets of a batch that is not cut."""
    rows = stage.forward.load(batch.task, batch.rows, ())
    return stage.forward.output(rows, NO_DROPOUT), torch.from_numpy(rows.target)


def gradients(stage, threads):
    """Those of one step, and its portions."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    batches = list(stage.stream.batches(0))
    weights = dict.fromkeys(stage.network.tasks, 1.0)
    try:
        stage.network.zero_grad(set_to_none=True)
        found = list(add_gradients(stage, batches, 0, weights))
    finally:
        torch.set_num_threads(before)
    return {n: p.grad.to_dense().clone() for n, p in stage.trained.items() if p.grad is not None}, [
        microbatch for microbatch, _ in found
    ]


@pytest.mark.parametrize("changes", [[], ["sharing.encoder=S2"], READING], ids=str)
@pytest.mark.usefixtures("cut_all")
def test_portions_add_up_to_the_gradient_of_whole_batches(toy, changes):
    silent = [f"tasks.{task}.head.dropout=0" for task in ("mood", "same", "alike")]
    stage = stage_of(toy, "encoder.dropout=0", "encoder.attention_dropout=0", *silent, *changes)
    found, cut = gradients(stage, threads=2)
    batches = list(stage.stream.batches(0))
    assert len(cut) > len(batches)
    stage.network.zero_grad(set_to_none=True)
    for batch in batches:
        out, target_R = whole_batch(stage, batch)
        stage.losses[batch.task](out, target_R).mean().mul(batch.share).backward()
    whole = {n: p.grad.to_dense() for n, p in stage.trained.items() if p.grad is not None}
    assert_close(found, whole, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [[], READING, ["train.regularize=r-drop"], ["train.regularize=smart"]], ids=str
)
@pytest.mark.usefixtures("cut_all")
def test_as_many_threads_as_portions_give_the_same_to_the_last_bit_as_one(toy, changes):
    stage = stage_of(toy, *changes)
    alone, cut = gradients(stage, threads=1)
    assert len(cut) >= 4
    for threads in (2, 4):
        assert_close(gradients(stage, threads=threads)[0], alone, rtol=0, atol=0)


@pytest.mark.parametrize("method", ["pcgrad", "gradvac"])
@pytest.mark.usefixtures("cut_all")
def test_surgery_on_portions_is_that_on_whole_batches(toy, method):
    silent = [f"tasks.{task}.head.dropout=0" for task in ("mood", "same", "alike")]
    stage = stage_of(
        toy,
        *("encoder.dropout=0", "encoder.attention_dropout=0", "sharing.encoder=S2", *silent),
        f"train.gradients={method}",
    )
    batches, weights = list(stage.stream.batches(0)), {"mood": 1.0, "same": 0.5, "alike": 2.0}
    for microbatch, _ in add_gradients(stage, batches, 0, weights):
        stage.surgery.stash(batches[microbatch.batch].task)
    stage.surgery.combine(0)
    found = {name: p.grad.to_dense().clone() for name, p in stage.trained.items()}
    stage.surgery.state.clear()
    stage.network.zero_grad(set_to_none=True)
    for batch in batches:
        out, target_R = whole_batch(stage, batch)
        loss = stage.losses[batch.task](out, target_R).mean()
        (loss * batch.share * weights[batch.task]).backward()
        stage.surgery.stash(batch.task)
    stage.surgery.combine(0)
    whole = {name: p.grad.to_dense() for name, p in stage.trained.items()}
    assert_close(found, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("cut_all")
def test_losses_of_portions_add_up_to_that_of_their_batch(toy):
    silent = [f"tasks.{task}.head.dropout=0" for task in ("mood", "same", "alike")]
    stage = stage_of(toy, "encoder.dropout=0", "encoder.attention_dropout=0", *silent)
    batches, totals = list(stage.stream.batches(0)), {}
    for microbatch, loss in add_gradients(
        stage, batches, 0, dict.fromkeys(stage.network.tasks, 1.0)
    ):
        totals[microbatch.batch] = totals.get(microbatch.batch, 0) + microbatch.share * loss
    for number, batch in enumerate(batches):
        out, target_R = whole_batch(stage, batch)
        whole = stage.losses[batch.task](out, target_R).mean().item()
        assert totals[number] == pytest.approx(whole, rel=1e-5)
