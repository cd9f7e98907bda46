"""``cotrunk study`` from the command line to its results, on random tiny encoders."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from cotrunk.cli.main import main
from cotrunk.study.results import write_identity

TINY = """
title = "A tiny study"
report = "nobody's report"
[budgets.quick]
seeds = 1
[budgets.quick.overrides]
"train.epochs" = 1
"train.steps_per_epoch" = 2
"train.batch" = 4
[sweeps.plans]
preset = "hybrid-bert"
axes = { "sharing.encoder" = ["S2", "I2"] }
[sweeps.again]
preset = "hybrid-bert"
search = true
axes = { "sharing.encoder" = { best_of = "plans", count = 1, by = "official" } }
variants = { "no dropout" = { "tasks.sst.head.dropout" = 0.0 } }
[runs]
"shared" = { sweep = "plans", where = { "sharing.encoder" = "S2" } }
"apart" = { sweep = "plans", where = { "sharing.encoder" = "I2" } }
[[tables]]
title = "Table 1"
columns = ["sst", "parameters"]
rows = [{ name = "Shared", runs = "shared", printed = [0.5] }, { name = "Apart", runs = "apart" }]
[[claims]]
id = "small"
claim = "sharing needs fewer parameters"
test = "better"
one = "shared"
other = "apart"
on = "parameters"
[[claims]]
id = "single"
claim = "dropout hurts"
test = "better"
one = "no dropout"
other = "apart"
on = "sst"
"""


@pytest.fixture
def study_file(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY, encoding="utf-8")
    return path


def command(study_file, *more):
    out = study_file.parent / "out"
    return ["study", str(study_file), "--weights", "random:tiny", "-o", str(out), *more]


@pytest.mark.slow
def test_a_study_ends_in_tables_verdicts_and_a_page_and_is_never_rerun(
    study_file, capsys, monkeypatch
):
    monkeypatch.chdir(study_file.parent)
    assert main(command(study_file, "--engine", "local")) == 0
    shown = capsys.readouterr().out
    assert "(0.500)" in shown
    assert "confirmed" in shown
    out = study_file.parent / "out"
    results = json.loads((out / "results.json").read_text())
    verdicts = {claim["id"]: claim["verdict"] for claim in results["claims"]}
    assert verdicts == {"small": "confirmed", "single": "undecided"}  # one seed settles no score
    (row, _) = results["tables"][0]["rows"]
    assert (row["seeds"], row["printed"]["sst"]) == (1, 0.5)
    page = (out / "report.html").read_text()
    assert "sharing needs fewer parameters" in page
    written = {file: file.stat().st_mtime_ns for file in out.glob("*/*/run.json")}
    assert len(written) == 3

    assert main(command(study_file, "--engine", "local", "--json")) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["claims"] == results["claims"]
    assert written == {file: file.stat().st_mtime_ns for file in out.glob("*/*/run.json")}


@pytest.mark.slow
def test_a_study_can_be_run_one_sweep_after_the_other(study_file, capsys, monkeypatch):
    monkeypatch.chdir(study_file.parent)
    assert main(command(study_file, "--engine", "local", "--only", "plans", "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    verdicts = {claim["id"]: claim["verdict"] for claim in found["claims"]}
    assert verdicts == {"small": "confirmed", "single": "not run yet"}
    out = study_file.parent / "out"
    assert not (out / "again").exists()
    written = {file: file.stat().st_mtime_ns for file in out.glob("*/*/run.json")}

    assert main(command(study_file, "--engine", "local", "--only", "again", "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert {claim["verdict"] for claim in found["claims"]} == {"confirmed", "undecided"}
    assert written.items() < {f: f.stat().st_mtime_ns for f in out.glob("*/*/run.json")}.items()


@pytest.mark.slow
def test_a_dry_run_lists_the_trials_and_trains_none(study_file, capsys, monkeypatch):
    monkeypatch.chdir(study_file.parent)
    assert main(command(study_file, "--dry-run", "--seeds", "3", "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    counts = {name: len(sweep["trials"]) for name, sweep in document["sweeps"].items()}
    assert counts == {"plans": 6, "again": 1}  # a search keeps its own number of seeds
    assert document["sweeps"]["plans"]["steps"] == [2]
    assert not list(study_file.parent.glob("out/*/*/run.json"))


@pytest.mark.slow
def test_a_dry_run_counts_only_the_time_of_trials_that_have_not_ended(
    study_file, capsys, monkeypatch
):
    monkeypatch.chdir(study_file.parent)
    assert main(command(study_file, "--engine", "local", "--only", "plans")) == 0
    capsys.readouterr()
    assert main(command(study_file, "--dry-run", "--json")) == 0
    sweeps = json.loads(capsys.readouterr().out)["sweeps"]
    assert [trial["state"] for trial in sweeps["plans"]["trials"]] == ["finished", "finished"]
    assert (sweeps["plans"]["finished"], sweeps["plans"]["seconds"]) == (2, 0)
    assert sweeps["again"]["finished"] == 0
    assert sweeps["again"]["seconds"] > 0
    assert main(command(study_file, "--dry-run")) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["all", "3", "2"] in [line[:3] for line in lines]


@pytest.mark.slow
def test_a_dry_run_shows_each_plan_once_with_its_seeds(study_file, capsys, monkeypatch):
    monkeypatch.chdir(study_file.parent)
    assert main(command(study_file, "--dry-run", "--seeds", "3")) == 0
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines()]
    for plan in ("S2", "I2"):
        assert lines.count(["plans", "sharing.encoder", "=", plan, "3", "2"]) == 1
    assert shown.count("evaluations not included") == 1


def test_what_is_wrong_in_several_sweeps_is_said_once(study_file, capsys, monkeypatch):
    monkeypatch.chdir(study_file.parent)
    for wrong, finding in (
        ("encoder.weights=./absent", "absent is not a folder"),
        ("train.lrr=1", "train.lrr is not a setting"),
    ):
        assert main(command(study_file, "--dry-run", "--set", wrong)) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert finding in line
        assert "2 sweeps" in line


@contextmanager
def hub_without_models():
    """Its address, and the models it has been asked for."""
    asked = []

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path.partition("/api/models/")[2])
            self.send_error(404)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.mark.slow
def test_the_hub_is_asked_once_for_the_encoder_of_all_sweeps(study_file, tmp_path):
    asked_for = command(study_file, "--dry-run", "--set", "encoder.weights=owner/absent")
    with hub_without_models() as (address, asked):
        environment = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hub")}
        done = subprocess.run(
            [sys.executable, "-m", "cotrunk", *asked_for],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2
    assert asked.count("owner/absent") == 1, done.stderr


def test_a_folder_of_another_study_is_refused_before_its_first_result(study_file, capsys):
    out = study_file.parent / "out"
    write_identity(out, {"study": "mops", "budget": "quick", "data": None, "config": None})
    assert main(command(study_file, "--dry-run")) == 2
    assert "has runs of another study (study mops)" in capsys.readouterr().err


def test_a_study_file_is_not_taken_for_the_study_of_the_same_name(study_file, capsys):
    mine = study_file.rename(study_file.parent / "hybrid.toml")
    out = mine.parent / "out"
    write_identity(out, {"study": "hybrid", "budget": "quick", "data": None, "config": None})
    assert main(command(mine, "--dry-run")) == 2
    assert "has runs of another study (study hybrid)" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"one line", b"\xff\xfe\n\xff"])
def test_a_dev_file_without_rows_is_refused_and_nothing_is_written(
    content, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    course = tmp_path / "course"
    course.mkdir()
    for stem in ("ids-sst", "quora", "sts"):
        for split in ("train", "dev"):
            (course / f"{stem}-{split}.csv").write_bytes(content)
    assert main(["study", "mops", "--data", "course", "-o", "x", "--dry-run"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "quora-dev.csv" in line
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("arguments", "finding"),
    [
        (["mpos", "-o", "x"], "did you mean 'mops'?"),
        (["mops"], "-o"),
        (["mops", "-o", "x", "--data", "nowhere"], "there is no such folder"),
        (["mops", "run.toml", "-o", "x"], "only `study sharing` takes a config"),
        (["sharing", "-o", "x"], "give your config"),
        (["sharing", "absent.toml", "-o", "x"], "no such file"),
        (["mops", "-o", "x", "--seeds", "0"], "1 or more"),
        (["mops", "-o", "x", "--set", "train.lrr=1"], "train.lrr is not a setting"),
        (["headline", "-o", "x"], "give --data DIR"),
        (["mops", "-o", "x", "--only", "subset"], "--only subset"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(
    arguments, finding, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["study", *arguments]) == 2
    said = capsys.readouterr().err
    assert finding in said
    assert "Traceback" not in said
    assert not (tmp_path / "x").exists()


STUDIES = ("hybrid", "mops", "progressive", "pals", "mastery", "headline")


def test_the_studies_are_listed(capsys):
    assert main(["study", "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in STUDIES)


@pytest.mark.slow
def test_sharing_recommends_a_plan_for_a_config(toy, capsys, monkeypatch):
    monkeypatch.chdir(toy.parent)
    before, _, after = toy.read_text().partition("[tasks.alike]")
    toy.write_text(before + after[after.index("[train]") :])  # two tasks: three plans
    short = ["--set", "train.steps_per_epoch=2", "--seeds", "1", "--engine", "local"]
    assert main(["study", "sharing", "toy.toml", "-o", "out", *short]) == 0
    assert "Take " in capsys.readouterr().out
    results = json.loads((toy.parent / "out" / "results.json").read_text())
    assert results["recommendation"]["plan"] in results["runs"]
    assert {claim["id"] for claim in results["claims"]} == {"share-all", "trend"}


def test_a_misspelt_study_is_answered_with_the_right_name_even_with_a_config(tmp_path, capsys):
    assert main(["study", "sharin", "run.toml", "-o", str(tmp_path / "out")]) == 2
    assert "did you mean 'sharing'" in capsys.readouterr().err
