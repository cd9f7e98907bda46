"""Interleaved rounds, medians, ratios with their spread."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

Work = Callable[[], object]
DRAWS = 2000
PATIENCE = 1.15
"""Wall time above this times CPU time: the machine was busy with something else."""


@dataclass(frozen=True)
class Result:
    """``times less``: ratio = peer / ours. ``times`` or ``share``: ratio = ours / peer."""

    name: str
    ours: float
    peer: float
    ratio: float
    low: float
    high: float
    meaning: Literal["times less", "times", "share"] = "times less"
    unit: str = "CPU s"
    rounds: int = 1
    wall_ratio: float | None = None
    busy: bool = False

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Spent:
    cpu: float
    wall: float


def spend(work: Work) -> Spent:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Spent(time.process_time() - cpu, time.perf_counter() - wall)


def compare(
    name: str,
    ours: Work,
    peer: Work,
    *,
    rounds: int,
    meaning: Literal["times less", "times"] = "times less",
) -> Result:
    """Both in turn, after one round each that does not count; who begins changes every round."""
    ours(), peer()
    mine: list[Spent] = []
    other: list[Spent] = []
    for number in range(rounds):
        pairs = [(mine, ours), (other, peer)]
        for times, work in pairs if number % 2 else reversed(pairs):
            times.append(spend(work))
    busy = is_busy(mine + other)
    a, b = (other, mine) if meaning == "times less" else (mine, other)
    low, high = spread([s.cpu for s in a], [s.cpu for s in b], busy=busy)
    return Result(
        name,
        ours=_median(mine),
        peer=_median(other),
        ratio=_median(a) / _median(b),
        low=low,
        high=high,
        meaning=meaning,
        rounds=rounds,
        wall_ratio=statistics.median(s.wall for s in a) / statistics.median(s.wall for s in b),
        busy=busy,
    )


def spread(above: list[float], below: list[float], *, busy: bool) -> tuple[float, float]:
    """Where the ratio of medians lies 95 % of the time; on a busy machine all that was seen."""
    a, b = np.array(above), np.array(below)
    if busy or len(a) < 4:
        ratio = a / b
        return float(ratio.min()), float(ratio.max())
    drawn = np.random.default_rng(0).integers(0, len(a), (DRAWS, len(a)))
    ratio = np.median(a[drawn], axis=1) / np.median(b[drawn], axis=1)
    return float(np.quantile(ratio, 0.025)), float(np.quantile(ratio, 0.975))


def is_busy(times: list[Spent]) -> bool:
    """Someone else computes on this machine: time passes in which we do not run."""
    waited = statistics.median(s.wall / max(s.cpu, 1e-9) for s in times) > PATIENCE
    return waited or os.getloadavg()[0] > (os.cpu_count() or 1)


def _median(times: list[Spent]) -> float:
    return statistics.median(s.cpu for s in times)
