"""Sweeps from end to end, killed in every way, with both engines."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sweeping import cluster, command, finished, results, run, trials_running, write_sweep

from toy import TOY, sentence, write_rows

pytestmark = [
    pytest.mark.slow,  # every trial is a process
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]
RAY = pytest.mark.ray
PAUSE = 0.05  # between looks at /proc, which would keep a core busy
SCORES = {"run", "choices", "seed", "state", "scores", "overall"}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A toy world for all tests of this file, in which a sweep has run undisturbed."""
    folder = tmp_path_factory.mktemp("world")
    random = np.random.default_rng(0)
    for split, count in (("train", 24), ("dev", 12)):
        rows = [[f"{split}{i}", sentence(random), i % 3] for i in range(count)]
        write_rows(folder / f"mood-{split}.csv", ["id", "sentence", "mood"], rows)
    start, end = TOY.index("[tasks.same]"), TOY.index("[train]")
    (folder / "toy.toml").write_text(TOY[:start] + TOY[end:])
    return folder


@pytest.fixture(scope="module")
def undisturbed(world):
    out = world / "undisturbed"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("COTRUNK_CACHE", str(world / "cache"))
        return out, run(write_sweep(world / "toy.toml"), out, "local")


@pytest.fixture(autouse=True)
def shared_cache(world, monkeypatch, own_cache):  # noqa: ARG001
    monkeypatch.setenv("COTRUNK_CACHE", str(world / "cache"))


def test_a_sweep_prints_its_trials_as_settled(undisturbed, world):
    out, document = undisturbed
    trials = document["trials"]
    assert [set(trial) for trial in trials] == [SCORES] * 3
    rates = [(trial["choices"]["train.lr"], trial["seed"]) for trial in trials]
    assert rates == [(0.001, 11711), (0.01, 11711), (0.1, 11711)]
    for trial in trials:
        assert trial["state"] == "finished"
        saved = json.loads((Path(trial["run"]) / "best/evaluation.json").read_text())
        assert trial["scores"] == saved["scores"]
        assert trial["overall"].items() <= saved["overall"].items()
        record = json.loads((Path(trial["run"]) / "trial.json").read_text())
        assert (record["choices"], record["seed"]) == (trial["choices"], trial["seed"])
    before = finished(out)
    assert run(world / "sweep.toml", out, "local") == document
    assert finished(out) == before


def kill_halfway(file: Path, out: Path, engine: str, scratch: Path) -> dict[str, tuple[int, int]]:
    """Kills a sweep once a trial is finished; returns what was finished by then."""
    with subprocess.Popen(
        command(file, out, engine), env=dict(os.environ, TMPDIR=str(scratch)),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as driver:  # fmt: skip
        assert driver.stderr is not None
        while ": finished" not in driver.stderr.readline():
            assert driver.poll() is None
        driver.kill()
        killed = time.monotonic()
    while trials_running(out):
        assert time.monotonic() < killed + 10, "a trial outlived its sweep"
        time.sleep(PAUSE)
    return finished(out)


def spoil(scratch: Path) -> None:
    """Truncate all that Ray has left behind."""
    for path in scratch.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=RAY)])
def test_a_sweep_that_is_killed_goes_on_and_loses_nothing(undisturbed, world, tmp_path, engine):
    """First the command is killed, then Ray's files are spoilt, then a trial is killed."""
    out = tmp_path / "out"
    with tempfile.TemporaryDirectory(prefix="ct", dir="/tmp") as scratch:  # Ray needs short paths
        done = kill_halfway(world / "sweep.toml", out, engine, Path(scratch))
        spoil(Path(scratch))
    assert 1 <= len(done) < 3
    document = kill_a_trial(world / "sweep.toml", out, engine)
    assert {name: finished(out)[name] for name in done} == done
    assert results(out) == results(undisturbed[0])
    expected = [trial["scores"] for trial in undisturbed[1]["trials"]]
    assert [trial["scores"] for trial in document["trials"]] == expected
    assert {trial["state"] for trial in document["trials"]} == {"finished"}


