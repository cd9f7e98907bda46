"""Interleaved rounds, medians, ratios with their spread."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from scipy.stats import binom

Work = Callable[[], object]
Compared = Literal["times less", "times"]
MISSED = 0.05
PATIENCE = 0.1
"""Processors that others may use before the machine counts as busy."""
TICKS = Path("/proc/stat")


@dataclass(frozen=True)
class Result:
    """``ours`` and ``peer`` are medians over rounds; ``ratio`` is the median of the ratios of
    rounds: peer / ours for ``times less``, else ours / peer. Rounds differ in their rows, but both
    sides of one have the same; ``ratios`` are those of all rounds. ``kernel`` and ``peer_kernel``
    are the shares of the CPU time spent in the kernel.
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
    ratios: tuple[float, ...] = ()

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
    every, own, kernel = machine_seconds(), own_seconds(), kernel_seconds()
    begun = time.perf_counter()
    work()
    wall, cpu = time.perf_counter() - begun, own_seconds() - own
    others = machine_seconds() - every - cpu
    return Spent(cpu, kernel_seconds() - kernel, wall, others)


def own_seconds() -> float:
    """CPU time of this process and of those it has waited for."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def kernel_seconds() -> float:
    return os.times().system + os.times().children_system


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
        ratios=tuple(round(x.cpu / y.cpu, 4) for x, y in zip(a, b, strict=True)),
    )


def ratio_of(above: list[float], below: list[float], *, busy: bool) -> tuple[float, float, float]:
    """The median ratio of a round and its 95 % interval, from order statistics: whatever the law of
    the rounds, the k-th least and greatest miss the true median too rarely to matter. On a busy
    machine, or in fewer than six rounds, all that was seen.
    """
    ratios = sorted(a / b for a, b in zip(above, below, strict=True))
    left = 0 if busy else max(0, int(binom.ppf(MISSED / 2, len(ratios), 0.5)) - 1)
    return statistics.median(ratios), ratios[left], ratios[-1 - left]


def is_busy(times: list[Spent]) -> bool:
    """Someone else computed on this machine meanwhile."""
    return sum(s.others for s in times) > PATIENCE * sum(s.wall for s in times)


def _kernel(times: list[Spent]) -> float:
    return round(sum(s.kernel for s in times) / sum(s.cpu for s in times), 4)


def _median(times: list[Spent]) -> float:
    return statistics.median(s.cpu for s in times)
