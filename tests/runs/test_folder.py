import json
import math
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from cotrunk.errors import UserError, for_command_line
from cotrunk.runs.checkpoint import CheckpointError, read_checkpoint
from cotrunk.runs.folder import RunFolder


@pytest.fixture
def run(tmp_path):
    return RunFolder.create(tmp_path / "run")


STATE = {"evaluated": -1, "best": None, "best_step": -1, "skipped": 0, "task_best": {}, "stale": {}}


def save(run, step, keep=2):
    weight = torch.full((100,), step)
    documents = {"state": {"step": step, **STATE}}
    return run.save_step(step, {"model": {"weight": weight}}, documents, keep=keep)


def kept(run):
    return sorted(os.listdir(run.checkpoints))


def flip_last_bit(file):
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def python(script, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_folder_without_settings_is_not_a_run(tmp_path):
    with pytest.raises(UserError, match=r"is not a run: it has no run\.json; give a folder"):
        RunFolder.open(tmp_path)


def test_python_and_the_command_line_name_their_own_way_to_write_a_run(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UserError) as caught:
            RunFolder.open(path)
        assert str(caught.value).endswith("written by `cotrunk.train`")
        assert for_command_line(caught.value.lines[0]).endswith("written by `cotrunk train`")


def test_a_run_is_a_run_once_its_settings_are_written(run):
    run.write_document("run", {"seed": 1})
    assert RunFolder.open(run.path).read_document("run") == {"seed": 1}


def test_creating_is_repeatable_until_there_are_settings_to_lose(run):
    RunFolder.create(run.path)
    run.write_document("run", {})
    with pytest.raises(UserError, match="already has a run"):
        RunFolder.create(run.path)


def test_a_run_cannot_be_made_where_a_file_is(tmp_path):
    (tmp_path / "file").write_text("")
    for place in ("file", "file/run"):
        with pytest.raises(UserError, match=r"cannot create the run folder: .*file is a file"):
            RunFolder.create(tmp_path / place)


@pytest.mark.parametrize("inside", ["best", "checkpoints/mine", "new"])
def test_a_run_is_not_made_inside_another(run, inside):
    run.write_document("run", {})
    with pytest.raises(UserError, match="is inside the run"):
        RunFolder.create(run.path / inside)
    assert not (run.path / inside).exists()


@pytest.mark.parametrize("name", ["best", "final", "best-sst", "checkpoints/step-1"])
def test_a_run_is_not_made_over_folders_that_another_may_want(tmp_path, name):
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(UserError, match=rf"has no run\.json, but a run would overwrite .*{name}"):
        RunFolder.create(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [name.split("/")[0]]


@pytest.mark.parametrize("name", ["run.json", "../run", "/etc/passwd", "a/b", "", "a\n", "A"])
def test_a_document_is_named_by_a_bare_word(run, name):
    with pytest.raises(ValueError, match="must be a name like"):
        run.write_document(name, {})


def test_a_missing_or_broken_document_is_said_in_one_line(run):
    with pytest.raises(UserError, match=r"has no scores\.json"):
        run.read_document("scores")
    (run.path / "scores.json").write_text("{")
    with pytest.raises(UserError, match=r"scores\.json is not JSON"):
        run.read_document("scores")


@contextmanager
def no_file_longer_than(count: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_document_that_cannot_be_written_leaves_the_old_one(run):
    run.write_document("scores", {"a": 1})
    with no_file_longer_than(4), pytest.raises(OSError, match=r"File too large: .*scores\.json'"):
        run.write_document("scores", {"a": 2})
    assert run.read_document("scores") == {"a": 1}
    run.write_document("scores", {"a": 3})
    assert run.read_document("scores") == {"a": 3}
    assert not list(run.path.glob("scores.json.*"))


HOLD_THE_LOCK = """
import sys
from pathlib import Path
from cotrunk.runs.folder import RunFolder

with RunFolder(Path(sys.argv[1])).lock():
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    "enter", [RunFolder.create, lambda path: RunFolder(path).lock().__enter__()]
)
def test_a_second_process_is_told_who_writes_and_kill_9_frees_the_lock(run, enter):
    command = [sys.executable, "-c", HOLD_THE_LOCK, str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"locked\n"
        start = time.monotonic()
        with pytest.raises(UserError) as caught:
            enter(run.path)
        assert time.monotonic() - start < 1
        assert f"process {holder.pid} on {socket.gethostname()}" in str(caught.value)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with run.lock():
            pass


def test_the_lock_is_free_after_an_error_and_says_who_holds_it_next(run):
    with pytest.raises(ZeroDivisionError), run.lock():
        raise ZeroDivisionError
    with run.lock(), pytest.raises(UserError, match=f"process {os.getpid()} on"), run.lock():
        pass


def test_a_folder_that_was_deleted_cannot_be_locked(run):
    os.rename(run.path, run.path.with_name("elsewhere"))
    with pytest.raises(UserError, match="cannot write to it: No such file"), run.lock():
        pass


def test_metrics_come_back_as_written_except_that_nan_is_null(run):
    run.append_metrics({"step": 1, "loss": 0.1 + 0.2, "deep": {"a": [math.nan, (math.inf,)]}})
    run.append_metrics({"step": 2, "note": "a\nb\u2028"})
    assert run.read_metrics() == [
        {"step": 1, "loss": 0.1 + 0.2, "deep": {"a": [None, [None]]}},
        {"step": 2, "note": "a\nb\u2028"},
    ]


def test_metrics_keep_the_order_of_their_keys(run):
    run.append_metrics({"b": 1, "a": {"d": 2, "c": 3}})
    assert run.metrics.read_bytes() == b'{"b": 1, "a": {"d": 2, "c": 3}}\n'


def test_a_run_without_metrics_has_none(run):
    assert run.read_metrics() == []
    assert run.metrics_entry().bytes == 0
    run.truncate_metrics(0)
    assert run.metrics.read_bytes() == b""


@pytest.mark.parametrize("cut", [1, 5, 9])
def test_a_half_written_last_line_is_ignored_and_then_overwritten(run, cut):
    for step in range(3):
        run.append_metrics({"step": step})
    whole = run.metrics.read_bytes()
    os.truncate(run.metrics, len(whole) - cut)
    assert run.read_metrics() == [{"step": 0}, {"step": 1}]
    run.append_metrics({"step": 2})
    assert run.metrics.read_bytes() == whole


def test_a_resumed_run_continues_the_metrics_exactly(run):
    lengths = []
    for step in range(5):
        lengths.append(run.metrics_entry().bytes)
        run.append_metrics({"step": step})
    unbroken = run.metrics.read_bytes()
    os.truncate(run.metrics, len(unbroken) - 3)
    run.truncate_metrics(lengths[2])
    assert [record["step"] for record in run.read_metrics()] == [0, 1]
    for step in range(2, 5):
        run.append_metrics({"step": step})
    assert run.metrics.read_bytes() == unbroken


def test_truncating_inside_a_line_cuts_the_whole_line(run):
    run.append_metrics({"step": 0})
    run.append_metrics({"step": 1})
    run.truncate_metrics(run.metrics_entry().bytes - 1)
    assert run.read_metrics() == [{"step": 0}]


def test_metrics_that_lost_lines_cannot_be_continued(run):
    run.append_metrics({"step": 0})
    with pytest.raises(UserError, match=r"is shorter than at the checkpoint .* not 99"):
        run.truncate_metrics(99)


def test_a_broken_line_in_the_middle_is_named(run):
    run.metrics.write_text('{"step": 0}\n{"st\n{"step": 2}\n')
    with pytest.raises(UserError, match=r"metrics\.jsonl:2: not JSON"):
        run.read_metrics()


def test_wall_times_stay_out_of_the_metrics(run):
    run.append_timing({"step": 1, "seconds": 0.5})
    assert run.read_metrics() == []
    assert json.loads(run.timing.read_text()) == {"step": 1, "seconds": 0.5}


def test_a_full_disk_is_an_error_that_names_the_metrics(run):
    run.metrics.unlink()
    run.metrics.symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left on device: .*metrics\.jsonl"):
        run.append_metrics({"step": 1})


def test_a_run_deleted_in_the_middle_is_a_clean_error(run):
    os.rename(run.path, run.path.with_name("elsewhere"))
    with pytest.raises(FileNotFoundError, match=r"metrics\.jsonl"):
        run.append_metrics({"step": 1})
    with pytest.raises(CheckpointError, match=r"could not be written: .*No such file"):
        save(run, 1)
    assert not run.path.exists()


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_only_the_newest_checkpoints_are_kept(run, keep):
    for step in (0, 5, 10, 100_000_000):
        save(run, step, keep=keep)
    names = ["step-00000000", "step-00000005", "step-00000010", "step-100000000"]
    assert set(kept(run)) == set(names[-keep:])
    assert run.latest_good()[0].documents["state"]["step"] == 100_000_000


def test_keeping_no_checkpoint_is_refused(run):
    with pytest.raises(ValueError, match="keep = 0"):
        save(run, 1, keep=0)


def test_a_run_without_checkpoints_has_no_good_one(run):
    assert run.latest_good() == (None, [])


def test_a_damaged_checkpoint_is_skipped_with_one_line_for_the_one_before(run):
    for step in (1, 2, 3):
        save(run, step, keep=3)
    flip_last_bit(run.step(3) / "model.safetensors")
    state = run.step(2) / "state.json"
    size = state.stat().st_size
    state.unlink()
    good, warnings = run.latest_good()
    assert good.documents["state"]["step"] == 1
    assert len(warnings) == 2
    assert (
        "checkpoints/step-00000003 is damaged: model.safetensors: expected SHA-256" in warnings[0]
    )
    assert warnings[1].endswith(
        f"state.json: expected {size} bytes, found no such file; using step-00000001"
    )
    assert not any("\n" in warning for warning in warnings)


def test_nothing_is_good_when_all_are_damaged(run):
    flip_last_bit(save(run, 1) / "state.json")
    good, warnings = run.latest_good()
    assert good is None
    assert [warning.endswith("; there is no older checkpoint") for warning in warnings] == [True]


def test_a_save_after_falling_back_drops_the_damaged_future_and_not_itself(run):
    save(run, 1)
    flip_last_bit(save(run, 9) / "model.safetensors")
    save(run, 5, keep=1)
    assert kept(run) == ["step-00000005"]


def test_a_truncated_checkpoint_does_not_count_as_one_to_keep(run):
    save(run, 1)
    os.truncate(save(run, 2) / "model.safetensors", 10)
    save(run, 3)
    assert kept(run) == ["step-00000001", "step-00000003"]


def test_saving_clears_what_killed_saves_left(run):
    (run.checkpoints / "step-00000001.tmp").mkdir()
    (run.checkpoints / "step-00000002.old").mkdir()
    save(run, 3)
    assert kept(run) == ["step-00000003"]


def test_a_checkpoint_whose_replacement_was_killed_is_still_found(run):
    save(run, 1).rename(run.checkpoints / "step-00000001.old")
    good, warnings = run.latest_good()
    assert (good.documents["state"]["step"], warnings) == (1, [])


@pytest.mark.slow
def test_a_failed_save_leaves_the_older_checkpoints_and_the_metrics(run):
    run.append_metrics({"step": 1})
    save(run, 1)
    save(run, 2)
    script = """
import resource, sys
from pathlib import Path
import torch
from cotrunk.runs.folder import RunFolder

resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
RunFolder(Path(sys.argv[1])).save_step(3, {"model": {"weight": torch.zeros(5000)}}, {})
"""
    with python(script, run.path) as child:
        _, errors = child.communicate()
    assert child.returncode == 1
    assert "CheckpointError" in errors
    assert "File too large" in errors
    assert kept(run) == ["step-00000001", "step-00000002"]
    assert run.latest_good()[0].documents["state"]["step"] == 2
    assert run.read_metrics() == [{"step": 1}]


SAVE_AND_GET_KILLED_20_TIMES = """
import json, os, random, signal, sys, time
from pathlib import Path
import safetensors.torch, torch
from cotrunk.runs.folder import RunFolder

run, chance = RunFolder.create(Path(sys.argv[1])), random.Random(int(sys.argv[2]))

def save_forever(step):
    while True:
        step += 1
        run.append_metrics({"step": step})
        state = json.loads(sys.argv[3]) | {"step": step, "metrics": run.metrics_entry().bytes}
        documents = {"state": state}
        run.save_step(step, {"model": {"weight": torch.full((5000,), step)}}, documents)
        os.write(ready, b".")

step = 0
for _ in range(20):
    started, ready = os.pipe()
    child = os.fork()
    if not child:
        with run.lock():
            save_forever(step)
    os.read(started, 1)
    end = time.monotonic() + chance.uniform(0, 0.02)
    while time.monotonic() < end:
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(started), os.close(ready)
    checkpoint, warnings = run.latest_good()
    assert not warnings, warnings
    assert checkpoint.documents["state"]["step"] > step
    step = checkpoint.documents["state"]["step"]
    assert checkpoint.tensors("model")["weight"].unique().tolist() == [step]
    run.truncate_metrics(checkpoint.documents["state"]["metrics"])
    assert run.read_metrics() == [{"step": s} for s in range(1, step + 1)]
print("survived")
"""


@pytest.mark.slow
def test_after_kill_9_at_20_random_moments_the_newest_checkpoint_is_whole(tmp_path):
    with python(SAVE_AND_GET_KILLED_20_TIMES, tmp_path / "run", 1, json.dumps(STATE)) as child:
        output, errors = child.communicate()
    assert output == "survived\n", errors
    run = RunFolder(tmp_path / "run")
    newest = run.latest_good()[0].documents["state"]["step"]
    save(run, newest + 1)
    assert kept(run) == [run.step(newest).name, run.step(newest + 1).name]
    assert read_checkpoint(run.step(newest)).documents["state"]["step"] == newest
