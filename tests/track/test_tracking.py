"""Trackers record what the run itself has recorded, and never stop it."""

import json
import math
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cotrunk.cli.main import main
from cotrunk.errors import UserError
from cotrunk.track import follow
from cotrunk.track.mlflow import Mlflow
from cotrunk.track.tensorboard import TensorBoard
from cotrunk.track.tracker import Tracked
from toy import contents, prepared, train, train_until

CHANGES = ["train.max_steps=6", "train.evaluate=3", "train.checkpoint=2", "sharing.encoder=S2"]
TENSORBOARD = ['track.to=["tensorboard"]']
MLFLOW = ['track.to=["mlflow"]']


def recorded(run: Path) -> dict[str, list[tuple[int, float]]]:
    """The numbers in metrics.jsonl, by the names that trackers give them."""
    found: dict[str, list[tuple[int, float]]] = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        losses = record.get("loss", {}) if record["event"] == "step" else {}
        for task, value in losses.items():
            found.setdefault(f"loss/{task}", []).append((record["step"] + 1, value))
    return found


def in_tensorboard(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder)).Reload()
    return {
        tag: [(scalar.step, scalar.value) for scalar in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def in_mlflow(folder: Path, names: list[str]) -> dict[str, list[tuple[int, float]]]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("cotrunk")
    [run] = client.search_runs([experiment.experiment_id])
    return {
        name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)]
        for name in names
    }


def assert_same(one, other) -> None:
    assert one.keys() <= other.keys()
    for name, values in one.items():
        assert [step for step, _ in values] == [step for step, _ in other[name]]
        for (_, here), (_, there) in zip(values, other[name], strict=True):
            assert math.isclose(here, there, rel_tol=1e-5)


@pytest.mark.slow
def test_tensorboard_has_the_losses_and_dev_scores_of_the_run(toy, tmp_path):
    run = tmp_path / "run"
    assert train(toy, run, "--set", *CHANGES, *TENSORBOARD) == 0
    shown = in_tensorboard(run / "track" / "run")
    assert_same(recorded(run), shown)
    best = json.loads((run / "best" / "evaluation.json").read_text())
    score = best["scores"]["mood"]
    at_best = dict(shown[f"dev/mood/{score['metric']}"])[best["step"]]
    assert math.isclose(at_best, score["score"], rel_tol=1e-5)


@pytest.mark.slow
def test_a_killed_and_resumed_run_is_recorded_once(toy, tmp_path):
    run = tmp_path / "run"
    changes = [*CHANGES, *TENSORBOARD]
    train_until(toy, run, *changes, stop=5)
    assert train(toy, run, "--resume", "--set", *changes) == 0
    shown = in_tensorboard(run / "track" / "run")
    steps = [step for step, _ in shown["loss/mood"]]
    assert steps == sorted(set(steps))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of MLflow's own packages
def test_mlflow_has_the_losses_and_settings_of_the_run_and_goes_on_with_it(toy, tmp_path):
    run, place = tmp_path / "run", tmp_path / "tracked"
    changes = [*CHANGES, *MLFLOW, f"track.folder={place}"]
    train_until(toy, run, *changes, stop=4)
    assert train(toy, run, "--resume", "--set", *changes) == 0
    names = list(recorded(run))
    assert_same(recorded(run), in_mlflow(place, names))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of MLflow's own packages
def test_runs_that_start_together_share_a_database_and_a_resumed_one_runs(tmp_path):
    shared = tmp_path / "tracked"
    runs = [Tracked(tmp_path / f"{number}'s" / "run", 0, {}, shared) for number in range(6)]
    with ThreadPoolExecutor(len(runs)) as pool:
        trackers = list(pool.map(Mlflow, runs))
    found = [tracker.client.get_run(tracker.run).info for tracker in trackers]
    assert len({info.run_id for info in found}) == len(runs)
    assert len({info.experiment_id for info in found}) == 1
    again = Mlflow(replace(runs[0], step=1))
    info = again.client.get_run(again.run).info
    assert (info.run_id, info.status, info.end_time) == (trackers[0].run, "RUNNING", None)


@pytest.mark.slow
def test_tracking_changes_no_result(toy, tmp_path):
    assert train(toy, tmp_path / "plain", "--set", *CHANGES) == 0
    assert train(toy, tmp_path / "tracked", "--set", *CHANGES, *TENSORBOARD) == 0
    assert contents(tmp_path / "plain") == contents(tmp_path / "tracked")


class Broken:
    """Fails at one of its moments."""

    def __init__(self, moment: str) -> None:
        self.moment, self.told = moment, 0

    def __call__(self, _tracked):
        self._fail("start")
        return self

    def write(self, _event) -> None:
        self.told += 1
        self._fail("write")

    def close(self) -> None:
        self._fail("close")

    def _fail(self, now: str) -> None:
        if now == self.moment:
            raise OSError("no space left")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["start", "write", "close"])
def test_a_tracker_that_fails_is_told_once_and_training_goes_on(
    toy, tmp_path, capsys, monkeypatch, moment
):
    broken = Broken(moment)
    monkeypatch.setitem(follow.TRACKERS, "tensorboard", broken)
    assert train(toy, tmp_path / "run", "--set", *CHANGES, *TENSORBOARD) == 0
    said = capsys.readouterr().err
    assert said.count("tensorboard failed: no space left; training continues") == 1
    assert broken.told <= 1 or moment == "close"
    assert "UserWarning" not in said
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_a_tracker_that_fails_while_a_run_is_stopped_is_told_in_a_line(
    toy, tmp_path, capsys, monkeypatch
):
    broken = Broken("close")
    monkeypatch.setitem(follow.TRACKERS, "tensorboard", broken)
    monkeypatch.setattr(broken, "write", lambda _event: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(SystemExit) as ended:
        train(toy, tmp_path / "run", "--set", *CHANGES, *TENSORBOARD)
    assert ended.value.code == 143
    said = capsys.readouterr().err
    assert said.count("warning: track.to: tensorboard failed: no space left") == 1


def test_runs_of_one_name_are_apart_in_a_shared_folder(tmp_path):
    for place in ("a", "b"):
        run = tmp_path / place / "run"
        TensorBoard(Tracked(run, 0, {"train.lr": place}, tmp_path / "tracked")).close()
    assert len(list((tmp_path / "tracked").iterdir())) == 2


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_stops_no_training(toy, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    changes = [*CHANGES, *TENSORBOARD, f"track.folder={tmp_path / 'file'}"]
    assert train(toy, tmp_path / "run", "--set", *changes) == 0
    assert "tensorboard failed" in capsys.readouterr().err


def test_a_tracker_that_is_not_installed_is_refused_before_any_file_is_read(toy, monkeypatch):
    monkeypatch.setattr(follow, "find_spec", lambda _name: None)
    with pytest.raises(UserError, match=r"cotrunk\[tensorboard\]"):
        prepared(toy, *TENSORBOARD)


def test_an_unknown_tracker_is_refused_with_the_known_ones(toy, tmp_path, capsys):
    assert train(toy, tmp_path / "run", "--set", 'track.to=["wandb"]') == 2
    said = capsys.readouterr().err
    assert "track.to" in said
    assert "mlflow" in said
    assert not (tmp_path / "run").exists()
