"""Masked words as a task of a run: trained beside others, before them, after them, or alone."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from cotrunk.build.sources import sources_of
from cotrunk.build.stage import updated_in_stage
from cotrunk.build.tasks import tasks_of
from cotrunk.config.check import read_settings
from cotrunk.data.tokens.cache import load_corpus
from cotrunk.errors import UserError
from cotrunk.infer.forward import Live
from cotrunk.learn import microbatches
from cotrunk.learn.stage import Progress
from cotrunk.learn.step import _batches, _find_gradients, make_step
from cotrunk.runs.checkpoint import read_checkpoint
from cotrunk.runs.folder import RunFolder
from toy import contents, cut, prepared, train

MLM_STAGE = '\n[[stages]]\ntasks = ["mlm"]\nepochs = 1\n'
OTHER_STAGE = '\n[[stages]]\ntasks = ["mood", "same", "alike"]\nepochs = 1\n'
QUICK = ["train.epochs=1", "train.checkpoint=1"]


def records(run: Path, event: str) -> list[dict]:
    found = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record for record in found if record["event"] == event]


def live(run) -> Live:
    return Live(run.network, run.dev, run.pair_formats, run.template, torch.device("cpu"))


# Masking


def test_a_batch_is_masked_by_seed_step_and_place_in_the_step(masked):
    run = prepared(masked)
    forward, rows = live(run), np.arange(10)
    keys = [(1, 5, 0), (1, 5, 0), (2, 5, 0), (1, 6, 0), (1, 5, 1)]
    first, *others = (forward.load("mlm", rows, key) for key in keys)
    same = [all(map(np.array_equal, first.sites, other.sites)) for other in others]
    assert same == [True, False, False, False]


def test_an_evaluation_masks_a_row_by_its_number_whatever_is_beside_it(masked):
    forward = live(prepared(masked))
    whole = forward._load_for_evaluation("mlm", np.arange(30))
    chosen = np.array([17, 3, 29])
    some, expected = forward._load_for_evaluation("mlm", chosen), whole.select(chosen)
    assert [a.tolist() for (a,) in some.pieces] == [a.tolist() for (a,) in expected.pieces]
    assert [a.tolist() for a in some.sites] == [a.tolist() for a in expected.sites]
    assert some.target.tolist() == expected.target.tolist()


def test_every_evaluation_of_a_network_is_the_same(masked):
    forward = live(prepared(masked))
    assert np.array_equal(forward.outputs("mlm"), forward.outputs("mlm"))


def test_sites_that_are_cut_off_are_not_asked_about(masked):
    run = prepared(masked, "encoder.max_tokens=6", "tasks.mlm.rate=0.9")
    rows = live(run).load("mlm", np.arange(len(run.dev["mlm"])), (0,))
    assert max(len(text) for (text,) in rows.pieces) > 4
    assert max(site.max(initial=0) for site in rows.sites) == 3
    output = live(run).outputs("mlm")
    assert len(output) <= 4 * len(run.dev["mlm"])
    assert np.isfinite(output).all()


@pytest.mark.slow
def test_a_batch_without_a_token_to_mask_is_passed_over(masked, tmp_path):
    """The random encoder's tokenizer knows no Chinese: every letter is the unknown token."""
    for split in ("train", "dev"):
        (tmp_path / f"lines-{split}.txt").write_text("茶\n河\n石\n")
    files = ["tasks.mlm.texts_of=[]", "tasks.mlm.train=lines-train.txt"]
    files += ["tasks.mlm.dev=lines-dev.txt", "train.epochs=1"]
    assert train(masked, tmp_path / "run", "--set", *files) == 0
    steps = records(tmp_path / "run", "step")
    assert all(set(record["loss"]) == {"mood", "same", "alike"} for record in steps)
    assert records(tmp_path / "run", "dev")[0]["scores"]["mlm"]["score"] is None
    alone = prepared(masked, *files, "train.evaluate=never")
    alone = alone.make_stage(alone, 0)
    before = {name: p.clone() for name, p in alone.network.named_parameters()}
    object.__setattr__(alone, "stream", OneTask(alone.stream, "mlm"))
    event = make_step(alone, RunFolder.create(tmp_path / "idle"), Progress())
    assert event.losses == {}
    assert all(torch.equal(p, before[name]) for name, p in alone.network.named_parameters())


class OneTask:
    """The batches of one task of a stream."""

    def __init__(self, stream, task):
        self.stream, self.task = stream, task

    def batches(self, step):
        return [batch for batch in self.stream.batches(step) if batch.task == self.task]

    def __getattr__(self, name):
        return getattr(self.stream, name)


# Texts


def texts(run, split="train") -> list[str]:
    corpus = getattr(run, split)["mlm"]
    saved = json.dumps(run.documents["tokenizer"])
    tokenizer = Tokenizer.from_str(saved)
    ids = [corpus.pieces(row)[0].tolist() for row in range(len(corpus))]
    return ["".join(tokenizer.id_to_token(i).removeprefix("##") for i in some) for some in ids]


def column(path: Path, *names: str) -> list[str]:
    with path.open(newline="") as file:
        return [row[name].replace(" ", "") for row in csv.DictReader(file) for name in names]


