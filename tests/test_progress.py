"""Work that takes long tells how far it is, and what is shown of that."""

from dataclasses import replace
from threading import Thread

import numpy as np
import pytest

import cotrunk
from cotrunk.cli.main import main
from cotrunk.cli.terminal import progress
from cotrunk.progress import ProgressUpdate
from toy import prepared, train, write_rows


@pytest.mark.parametrize("freeze", ["nothing", "encoder"])
def test_what_is_told_adds_up_to_all_rows(toy, freeze):
    changes = ["sharing.encoder=S2", f"train.freeze={freeze}"]
    told: list[ProgressUpdate] = []
    run = replace(prepared(toy, *changes), on_progress=told.append)
    stage = run.make_stage(run, 0)
    for task in run.dev:
        stage.dev_forward.outputs(task, on_progress=told.append)
    for task, corpus in run.dev.items():
        mine = [done for done in told if done.what == f"answering {task}"]
        assert sum(done.rows for done in mine) == len(corpus)
        assert mine[-1].share == 1
        assert np.all(np.diff([done.share for done in mine]) > 0)
    encoded = sum(done.rows for done in told if done.what.startswith("encoding "))
    corpora = [*run.streams[0].corpora.values(), *run.dev.values()]
    assert encoded == (sum(len(corpus) for corpus in corpora) if freeze == "encoder" else 0)


def test_a_line_says_what_is_done_at_what_pace_and_how_long_it_takes_yet(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_EVERY_SECONDS", 1e-9)
    clock = iter([0.0, 10.0, 20.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    counter = progress.Counter(None)
    counter(ProgressUpdate("answering mood", 100, 0.1))
    capsys.readouterr()
    counter(ProgressUpdate("answering mood", 200, 0.3))
    line = capsys.readouterr().err.strip()
    assert line == "answering mood: 300 rows (30%), 20 rows/s, 35 s left"


def test_what_is_done_at_one_stroke_twice_is_not_added_up(capsys, monkeypatch):
    clock = iter([0.0, 10.0, 1000.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    counter = progress.Counter(None)
    counter(ProgressUpdate("answering mood", 100, 1.0))
    counter(ProgressUpdate("answering mood", 100, 1.0))
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_short_work_is_not_worth_a_line(toy, tmp_path, capsys):
    run = tmp_path / "run"
    assert train(toy, run) == 0
    capsys.readouterr()
    assert main(["evaluate", str(run), "--json"]) == 0
    assert main(["predict", str(run), str(toy.parent / "mood-dev.csv"), "--task", "mood"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["evaluate", "predict", "train"])
def test_long_work_shows_how_far_it_is(toy, tmp_path, capsys, monkeypatch, command):
    run = tmp_path / "run"
    assert train(toy, run) == 0
    write_rows(tmp_path / "many.csv", ["id", "sentence"], [[i, "good"] for i in range(7 * 1024)])
    capsys.readouterr()
    monkeypatch.setattr(progress, "PLAIN_EVERY_SECONDS", 1e-9)
    asked = {
        "evaluate": ["evaluate", str(run)],
        "predict": ["predict", str(run), str(tmp_path / "many.csv"), "--task", "mood"],
        "train": ["train", str(toy), "--out", str(tmp_path / "another")],
    }
    assert main(asked[command]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "answering" in line]
    assert said
    assert "rows (" in said[-1]
    assert " rows/s" in said[-1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_thread_may_train(toy, tmp_path):
    config, run = str(toy), tmp_path / "run"
    worker = Thread(target=cotrunk.train, args=(config, str(run)))
    worker.start()
    worker.join()
    assert (run / "final" / "manifest.json").is_file()


def test_a_bar_shows_the_name_of_a_file_as_it_is(capsys):
    with progress._bar() as bar:
        bar.add_task("answering [/red] [bold]:smile:.csv", total=2, count="1 row", losses="")
    assert "answering [/red] [bold]:smile:.csv" in capsys.readouterr().err
