"""R12 and R14: signals, and two processes on one run."""

import random
import resource
import signal
import socket
import time
from pathlib import Path
from typing import NamedTuple

from faults.commands import Running, Said, alone
from faults.figure import Figure, Size
from faults.kills import start, stop_in_save
from faults.preload import shared
from faults.world import World, outcome, steps, steps_made, world

HUGE_BATCH = ("train.batch=1500", "train.epochs=50", "train.max_steps=4")
TRIES = 5
ENDLESS = ("train.epochs=20000", "train.max_steps=100000")


def r12(seed: int, size: Size) -> Figure:
    """SIGINT, SIGTERM and SIGHUP: at any moment, inside saves, inside evaluations, and twice."""
    kinds = ["moment"] * 12 + ["save"] * 4 + ["evaluation"] * 4
    kinds = kinds if size == "long" else ["save", "evaluation", "moment"]
    twice = 5 if size == "long" else 1
    draw, held, slowest = random.Random(seed), 0, 0.0
    with world(shared(), dev=400) as here:
        whole = outcome(here.finished())
        for number, kind in enumerate(kinds):
            sent = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[number % 3]
            signalled = _signalled(here, f"run-{number}", kind, sent, draw)
            slowest = max(slowest, signalled.seconds)
            saved = steps_made(signalled.run) == max(steps(signalled.run), default=0)
            resumed = here.train(signalled.run, "--resume")
            same = resumed.code == 0 and outcome(signalled.run) == whole
            said = signalled.said
            held += said.code == 128 + sent and said.is_clean and saved and same
        again = [_interrupt_twice(here, here.folder / f"twice-{n}") for n in range(twice)]
    # The step would take far longer. Beside other tests a process may wait seconds for a core.
    held += sum(seconds <= (1 if size == "long" else 5) for seconds in again)
    note = f"slowest end {slowest:.1f} s; the second SIGINT in a huge batch: {max(again):.2f} s"
    claim = "a signal: the current step saved, code 128 + signal, --resume byte-identical"
    return Figure("R12", claim, len(kinds) + twice, held, note)


class _Signalled(NamedTuple):
    run: Path
    said: Said
    seconds: float


def _signalled(
    here: World, name: str, kind: str, sent: signal.Signals, draw: random.Random
) -> _Signalled:
    """A run that got a signal; a new one if it had ended before, beside other busy processes."""
    for attempt in range(TRIES):
        run = here.folder / f"{name}-{attempt}"
        running = start(here, run)
        _reach(kind, running, run, draw)
        begun = time.monotonic()
        running.send(sent)
        running.send(signal.SIGCONT)
        said = running.wait()
        if said.code:
            break
    return _Signalled(run, said, time.monotonic() - begun)


def _reach(kind: str, running: Running, run: Path, draw: random.Random) -> None:
    """Wait until the run is where the signal shall hit it."""
    if kind == "save":
        stop_in_save(running, run, skip=draw.randrange(4))
        return
    step = 4 * draw.randrange(1, 3) if kind == "evaluation" else draw.randrange(10)
    while not running.has_ended() and not (_has_begun(run) and steps_made(run) >= step):
        time.sleep(0.0005)
    if kind == "moment":
        time.sleep(draw.uniform(0, 0.03))


def _interrupt_twice(here: World, run: Path) -> float:
    """Seconds from the second SIGINT in the middle of a long step to the end of the process."""
    rows = (here.folder / "mood-train.csv").read_text().splitlines()
    long = [f"{i},{' '.join(['stone'] * 300)},{i % 3},{i % 6}" for i in range(1500)]
    (here.folder / "long.csv").write_text("\n".join([rows[0], *long]) + "\n")
    files = [f"tasks.{task}.train=long.csv" for task in ("mood", "rated")]
    running = start(here, run, "--set", "encoder.max_tokens=512", *files, *HUGE_BATCH)
    while not running.has_ended() and not _has_begun(run):
        time.sleep(0.001)
    running.send(signal.SIGINT)
    while _is_pending(running.pid, signal.SIGINT):  # otherwise the kernel makes one of two
        time.sleep(0.001)
    running.send(signal.SIGINT)
    begun = time.monotonic()
    said = running.wait()
    seconds = time.monotonic() - begun
    return seconds if said.code == 130 and steps_made(run) == 0 else float("inf")


def _is_pending(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    waiting = [int(line.split()[1], 16) for line in status.splitlines() if "Pnd:" in line]
    return any(mask >> (number - 1) & 1 for mask in waiting)


def _has_begun(run: Path) -> bool:
    """Training sets its handlers before it writes the findings."""
    return (run / "findings.json").exists()


def r14(seed: int, size: Size) -> Figure:
    """A second ``train`` on a run; then the first is killed and the run goes on at once."""
    tries = 5 if size == "long" else 1
    held, slowest, cpu = 0, 0.0, 0.0
    with world(shared()) as here:
        for number in range(tries):
            run = here.folder / f"run-{number}"
            running = start(here, run, "--set", *ENDLESS, f"train.seed={seed}")
            while not running.has_ended() and not steps_made(run):
                time.sleep(0.005)
            begun, spent = time.monotonic(), _children_seconds()
            second = alone("train", here.config, "--out", run, "--resume", env=here.env)
            slowest = max(slowest, time.monotonic() - begun)
            cpu = max(cpu, _children_seconds() - spent)
            holder = f"process {running.pid} on {socket.gethostname()}"
            refused = second.code == 2 and holder in second.err
            running.send(signal.SIGKILL)
            running.wait()
            held += (
                refused
                and cpu <= 1
                and (size == "quick" or slowest <= 1)
                and _goes_on(here, run, seed)
            )
    note = f"refused after {slowest:.2f} s, {cpu:.2f} s of CPU"
    claim = "a second train on a run: refused within 1 s; after kill -9 the lock is free"
    return Figure("R14", claim, tries, held, note)


def _goes_on(here: World, run: Path, seed: int) -> bool:
    made = steps_made(run)
    running = start(here, run, "--set", *ENDLESS, f"train.seed={seed}")
    while not running.has_ended() and steps_made(run) <= made:
        time.sleep(0.005)
    running.send(signal.SIGTERM)
    return running.wait().code == 128 + signal.SIGTERM


def _children_seconds() -> float:
    """CPU seconds of the processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
