"""train and demo: what is written where, and when it is evaluated."""

import json
import os
from pathlib import Path

import pytest
import torch
from calling import TASKS, files

from cotrunk.cli.terminal.tables import show_dry_run
from cotrunk.data.batches.samplers import Sampler
from cotrunk.data.batches.sampling import dry_run
from cotrunk.data.tokens.store import cache_folder
from cotrunk.runs.folder import RunFolder
from toy import write_rows


@pytest.mark.slow
def test_train_makes_a_run_that_can_be_used(cotrunk, toy):
    said = cotrunk("train", toy, "--out", "run", "--json")
    document = said.document
    assert document["run"] == "run"
    assert document["steps"] == 10
    assert list(document["scores"]) == TASKS
    assert "step 10/10" in said.err
    for place in ("best", "final"):
        names = {path.name for path in Path("run", place).iterdir()}
        assert {"model.safetensors", "manifest.json", "settings.json"} <= names
        assert {Path(name).suffix for name in names} == {".safetensors", ".json"}


@pytest.mark.slow
def test_train_shows_the_tasks_in_the_order_of_the_config(cotrunk, toy):
    shown = cotrunk("train", toy, "--out", "run").out
    rows = [line.split()[0] for line in shown.splitlines()]
    assert [row for row in rows if row in TASKS] == TASKS


def test_train_writes_to_runs_and_the_name_of_the_config_by_default(cotrunk, toy):
    assert cotrunk("train", toy, "--set", "train.max_steps=1").code == 0
    assert Path("runs/toy/run.json").is_file()


def test_a_dry_run_says_what_would_be_trained_and_writes_nothing(cotrunk, toy):
    before = files(toy.parent)
    document = cotrunk("train", toy, "--dry-run", "--json").document
    assert set(document) == {"parameters", "steps", "sampling"}
    assert document["steps"] == 10
    assert [epoch["epoch"] for epoch in document["sampling"]] == [0, 1]
    for epoch in document["sampling"]:
        assert set(epoch) == {"epoch", "probabilities", "batches", "passes", "rows", "factors"}
        assert epoch["passes"] == dict.fromkeys(TASKS, 1.0)
        assert sum(epoch["probabilities"].values()) == pytest.approx(1)
        assert epoch["batches"] == dict.fromkeys(TASKS, 5)
        assert epoch["rows"] == dict.fromkeys(TASKS, 8)
        assert epoch["factors"] == dict.fromkeys(TASKS, 1.0)
    assert "10 steps" in cotrunk("train", toy, "--dry-run").out
    assert files(toy.parent) == before


def test_a_dry_run_shows_the_rows_and_loss_factors_of_scaled(cotrunk, toy):
    """40 rows of each task; batches of 4 make it 10 steps, of 4 rows for each task."""
    changes = ["train.sampling=scaled", "tasks.mood.batch=4", "train.epochs=1"]
    (epoch,) = cotrunk("train", toy, "--dry-run", "--json", "--set", *changes).document["sampling"]
    assert epoch["rows"] == dict.fromkeys(TASKS, 4)
    assert epoch["factors"] == dict.fromkeys(TASKS, 2.0)
    shown = cotrunk("train", toy, "--dry-run", "--set", *changes).out.splitlines()
    assert shown[0].endswith("batches  passes over its rows  rows per batch  loss factor")
    rows = [line.split()[-6:] for line in shown[1:4]]
    assert rows == [[task, "0.3333", "10", "1.00", "4", "2"] for task in TASKS]


def test_a_dry_run_counts_only_the_steps_that_will_be_made(cotrunk, toy):
    """5 steps of each task are an epoch: 7 are one and two fifths."""
    said = cotrunk("train", toy, "--dry-run", "--json", "--set", "train.max_steps=7")
    first, second = said.document["sampling"]
    assert (first["batches"]["mood"], second["batches"]["mood"]) == (5, 2)
    assert second["passes"] == dict.fromkeys(TASKS, 0.4)
    assert "passes over the rows in an epoch: mood 1.00, same 1.00, alike 1.00" in said.err
    (only,) = cotrunk("train", toy, "--dry-run", "--json", "--set", "train.max_steps=2").document[
        "sampling"
    ]
    assert only["batches"] == dict.fromkeys(TASKS, 2)


def test_a_dry_run_does_not_warn_of_passes_that_max_steps_cuts_off(cotrunk, toy):
    often = ["train.steps_per_epoch=150", "train.epochs=1"]
    warning = "every row of task mood is seen about 30 times in an epoch"
    assert warning in cotrunk("train", toy, "--dry-run", "--set", *often).err
    said = cotrunk("train", toy, "--dry-run", "--set", *often, "train.max_steps=5")
    assert (said.code, "every row of task" in said.err) == (0, False)


