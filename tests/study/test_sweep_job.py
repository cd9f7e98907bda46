"""A trial in a process of its own: what is kept of how it ended, and what is left behind."""

import os
import socket
import subprocess
import sys

import pytest

from cotrunk.cluster import make_scratch, refuse_unreachable
from cotrunk.errors import UserError
from cotrunk.runs.folder import RunFolder
from cotrunk.study.sweep.engines.ray import record_loss
from cotrunk.study.sweep.fork_server import fork_server
from cotrunk.study.sweep.job import Job
from cotrunk.study.sweep.state import TRIAL, read_record
from cotrunk.study.sweep.watched import run_job


@pytest.mark.slow
def test_an_old_error_does_not_end_a_trial_that_is_tried_again(tmp_path, monkeypatch):
    """Its process dies before it can write anything: nothing can be imported."""
    run = RunFolder(tmp_path)
    job = Job(str(tmp_path), {}, str(tmp_path), "sweep.toml", 0, {"train.lr": 1}, 3, 1, "mean")
    run.write_document(TRIAL, {**job.record, "error": "the disk was full", "stopped": 4})
    monkeypatch.setattr(sys, "path", [])
    fork_server.cache_clear()  # one that was opened before can import everything
    try:
        run_job(job, lambda: False)
    finally:
        fork_server(job.threads).close()
        fork_server.cache_clear()
    record = read_record(run)
    assert "ended 3 times" in record["error"]
    assert {key: record[key] for key in job.record} == job.record
    assert "stopped" not in record


def test_a_trial_whose_worker_never_started_is_recorded_as_failed(tmp_path):
    run = RunFolder(tmp_path / "sweep" / "trial")
    job = Job(str(run.path), {}, str(tmp_path), "sweep.toml", 0, {"train.lr": 1}, 3, 1, "mean")
    record_loss(run, job)
    assert "was lost 3 times" in read_record(run)["error"]


def test_scratch_folders_of_dead_processes_are_deleted_and_no_others(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = [f"cotrunk-{ended.pid}-abc", f"cotrunk-{os.getpid()}-abc", "cotrunk-notes-abc"]
    dead, alive, other = (tmp_path / name for name in names)
    for folder in (dead, alive, other):
        folder.mkdir()
    mine = make_scratch(tmp_path, "cotrunk")
    assert set(tmp_path.iterdir()) == {alive, other, mine}


def test_an_address_is_refused_unless_something_answers_there():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        refuse_unreachable(address, option="--address")
    with pytest.raises(UserError, match="no connection"):
        refuse_unreachable(address, option="--address")
    for wrong in ("auto", "host", "host:", ":6379"):
        with pytest.raises(UserError, match="HOST:PORT"):
            refuse_unreachable(wrong, option="--address")