def kill_a_trial(file: Path, out: Path, engine: str) -> dict[str, Any]:
    """Goes on with a sweep and kills one of its trials; the document it prints in the end."""
    with subprocess.Popen(
        command(file, out, engine, "--json"),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as driver:  # fmt: skip
        victims: list[int] = []
        while not victims:
            victims = [pid for pid in trials_running(out) if is_trial(pid)]
            assert driver.poll() is None
            time.sleep(PAUSE)
        os.kill(victims[0], signal.SIGKILL)
        said, _ = driver.communicate(timeout=600)
    assert driver.returncode == 0
    return json.loads(said)


def is_trial(pid: int) -> bool:
    """The parent of a trial also holds its log open."""
    try:
        return b"study.sweep.fork_server" in (Path("/proc") / str(pid) / "cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize(
    ("where", "number"),
    [("local", signal.SIGINT), pytest.param("ray", signal.SIGTERM, marks=RAY)],
)
def test_a_signal_stops_the_trials_with_checkpoints(world, tmp_path, where, number):
    out = tmp_path / "out"
    with cluster() if where == "ray" else nullcontext(where) as engine:
        stop_halfway(world, tmp_path, engine, number)
    assert len(list(out.glob("*/checkpoints/step-*/manifest.json"))) == 1
    assert not trials_running(out)


def stop_halfway(world: Path, tmp_path: Path, engine: str, number: int) -> None:
    out = tmp_path / "out"
    text = f'base = "{world / "toy.toml"}"\n[overrides]\n"train.checkpoint" = "never"\n'
    file = write_sweep(tmp_path / "toy.toml", text + '[axes]\n"train.epochs" = [9000]\n')
    with subprocess.Popen(
        command(file, out, engine), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as driver:
        while not list(out.glob("*/metrics.jsonl")):
            assert driver.poll() is None
            time.sleep(PAUSE)
        driver.send_signal(number)
        _, said = driver.communicate(timeout=600)
    assert driver.returncode == 128 + number, said
    assert "repeat the command to continue" in said


def test_a_failed_trial_is_shown_and_the_others_go_on(world, tmp_path):
    axis = '[axes]\n"tasks.mood.train" = ["mood-train.csv", "bad.csv"]\n'
    text = f'base = "{world / "toy.toml"}"\n{axis}'
    (world / "bad.csv").write_text("id,sentence,mood\n1,fine,9\n")
    file = write_sweep(tmp_path / "toy.toml", text)
    document = run(file, tmp_path / "out", "local", code=1)
    good, bad = document["trials"]
    assert (good["state"], bad["state"]) == ("finished", "failed")
    (world / "bad.csv").write_text("id,sentence,mood\n1,fine,2\n2,bad,1\n")
    before = finished(tmp_path / "out")
    document = run(file, tmp_path / "out", "local")
    assert [trial["state"] for trial in document["trials"]] == ["finished"] * 2
    assert before.items() <= finished(tmp_path / "out").items()


def test_settings_that_changed_under_a_run_are_refused_and_a_sweep_may_grow(
    undisturbed, world, tmp_path
):
    out, document = undisturbed
    text = (world / "sweep.toml").read_text().replace("toy.toml", str(world / "toy.toml"))
    other = write_sweep(
        tmp_path / "toy.toml", text.replace('"train.epochs" = 4', '"train.epochs" = 3')
    )
    said = run(other, out, "local", code=2)["said"]
    assert "train.epochs: was 4, is now 3" in said
    smaller = write_sweep(tmp_path / "toy.toml", text.replace(", 0.1]", "]"))
    assert run(smaller, out, "local")["trials"] == document["trials"][:2]


ASHA = """
base = "toy.toml"
max_concurrent = 2
scheduler = "asha"
objective = "mood"
asha = { grace = 1, reduction = 2 }
[overrides]
"train.epochs" = 4
[axes]
"train.lr" = [0.01, 1e-7]
"""


def test_asha_stops_the_same_trials_however_many_run_at_once(world, tmp_path):
    text = ASHA.replace("toy.toml", str(world / "toy.toml"))
    two = write_sweep(tmp_path / "toy.toml", text)
    document = run(two, tmp_path / "two", "local")
    states = [trial["state"] for trial in document["trials"]]
    assert states[0] == "finished"
    one = write_sweep(tmp_path / "toy.toml", text.replace("concurrent = 2", "concurrent = 1"))
    alone = run(one, tmp_path / "one", "local")
    assert [trial["state"] for trial in alone["trials"]] == states
    assert results(tmp_path / "one") == results(tmp_path / "two")


TPE = """
base = "toy.toml"
max_concurrent = 2
search = "tpe"
trials = 2
[overrides]
"train.max_steps" = 2
[axes]
"train.lr" = { log_uniform = [1e-4, 1e-1] }
"""


def test_tpe_goes_on_from_the_runs_it_finds(world, tmp_path):
    text = TPE.replace("toy.toml", str(world / "toy.toml"))
    file = write_sweep(tmp_path / "toy.toml", text)
    document = run(file, tmp_path / "out", "local")
    assert len({trial["choices"]["train.lr"] for trial in document["trials"]}) == 2
    before = finished(tmp_path / "out")
    more = write_sweep(tmp_path / "toy.toml", text.replace("trials = 2", "trials = 3"))
    longer = run(more, tmp_path / "out", "local")
    assert longer["trials"][:2] == document["trials"]
    assert len(longer["trials"]) == 3
    assert before.items() <= finished(tmp_path / "out").items()