@pytest.mark.slow
def test_starved_tasks_are_counted_in_the_steps_that_will_be_made(cotrunk, toy):
    """5 steps of each task see all its rows; epochs of 2 steps see 40 % of them, two 64 %."""

    def told(*changes):
        said = cotrunk("train", toy, "--dry-run", "--set", *changes).err
        return [line for line in said.splitlines() if "[starved-task]" in line]

    assert told("train.max_steps=3") == told("train.max_steps=7") == []
    (few,) = told("train.max_steps=2")
    assert "train.max_steps: the first 2 of 10 steps see few rows: 40% of alike, 40% of mood" in few
    short = ["train.steps_per_epoch=2", "train.epochs=10"]
    assert told(*short) == []  # in the end it sees all rows
    for line, task in zip(told(*short, "train.max_steps=4"), TASKS, strict=True):
        assert f"task {task}: an epoch sees 40% of its rows, the whole run 64%" in line
    (few,) = told(*short, "train.max_steps=1")
    assert "the first 1 of 20 steps see few rows: 20% of alike" in few


def test_a_dry_run_of_stages_says_which_epoch_is_whose(cotrunk, toy):
    stages = 'stages=[{epochs=1, tasks=["mood"]}, {epochs=1}]'
    shown = cotrunk("train", toy, "--dry-run", "--set", stages).out.splitlines()
    assert shown[0].split()[:3] == ["stage", "epoch", "task"]
    assert shown[1].split()[:3] == ["1", "1", "mood"]
    assert shown[2].split()[:3] == ["2", "1", "mood"]
    assert shown[3].split()[0] == "same"


def test_a_dry_run_shows_the_figures_of_method_1(capsys):
    """BERT Mastery, section 3.5: 2, 32 and 2 rows of the course's tasks, losses times 17, 1/8."""
    course = {"sst": 8544, "para": 141506, "sts": 6040}
    plans = dry_run(Sampler("scaled"), course, batch=32, seed=0, epochs=1)
    show_dry_run({"sampling": plans, "steps": 4423, "parameters": 1})
    shown = [line.split()[-6:] for line in capsys.readouterr().out.splitlines()[1:4]]
    assert shown == [
        ["sst", "0.3333", "4,423", "1.04", "2", "17"],
        ["para", "0.3333", "4,423", "1.00", "32", "0.125"],
        ["sts", "0.3333", "4,423", "1.46", "2", "17"],
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "steps", "evaluated"),
    [
        (["train.evaluate=epoch"], 10, [5, 10]),
        (["train.evaluate=never"], 10, []),
        (["train.evaluate=4"], 10, [4, 8, 10]),
        (["train.max_steps=3"], 3, [3]),
        (["train.max_steps=7", "train.evaluate=epoch"], 7, [5, 7]),
    ],
)
def test_train_evaluates_when_it_is_told_to(cotrunk, toy, changes, steps, evaluated):
    document = cotrunk("train", toy, "--out", "run", "--json", "--set", *changes).document
    events = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert document["steps"] == steps == sum(e["event"] == "step" for e in events)
    assert [e["step"] for e in events if e["event"] == "dev"] == evaluated
    assert Path("run/best/model.safetensors").is_file()


@pytest.mark.slow
def test_train_refuses_a_folder_with_a_run_and_leaves_it_as_it_is(cotrunk, toy, run):
    before = files(run)
    said = cotrunk("train", toy, "--out", run)
    assert said.code == 2
    assert "already has a run" in said.err
    assert files(run) == before


@pytest.mark.slow
def test_train_names_the_process_that_holds_a_run(cotrunk, toy, run):
    before = files(run)
    for more in ([], ["--resume"]):
        with RunFolder(run).lock():
            said = cotrunk("train", toy, "--out", run, *more)
        assert said.code == 2
        assert f"process {os.getpid()} on" in said.err
    assert before.items() <= files(run).items()


def test_resume_without_a_run_begins_one(cotrunk, toy):
    arguments = ["train", toy, "--out", "run", "--resume", "--set", "train.max_steps=1"]
    assert cotrunk(*arguments).code == 0
    assert "resuming after step 1" in cotrunk(*arguments).err


def test_train_reads_one_file_with_several_labels_where_some_are_missing(cotrunk, toy):
    header = ["id", "left", "right", "same", "alike"]
    rows = [[i, "good plot", f"tea {i}", i % 2 if i % 3 else "", i % 6] for i in range(30)]
    write_rows(toy.parent / "pair-train.csv", header, rows)
    said = cotrunk("train", toy, "--out", "run", "--json", "--set", "train.max_steps=1")
    assert said.document["steps"] == 1
    assert "same train: 10 rows have no label for this task" in said.err


