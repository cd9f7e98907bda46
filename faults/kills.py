"""R1, R2 and K1: kill -9."""

import random
import shutil
import signal
import time
from pathlib import Path

from faults.commands import Running
from faults.figure import Figure, Size
from faults.preload import COMPILER, operations, shared
from faults.world import INTERVAL, World, is_saving, outcome, steps, steps_made, world

START = 24
"""File operations before the first step, about."""


def r1(seed: int, size: Size) -> Figure:
    """Each run is killed once, some of them surely inside a save, and resumed to its end."""
    kills, inside = (50, 20) if size == "long" else (2, 1)
    draw, most_lost, broken = random.Random(seed), 0, list[str]()
    with world(shared()) as here:
        whole = outcome(here.finished())
        seconds = _seconds(here)
        saving = _numbers_in_saves(here)
        for number in range(kills):
            run = here.folder / f"killed-{number}"
            if saving and number < inside:
                found = _kill_before(here, run, draw.choice(saving))
            else:
                found = _kill_after(here, run, draw.uniform(0.1, 1.0) * seconds)
            lost, more = _after_kill(here, run, whole)
            most_lost = max(most_lost, lost)
            broken += _told(f"kill {number}", found + more)
    where = f"{inside} inside a save" if saving else f"a kill inside a save {COMPILER}"
    note = "; ".join([where, f"at most {most_lost} steps lost, interval {INTERVAL}", *broken[:1]])
    claim = "kill -9, then --resume: byte-identical to the unbroken run"
    return Figure("R1", claim, kills, kills - len(broken), note)


def k1(seed: int, size: Size) -> Figure:
    """Killed before each file operation in turn; quick: some of the start and some others."""
    broken = list[str]()
    with world(shared()) as here:
        whole, run = outcome(here.finished()), here.folder / "run"
        made = [one.number for one in operations(here)]
        late = random.Random(seed).sample(made[START:], 3) if made else []
        chosen = made if size == "long" else [*made[:START:8], *late]
        for number in chosen:
            shutil.rmtree(run, ignore_errors=True)
            found = _kill_before(here, run, number)
            broken += _told(f"operation {number}", found + _after_kill(here, run, whole)[1])
    claim = "killed before each of its file operations: as R1"
    if not chosen:
        return Figure("K1", claim, 1, int(size == "quick"), COMPILER)
    return Figure("K1", claim, len(chosen), len(chosen) - len(broken), "; ".join(broken[:1]))


def r2(seed: int, size: Size) -> Figure:
    """Several kills in one run, one after the other."""
    runs, kills = (10, 5) if size == "long" else (1, 2)
    draw, broken = random.Random(seed + 1), list[str]()
    with world(shared()) as here:
        whole = outcome(here.finished())
        seconds, made = _seconds(here), operations(here)
        for number in range(runs):
            run, found = here.folder / f"run-{number}", list[str]()
            for _ in range(kills):
                if made:
                    found += _kill_before(here, run, draw.randrange(1, len(made) // kills))
                else:
                    found += _kill_after(here, run, draw.random() * seconds / kills)
            broken += _told(f"run {number}", found + _after_kill(here, run, whole)[1])
    claim = f"{kills} kills in one run: byte-identical"
    return Figure("R2", claim, runs, runs - len(broken), "; ".join(broken[:1]))


def _after_kill(here: World, run: Path, whole: dict[str, bytes]) -> tuple[int, list[str]]:
    """Resume to the end: the steps that the kill lost, and each promise that was broken."""
    lost = steps_made(run) - max(steps(run), default=0)
    damaged = here.verify(run) if (run / "run.json").exists() else []
    resumed = here.train(run, "--resume")
    broken = {
        f"damaged after the kill: {damaged}": bool(damaged),
        f"exit code {resumed.code}: {resumed.err[-300:]}": resumed.code != 0,
        "other bytes than the unbroken run": outcome(run) != whole,
        f"{lost} steps lost": lost > INTERVAL,
        "damaged at the end": bool(here.verify(run)),
    }
    return lost, [promise for promise, is_broken in broken.items() if is_broken]


def stop_in_save(running: Running, run: Path, *, skip: int = 0) -> bool:
    """Stop the process inside a save; False if it ended before."""
    seen = False
    while not running.has_ended():
        saving = is_saving(run)
        if saving and not seen:
            if skip <= 0:
                running.send(signal.SIGSTOP)
                if is_saving(run):
                    return True
                running.send(signal.SIGCONT)  # the save was over sooner
            skip -= 1
        seen = saving
        time.sleep(0.0002)
    return False


def start(here: World, run: Path, *more: object) -> Running:
    argv = ("train", here.config, "--out", run, "--resume", *more)
    return here.commands.start(*argv, env=here.env)


def _told(where: str, broken: list[str]) -> list[str]:
    return [f"first: {where}: {'; '.join(broken)}"] if broken else []


def _numbers_in_saves(here: World) -> list[int]:
    """The numbers of the file operations on a network or checkpoint that is half written."""
    return [one.number for one in operations(here) if ".tmp/" in one.path]


def _kill_before(here: World, run: Path, number: int) -> list[str]:
    """Killed before a file operation; what went wrong with that, if anything."""
    env = here.env | {"FAULTS_UNDER": str(run), "FAULTS_KILL": str(number)}
    argv = ("train", here.config, "--out", run, "--resume")
    said = here.commands.run(*argv, env=env)
    return [] if said.code == -signal.SIGKILL else [f"exit code {said.code} instead of a kill"]


def _kill_after(here: World, run: Path, seconds: float) -> list[str]:
    """Killed after that time, unless it has ended."""
    running = start(here, run)
    here.commands.has_answer(seconds)
    running.send(signal.SIGKILL)
    said = running.wait()
    fine = said.code in (0, -signal.SIGKILL)
    return [] if fine else [f"exit code {said.code} before the kill"]


def _seconds(here: World) -> float:
    begun = time.monotonic()
    here.finished("timed")
    return time.monotonic() - begun
