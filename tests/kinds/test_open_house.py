"""Kinds that src does not know: they train, evaluate, predict and resume like the others."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import cotrunk
from cotrunk.data.reading.examples import Rows, Source
from cotrunk.data.tokens.cache import load_corpus
from cotrunk.errors import UserError
from cotrunk.kinds.task import Task
from cotrunk.learn import microbatches
from cotrunk.learn.microbatches import add_gradients
from cotrunk.model.encoder.dropout import NO_DROPOUT
from cotrunk.model.weights.tokenizer import character_tokenizer
from kinds.worlds import MORE, WordLabels, write_objects
from toy import WORDS, contents, prepared, sentence, stage_of, train_until

NAMES = ("other", "weather")
WET = ("tea", "river", "stone")


@pytest.fixture
def ladder(toy):
    """The toy, but its first task is a ladder of three steps."""
    text = toy.read_text().replace('kind = "classes"\nclasses = 3', 'kind = "ordinal"\nsteps = 3')
    toy.write_text(text)
    return toy


@pytest.fixture
def words(toy):
    """The toy with a task that labels each word."""
    random = np.random.default_rng(1)
    for split, count in (("train", 40), ("dev", 24)):
        rows = [{"id": i, "words": sentence(random).split()} for i in range(count)]
        for row in rows:
            row["wet"] = [NAMES[word in WET] for word in row["words"]]
        write_objects(toy.parent / f"words-{split}.jsonl", rows)
    task = """
