"""The cost of a run: wall seconds, CPU seconds and memory, written to timing.jsonl as it goes.

Time counts only inside a phase, so a caller that pauses between two events costs nothing. CPU
seconds are those of all threads of the process and of the worker processes that it has ended.
"""

import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from cotrunk.runs.folder import RunFolder

Phase = Literal["prepare", "encode", "train", "evaluate", "save"]
PHASES: tuple[str, ...] = get_args(Phase)
EVENT = "cost"
WRITE_EVERY = 5.0
"""Seconds of work that a killed run may lose from its cost."""


@dataclass(frozen=True)
class Cost:
    """Summed over a run and all its resumes.

    ``seconds`` and ``cpu_seconds`` are by phase: ``prepare`` is reading, tokenising and loading,
    ``encode`` fills the cache of a frozen encoder's vectors. ``epochs`` are the seconds that each
    epoch was trained, ``followed`` only of those before another one, so surely whole;
    ``peak_memory`` the most bytes that its process had in memory.
    """

    seconds: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    cpu_seconds: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    epochs: Sequence[float] = ()
    peak_memory: int | None = None
    followed: Sequence[float] = ()

    def document(self) -> dict[str, Any]:
        return {
            "seconds": {phase: round(value, 3) for phase, value in self.seconds.items()},
            "cpu_seconds": {phase: round(value, 3) for phase, value in self.cpu_seconds.items()},
            "epochs": [round(value, 3) for value in self.epochs],
            "peak_memory": self.peak_memory,
        }


class Clock(NamedTuple):
    wall: float
    cpu: float

    @classmethod
    def now(cls) -> "Clock":
        return cls(time.monotonic(), cpu_seconds())


class PhaseKey(NamedTuple):
    """``stage``: the first step of a stage, because each counts its epochs from 0."""

    phase: Phase
    stage: int | None = None
    epoch: int | None = None


class Meter:
    """Measures the phases of one training process. An inner phase interrupts the outer one.

    What was measured is kept in memory until ``start_writing``, because a new run has no folder
    while it is prepared; from then on it is written every few seconds.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.writes = False
        self.open: list[PhaseKey] = []
        self.since = self.written = Clock.now()
        self.spent: dict[PhaseKey, Clock] = {}

    @contextmanager
    def phase(
        self, name: Phase, *, stage: int | None = None, epoch: int | None = None
    ) -> Iterator[None]:
        self._credit()
        self.open.append(PhaseKey(name, stage, epoch))
        try:
            yield
        finally:
            self._credit()
            self.open.pop()
            self._write_if_due()

    def start_writing(self) -> None:
        self.writes = True
        self.write()

    def tick(self) -> None:
        self._credit()
        self._write_if_due()

    def write(self) -> None:
        """Append what was spent since the last time to timing.jsonl."""
        if not self.writes:
            return
        for part, spent in self.spent.items():
            where = {key: value for key, value in part._asdict().items() if value is not None}
            line = {"seconds": spent.wall, "cpu_seconds": spent.cpu, "peak_memory": peak_memory()}
            self.folder.append_timing({"event": EVENT, **where, **line})
        self.spent.clear()
        self.written = Clock.now()

    def _credit(self) -> None:
        now = Clock.now()
        if self.open:
            before = self.spent.get(self.open[-1], Clock(0.0, 0.0))
            self.spent[self.open[-1]] = Clock(
                before.wall + now.wall - self.since.wall, before.cpu + now.cpu - self.since.cpu
            )
        self.since = now

    def _write_if_due(self) -> None:
        if self.since.wall - self.written.wall >= WRITE_EVERY:
            self.write()


def read_cost(run: RunFolder) -> Cost:
    """The cost of a run so far; zeros and no peak for a run that did not record it."""
    seconds, cpu = (dict.fromkeys(PHASES, 0.0) for _ in range(2))
    epochs: dict[tuple[int, int], float] = {}
    peak: int | None = None
    for line in run.read_timing():
        if line.get("event") != EVENT or line.get("phase") not in PHASES:
            continue
        seconds[line["phase"]] += line["seconds"]
        cpu[line["phase"]] += line["cpu_seconds"]
        if "epoch" in line:
            key = line.get("stage", 0), line["epoch"]
            epochs[key] = epochs.get(key, 0.0) + line["seconds"]
        peak = max(peak or 0, line["peak_memory"])
    each = sorted(epochs)
    followed = [epochs[key] for key in each if (key[0], key[1] + 1) in epochs]
    return Cost(seconds, cpu, [epochs[key] for key in each], peak, followed)


def cpu_seconds() -> float:
    """CPU time of this process, all threads, and of its ended child processes."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_memory() -> int:
    """The most bytes in memory at once, of this process since it started."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
