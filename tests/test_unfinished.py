"""A run that has not finished can be used, but nobody takes it for one that has."""

import shutil
from pathlib import Path

import pytest

import cotrunk
from cotrunk.cli.main import main
from cotrunk.learn.loop import train as train_network
from cotrunk.runs.events import Stepped
from cotrunk.runs.folder import RunFolder
from toy import prepared, train

NOTE = "has not finished, so its best/ may still change"


@pytest.fixture
def unfinished(toy, tmp_path, capsys) -> Path:
    """As a run that was killed after an evaluation."""
    run = tmp_path / "killed"
    assert main(["train", str(toy), "--out", str(run), "--set", "train.max_steps=2"]) == 0
    shutil.rmtree(run / "final")
    capsys.readouterr()
    return run


@pytest.mark.slow
def test_evaluate_and_predict_say_that_training_has_not_finished(toy, unfinished, capsys):
    for asked in (["evaluate"], ["predict"]):
        rows = [str(toy.parent / "mood-dev.csv")] if asked == ["predict"] else []
        assert main([*asked, str(unfinished), *rows]) == 0
        assert capsys.readouterr().err.count(NOTE) == 1


@pytest.mark.slow
def test_a_model_that_is_loaded_from_an_unfinished_run_warns(unfinished):
    with pytest.warns(UserWarning, match=NOTE):
        assert cotrunk.load(unfinished).predict("mood", ["a fine day"])


@pytest.mark.slow
def test_a_run_that_starts_from_an_unfinished_one_says_so(toy, unfinished, capsys):
    assert main(["train", str(toy), "--dry-run", "--set", f"train.init_from={unfinished}"]) == 0
    assert f"note: train.init_from: the training of {unfinished} has not" in capsys.readouterr().err


@pytest.mark.slow
def test_nothing_is_said_of_a_run_that_has_finished(toy, tmp_path, capsys):
    run = str(tmp_path / "run")
    assert main(["train", str(toy), "--out", run, "--set", "train.max_steps=1"]) == 0
    assert main(["evaluate", run]) == 0
    assert main(["train", str(toy), "--dry-run", "--set", f"train.init_from={run}"]) == 0
    assert "not finished" not in capsys.readouterr().err


@pytest.mark.slow
def test_what_cannot_be_used_is_refused_without_a_note(unfinished, capsys):
    assert main(["evaluate", str(unfinished), "--which", "final"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.slow
def test_a_finished_run_that_goes_on_and_is_cut_has_not_finished(toy, tmp_path):
    run = tmp_path / "run"
    assert train(toy, run, "--set", "train.max_steps=2") == 0
    assert RunFolder(run).is_finished
    start, _ = RunFolder(run).latest_good()
    for event in train_network(prepared(toy, "train.max_steps=4", out=run), start):
        if isinstance(event, Stepped):
            break
    assert not RunFolder(run).is_finished
