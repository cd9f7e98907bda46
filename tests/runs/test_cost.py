"""What a run costs: phases that add up over sessions, epochs, memory."""

import json
import os
import subprocess
import sys

import pytest

from cotrunk.runs.cost import PHASES, WRITE_EVERY, Meter, cpu_seconds, peak_memory, read_cost
from cotrunk.runs.folder import RunFolder
from toy import train_until


class Clockwork:
    """A clock that only moves when it is told to."""

    def __init__(self, monkeypatch) -> None:
        self.time = 0.0
        monkeypatch.setattr("cotrunk.runs.cost.time.monotonic", lambda: self.time)
        monkeypatch.setattr("cotrunk.runs.cost.cpu_seconds", lambda: 2 * self.time)

    def spend(self, seconds: float) -> None:
        self.time += seconds


@pytest.fixture
def clock(monkeypatch) -> Clockwork:
    return Clockwork(monkeypatch)


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    return RunFolder(tmp_path)


def test_an_inner_phase_interrupts_the_outer_one(clock, folder):
    meter = Meter(folder)
    with meter.phase("evaluate"):
        clock.spend(3)
        with meter.phase("save"):
            clock.spend(5)
        clock.spend(4)
    meter.start_writing()
    cost = read_cost(folder)
    assert cost.seconds == dict.fromkeys(PHASES, 0.0) | {"evaluate": 7.0, "save": 5.0}
    assert cost.cpu_seconds == dict.fromkeys(PHASES, 0.0) | {"evaluate": 14.0, "save": 10.0}


def test_time_between_phases_costs_nothing(clock, folder):
    meter = Meter(folder)
    meter.start_writing()
    for _ in range(3):
        with meter.phase("train", stage=0, epoch=0):
            clock.spend(1)
        clock.spend(100)
    meter.write()
    assert sum(read_cost(folder).seconds.values()) == 3.0


def test_what_was_spent_in_a_phase_is_written_while_it_lasts(clock, folder):
    meter = Meter(folder)
    meter.start_writing()
    with meter.phase("encode"):
        for _ in range(10):
            clock.spend(WRITE_EVERY)
            meter.tick()
        clock.spend(1)
        meter.tick()
        assert read_cost(folder).seconds["encode"] == 10 * WRITE_EVERY  # what a kill would leave


def test_nothing_is_written_before_the_run_has_a_folder(clock, folder):
    meter = Meter(folder)
    with meter.phase("prepare"):
        clock.spend(60)
        meter.tick()
    assert not folder.timing.exists()
    meter.start_writing()
    assert read_cost(folder).seconds["prepare"] == 60.0


def test_sessions_add_up_and_epochs_are_counted_by_stage(clock, folder):
    for stage, epoch, seconds in ((0, 0, 5), (0, 1, 7), (12, 0, 3), (0, 1, 2)):
        meter = Meter(folder)
        meter.start_writing()
        with meter.phase("train", stage=stage, epoch=epoch):
            clock.spend(seconds)
        meter.write()
    cost = read_cost(folder)
    assert cost.seconds["train"] == 17.0
    assert list(cost.epochs) == [5.0, 9.0, 3.0]
    assert list(cost.followed) == [5.0]


def test_cpu_seconds_count_processes_that_have_ended():
    busy = "import hashlib; [hashlib.sha256(bytes(10**6)).digest() for _ in range(50)]"
    before, before_all = os.times(), cpu_seconds()
    subprocess.run([sys.executable, "-c", busy], check=True)
    now = os.times()
    spent = now.children_user + now.children_system
    spent -= before.children_user + before.children_system
    assert spent > 0
    assert cpu_seconds() - before_all >= spent - 0.02  # os.times() counts in ticks


def test_peak_memory_is_in_bytes_and_never_falls():
    before = peak_memory()
    grown = bytearray(64 << 20)
    grown[::4096] = b"x" * len(grown[::4096])
    after = peak_memory()
    del grown
    assert peak_memory() >= after >= max(before, 64 << 20)


def test_a_run_without_costs_has_none(folder):
    cost = read_cost(folder)
    assert set(cost.seconds.values()) == {0.0}
    assert cost.peak_memory is None
    assert list(cost.epochs) == []


@pytest.mark.slow
def test_a_run_that_was_cut_off_counts_as_far_as_it_got_and_goes_on_from_there(toy, tmp_path):
    run = RunFolder(tmp_path / "run")
    train_until(toy, run.path, "train.checkpoint=2", stop=7)
    before = read_cost(run)
    assert all(before.seconds[phase] > 0 for phase in ("prepare", "train", "evaluate", "save"))
    assert len(before.epochs) == 2
    train_until(toy, run.path, "train.checkpoint=2")
    after = read_cost(run)
    assert all(after.seconds[p] > before.seconds[p] for p in PHASES if p != "encode")
    assert sum(after.epochs) == pytest.approx(after.seconds["train"])
    assert after.epochs[0] == before.epochs[0]


@pytest.mark.slow
def test_only_the_run_that_fills_the_cache_pays_for_encoding(toy, tmp_path):
    frozen = ["train.freeze=encoder", "sharing.encoder=S2", "train.max_steps=2"]
    for name in ("first", "second"):
        train_until(toy, tmp_path / name, *frozen)
    first, second = (read_cost(RunFolder(tmp_path / name)) for name in ("first", "second"))
    assert first.seconds["encode"] > 0
    assert second.seconds["encode"] == 0
    record = json.loads((tmp_path / "first" / "run.json").read_text())["parameters"]
    assert 0 < record["trained"] < record["total"]


@pytest.mark.slow
def test_costs_are_not_in_the_metrics_that_must_be_equal(toy, tmp_path):
    for name in ("one", "two"):
        train_until(toy, tmp_path / name, "train.max_steps=2")
    metrics = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("one", "two")]
    assert metrics[0] == metrics[1]
    assert b"seconds" not in metrics[0]
