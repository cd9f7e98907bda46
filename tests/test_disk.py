"""What a run takes on disk: frozen parameters are not copied, equal networks are stored once."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

import cotrunk
from cotrunk.build.load import load_model
from cotrunk.cli.main import main
from cotrunk.errors import UserError
from cotrunk.runs.checkpoint import read_checkpoint, write_checkpoint
from cotrunk.runs.verify import verify
from toy import contents, cut, train

FROZEN = ["train.freeze=encoder", "sharing.encoder=S2", "train.checkpoint=1"]


def newest(run: Path) -> Path:
    return max((run / "checkpoints").iterdir())


@pytest.fixture
def stopped(toy, tmp_path) -> Path:
    """A frozen run, stopped after three steps."""
    cut(toy, tmp_path / "run", FROZEN, after=3)
    return tmp_path / "run"


@pytest.mark.slow
def test_a_checkpoint_of_a_frozen_encoder_holds_only_what_is_trained(toy, tmp_path):
    assert train(toy, tmp_path / "run", "--set", *FROZEN) == 0
    checkpoint = read_checkpoint(newest(tmp_path / "run"))
    whole = read_checkpoint(tmp_path / "run/final").tensors("model")
    held, source = set(checkpoint.tensors("model")), checkpoint.documents["source"]
    assert {name.partition(".")[0] for name in held} == {"heads"}
    assert held.isdisjoint(source["tensors"])
    assert held | set(source["tensors"]) == set(whole)
    assert source["source"] == 'encoder.weights = "random:tiny"'
    assert not verify(tmp_path / "run").damaged
    load_model(tmp_path / "run")


@pytest.mark.slow
def test_a_run_that_trains_everything_has_whole_checkpoints(toy, tmp_path):
    assert train(toy, tmp_path / "run", "--set", "train.max_steps=2") == 0
    checkpoint = read_checkpoint(newest(tmp_path / "run"))
    assert "source" not in checkpoint.documents
    assert set(checkpoint.tensors("model")) == set(
        read_checkpoint(tmp_path / "run/final").tensors("model")
    )


@pytest.mark.slow
def test_a_whole_checkpoint_is_resumed_too_and_stays_whole(toy, tmp_path, stopped):
    """As older versions wrote it: what it holds may have been trained, so it is not left out."""
    assert train(toy, tmp_path / "other", "--set", *FROZEN) == 0
    place = newest(stopped)
    found, frozen = read_checkpoint(place), read_checkpoint(tmp_path / "other/final")
    whole = {**frozen.tensors("model"), **found.tensors("model")}
    write_checkpoint(
        place,
        tensors={**found.loaded, "model": whole},
        documents={"state": found.documents["state"]},
    )
    assert train(toy, stopped, "--resume", "--set", *FROZEN) == 0
    assert set(read_checkpoint(newest(stopped)).tensors("model")) == set(whole)
    assert contents(stopped) == contents(tmp_path / "other")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["encoder.weights", "train.init_from"])
def test_a_changed_source_is_refused_in_one_line_that_names_it(toy, tmp_path, how, capsys):
    first = tmp_path / "first"
    assert train(toy, first, "--set", "sharing.encoder=S2", "train.max_steps=1") == 0
    changes = [*FROZEN, "train.init_from=first"]
    if how == "encoder.weights":
        weights(tmp_path / "weights", seed=1)
        changes = [*FROZEN, "encoder.weights=weights"]
    cut(toy, tmp_path / "run", changes, after=3)
    if how == "encoder.weights":
        weights(tmp_path / "weights", seed=2)
    else:
        shutil.rmtree(first)
        more = ["sharing.encoder=S2", "train.max_steps=1", "train.seed=5"]
        assert train(toy, first, "--set", *more) == 0
    before = contents(tmp_path / "run")
    capsys.readouterr()
    for more in ([], ["--force"]):
        assert train(toy, tmp_path / "run", "--resume", *more, "--set", *changes) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert how in line
        assert "changed" in line
    assert contents(tmp_path / "run") == before


@pytest.mark.slow
def test_a_missing_source_is_refused_in_one_line_that_names_it(toy, tmp_path, capsys):
    weights(tmp_path / "weights", seed=1)
    changes = [*FROZEN, "encoder.weights=./weights"]
    cut(toy, tmp_path / "run", changes, after=3)
    shutil.rmtree(tmp_path / "weights")
    capsys.readouterr()
    assert train(toy, tmp_path / "run", "--resume", "--set", *changes) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert 'encoder.weights = "./weights"' in line


def weights(folder: Path, *, seed: int) -> None:
    """A model folder with random weights."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")