def test_texts_of_other_tasks_are_read_once_each_by_their_own_columns(masked):
    base = masked.parent
    expected = column(base / "mood-train.csv", "sentence")
    expected += column(base / "pair-train.csv", "left", "right")
    assert texts(prepared(masked)) == expected


def test_only_the_first_text_of_a_pair_is_read_on_request(masked):
    base = masked.parent
    expected = column(base / "mood-dev.csv", "sentence") + column(base / "pair-dev.csv", "left")
    assert texts(prepared(masked, "tasks.mlm.first_only=true"), "dev") == expected


def test_each_column_is_a_text_of_its_own(masked):
    changes = ["tasks.mlm.texts_of=[]", "tasks.mlm.text=['left', 'right']"]
    changes += ["tasks.mlm.train=pair-train.csv", "tasks.mlm.dev=pair-dev.csv"]
    expected = column(masked.parent / "pair-train.csv", "left", "right")
    assert texts(prepared(masked, *changes)) == expected


def test_lines_of_a_text_file_are_texts_and_blank_ones_are_not(only_masked):
    lines = (only_masked.parent / "lines-train.txt").read_text().split("\n\n")
    assert texts(prepared(only_masked)) == [line.replace(" ", "") for line in lines]


def test_an_mlm_task_on_a_file_does_not_make_its_labels_sparse(masked, tmp_path):
    """An empty label is still an error of the task that needs it."""
    changes = ["tasks.mlm.texts_of=[]", "tasks.mlm.text=['sentence']"]
    changes += ["tasks.mlm.train=mood-train.csv", "tasks.mlm.dev=mood-dev.csv"]
    file = tmp_path / "mood-train.csv"
    file.write_text(file.read_text() + "last,good tea,\n")
    with pytest.raises(UserError, match="the label is empty") as caught:
        prepared(masked, *changes)
    assert len(caught.value.lines) == 1


def test_the_cache_knows_every_file_of_a_task(masked, tmp_path):
    before = prepared(masked)
    file = tmp_path / "pair-train.csv"
    file.write_text(file.read_text().replace("good", "fair"))
    after = prepared(masked)
    assert before.train["mlm"].key != after.train["mlm"].key
    assert before.train["mlm"].digest != after.train["mlm"].digest
    assert before.dev["mlm"].key == after.dev["mlm"].key


def test_several_files_are_what_they_are_one_by_one(masked):
    run, settings = prepared(masked), read_settings(masked)
    tasks = tasks_of(settings)
    tokenizer = Tokenizer.from_str(json.dumps(run.documents["tokenizer"]))
    files = sources_of(settings, tasks, masked.parent)["train"]["mlm"]
    assert len(files) == 2  # same and alike have one file
    each = [load_corpus(tasks[-1], file, tokenizer) for file in files]
    whole = run.train["mlm"]
    assert whole.token.tolist() == [t for corpus in each for t in corpus.token.tolist()]
    assert whole.fingerprint.tolist() == [f for c in each for f in c.fingerprint.tolist()]


def test_texts_that_are_in_train_and_dev_are_found(masked):
    names = {(f.name, f.place) for f in prepared(masked).findings}
    assert ("train-dev-overlap", "tasks.mlm.dev") in names
    same = prepared(
        masked,
        "tasks.mlm.texts_of=[]",
        "tasks.mlm.train=lines-dev.txt",
        "tasks.mlm.dev=lines-dev.txt",
    )
    assert any("dev and train have the same rows" in str(finding) for finding in same.findings)


# Training


def test_its_loss_moves_the_word_table_and_no_neck(masked):
    run = prepared(masked, "sharing.neck=S I", "sharing.pooled_norm=S")
    moved = updated_in_stage(run.network, ["mlm"])
    assert moved["embeddings.alike+mlm+mood+same.words.weight"] == {"mlm"}
    assert not any(group for name, group in moved.items() if name.startswith(("neck", "pooled")))
    assert {n for n, group in moved.items() if group and n.startswith("heads")} == {
        f"heads.mlm.{name}"
        for name in ("dense.weight", "dense.bias", "norm.weight", "norm.bias", "bias")
    }


MORE = {
    "plain": [],
    "neck and norm": ["sharing.neck=S I", "sharing.pooled_norm=S"],
    "pcgrad": ["train.gradients=pcgrad"],
    "private embeddings": ["sharing.embeddings=I", "sharing.encoder=I2"],
    "drawn": ["train.sampling=proportional", "tasks.mlm.share=0.5", "tasks.mlm.weight=0.3"],
    "frozen": ["train.freeze=encoder", "sharing.encoder=S2"],
    "whole words, r-drop": ["tasks.mlm.whole_words=true", "train.regularize=r-drop"],
    "adapters": ["sharing.lora.rank=2", "sharing.pal.size=4", "sharing.pal.heads=2"],
}


