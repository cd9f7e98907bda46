"""R1 and R2: kill -9."""

import random
import signal
import time
from pathlib import Path

from faults.commands import Running, Said, shared
from faults.figure import Figure, Size
from faults.world import INTERVAL, World, is_saving, outcome, steps, steps_made, world


def r1(seed: int, size: Size) -> Figure:
    """Each run is killed once, half of them surely inside a save, and resumed to its end."""
    kills, inside = (50, 20) if size == "long" else (4, 2)
    draw, held, most_lost, why = random.Random(seed), 0, 0, ""
    with world(shared()) as here:
        whole = outcome(here.finished())
        seconds = _seconds(here)
        for number in range(kills):
            run = here.folder / f"killed-{number}"
            if number < inside:
                killed = kill_in_save(here, run, skip=draw.randrange(6))
            else:
                killed = _kill_after(here, run, draw.uniform(0.1, 1.0) * seconds)
            lost = steps_made(run) - max(steps(run), default=0)
            damaged = here.verify(run) if (run / "run.json").exists() else []
            resumed = here.train(run, "--resume")
            faults = {
                "not killed where meant": not killed,
                f"damaged after the kill: {damaged}": bool(damaged),
                f"exit code {resumed.code}: {resumed.err[-300:]}": resumed.code != 0,
                "other bytes than the unbroken run": outcome(run) != whole,
                f"{lost} steps lost": lost > INTERVAL,
                "damaged at the end": bool(here.verify(run)),
            }
            found = [fault for fault, is_there in faults.items() if is_there]
            held, most_lost = held + (not found), max(most_lost, lost)
            why = why or (f"; first: kill {number}: {'; '.join(found)}" if found else "")
    note = f"{inside} inside a save; at most {most_lost} steps lost, interval {INTERVAL}{why}"
    return Figure(
        "R1", "kill -9, then --resume: byte-identical to the unbroken run", kills, held, note
    )


def r2(seed: int, size: Size) -> Figure:
    """Five kills in one run, one after the other."""
    runs, kills = (10, 5) if size == "long" else (1, 3)
    draw, held = random.Random(seed + 1), 0
    with world(shared()) as here:
        whole = outcome(here.finished())
        for number in range(runs):
            run = here.folder / f"run-{number}"
            killed = 0
            for _ in range(kills):
                if draw.random() < 0.5:
                    killed += kill_in_save(here, run, skip=draw.randrange(2))
                else:
                    killed += _kill_at_step(here, run, steps_made(run) + draw.randrange(1, 3))
            resumed = here.train(run, "--resume")
            held += resumed.code == 0 and outcome(run) == whole and killed >= kills - 1
    claim = f"{kills} kills in one run: byte-identical"
    return Figure("R2", claim, runs, held)


def kill_in_save(here: World, run: Path, *, skip: int = 0) -> bool:
    """Kill while a checkpoint or network is half written, after letting ``skip`` saves pass."""
    running = start(here, run)
    if not stop_in_save(running, run, skip=skip):
        return False
    running.send(signal.SIGKILL)
    return running.wait().code == -signal.SIGKILL and is_saving(run)


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


def _kill_after(here: World, run: Path, seconds: float) -> bool:
    running = start(here, run)
    here.commands.has_answer(seconds)
    running.send(signal.SIGKILL)
    running.wait()
    return True


def _kill_at_step(here: World, run: Path, step: int) -> bool:
    running = start(here, run)
    while not running.has_ended() and steps_made(run) < step:
        time.sleep(0.001)
    running.send(signal.SIGKILL)
    said: Said = running.wait()
    return said.code == -signal.SIGKILL


def _seconds(here: World) -> float:
    begun = time.monotonic()
    here.finished("timed")
    return time.monotonic() - begun
