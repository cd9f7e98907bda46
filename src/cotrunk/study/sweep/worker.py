"""The process of one trial: trains a run folder, or resumes it, as its parent asks."""

import io
import os
import signal
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from cotrunk.errors import UserError, for_command_line
from cotrunk.runs.folder import RunFolder
from cotrunk.study.sweep.asha import Asha, is_stopped, values_of
from cotrunk.study.sweep.job import Job, has_ended
from cotrunk.study.sweep.state import TRIAL, read_record

if TYPE_CHECKING:
    from cotrunk.learn.run import Interrupt
    from cotrunk.progress import ProgressUpdate

LAST_SECONDS = 4.0
"""Time to save a checkpoint after the parent has died."""
LOCKED_SECONDS = 30.0
"""Longer than a trial can outlive the sweep that started it."""
POLL_SECONDS = 0.3


class Parent:
    """Listens to a pipe: a line asks the trial to stop, its end means that the parent is dead."""

    def __init__(self, pipe: io.FileIO) -> None:
        self.pipe = pipe
        self.wants_stop = False
        self.interrupt: Interrupt | None = None

    def listen(self) -> None:
        self.pipe.readline()
        self._stop()
        while self.pipe.readline():
            pass
        time.sleep(LAST_SECONDS)
        os._exit(1)

    def watch(self, interrupt: "Interrupt") -> None:
        self.interrupt = interrupt
        if self.wants_stop:
            self._stop()

    def _stop(self) -> None:
        self.wants_stop = True
        if self.interrupt is not None:
            self.interrupt.signal = signal.SIGTERM


def main() -> None:
    pipe = io.FileIO(0, closefd=False)  # unbuffered: a thread that reads must not hold a lock
    job = Job.from_json(pipe.readline().decode())
    parent = Parent(pipe)
    threading.Thread(target=parent.listen, daemon=True).start()  # before slow imports
    from cotrunk.learn.run import Interrupt, Interrupted

    run, interrupt = RunFolder(Path(job.run)), Interrupt()
    parent.watch(interrupt)
    try:
        wait_for_lock(run, interrupt)
        run.write_document(TRIAL, job.record)
        train(job, run, interrupt)
    except Interrupted:
        return
    except Exception as error:
        lines = [_one_line(error)]
        if isinstance(error, UserError):
            lines = list(map(for_command_line, error.lines))
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        run.write_document(TRIAL, {**job.record, "error": lines[0] + more})
        if isinstance(error, UserError):
            _log(*lines)
            return
        raise


def train(job: Job, run: RunFolder, interrupt: "Interrupt") -> None:
    from cotrunk.build.train import train_settings, warnings_of
    from cotrunk.build.trial import settings_of_job
    from cotrunk.runs.events import Evaluated, Started

    def check(_update: "ProgressUpdate") -> None:
        interrupt.check()

    settings = settings_of_job(dict(job.raw), job.place)
    events = train_settings(
        settings,
        Path(job.folder),
        run.path,
        resume=True,
        on_progress=check,
        interrupt=interrupt,
    )
    steps = 0
    with closing(events):
        for event in events:
            _log(*(f"warning: {line}" for line in warnings_of(event)))
            if isinstance(event, Started):
                run.write_document(TRIAL, {**job.record, "steps": event.steps})
                steps = event.steps
            if not isinstance(event, Evaluated) or event.step >= steps:
                continue  # at the last step there is nothing left to stop
            if job.asha and _ends_here(job, run, interrupt):
                record = {**read_record(run), "stopped": event.step}
                run.write_document(TRIAL, record)
                return


def wait_for_lock(run: RunFolder, interrupt: "Interrupt") -> None:
    """The trial of a sweep that was killed may still be saving its checkpoint."""
    until = time.monotonic() + LOCKED_SECONDS
    while True:
        try:
            with run.lock():
                return
        except UserError:
            if time.monotonic() > until:
                raise
        interrupt.check()
        time.sleep(POLL_SECONDS)


def _ends_here(job: Job, run: RunFolder, interrupt: "Interrupt") -> bool:
    """Whether the scheduler stops the trial at this evaluation.

    Waits until all trials before it have been here, so that the answer is always the same.
    """
    assert job.asha
    asha = Asha(*job.asha)
    mine = values_of(run.read_metrics(), job.objective)
    rung = len(mine)
    if not asha.is_rung(rung):
        return False
    before = []
    for path in job.earlier:
        earlier = RunFolder(Path(path))
        while not (reached := _values(earlier, job.objective, rung)) and not has_ended(earlier):
            interrupt.check()
            time.sleep(POLL_SECONDS)
        before += (reached or _values(earlier, job.objective, rung))[rung - 1 : rung]
    return is_stopped(mine[-1], before, asha.reduction)


def _values(run: RunFolder, objective: str, rung: int) -> list[float]:
    """All values of a trial that has reached a rung, else none."""
    values = values_of(run.read_metrics(), objective)
    return values if len(values) >= rung else []


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    is_plain = isinstance(error, OSError | RuntimeError) and text
    return text if is_plain else f"{type(error).__name__}: {text}"


def _log(*lines: str) -> None:
    for line in lines:
        sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
