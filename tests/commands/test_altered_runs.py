"""Run folders in which somebody exchanged or rewrote files, with hashes that fit."""

import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from sealing import seal, sign

from cotrunk.cli.main import main
from toy import train, write_toy

STEPS = ["train.max_steps=6", "train.checkpoint=2", "train.evaluate=2"]
FILES = ["run.json", "seal.json", "findings.json", "metrics.jsonl", "timing.jsonl", ".lock"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A finished run beside its config, for reading only."""
    config = write_toy(tmp_path_factory.mktemp("altered"))
    with pytest.MonkeyPatch.context() as environment, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of guards: six steps train nothing
        environment.setenv("COTRUNK_CACHE", str(config.parent / "cache"))
        assert train(config, config.parent / "run", "--set", *STEPS) == 0
    return config.parent / "run"


@pytest.fixture
def run(whole, tmp_path, monkeypatch) -> Path:
    """A copy that may be changed."""
    monkeypatch.setenv("COTRUNK_CACHE", str(whole.parent / "cache"))
    return Path(shutil.copytree(whole, tmp_path / "copy"))


@pytest.fixture
def resume(cotrunk, whole) -> Callable[[Path], object]:
    config = whole.parent / "toy.toml"
    return lambda run: cotrunk("train", config, "--out", run, "--resume", "--set", *STEPS)


def refused(said, *parts: str) -> None:
    assert said.code == 2
    [line] = said.err.splitlines()
    assert line.isprintable()
    assert all(part in line for part in parts), line


def replace(file: Path, how: str) -> None:
    if file.is_file():
        file.unlink()
    match how:
        case "pipe":
            os.mkfifo(file)
        case "device":
            file.symlink_to("/dev/zero")
        case "folder":
            file.mkdir()
        case "huge":
            with file.open("wb") as made:
                made.truncate(2**40)  # sparse: it takes no space


SPECIAL = ["pipe", "device", "folder", "huge"]


def newest(run: Path) -> Path:
    return max((run / "checkpoints").iterdir())


def alter_state(run: Path, change: Callable[[dict], object]) -> None:
    file = newest(run) / "state.json"
    state = json.loads(file.read_bytes())
    change(state)
    file.write_text(json.dumps(state))
    seal(newest(run))


def rewrite_evaluation(run: Path, change: Callable[[dict], object]) -> None:
    file = run / "best" / "evaluation.json"
    content = json.loads(file.read_bytes())
    change(content)
    file.write_text(json.dumps(content))
    seal(run / "best")


@pytest.mark.parametrize("how", SPECIAL)
@pytest.mark.parametrize("name", FILES[:-1])
def test_verify_reports_what_is_not_a_file_of_a_run(cotrunk, run, name, how):
    replace(run / name, how)
    said = cotrunk("verify", run, "--json")
    assert said.code == 1
    assert name in [each["file"] for each in said.document["damaged"]]


@pytest.mark.parametrize("how", SPECIAL[:-1])
@pytest.mark.parametrize("name", FILES)
def test_resume_refuses_what_is_not_a_file_of_a_run(run, resume, name, how):
    replace(run / name, how)
    refused(resume(run), str(run))
    assert not (run / name).is_file()


@pytest.mark.parametrize("name", ["run.json", "metrics.jsonl"])
def test_resume_refuses_a_file_that_is_far_too_large(run, resume, name):
    replace(run / name, "huge")
    refused(resume(run), name, "bytes", "backup")


@pytest.mark.parametrize("how", SPECIAL)
@pytest.mark.parametrize("name", ["run.json", "metrics.jsonl", "timing.jsonl"])
def test_info_refuses_what_is_not_a_file_of_a_run(cotrunk, run, name, how):
    replace(run / name, how)
    refused(cotrunk("info", run), str(run))


@pytest.mark.parametrize("how", SPECIAL)
def test_a_run_with_an_odd_lock_counts_as_stopped(cotrunk, run, how):
    shutil.rmtree(run / "final")
    replace(run / ".lock", how)
    said = cotrunk("compare", run, "--json")
    assert said.code == 0
    assert "stopped" in said.out


@pytest.mark.parametrize("how", SPECIAL)
def test_a_manifest_that_is_not_a_file_is_damage(cotrunk, run, how):
    replace(run / "best" / "manifest.json", how)
    said = cotrunk("verify", run, "--json")
    assert said.code == 1
    assert "best/manifest.json" in [each["file"] for each in said.document["damaged"]]
    refused(cotrunk("info", run), "manifest.json")


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("task_best"),
        lambda state: state.pop("best"),
        lambda state: state.update(step=None),
        lambda state: state.update(step=-2.5),
        lambda state: state.update(step=3),
        lambda state: state.update(chosen="aaa"),
        lambda state: state.update(best_step="1"),
        lambda state: state["task_best"].update(mood=[]),
        lambda state: state.update(stale={"mood": -1}),
        lambda state: state.update(metrics_bytes=-1),
    ],
)
def test_a_checkpoint_whose_state_is_not_one_is_damaged(run, resume, change):
    before = (run / "final" / "model.safetensors").read_bytes()
    alter_state(run, change)
    name = newest(run).name
    said = resume(run)
    assert said.code == 0
    assert f"{name} is damaged: state.json" in said.err
    assert "using step-00000004" in said.err
    assert (run / "final" / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    "changes",
    [
        {"folders": -1},
        {"folders": {"../..": "0"}},
        {"files": {"metrics.jsonl": {"bytes": "7", "sha256": "0"}}},
        {"files": {"metrics.jsonl": {"bytes": [7], "sha256": "0"}}},
        {"files": {"/etc/passwd": {"bytes": 1, "sha256": "0"}}},
        {"finished": None},
    ],
)
def test_a_seal_of_other_types_is_damaged(cotrunk, run, resume, changes):
    sign(run, **changes)
    said = cotrunk("verify", run, "--json")
    assert said.code == 1
    assert "seal.json" in [each["file"] for each in said.document["damaged"]]
    assert resume(run).code == 0
    assert cotrunk("verify", run).code == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seconds", None),
        ("seconds", "1"),
        ("cpu_seconds", [1]),
        ("peak_memory", 1.5),
        ("peak_memory", 10**400),
        ("seconds", -1),
        ("epoch", None),
    ],
)
def test_costs_of_other_types_are_refused_with_their_line(cotrunk, run, key, value):
    lines = (run / "timing.jsonl").read_text().splitlines()
    numbers = [number for number, line in enumerate(lines) if '"cost"' in line]
    lines[numbers[-1]] = json.dumps(json.loads(lines[numbers[-1]]) | {key: value})
    (run / "timing.jsonl").write_text("\n".join(lines) + "\n")
    refused(cotrunk("info", run), f"timing.jsonl:{numbers[-1] + 1}: {key}")


def test_a_cost_without_its_seconds_is_refused(cotrunk, run):
    with (run / "timing.jsonl").open("a") as file:
        file.write('{"event": "cost", "phase": "train"}\n')
    refused(cotrunk("info", run), "timing.jsonl", "seconds is missing")


def test_metrics_of_other_types_are_refused_with_their_line(cotrunk, run):
    count = len((run / "metrics.jsonl").read_text().splitlines())
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"event": "dev", "step": 6, "scores": {"mood": 1}}\n')
    refused(cotrunk("info", run), f"metrics.jsonl:{count + 1}: scores.mood")


@pytest.mark.parametrize(
    ("change", "entry"),
    [
        (lambda found: found["scores"].update(mood=1e308), "scores.mood"),
        (lambda found: found["scores"]["mood"].pop("unit"), "scores.mood.unit"),
        (lambda found: found["scores"]["mood"].update(rows="many"), "scores.mood.rows"),
        (lambda found: found["scores"].pop("mood"), "mood"),
        (lambda found: found.update(overall={}), "overall.official"),
        (lambda found: found.update(step=None), "step"),
    ],
)
def test_scores_of_other_types_are_refused(cotrunk, run, change, entry):
    rewrite_evaluation(run, change)
    refused(cotrunk("info", run), "best/evaluation.json", entry)


@pytest.mark.parametrize("changes", [{"parameters": 7}, {"parameters": {}}, {"data": {"dev": 1}}])
def test_a_record_of_other_types_is_refused(cotrunk, run, resume, changes):
    file = run / "run.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | changes))
    refused(cotrunk("info", run), "run.json", next(iter(changes)))
    refused(resume(run), "run.json", next(iter(changes)))


def trimmed(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    (run / "metrics.jsonl").unlink()


def only_saved(run: Path) -> None:
    for path in run.iterdir():
        if path.name == ".lock" or path.is_file():
            path.unlink()
    shutil.rmtree(run / "checkpoints")


@pytest.mark.parametrize(
    ("change", "target"),
    [
        (trimmed, "best/model.safetensors"),
        (trimmed, "new.csv"),
        (lambda run: (run / "run.json").unlink(), "final/model.safetensors"),
        (lambda run: replace(run / "run.json", "pipe"), "best/model.safetensors"),
        (only_saved, "best/model.safetensors"),
    ],
)
def test_predictions_never_go_into_what_is_left_of_a_run(cotrunk, whole, run, change, target):
    change(run)
    before = (run / target).read_bytes() if (run / target).exists() else None
    rows = whole.parent / "mood-dev.csv"
    said = cotrunk("predict", whole, rows, "--task", "mood", "-o", run / target, "--format", "csv")
    refused(said, "inside the run", "choose a path outside it")
    assert ((run / target).read_bytes() if (run / target).exists() else None) == before


def test_predictions_never_go_into_the_run_that_makes_them(cotrunk, whole, run):
    (run / "seal.json").unlink()
    (run / "final" / "manifest.json").unlink()
    trimmed(run)
    link = run.with_name("link")
    link.symlink_to(run)
    rows = whole.parent / "mood-dev.csv"
    said = cotrunk("predict", link, rows, "--task", "mood", "-o", run / "final" / "x.csv")
    refused(said, "inside the run")


@pytest.mark.parametrize("split", ["train", "dev"])
def test_predictions_never_replace_the_data_of_their_run(cotrunk, whole, run, tmp_path, split):
    rows = tmp_path / "rows.csv"
    shutil.copy(whole.parent / "mood-dev.csv", rows)
    data = whole.parent / f"mood-{split}.csv"
    before = data.read_bytes()
    said = cotrunk("predict", run, rows, "--task", "mood", "-o", data)
    refused(said, data.name, split, "mood")
    assert data.read_bytes() == before


def test_a_manifest_of_another_program_is_not_a_run(tmp_path, whole, run, capsys):
    (tmp_path / "manifest.json").write_text("{}")
    rows, target = whole.parent / "mood-dev.csv", tmp_path / "answers.csv"
    assert main(["predict", str(run), str(rows), "--task", "mood", "-o", str(target)]) == 0
    assert target.is_file()
    assert "wrote" in capsys.readouterr().err
