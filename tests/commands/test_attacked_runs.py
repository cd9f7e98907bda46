"""Runs whose files are damaged or in the way: noticed, said in one line, and made again."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from faults.commands import Said, alone
from faults.preload import shared

pytestmark = pytest.mark.slow  # every command is a process


def cotrunk(folder: Path, *arguments: object) -> Said:
    """A command in a process of its own, forked from one that has imported torch."""
    env = {"COTRUNK_CACHE": os.environ["COTRUNK_CACHE"]}
    return shared().run(*arguments, env=env, cwd=str(folder))


def train(toy: Path, *more: object) -> Said:
    steps = ["--set", "train.max_steps=6", "train.checkpoint=2", "train.evaluate=2"]
    return cotrunk(toy.parent, "train", toy, "--out", "run", *more, *steps)


@pytest.fixture
def run(toy) -> Path:
    assert train(toy).code == 0
    return toy.parent / "run"


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_whose_name_is_not_utf8_can_be_trained_in_and_shown(toy):
    folder = Path(os.fsdecode(os.fsencode(toy.parent) + b"/b\xff\xe9d"))
    folder.mkdir()
    for file in [*toy.parent.glob("*.csv"), toy]:
        file.rename(folder / file.name)
    moved = folder / toy.name
    trained = alone("train", moved, "--out", folder / "run", "--set", "train.max_steps=1")
    assert trained.code == 0, trained.err
    shown = alone("info", folder / "run", "--json")
    assert shown.code == 0
    assert shown.document["run"] == str(folder / "run")
    plain = alone("info", folder / "run", env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert plain.code == 0
    assert str(folder / "run") in plain.out


def test_predictions_never_go_into_a_run_folder(toy, run):
    before = bytes_of(run / "best")
    for target in ("run/best/evaluation.json", "run/run.json", "run/new.jsonl"):
        more = ["-o", target, "--format", "jsonl"]
        said = cotrunk(toy.parent, "predict", run, "mood-dev.csv", *more)
        assert said.code == 2
        assert "inside the run" in said.err
    assert bytes_of(run / "best") == before
    assert not (run / "new.jsonl").exists()


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_lost_best_network_is_made_again_as_it_was(toy, run, how):
    saved = bytes_of(run / "best")
    if how == "damaged":
        (run / "best" / "model.safetensors").write_bytes(b"damaged")
    else:
        shutil.rmtree(run / "best")
    said = train(toy, "--resume")
    assert said.code == 0
    assert f"best is {how}" in said.err
    assert bytes_of(run / "best") == saved
    assert cotrunk(toy.parent, "verify", run).code == 0


def test_a_deleted_folder_of_checkpoints_is_made_before_the_first_step(toy, run):
    before = (run / "metrics.jsonl").read_bytes()
    for checkpoint in (run / "checkpoints").iterdir():
        for file in checkpoint.iterdir():
            file.unlink()
        checkpoint.rmdir()
    (run / "checkpoints").rmdir()
    said = train(toy, "--resume")
    assert said.code == 0, said.err
    assert (run / "metrics.jsonl").read_bytes() == before


def test_metrics_that_were_changed_are_noticed_when_the_run_is_resumed(toy, run):
    text = (run / "metrics.jsonl").read_text()
    first = json.loads(text.splitlines()[0])["loss"]["mood"]
    (run / "metrics.jsonl").write_text(text.replace(str(first), "1".ljust(len(str(first)), "0"), 1))
    said = train(toy, "--resume")
    assert said.code == 2
    assert "metrics.jsonl is not what the checkpoint recorded" in said.err


@pytest.fixture
def with_nan(toy) -> Path:
    """The folder of an encoder in Hugging Face's format, one of whose weights is NaN."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=200, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64,
    )  # fmt: skip
    folder = toy.parent / "encoder"
    BertModel(config).save_pretrained(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "plot", "actor", "slow"]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    tensors = load_file(folder / "model.safetensors")
    tensors["encoder.layer.0.output.dense.weight"][0, 0] = float("nan")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_weights_with_nan_are_refused_even_where_broken_steps_are_skipped(toy, with_nan):
    more = ["--set", f"encoder.weights={with_nan}", "train.on_nan=skip", "train.max_steps=4"]
    said = cotrunk(toy.parent, "train", toy, "--out", "nan", *more)
    assert said.code == 2
    assert "NaN or infinite" in said.err
    assert not (toy.parent / "nan").exists()


def test_a_run_that_skips_most_of_its_steps_fails(toy):
    text = toy.read_text().replace("range = [0, 5]", "range = [-1e30, 1e30]")
    toy.write_text(text)
    rows = (toy.parent / "pair-train.csv").read_text().splitlines()
    changed = [rows[0], *(f"{row.rpartition(',')[0]},1e25" for row in rows[1:])]
    (toy.parent / "pair-train.csv").write_text("\n".join(changed) + "\n")
    said = train(toy, "--set", "train.on_nan=skip")
    assert said.code == 1
    assert "steps were skipped" in said.err
    assert not (toy.parent / "run" / "final").exists()


def test_metrics_deleted_in_mid_run_end_it_with_one_line(toy):
    run = toy.parent / "run"
    more = ["--set", "train.max_steps=100000", "train.epochs=20000", "train.evaluate=never"]
    command = [sys.executable, "-m", "cotrunk", "train", str(toy), "--out", str(run), *more]
    worker = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert worker.stderr is not None
    while "step" not in worker.stderr.readline():
        pass
    (run / "metrics.jsonl").unlink()
    said = worker.communicate(timeout=120)[1]
    assert worker.returncode == 1
    assert "metrics.jsonl: No such file or directory" in said
    assert "deleted or moved during training" in said
    assert "resume the run" in said
    assert "Traceback" not in said


def test_a_held_run_is_refused_without_loading_torch(toy, run):
    holder = "import fcntl, sys; f = open(sys.argv[1], 'a+'); fcntl.flock(f, fcntl.LOCK_EX); "
    holder += "f.write('process 1 on a host'); f.flush(); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(run / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        trace = [sys.executable, "-X", "importtime", "-m", "cotrunk", "train", str(toy)]
        command = [*trace, "--out", str(run), "--resume"]
        done = subprocess.run(command, capture_output=True, text=True)
        other.communicate()
    assert done.returncode == 2
    assert "process 1 on a host" in done.stderr
    assert "torch" not in done.stderr