@pytest.mark.slow
@pytest.mark.parametrize("more", MORE.values(), ids=MORE.keys())
def test_beside_other_tasks_a_resumed_run_is_bit_identical(masked, tmp_path, more):
    changes = [*QUICK, *more]
    assert train(masked, tmp_path / "whole", "--set", *changes) == 0
    cut(masked, tmp_path / "cut", changes, after=3)
    assert train(masked, tmp_path / "cut", "--resume", "--set", *changes) == 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("stages", [MLM_STAGE + OTHER_STAGE, OTHER_STAGE + MLM_STAGE])
def test_a_stage_of_its_own_before_or_after_the_others_resumes_bit_identically(
    masked, tmp_path, stages
):
    masked.write_text(masked.read_text() + stages)
    changes = ["train.checkpoint=1", "sharing.encoder=S2"]
    run = tmp_path / "whole"
    assert train(masked, run, "--set", *changes) == 0
    tasks = [set(record["loss"]) for record in records(run, "step")]
    switch = next(n for n, some in enumerate(tasks) if some != tasks[0])
    assert {frozenset(some) for some in tasks} == {
        frozenset(["mlm"]),
        frozenset(["mood", "same", "alike"]),
    }
    for after in (2, switch, switch + 2):
        part = tmp_path / f"cut {after}"
        cut(masked, part, changes, after=after)
        assert train(masked, part, "--resume", "--set", *changes) == 0
        assert contents(part) == contents(run)


def test_a_step_in_portions_has_the_gradient_of_one_that_is_not_cut(masked, monkeypatch):
    """Portions have different numbers of sites; each counts by its sites."""
    changes = ["encoder.dropout=0", "encoder.attention_dropout=0", "tasks.mlm.batch=64"]
    found = []
    for uncut in (10**6, 1):
        monkeypatch.setattr(microbatches, "TOKENS_UNCUT", uncut)
        run = prepared(masked, *changes)
        stage = run.make_stage(run, 0)
        batches = [b for b in _batches(stage, Progress()) if b.task == "mlm"]
        _find_gradients(stage, batches, 0, {"mlm": 1.0})
        names = [name for name in stage.trained if stage.trained[name].grad is not None]
        found.append({name: stage.trained[name].grad.to_dense() for name in names})
    assert found[0].keys() == found[1].keys()
    for name, grad in found[0].items():
        torch.testing.assert_close(found[1][name], grad, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_it_learns(only_masked, tmp_path):
    assert train(only_masked, tmp_path / "run", "--set", "train.epochs=60", "train.lr=0.01") == 0
    found = [record["scores"]["mlm"]["more"] for record in records(tmp_path / "run", "dev")]
    assert found[-1]["loss"] < found[0]["loss"] - 1
    assert found[-1]["perplexity"] == pytest.approx(math.exp(found[-1]["loss"]))


# Scores


@pytest.mark.slow
def test_it_is_outside_the_overall_score_and_alone_it_is_what_is_kept(only_masked, tmp_path):
    assert train(only_masked, tmp_path / "run") == 0
    evaluation = json.loads((tmp_path / "run" / "best" / "evaluation.json").read_text())
    assert evaluation["keep"] == "mlm"
    assert evaluation["value"] == evaluation["scores"]["mlm"]["score"]
    assert evaluation["overall"] == {"official": None, "mean": None, "sum": None}


@pytest.mark.slow
def test_beside_other_tasks_the_overall_score_is_theirs(masked, tmp_path):
    assert train(masked, tmp_path / "run", "--set", "train.epochs=1") == 0
    evaluation = json.loads((tmp_path / "run" / "best" / "evaluation.json").read_text())
    scores = evaluation["scores"]
    others = [scores[name]["score"] for name in ("mood", "same", "alike")]
    assert evaluation["overall"]["mean"] == pytest.approx(np.mean(others))
    assert set(scores["mlm"]["more"]) == {"accuracy", "loss", "perplexity"}
    assert scores["mlm"]["low"] <= scores["mlm"]["score"] <= scores["mlm"]["high"]


@pytest.mark.slow
def test_early_stopping_asks_it_only_where_it_is_alone(only_masked):
    alone = prepared(only_masked, "train.early_stopping=1")
    assert Progress(stale={"mlm": 1}).are_done(alone.make_stage(alone, 0))


def test_beside_others_it_neither_stops_nor_keeps_a_stage_going(masked):
    run = prepared(masked, "train.early_stopping=1")
    stage = run.make_stage(run, 0)
    assert not Progress(stale={"mlm": 9}).is_done("mlm", stage)
    assert Progress(stale={"mood": 1, "same": 1, "alike": 1}).are_done(stage)


@pytest.mark.slow
def test_its_head_and_the_table_are_saved_and_loaded(masked, tmp_path):
    assert train(masked, tmp_path / "run", "--set", *QUICK) == 0
    saved = read_checkpoint(tmp_path / "run" / "final").tensors("model")
    assert "heads.mlm.bias" in saved
    assert not any("decoder" in name for name in saved)
    start = prepared(masked).network.state_dict()
    assert not torch.equal(saved["heads.mlm.bias"], start["heads.mlm.bias"])
    notes = prepared(masked, f"train.init_from={tmp_path / 'run'}").notes
    assert any("outputs for mood, same, alike, mlm match the source run" in n for n in notes)
