"""CPU time of a sweep of 8 short trials: Ray Tune against plain processes.

``python -m bench.sweep ENGINE STEPS`` runs one sweep and prints what it took.
"""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from bench.timing import Result, Spent, is_busy, machine_seconds, ratio_of
from bench.work import Bench

STEPS = 20
TICKS = os.sysconf("SC_CLK_TCK")
PR_SET_CHILD_SUBREAPER = 36
SWEEP = {
    "preset": "hybrid-bert",
    "seeds": 2,
    "max_concurrent": 2,
    "axes": {"sharing.encoder": ["S6", "I6"], "train.lr": [2e-5, 5e-5]},
}


def against_local(bench: Bench) -> Iterator[Result]:
    """Ray's own start is not counted; its daemons are, while trials run."""
    steps = 3 if bench.quick else STEPS
    found: dict[str, list[Spent]] = {"ray": [], "local": []}
    for number in range(bench.rounds(2)):
        for engine in sorted(found, reverse=bool(number % 2)):
            found[engine].append(_spent(engine, steps))
    ours, peer = ([spent.cpu for spent in found[engine]] for engine in ("ray", "local"))
    busy = is_busy(found["ray"] + found["local"])
    ratio, low, high = ratio_of(ours, peer, busy=busy)
    yield Result(
        "sweep-ray-against-local",
        statistics.median(ours),
        statistics.median(peer),
        ratio,
        low,
        high,
        meaning="times",
        rounds=len(ours),
        busy=busy,
        ratios=tuple(round(a / b, 4) for a, b in zip(ours, peer, strict=True)),
    )


def _spent(engine: str, steps: int) -> Spent:
    asked = [sys.executable, "-m", "bench.sweep", engine, str(steps)]
    done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True)
    return Spent(**json.loads(done.stdout))


class Processes:
    """CPU time of this process and everything below it, also of processes that have ended.

    Ray kills its workers, and the counters of their children vanish with them. So every process is
    read twice a second; what it uses after the last reading is lost.
    """

    def __init__(self) -> None:
        self._seconds: dict[tuple[int, int], float] = {}
        """By process id and start time."""
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def seconds(self) -> float:
        with self._lock:
            self._seconds.update(seconds_of_tree())
            return sum(self._seconds.values())

    def _watch(self) -> None:
        while True:
            self.seconds()
            time.sleep(0.5)


def measure(engine: str, steps: int) -> Spent:
    """From the start of the first trial to the end of the last."""
    from cotrunk.study.sweep.spec import spec_of
    from cotrunk.study.sweep.state import Trial
    from cotrunk.study.sweep.sweep import run_sweep

    adopt_orphans()
    processes = Processes()
    marks: list[tuple[float, float, float]] = []

    def mark(_trial: Trial) -> None:
        marks.append((processes.seconds(), time.perf_counter(), machine_seconds()))

    table = {**SWEEP, "overrides": {"train.max_steps": steps}}
    spec = spec_of(table, Path.cwd(), place="bench")
    with tempfile.TemporaryDirectory() as out:
        trials = run_sweep(spec, Path(out), engine=engine, on_trial=mark)  # type: ignore[arg-type]
    if len(trials) != 8 or any(trial.state != "finished" for trial in trials):
        raise RuntimeError(f"{engine}: {[trial.error for trial in trials]}")
    (cpu, wall, machine), (cpu_end, wall_end, machine_end) = marks[0], marks[-1]
    others = machine_end - machine - (cpu_end - cpu)
    return Spent(cpu_end - cpu, 0.0, wall_end - wall, others)


def adopt_orphans() -> None:
    """Children of killed workers become ours, so that they stay below this process."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def seconds_of_tree() -> dict[tuple[int, int], float]:
    """The CPU time of this process and of each below it, without that of ended children."""
    parents, found = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        process = int(path.parent.name)
        parents[process] = int(fields[1])
        found[process] = int(fields[19]), sum(map(int, fields[11:13])) / TICKS
    mine = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return {(process, found[process][0]): found[process][1] for process in mine}


FAMILY = {"sweep": against_local}

if __name__ == "__main__":
    spent = measure(sys.argv[1], int(sys.argv[2]))
    print(json.dumps(vars(spent)))  # noqa: T201