[tasks.wet]
kind = "words"
classes = ["other", "weather"]
text = ["words"]
label = "wet"
train = "words-train.jsonl"
dev = "words-dev.jsonl"
"""
    toy.write_text(toy.read_text().replace("[train]", task + "\n[train]"))
    return toy


@pytest.mark.slow
def test_a_seventh_kind_trains_evaluates_and_predicts(ladder, tmp_path):
    evaluated = train_until(ladder, tmp_path / "run", extensions=MORE)
    assert evaluated[-1].scores["mood"].metric == "spearman"
    predictor = cotrunk.load(tmp_path / "run", extensions=MORE)
    answers = predictor.predict("mood", ["good tea", "a river"])
    assert [answer.prediction in (0, 1, 2) for answer in answers] == [True, True]
    with pytest.raises(
        UserError, match=r"must be one of .*; pass the extensions it was trained with"
    ):
        cotrunk.load(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("world", ["ladder", "words"])
def test_a_new_kind_resumes_to_the_same_last_bit(world, tmp_path, request):
    config = request.getfixturevalue(world)
    changes = ["train.checkpoint=2"]
    train_until(config, tmp_path / "whole", *changes, extensions=MORE)
    train_until(config, tmp_path / "cut", *changes, stop=5, extensions=MORE)
    train_until(config, tmp_path / "cut", *changes, extensions=MORE)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_words_are_labelled_beside_tasks_about_texts(words, tmp_path):
    evaluated = train_until(
        words, tmp_path / "run", "train.epochs=12", "train.evaluate=60", extensions=MORE
    )
    dev = prepared(words, extensions=MORE).dev["wet"]
    assert evaluated[-1].scores["wet"].score > WordLabels(NAMES).baseline(dev.target) + 0.1
    assert {"mood", "same", "alike", "wet"} == set(evaluated[-1].scores)
    predictor = cotrunk.load(tmp_path / "run", extensions=MORE)
    (listed, plain) = predictor.predict("wet", [["good", "river"], "good river"])
    assert listed == plain
    assert len(listed.prediction) == 2
    with pytest.raises(UserError, match=r"texts\[0\]: word 2: the word is empty"):
        predictor.predict("wet", [["good", " "]])


def test_what_is_said_about_a_word_does_not_depend_on_the_batch(words, tmp_path):
    train_until(words, tmp_path / "run", "train.max_steps=2", extensions=MORE)
    predictor = cotrunk.load(tmp_path / "run", extensions=MORE)
    rows = [WORDS[:n] for n in (1, 5, 2, 11)]
    together = predictor.predict("wet", rows)
    assert [len(answer.prediction) for answer in together] == [1, 5, 2, 11]
    assert together == [predictor.predict("wet", [row])[0] for row in rows]


def test_a_head_about_tokens_sees_the_first_piece_of_each_word(words):
    stage = stage_of(words, extensions=MORE)
    rows = stage.forward.load("wet", np.array([3, 0, 7]), ())
    network = stage.network
    found = stage.forward.output(rows, NO_DROPOUT)
    expected = []
    for row in range(3):  # one by one: [CLS], then the pieces of each word
        alone = rows.select(np.array([row]))
        (pieces,) = alone.pieces[0]
        assert alone.sites is not None
        states = tokens_of(stage, alone)
        assert len(states) == len(pieces) + 2
        at_words = states[torch.from_numpy(1 + alone.sites[0])]
        expected.append(network.head_of["wet"]([at_words], [], NO_DROPOUT).logit_RO)
    assert_close(found, torch.cat(expected), rtol=1e-5, atol=1e-5)


def tokens_of(stage, rows):
    from cotrunk.data.batches.text import pack_rows

    live = stage.forward
    text, _ = pack_rows(live.template, rows.pieces, live.pair_formats["wet"], rows.sites)
    (states,) = stage.network.encode(text, ["wet"], NO_DROPOUT).values()
    return states


@pytest.mark.parametrize("regularize", ["none", "r-drop"])
def test_cutting_a_step_does_not_change_the_gradient_of_sites(words, monkeypatch, regularize):
    silent = [f"tasks.{task}.head.dropout=0" for task in ("mood", "same", "alike", "wet")]
    changes = ["encoder.dropout=0", "encoder.attention_dropout=0", *silent]
    weighted = ["tasks.wet.class_weights=[1, 4]", "tasks.mood.class_weights=[1, 2, 5]"]
    regularized = f"train.regularize={regularize}"
    stage = stage_of(words, *changes, *weighted, regularized, extensions=MORE)
    whole = gradients(stage)
    monkeypatch.setattr(microbatches, "TOKENS_UNCUT", 16)
    monkeypatch.setattr(microbatches, "TOKENS_PER_PART", 64)
    assert_close(gradients(stage), whole, rtol=1e-4, atol=1e-6)


def gradients(stage):
    stage.network.zero_grad(set_to_none=True)
    batches = list(stage.stream.batches(0))
    assert {batch.task for batch in batches} == {"mood", "same", "alike", "wet"}
    list(add_gradients(stage, batches, 0, dict.fromkeys(stage.network.tasks, 1.0)))
    return {n: p.grad.to_dense().clone() for n, p in stage.trained.items() if p.grad is not None}


def test_a_frozen_encoder_caches_texts_and_reads_words_anew(words):
    frozen = ["train.freeze=encoder", "sharing.encoder=S2"]
    cached = stage_of(words, *frozen, extensions=MORE)
    live = stage_of(words, "sharing.encoder=S2", extensions=MORE)
    for task in ("wet", "mood"):
        found, expected = cached.dev_forward.outputs(task), live.dev_forward.outputs(task)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_words_that_are_cut_off_teach_nothing_and_get_the_first_label(words, tmp_path):
    changes = ["encoder.max_tokens=8", "train.max_steps=3"]
    stage = stage_of(words, *changes, extensions=MORE)
    rows = stage.forward.load("wet", np.arange(40), ())
    corpus = stage.stream.corpora["wet"]
    assert rows.units_R.sum() < corpus.site_counts().sum()
    assert len(rows.target) == rows.units_R.sum()
    output = stage.dev_forward.outputs("wet")
    dev = stage.dev_forward.corpora["wet"]
    assert len(output) == len(dev.target) == dev.site_counts().sum()
    cut_off = np.isnan(output).all(axis=1)
    assert 0 < cut_off.sum() < len(output)
    assert not WordLabels(NAMES).predict_labels(output)[cut_off].any()
    train_until(words, tmp_path / "run", *changes, extensions=MORE)
    (answer,) = cotrunk.load(tmp_path / "run", extensions=MORE).predict("wet", [["river"] * 30])
    assert len(answer.prediction) == 30
    assert answer.prediction[-1] == "other"


def test_words_and_labels_must_be_as_many(tmp_path):
    rows = [
        {"words": ["a", "b"], "wet": ["other", "other"]},
        {"words": ["a", "b"], "wet": ["other"]},
        {"words": [], "wet": []},
        {"words": ["a", 3], "wet": ["other", "other"]},
        {"words": ["a"], "wet": ["snow"]},
    ]
    write_objects(tmp_path / "words.jsonl", rows)
    task = Task("wet", 1, WordLabels(NAMES))
    source = Source(tmp_path / "words.jsonl", ("words",), "wet")
    with pytest.raises(UserError) as refused:
        list(Rows(task, source))
    lines = refused.value.lines
    assert ":2 (wet): each word needs a label; found 1 for 2 words" in lines[0]
    assert ":3 (words): the text is empty" in lines[1]
    assert ":4 (words): word 2: the word must be a string; found 3" in lines[2]
    assert ":5 (wet): a class must be one of 'other', 'weather'; found 'snow'" in lines[3]
    kept = list(Rows(task, replace(source, skip_bad_rows=True)))
    assert [(row.texts, row.target) for row in kept] == [((("a", "b"),), (0.0, 0.0))]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_a_corpus_of_words_knows_the_first_token_of_each(tmp_path, workers):
    rows = [
        {"words": ["Ab", "c", "\u200b", "d e"], "wet": ["other"] * 4},
        {"words": ["x"], "wet": ["weather"]},
    ]
    write_objects(tmp_path / "words.jsonl", rows)
    task, source = (
        Task("wet", 1, WordLabels(NAMES)),
        Source(tmp_path / "words.jsonl", ("words",), "wet"),
    )
    tokenizer = character_tokenizer("bert")
    corpus = load_corpus(task, source, tokenizer, workers=workers)
    each = [
        [len(tokenizer.encode(w, add_special_tokens=False).ids) for w in row["words"]]
        for row in rows
    ]
    starts = [(np.cumsum(lengths) - lengths).tolist() for lengths in each]
    expected = [
        [s if n else -1 for s, n in zip(*pair, strict=True)]
        for pair in zip(starts, each, strict=True)
    ]
    both = np.arange(2)
    assert [site.tolist() for site in corpus.sites(both)] == expected
    assert [target.tolist() for target in corpus.targets(both)] == [[0] * 4, [1]]
    assert corpus.site_counts().tolist() == [4, 1]
    assert json.dumps(expected[1]) == "[0]"


def test_kinds_are_there_without_torch_and_scipy():
    script = "import sys, cotrunk.kinds; print(*{'torch', 'scipy', 'sklearn'} & set(sys.modules))"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    asked = [sys.executable, "-c", script]
    assert not subprocess.run(asked, env=env, capture_output=True, text=True).stdout.strip()
