"""A run that was cut short and resumed ends exactly like one that was not."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cotrunk.data.batches.samplers import SAMPLERS
from toy import contents, cut, train


def command(config: Path, run: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "cotrunk", "train", str(config), "--out", str(run), *more]


QUICK = ("together", "pcgrad", "frozen")
SETTINGS = [
    *((law, f"train.sampling={law}") for law in SAMPLERS),
    ("pcgrad", "train.gradients=pcgrad"),
    ("gradvac", "train.gradients=gradvac"),
    ("cagrad", "train.gradients=cagrad"),
    ("uncertainty", "train.loss_weighting=uncertainty"),
    ("dwa", "train.loss_weighting=dwa", "train.epochs=4", "train.max_steps=14"),
    ("gradnorm", "train.loss_weighting=gradnorm"),
    ("ema", "train.ema=0.9"),
    ("r-drop", "train.regularize=r-drop"),
    ("smart", "train.regularize=smart"),
    ("early-stopping", "train.early_stopping=1", "train.evaluate=2"),
    ("accumulate", "train.accumulate=2"),
    ("course", "train.optimizer=course"),
    ("frozen", "train.freeze=encoder", "sharing.encoder=S2"),
    ("projected", "sharing.pal.size=8", "sharing.pal.heads=2"),
    ("lora", "sharing.lora.rank=2", "sharing.lora.who=I", "sharing.lora.dropout=0.1"),
    (
        "lora on a frozen encoder",
        "sharing.lora.rank=2",
        "train.freeze=encoder",
        "sharing.encoder=S2",
        "encoder.pooling=cls",
    ),
    ("lora merged", "sharing.lora.rank=2", "sharing.lora.merge_at_save=true"),
    ("soft", "sharing.soft.l2=1e-3"),
    ("threads", "train.threads=2", "train.batch=16", "train.epochs=4"),
    ("threads and pcgrad", "train.threads=2", "train.batch=16", "train.gradients=pcgrad"),
]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(changes, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, *changes in SETTINGS
    ],
)
def test_a_run_cut_in_the_middle_and_resumed_is_bit_identical(toy, tmp_path, changes):
    # The first epoch has three steps.
    changes = ["train.batch=16", "train.checkpoint=2", "train.max_steps=5", *changes]
    assert train(toy, tmp_path / "whole", "--set", *changes) == 0
    cut(toy, tmp_path / "cut", changes, after=3)
    assert train(toy, tmp_path / "cut", "--resume", "--set", *changes) == 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_killed_at_random_moments_a_run_still_ends_bit_identical(toy, tmp_path):
    settings = ["--set", "train.epochs=3", "train.checkpoint=3", "train.threads=2"]
    assert train(toy, tmp_path / "whole", *settings) == 0
    chance = random.Random(7)
    run = tmp_path / "killed"
    for kill in range(2):
        worker = subprocess.Popen(
            command(toy, run, "--resume", *settings), stderr=subprocess.PIPE, text=True
        )
        assert worker.stderr is not None
        for _ in range(chance.randrange(1, 4)):  # lines of progress, not seconds
            worker.stderr.readline()
        worker.send_signal(signal.SIGKILL if kill % 2 else signal.SIGTERM)
        worker.communicate()
    assert train(toy, run, "--resume", *settings) == 0
    assert contents(run) == contents(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_a_checkpoint_and_says_so_in_the_exit_code(toy, tmp_path, number, code):
    run = tmp_path / "run"
    changes = ["train.epochs=2000", "train.evaluate=never", "train.threads=2"]
    arguments = command(toy, run, "--set", *changes)
    worker = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    assert worker.stderr is not None
    while "step" not in worker.stderr.readline():
        pass
    os.kill(worker.pid, number)
    worker.communicate()
    assert worker.returncode == code
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert f"step-{steps[-1] + 1:08d}" in os.listdir(run / "checkpoints")


@pytest.mark.slow
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(toy, tmp_path, capsys):
    settings = ["--set", "train.checkpoint=2"]
    assert train(toy, tmp_path / "whole", *settings) == 0
    run = tmp_path / "whole"
    before = contents(run)
    newest = max((run / "checkpoints").iterdir())
    data = bytearray((newest / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (newest / "model.safetensors").write_bytes(data)
    assert train(toy, run, "--resume", *settings) == 0
    assert f"{newest} is damaged: model.safetensors" in capsys.readouterr().err
    assert contents(run) == before


@pytest.mark.slow
def test_resuming_with_other_settings_is_refused_with_the_differences(toy, tmp_path, capsys):
    assert train(toy, tmp_path / "run", "--set", "train.max_steps=2") == 0
    changed = ["--resume", "--set", "train.max_steps=2", "train.lr=0.1"]
    assert train(toy, tmp_path / "run", *changed) == 2
    assert "train.lr: was 0.001, is now 0.1" in capsys.readouterr().err


@pytest.mark.slow
def test_resuming_with_other_data_is_refused(toy, tmp_path, capsys):
    assert train(toy, tmp_path / "run", "--set", "train.max_steps=2") == 0
    rows = (toy.parent / "mood-train.csv").read_text()
    (toy.parent / "mood-train.csv").write_text(rows.replace("good", "fine"))
    assert train(toy, tmp_path / "run", "--resume", "--set", "train.max_steps=2") == 2
    assert "tasks.mood.train: the file has changed" in capsys.readouterr().err


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_another_folder(toy, tmp_path, monkeypatch):
    assert train(toy, tmp_path / "one", "--set", "train.max_steps=3") == 0
    monkeypatch.chdir(tmp_path / "one")
    assert train(toy, tmp_path / "two", "--set", "train.max_steps=3") == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
