"""Interleaved rounds, medians, ratios with their spread."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

Work = Callable[[], object]
Compared = Literal["times less", "times"]
DRAWS = 2000
PATIENCE = 0.1
"""Processors that others may use before the machine counts as busy."""
TICKS = Path("/proc/stat")


@dataclass(frozen=True)
class Result:
    """``ours`` and ``peer`` are medians over rounds; ``ratio`` is the median of the ratios of
    rounds: peer / ours for ``times less``, else ours / peer. Rounds differ in their rows, but both
    sides of one have the same. ``kernel`` and ``peer_kernel`` are shares of the CPU time that the
    kernel took, mostly to hand out memory.
    """

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
    kernel: float | None = None
    peer_kernel: float | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Spent:
    """Seconds; ``kernel`` of ``cpu``; ``others`` of all processors, by processes not ours."""

    cpu: float
    kernel: float
    wall: float
    others: float


def spend(work: Work) -> Spent:
    every, own, kernel = machine_seconds(), own_seconds(), os.times().system
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    others = (machine_seconds() - every) - (own_seconds() - own)
    return Spent(cpu, os.times().system - kernel, wall, others)


def own_seconds() -> float:
    """CPU time of this process and of those it has waited for."""
    return sum(os.times()[:4])


def machine_seconds() -> float:
    """CPU time of all processors that was not idle, what other guests stole included."""
    if not TICKS.exists():
        return own_seconds()
    user, nice, system, _idle, _wait, *rest = map(int, TICKS.read_text().split("\n")[0].split()[1:])
    irq, soft, stolen = rest[:3]
    return (user + nice + system + irq + soft + stolen) / os.sysconf("SC_CLK_TCK")


def compare(
    name: str, ours: Work, peer: Work, *, rounds: int, meaning: Compared = "times less"
) -> Result:
    """Two pieces of work in this process."""
    return take_turns(
        name, lambda: spend(ours), lambda: spend(peer), rounds=rounds, meaning=meaning
    )


def take_turns(
    name: str,
    ours: Callable[[], Spent],
    peer: Callable[[], Spent],
    *,
    rounds: int,
    meaning: Compared,
) -> Result:
    """Both in turn, after one round each that does not count; who begins changes every round."""
    ours(), peer()
    mine: list[Spent] = []
    other: list[Spent] = []
    for number in range(rounds):
        pairs = [(mine, ours), (other, peer)]
        for times, once in pairs if number % 2 else reversed(pairs):
            times.append(once())
    busy = is_busy(mine + other)
    a, b = (other, mine) if meaning == "times less" else (mine, other)
    ratio, low, high = ratio_of([s.cpu for s in a], [s.cpu for s in b], busy=busy)
    return Result(
        name,
        ours=_median(mine),
        peer=_median(other),
        ratio=ratio,
        low=low,
        high=high,
        meaning=meaning,
        rounds=rounds,
        wall_ratio=statistics.median(x.wall / y.wall for x, y in zip(a, b, strict=True)),
        busy=busy,
        kernel=_kernel(mine),
        peer_kernel=_kernel(other),
    )


def ratio_of(above: list[float], below: list[float], *, busy: bool) -> tuple[float, float, float]:
    """The median ratio of a round, and where it lies 95 % of the time; on a busy machine, or in
    few rounds, all that was seen.
    """
    ratios = np.array(above) / np.array(below)
    found = float(np.median(ratios))
    if busy or len(ratios) < 4:
        return found, float(ratios.min()), float(ratios.max())
    drawn = np.random.default_rng(0).integers(0, len(ratios), (DRAWS, len(ratios)))
    low, high = np.quantile(np.median(ratios[drawn], axis=1), [0.025, 0.975])
    return found, float(low), float(high)


def is_busy(times: list[Spent]) -> bool:
    """Someone else computed on this machine meanwhile."""
    return statistics.median(s.others / max(s.wall, 1e-9) for s in times) > PATIENCE


def _kernel(times: list[Spent]) -> float:
    return round(sum(s.kernel for s in times) / sum(s.cpu for s in times), 4)


def _median(times: list[Spent]) -> float:
    return statistics.median(s.cpu for s in times)