def test_rows_without_a_label_are_counted_once_though_dev_is_a_share_of_them(cotrunk, toy):
    rows = [[i, f"good plot {i}", i % 3 if i % 4 else ""] for i in range(40)]
    write_rows(toy.parent / "mood-train.csv", ["id", "sentence", "mood"], rows)
    changes = ["tasks.mood.sparse_labels=true", "tasks.mood.dev=0.3"]
    said = cotrunk("train", toy, "--out", "run", "--dry-run", "--set", *changes)
    (note,) = [line for line in said.err.splitlines() if "no label" in line]
    assert note == "note: mood: 10 rows have no label for this task"


def test_a_device_that_is_not_here_is_refused(cotrunk, toy):
    if torch.cuda.is_available():
        pytest.skip("it is here")
    said = cotrunk("train", toy, "--out", "run", "--set", "train.device=cuda")
    assert said.code == 2
    assert "train.device = 'cuda' is not available here" in said.err
    assert not Path("run").exists()


@pytest.mark.parametrize("out", ["file", "file/run"])
def test_a_run_folder_that_cannot_be_made_is_refused(cotrunk, toy, out):
    Path("file").write_text("mine")
    said = cotrunk("train", toy, "--out", out)
    assert said.code == 2
    assert "cannot create the run folder" in said.err
    assert not list(cache_folder().glob("tokens/*"))  # said before anything is read
    assert Path("file").read_text() == "mine"


@pytest.mark.slow
def test_demo_trains_three_plans_and_prints_one_table(cotrunk):
    small = ["encoder.weights=random:tiny", "sharing.encoder=S2", "train.max_steps=1"]
    said = cotrunk("demo", "--out", "demo", "--set", *small)
    assert said.code == 0
    rows = {line.split()[0]: line for line in said.out.splitlines()}
    assert {"1-bert", "3-bert", "hybrid-bert", "constant"} <= set(rows)
    assert rows["plan"].split()[:5] == ["plan", "layers", "sst", "para", "sts"]
    assert all(Path("demo", name, "run.json").is_file() for name in list(rows)[1:4])
    assert str(Path("demo", "report.html")) in said.err
    assert Path("demo", "report.html").stat().st_size > 100_000
    again = cotrunk("demo", "--out", "demo", "--set", *small)
    assert again.code == 2
    assert "already exists" in again.err


@pytest.mark.slow
def test_demo_gives_a_document(cotrunk):
    small = ["encoder.weights=random:tiny", "sharing.encoder=S2", "train.max_steps=1"]
    said = cotrunk("demo", "--out", "demo", "--json", "--set", *small, "train.evaluate=never")
    runs = said.document["runs"]
    assert [run["plan"] for run in runs] == ["1-bert", "3-bert", "hybrid-bert"]
    assert all(run["parameters"] == runs[0]["parameters"] for run in runs)


def test_one_bad_row_and_one_step_are_not_told_as_many(cotrunk, toy):
    with (toy.parent / "mood-train.csv").open("a") as file:
        file.write("bad,,0\n")
    changes = ["tasks.mood.skip_bad_rows=true", "train.max_steps=1"]
    said = cotrunk("train", toy, "--out", "run", "--dry-run", "--set", *changes)
    assert "note: mood train: 1 bad row dropped, the first: " in said.err
    assert "\n1 step, " in said.out


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_force_alone_is_refused(cotrunk, toy, more):
    said = cotrunk("train", toy, "--out", "run", "--force", *more)
    assert said.code == 2
    assert "--force only works with --resume" in said.err
    assert not Path("run").exists()


def test_a_task_that_is_not_reached_before_the_last_step_is_told(cotrunk, toy):
    changes = ["train.sampling=sequential", "train.max_steps=1"]
    said = cotrunk("train", toy, "--out", "run", "--set", *changes)
    assert said.code == 0
    *told, seen = [line for line in said.err.splitlines() if "[starved-task]" in line]
    assert [line.split(": ")[2].split()[1] for line in told] == ["alike", "same"]
    assert "the first 1 of 30 steps see few rows: 20% of mood" in seen
    later = ["stages=[{max_steps=1}, {sampling='together'}]"]
    for others in (changes[:1], [*changes[:1], *later]):
        assert "[starved-task]" not in cotrunk("train", toy, "--dry-run", "--set", *others).err


def test_a_frozen_encoder_leaves_nothing_to_combine_but_a_neck(cotrunk, toy):
    changes = ["sharing.encoder=S2", "train.freeze=encoder", "train.gradients=pcgrad"]
    assert "share a neck" in cotrunk("train", toy, "--dry-run", "--set", *changes).err
    changes.append("sharing.neck=S")
    assert cotrunk("train", toy, "--dry-run", "--set", *changes).code == 0
