"""What an engine is given, and what it does: run the trials of a queue, some at a time."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from cotrunk.study.sweep.job import Job
from cotrunk.study.sweep.queue import Queue
from cotrunk.study.sweep.state import Trial
from cotrunk.study.sweep.trials import Planned

OnTrial = Callable[[Trial], None]
"""Called when a trial starts (``started``) and when it has ended."""


class Signal(Protocol):
    """``signal`` is set once the sweep is to stop."""

    signal: int | None


@dataclass(frozen=True)
class Work:
    """``job_of`` makes the job of a trial; ``out`` is the folder of the sweep."""

    queue: Queue
    job_of: Callable[[Planned], Job]
    out: Path
    max_concurrent: int
    threads: int
    interrupt: Signal
    on_trial: OnTrial

    def should_stop(self) -> bool:
        return self.interrupt.signal is not None

    def next(self) -> Planned | None:
        """The next trial, which is reported as started."""
        if self.should_stop():
            self.queue.is_closed = True
        trial = self.queue.next()
        if trial is not None:
            self.on_trial(replace(self.queue.read(trial), state="started", error=None))
        return trial

    def ended(self, trial: Planned) -> None:
        self.on_trial(self.queue.read(trial))
