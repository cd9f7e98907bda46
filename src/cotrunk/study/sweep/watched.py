"""Runs a job in another process and watches over it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from cotrunk.runs.folder import RunFolder
from cotrunk.study.sweep.fork_server import Forked, fork_server
from cotrunk.study.sweep.job import Job, has_ended
from cotrunk.study.sweep.state import ENDS, TRIAL, read_record

ATTEMPTS = 3
"""How often a trial is started before it counts as failed, if its process dies each time."""
POLL_SECONDS = 0.1
ALONE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
ALONE += "from cotrunk.study.sweep.worker import main; main()"
LOG = "trial.log"


def run_job(job: Job, should_stop: Callable[[], bool]) -> None:
    """Run a trial in a process of its own until it has ended, or has stopped as asked.

    A process that dies is started again, and resumes.
    """
    run = RunFolder(Path(job.run))
    run.path.mkdir(parents=True, exist_ok=True)
    _forget_end(job, run)
    code = 0
    for _ in range(ATTEMPTS):
        if should_stop():
            return
        code, stopped = _run_once(job, run, should_stop)
        if stopped or has_ended(run):
            return
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    error = f"its process ended {ATTEMPTS} times without a result ({how}); see {run.path / LOG}"
    run.write_document(TRIAL, {**job.record, "error": error})


def _forget_end(job: Job, run: RunFolder) -> None:
    """How it ended the last time must not count if its new process dies early."""
    record = read_record(run)
    if ENDS & record.keys():
        kept = {key: value for key, value in record.items() if key not in ENDS}
        run.write_document(TRIAL, {**kept, **job.record})


def _run_once(job: Job, run: RunFolder, should_stop: Callable[[], bool]) -> tuple[int, bool]:
    """The exit code, and whether the process was asked to stop."""
    stopped = False
    with (run.path / LOG).open("ab") as log, _process(job, log) as process:
        assert process.stdin is not None
        _send(process.stdin, job.to_json())
        while process.poll() is None:
            if not stopped and should_stop():
                stopped = True
                _send(process.stdin, "stop")
            time.sleep(POLL_SECONDS)
    assert process.returncode is not None
    return process.returncode, stopped


def _process(job: Job, log: IO[bytes]) -> "Forked | subprocess.Popen[bytes]":
    """The child reads standard input until it closes: if this process dies, the trial ends.

    It has its own session, because Ctrl-C must not reach it before we tell it how to stop.
    """
    if sys.platform == "linux":  # elsewhere a fork of a process that has imported torch may crash
        return fork_server(job.threads).start(log)
    return subprocess.Popen(
        [sys.executable, "-c", ALONE, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=log,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": str(job.threads)},
    )


def _send(pipe: IO[bytes], line: str) -> None:
    try:
        pipe.write(f"{line}\n".encode())
        pipe.flush()
    except BrokenPipeError:  # it is dead already, which its exit code will say
        pass
