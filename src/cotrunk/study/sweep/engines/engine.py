"""What an engine is given, and what it does: run the trials of a queue, some at a time."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from cotrunk.study.sweep.job import Job
from cotrunk.study.sweep.queue import Queue
from cotrunk.study.sweep.state import Trial
from cotrunk.study.sweep.trials import TrialSpec

OnTrial = Callable[[Trial], None]
"""Called when a trial starts (``started``) and when it has ended."""


class Signal(Protocol):
    """``signal`` is set once the sweep is to stop."""

    signal: int | None


@dataclass(frozen=True)
class Work:
    """``job_of`` makes the job of a trial; ``out`` is the folder of the sweep."""

    queue: Queue
    job_of: Callable[[TrialSpec], Job]
    out: Path
    max_concurrent: int
    threads: int
    interrupt: Signal
    on_trial: OnTrial

    def should_stop(self) -> bool:
        return self.interrupt.signal is not None

    def next(self) -> TrialSpec | None:
        """The next trial, which is reported as started."""
        if self.should_stop():
            self.queue.is_closed = True
        trial = self.queue.next()
        if trial is not None:
            self.on_trial(replace(self.queue.read(trial), state="started", error=None))
        return trial

    def ended(self, trial: TrialSpec) -> None:
        self.on_trial(self.queue.read(trial))


class Engine(Protocol):
    """Runs the trials of one sweep after the other."""

    def run(self, work: Work) -> None: ...

    def close(self) -> None: ...
