"""What the bench's numbers rest on: how it takes turns, counts, and keeps what it found."""

import json
import math
from functools import partial

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoTokenizer

from bench.__main__ import keep
from bench.gradients import chain, flatten
from bench.plain_tagger import Recipe, encode, read_conll
from bench.quality import gap_of, unigram_entropy
from bench.quality import keep as keep_figures
from bench.timing import Result, Spent, ratio_of, take_turns
from bench.training import operations_of
from bench.work import Bench, batches, stage_of
from cotrunk.data.batches.packing import RowIndex, pack
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.encoder.shape import NAMED
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.places import trunk_places
from cotrunk.model.sharing.plan import make_plan
from cotrunk.model.weights.locate import local_folder


def test_who_begins_changes_every_round_and_the_first_round_does_not_count():
    turns = []

    def spent(word, seconds):
        turns.append(word)
        return Spent(cpu=seconds, kernel=0.0, wall=seconds, others=0.0)

    ours, peer = partial(spent, "ours", 2.0), partial(spent, "peer", 6.0)
    found = take_turns("x", ours, peer, rounds=3, meaning="times less")
    assert turns[:2] == ["ours", "peer"]
    assert turns[2:] == ["peer", "ours", "ours", "peer", "peer", "ours"]
    assert found.ratio == found.low == found.high == found.wall_ratio == 3.0
    assert take_turns("x", ours, peer, rounds=3, meaning="times").ratio == 1 / 3


def test_a_busy_machine_or_few_rounds_widen_the_interval_to_all_that_was_seen():
    above, below = [3.0, 3.2, 2.9, 9.0, 3.1, 3.05, 2.5, 3.15, 3.3], [1.0] * 9
    assert ratio_of(above, below, busy=False) == (3.1, 2.9, 3.3)
    assert ratio_of(above, below, busy=True) == (3.1, 2.5, 9.0)
    assert ratio_of([2.0, 4.0], [1.0, 1.0], busy=False) == (3.0, 2.0, 4.0)


@pytest.mark.slow
def test_a_step_has_32_rows_of_each_of_three_tasks_whatever_the_defaults_are():
    small = {"layers": 6, "width": 24, "inner": 48, "heads": 12}
    stage = stage_of(Bench(data=None, quick=True), sizes=small)
    for step in range(3):
        rows = {one.task: len(one.target_R) for one in batches(stage, step)}
        assert rows == {"sst": 32, "para": 32, "sts": 32}


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [6, 9, 12, 15])
def test_an_interval_holds_the_true_median_95_times_in_100(rounds):
    """Of a law with a long tail, whose median is 1."""
    drawn = np.exp(np.random.default_rng(0).standard_normal((4000, rounds)))
    found = [ratio_of(row.tolist(), [1.0] * rounds, busy=False) for row in drawn]
    assert np.mean([low <= 1 <= high for _, low, high in found]) > 0.945


def test_results_that_were_measured_otherwise_do_not_stay(tmp_path):
    file = tmp_path / "bench.json"
    for name, threads in [("old", 1), ("first", 2), ("second", 2), ("first", 2)]:
        keep(Result(name, 1.0, 2.0, 2.0, 2.0, 2.0), file, {"threads": threads}, "abc")
    assert [one["name"] for one in json.loads(file.read_text())] == ["first", "second"]


def test_losses_in_one_tensor_go_back_through_the_graphs_of_all():
    weights = [torch.ones(2, requires_grad=True) for _ in range(3)]
    losses = [(number + 1) * weight.sum() for number, weight in enumerate(weights)]
    torch.autograd.backward(losses[1], retain_graph=True)
    assert [weight.grad is None for weight in weights] == [True, False, True]
    torch.autograd.backward(chain(losses)[1])
    assert [weight.grad.tolist() for weight in weights] == [[0, 0], [4, 4], [0, 0]]


def test_flattened_gradients_are_projected_as_in_the_paper():
    """Of two tasks, so that the random order does not matter."""
    one, two = torch.tensor([1.0, 2.0, 0.0]), torch.tensor([-3.0, 1.0, 1.0])
    trunk = [torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(1))]
    flatten([torch.dot(torch.cat(list(trunk)), gradient) for gradient in (one, two)], trunk)
    agreement = torch.dot(one, two)
    assert agreement < 0
    expected = one - agreement / two.dot(two) * two + two - agreement / one.dot(one) * one
    torch.testing.assert_close(torch.cat([p.grad for p in trunk]), expected)


def test_operations_are_those_that_torch_counts():
    """Sequences of one length, so that nothing is padded; few, so that torch multiplies."""
    shape, task = NAMED["tiny"], Task("t", 1, Binary())
    trunk = trunk_places(["t"], shape, encoder=f"S{shape.layers}")
    heads = {"t": HeadPlan(pooling="mean")}
    network = Network(shape, make_plan(trunk, shape, [task], heads), [task], heads)
    text = pack([np.arange(9)] * 5, [np.zeros(9, np.int64)] * 5)
    with FlopCounterMode(display=False) as counter:
        pooled = network.encode(text, ["t"], DropoutStream(1))
        out = network.answer(pooled, RowIndex((text.place_S,)), ["t"], DropoutStream(1))["t"]
        head = 3 * 2 * 5 * shape.width  # forward and both ways back
        out.sum().backward()
    assert operations_of(shape, text.length_S) == counter.get_total_flops() - head


def test_the_entropy_of_equally_common_tokens_is_the_logarithm_of_their_number():
    assert math.isclose(unigram_entropy([3, 5, 8, 9] * 6), math.log(4))
    assert unigram_entropy([7, 7]) == 0


def test_a_gap_has_the_standard_error_of_two_means():
    found = gap_of([0.5, 0.7], [0.4, 0.4])
    assert math.isclose(found["difference"], 0.2)
    assert math.isclose(found["standard error"], 0.1)
    assert gap_of([0.5], [0.4])["standard error"] is None


def test_figures_of_another_name_are_kept(tmp_path):
    file = tmp_path / "results" / "quality.json"
    for name, found in (("a", {"x": 1}), ("b", {"x": 2}), ("a", {"y": 3})):
        keep_figures(name, found, file)
    assert json.loads(file.read_text()) == {"a": {"y": 3}, "b": {"x": 2}}


def test_the_plain_tagger_labels_the_first_piece_of_each_word(tmp_path):
    file = tmp_path / "a.conll"
    file.write_text("Rome\tB-LOC\n\n\nunbelievably\tO\ngood\tO\n")
    sentences = read_conll(file)
    assert sentences == [(["Rome"], ["B-LOC"]), (["unbelievably", "good"], ["O", "O"])]
    tokenizer = AutoTokenizer.from_pretrained(str(local_folder("minilm", base=tmp_path)))
    inputs, labels, firsts = encode(tokenizer, sentences, ["B-LOC", "O"], Recipe(steps=1))
    assert firsts[0] == [1]
    assert labels[0].tolist() == [-100, 0] + [-100] * (labels.shape[1] - 2)
    second = tokenizer.convert_ids_to_tokens(inputs["input_ids"][1][firsts[1]])
    assert second[1] == "good"
    assert (labels[1] >= 0).sum() == 2