@pytest.mark.parametrize("document", [[], {"source": 1}, "x"])
def test_a_crafted_source_is_refused(toy, stopped, document):
    place = newest(stopped)
    found = read_checkpoint(place)
    write_checkpoint(place, tensors=found.loaded, documents={**found.documents, "source": document})
    with pytest.raises(UserError, match=r"source\.json"):
        cotrunk.train(toy, stopped, resume=True, overrides=FROZEN)


def test_best_and_final_are_stored_once_when_they_are_the_same(toy, tmp_path):
    assert train(toy, tmp_path / "run", "--set", "train.evaluate=never", "train.max_steps=2") == 0
    best, final = (tmp_path / "run" / name / "model.safetensors" for name in ("best", "final"))
    assert best.samefile(final)
    assert not verify(tmp_path / "run").damaged


@pytest.mark.slow
def test_best_and_final_are_apart_when_they_differ(toy, tmp_path):
    more = ["train.evaluate=2", "train.max_steps=6", "train.lr=0.5", "train.keep=mood"]
    assert train(toy, tmp_path / "run", "--set", *more) == 0
    best, final = (tmp_path / "run" / name for name in ("best", "final"))
    step = json.loads((best / "evaluation.json").read_bytes())["step"]
    same = (best / "model.safetensors").read_bytes() == (final / "model.safetensors").read_bytes()
    assert same == (step == 6)
    assert (best / "model.safetensors").samefile(final / "model.safetensors") == same


def test_a_damaged_network_is_not_linked_to(tmp_path):
    tensors = {"model": {"weight": torch.zeros(8)}}
    one, other = tmp_path / "one", tmp_path / "other"
    write_checkpoint(one, tensors=tensors, documents={"a": 1})
    damaged = bytearray((one / "model.safetensors").read_bytes())
    damaged[-1] ^= 1
    (one / "model.safetensors").write_bytes(damaged)
    write_checkpoint(other, tensors=tensors, documents={"a": 1}, beside=[one])
    assert (other / "a.json").samefile(one / "a.json")
    assert read_checkpoint(other).tensors("model")["weight"].sum() == 0


def test_where_links_are_impossible_files_are_copied(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(1, "not supported")

    monkeypatch.setattr(os, "link", refuse)
    tensors = {"model": {"weight": torch.zeros(8)}}
    write_checkpoint(tmp_path / "one", tensors=tensors, documents={})
    write_checkpoint(tmp_path / "two", tensors=tensors, documents={}, beside=[tmp_path / "one"])
    one, two = (tmp_path / name / "model.safetensors" for name in ("one", "two"))
    assert not one.samefile(two)
    assert sorted(path.name for path in two.parent.iterdir()) == [
        "manifest.json",
        "model.safetensors",
    ]
    read_checkpoint(tmp_path / "two")


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3])
def test_keep_checkpoints_says_how_many_are_kept(toy, tmp_path, count):
    more = ["train.checkpoint=1", "train.max_steps=4", f"train.keep_checkpoints={count}"]
    assert train(toy, tmp_path / "run", "--set", *more) == 0
    assert len(list((tmp_path / "run/checkpoints").iterdir())) == count


def test_keep_checkpoints_is_of_the_whole_run_and_at_least_one(toy, capsys):
    assert main(["train", str(toy), "--dry-run", "--set", "train.keep_checkpoints=0"]) == 2
    assert "train.keep_checkpoints" in capsys.readouterr().err
    stage = "stages=[{keep_checkpoints=1}]"
    assert main(["train", str(toy), "--dry-run", "--set", stage]) == 2
    assert "move it to [train]" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_may_be_resumed_with_another_number_of_checkpoints(toy, tmp_path):
    cut(toy, tmp_path / "run", FROZEN, after=3)
    more = [*FROZEN, "train.keep_checkpoints=1"]
    assert train(toy, tmp_path / "run", "--resume", "--set", *more) == 0
    assert len(list((tmp_path / "run/checkpoints").iterdir())) == 1


def test_the_other_network_is_advised_only_if_it_is_intact(toy, tmp_path, capsys):
    assert train(toy, tmp_path / "run", "--set", "train.evaluate=never", "train.max_steps=1") == 0
    weights = tmp_path / "run/best/model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)  # final is the same file
    assert main(["evaluate", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "damaged" in said
    assert "--which" not in said
