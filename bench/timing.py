"""Timing in alternating rounds; medians and ratios with intervals."""

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
"""CPU share of other processes above which the machine counts as busy."""
TICKS = Path("/proc/stat")


@dataclass(frozen=True)
class Result:
    """``ours`` and ``peer`` are medians over rounds; ``ratio`` is the median of the ratios of
    rounds: peer / ours for ``times less``, else ours / peer. Rounds have different rows, but both
    sides of a round have the same; ``ratios`` has one entry per round. ``kernel`` and
    ``peer_kernel`` are the shares of CPU time spent in the kernel.
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
    """Seconds; ``kernel`` is part of ``cpu``; ``others``: CPU time of other processes."""

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
    """CPU time of this process and its finished children."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def kernel_seconds() -> float:
    return os.times().system + os.times().children_system


def machine_seconds() -> float:
    """Busy CPU time of all processors, including time stolen by other virtual machines."""
    if not TICKS.exists():
        return own_seconds()
    user, nice, system, _idle, _wait, *rest = map(int, TICKS.read_text().split("\n")[0].split()[1:])
    irq, soft, stolen = rest[:3]
    return (user + nice + system + irq + soft + stolen) / os.sysconf("SC_CLK_TCK")


def compare(
    name: str, ours: Work, peer: Work, *, rounds: int, meaning: Compared = "times less"
) -> Result:
    """Compare two functions in this process."""
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
    """Alternate both after one warm-up each; the order changes every round."""
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
    """The median ratio of the rounds and its 95 % interval from order statistics, which holds for
    any distribution. On a busy machine, or with fewer than six rounds, the full range.
    """
    ratios = sorted(a / b for a, b in zip(above, below, strict=True))
    left = 0 if busy else max(0, int(binom.ppf(MISSED / 2, len(ratios), 0.5)) - 1)
    return statistics.median(ratios), ratios[left], ratios[-1 - left]


def is_busy(times: list[Spent]) -> bool:
    """Other processes used the machine meanwhile."""
    return sum(s.others for s in times) > PATIENCE * sum(s.wall for s in times)


def _kernel(times: list[Spent]) -> float:
    return round(sum(s.kernel for s in times) / sum(s.cpu for s in times), 4)


def _median(times: list[Spent]) -> float:
    return statistics.median(s.cpu for s in times)
