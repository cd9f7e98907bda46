"""init, data check and info: what they show, what they write, what they refuse."""

import json
import shutil
from pathlib import Path

import pytest
from calling import TASKS, files

from cotrunk.config.check import read_settings
from toy import write_rows


def test_init_lists_the_presets(cotrunk):
    presets = cotrunk("init", "--list", "--json").document["presets"]
    assert {"1-bert", "3-bert", "hybrid-bert"} <= set(presets)
    shown = cotrunk("init", "--list").out
    assert all(name in shown for name in presets)


@pytest.mark.parametrize("preset", ["1-bert", "3-bert", "hybrid-bert"])
def test_init_writes_a_config_that_can_be_read(cotrunk, preset):
    said = cotrunk("init", "--preset", preset, "-o", "my.toml", "--json")
    assert said.document == {"config": "my.toml", "preset": preset}
    assert list(read_settings(Path("my.toml")).tasks) == ["sst", "para", "sts"]
    assert "#" in Path("my.toml").read_text()


def test_init_writes_run_toml_and_never_over_it(cotrunk):
    assert cotrunk("init").code == 0
    Path("run.toml").write_text("mine")
    said = cotrunk("init")
    assert said.code == 2
    assert "already exists" in said.err
    assert Path("run.toml").read_text() == "mine"


COURSE = {
    "sst": ("ids-sst-train.csv", "ids-sst-dev.csv"),
    "para": ("quora-train.csv", "quora-dev.csv"),
    "sts": ("sts-train.csv", "sts-dev.csv"),
}


@pytest.mark.parametrize(
    ("data", "output", "written"),
    [("/course", "run.toml", "/course"), ("course", "run.toml", "course")],
)
def test_init_names_the_files_of_the_course(cotrunk, data, output, written):
    assert cotrunk("init", "--data", data, "-o", output).code == 0
    tasks = read_settings(Path(output)).tasks
    found = {name: (part.train, part.dev) for name, part in tasks.items()}
    assert found == {t: tuple(f"{written}/{file}" for file in two) for t, two in COURSE.items()}


def test_init_writes_paths_as_seen_from_the_config(cotrunk):
    Path("course").mkdir()
    Path("configs").mkdir()
    assert cotrunk("init", "--data", "course", "-o", "configs/a.toml").code == 0
    assert read_settings(Path("configs/a.toml")).tasks["sts"].dev == "../course/sts-dev.csv"


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        (["--preset", "3-brt"], "did you mean '3-bert'?"),
        (["-o", "nowhere/run.toml"], "no such folder: nowhere"),
        (["-o", "."], "-o .: is a folder; give the name of a file"),
    ],
)
def test_init_refuses_and_writes_nothing(cotrunk, tmp_path, options, finding):
    said = cotrunk("init", *options)
    assert said.code == 2
    assert finding in said.err
    assert not files(tmp_path)


def test_data_check_counts_what_the_files_hold(cotrunk, toy):
    document = cotrunk("data", "check", toy, "--json").document
    assert list(document["tasks"]) == TASKS
    dev = document["tasks"]["mood"]["dev"]
    assert dev["rows"] == 24
    assert dev["labels"] == {"0": 8, "1": 8, "2": 8}
    assert set(dev["lengths"]) == {"p50", "p90", "p99", "max"}
    assert dev["rows_in_train"] == 0
    shown = cotrunk("data", "check", toy).out
    assert [t for t in TASKS if f"{t}, train" in shown and f"{t}, dev" in shown] == TASKS


def test_data_check_lists_the_bad_cells_of_all_files(cotrunk, toy):
    write_rows(toy.parent / "mood-train.csv", ["id", "sentence", "mood"], [[1, "good", 3]])
    write_rows(toy.parent / "mood-dev.csv", ["id", "sentence", "mood"], [[1, "", 0], [2, "a", "x"]])
    said = cotrunk("data", "check", toy, "--json")
    assert (said.code, said.out) == (2, "")
    assert "mood-train.csv:2:3 (mood): a class must be one of 0..2; found '3'" in said.err
    assert "mood-dev.csv:2:2 (sentence): the text is empty" in said.err
    assert "mood-dev.csv:3:3 (mood)" in said.err


@pytest.mark.slow
def test_info_says_what_a_run_is_and_how_it_went(cotrunk, run):
    document = cotrunk("info", run, "--json").document
    assert document["tasks"] == {"mood": "classes", "same": "binary", "alike": "score"}
    assert list(document["tasks"]) == list(document["scores"]) == TASKS
    assert document["sharing"] == {"encoder": "S1 I1"}
    assert (document["steps"], document["finished"], document["best_step"]) == (3, True, 3)
    assert document["checkpoints"] == ["step-00000003"]
    shown = cotrunk("info", run).out.splitlines()
    assert "sharing      encoder S1 I1" in shown
    assert f"parameters   {document['parameters']:,}, all trained" in shown
    assert not [line for line in shown if line.startswith("seconds per epoch")]  # 3 steps of 5


def test_the_plan_of_an_encoder_is_called_the_same_if_the_config_leaves_it_out(
    cotrunk, several_runs
):
    apart, shared = several_runs / "apart", Path("shared")
    shutil.copytree(apart, shared)
    record = json.loads((shared / "run.json").read_text())
    record["settings"]["sharing"]["encoder"] = None
    (shared / "run.json").write_text(json.dumps(record))
    assert "sharing      encoder S2\n" in cotrunk("info", shared).out
    assert "; encoder S2\n" in cotrunk("evaluate", shared).out
    compared = cotrunk("compare", shared, apart, "--json").document
    plans = [group["choices"]["sharing.encoder"] for group in compared["groups"]]
    assert plans == ["S2", "I2"]


@pytest.mark.slow
def test_seconds_per_epoch_are_those_of_whole_epochs(cotrunk, toy):
    assert cotrunk("train", toy, "--out", "whole").code == 0
    assert cotrunk("train", toy, "--out", "cut", "--set", "train.max_steps=7").code == 0
    for run in ("whole", "cut"):
        epochs = cotrunk("info", run, "--json").document["epochs"]
        assert len(epochs) == 2
        counted = epochs if run == "whole" else epochs[:1]
        mean = sum(counted) / len(counted)
        (line,) = [x for x in cotrunk("info", run).out.splitlines() if "per epoch" in x]
        assert float(line.split()[3]) == pytest.approx(mean, abs=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("content", ["{", "[1]", '{"a": 1}', '{"settings": {}}'])
def test_info_refuses_a_run_json_of_something_else(cotrunk, run, content):
    (run / "run.json").write_text(content)
    said = cotrunk("info", run)
    assert said.code == 2
    assert f"{run}/run.json" in said.err
