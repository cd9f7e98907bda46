"""R11, R13, R16 and R17: folders that vanish, numbers that break, other surroundings, changes."""

import os
import random
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load

from faults.commands import alone
from faults.figure import Figure, Size
from faults.kills import start
from faults.preload import shared
from faults.world import World, in_memory, outcome, steps, steps_made, world, write_world


def r11(seed: int, size: Size) -> Figure:
    """A run folder that is read-only, deleted in mid-run, and a clock that is set back."""
    rounds = 5 if size == "long" else 1
    checks = []
    with world(shared()) as here:
        whole = here.finished()
        checks.append(_refuses_read_only(here, whole))
        checks += [_ends_when_deleted(here, seed + number) for number in range(rounds)]
        checks += [_notices_deleted_metrics(here, seed + number) for number in range(rounds)]
        if shutil.which("cc"):
            run = here.folder / "clock"
            env = here.env | {"FAULTS_CLOCK": "40"}
            said = here.commands.run("train", here.config, "--out", run, env=env)
            checks.append(said.code == 0 and outcome(run) == outcome(whole))
    note = "" if shutil.which("cc") else "without the clock: it needs a C compiler"
    claim = (
        "run folder read-only or deleted, metrics deleted, clock set back: one line, or no effect"
    )
    return Figure("R11", claim, len(checks), sum(checks), note)


def _refuses_read_only(here: World, whole: Path) -> bool:
    run = here.copy(whole)
    before = outcome(run)
    argv = ("train", here.config, "--out", run, "--resume")
    if os.geteuid():
        run.chmod(0o555)
        said = here.commands.run(*argv, env=here.env)
        run.chmod(0o755)
    else:  # root may write anywhere but on a disk that is mounted read-only
        script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        said = alone(*argv, env=here.env, prefix=["unshare", "-m", "sh", "-c", script, str(run)])
    return (
        said.code == 2 and said.is_clean and "cannot write" in said.err and outcome(run) == before
    )


def _ends_when_deleted(here: World, seed: int) -> bool:
    run = here.folder / f"deleted-{seed}"
    running = start(here, run, "--set", "train.max_steps=100000", "train.epochs=20000")
    while not running.has_ended() and steps_made(run) < 1 + seed % 5:
        time.sleep(0.002)
    run.rename(here.folder / f"away-{seed}")
    said = running.wait()
    return said.code == 1 and said.is_clean and "No such file" in said.err and not run.exists()


def _notices_deleted_metrics(here: World, seed: int) -> bool:
    run = here.folder / f"metrics-{seed}"
    running = start(here, run, "--set", "train.max_steps=100000", "train.epochs=20000")
    while not running.has_ended() and steps_made(run) < 1 + seed % 5:
        time.sleep(0.002)
    (run / "metrics.jsonl").unlink()
    said = running.wait()
    return said.code == 1 and said.is_clean and "metrics.jsonl: No such file" in said.err


def r13(seed: int, size: Size) -> Figure:
    """A row whose loss is infinite in float32: training stops before it, or skips it."""
    tries, held, skipped = (10 if size == "long" else 1), 0, 0
    with world(shared()) as here:
        wide = "range = [-1e30, 1e30]\nlabel_unit = [0, 1]"
        text = here.config.read_text().replace("range = [0, 5]", wide)
        here.config.write_text(text)
        rows = (here.folder / "rated-train.csv").read_text().splitlines()
        for number in range(tries):
            bad = random.Random(seed + number).randrange(1, len(rows))
            name, sentence, mood, _ = rows[bad].split(",")
            changed = [*rows[:bad], f"{name},{sentence},{mood},1e25", *rows[bad + 1 :]]
            (here.folder / "rated-train.csv").write_text("\n".join(changed) + "\n")
            more = ("--set", f"train.seed={seed + number}", "train.max_steps=40")
            stop, skip = here.folder / f"stop-{number}", here.folder / f"skip-{number}"
            stopped = here.train(stop, *more)
            told = all(word in stopped.err for word in ("task rated", name, "step "))
            held += stopped.code == 1 and stopped.is_clean and told and _is_sound(here, stop)
            went_on = here.train(skip, *more, "train.on_nan=skip")
            marks = (skip / "metrics.jsonl").read_text().count('"skipped": true')
            skipped += marks
            held += went_on.code == 0 and marks > 0 and _is_sound(here, skip)
    note = f"{skipped} steps skipped and counted"
    claim = "an infinite loss: task, step and row named, no NaN saved; or skipped and counted"
    return Figure("R13", claim, 2 * tries, held, note)


def _is_sound(here: World, run: Path) -> bool:
    saved = [load(path.read_bytes()) for path in run.rglob("*.safetensors")]
    finite = all(np.isfinite(tensor).all() for each in saved for tensor in each.values())
    return finite and not here.verify(run)


def r16(seed: int, size: Size) -> Figure:
    """The same seed again: another folder, cache, hash seed, number of cores and processes."""
    same = []
    with world(shared()) as here:
        whole = outcome(here.finished())
        elsewhere = here.folder / "elsewhere"
        elsewhere.mkdir()
        fresh = {"COTRUNK_CACHE": str(elsewhere / "cache")}
        argv = ("train", "../tiny.toml", "--out", "again")
        here.commands.run(*argv, env=fresh, cwd=str(elsewhere))
        same.append(outcome(elsewhere / "again") == whole)
        for number in range(3 if size == "long" else 1):
            env = here.env | {"PYTHONHASHSEED": str(seed + number + 1), "OMP_NUM_THREADS": "2"}
            run = here.folder / f"hash-{number}"
            alone("train", here.config, "--out", run, env=env)
            same.append(outcome(run) == whole)
    if size == "long" and shutil.which("taskset"):
        same.append(_same_with_workers())
    claim = "the same seed: byte-identical in another folder, hash seed and number of processes"
    return Figure("R16", claim, len(same), sum(same))


def _same_with_workers() -> bool:
    """A file of 10 MB is read by several processes, or by one if there is one core."""
    with tempfile.TemporaryDirectory(dir=in_memory()) as name:
        folder = Path(name)
        write_world(folder)
        longer = "," + "stone " * 20
        head, *rows = (folder / "mood-train.csv").read_text().splitlines()
        with (folder / "mood-train.csv").open("w") as file:
            file.write(head + "\n")
            file.writelines(
                f"{i}{row.replace(',', longer, 1)}\n" for i in range(2000) for row in rows
            )
        found = []
        for cores in ("0", f"0-{max(os.sched_getaffinity(0))}"):
            env, run = {"COTRUNK_CACHE": str(folder / f"cache-{cores}")}, folder / f"run-{cores}"
            argv = ("train", folder / "tiny.toml", "--out", run)
            alone(*argv, env=env, prefix=["taskset", "-c", cores])
            found.append(outcome(run))
        return found[0] == found[1]


def r17(seed: int, size: Size) -> Figure:
    """A run resumed with other settings or data: refused with the difference, or forced."""
    changes = [
        "lr=0.1",
        f"seed={seed + 7}",
        "batch=8",
        "gradients=sum",
        "evaluate=2",
        "max_steps=14",
    ]
    chosen = changes if size == "long" else changes[:2]
    held = 0
    with world(shared()) as here:
        whole = here.finished()
        before = outcome(whole)
        for change in chosen:
            said = here.train(whole, "--resume", "--set", f"train.{change}")
            named = f"train.{change.partition('=')[0]}: was" in said.err
            held += said.code == 2 and said.is_clean and named and outcome(whole) == before
        for name in ("rated-train.csv", "mood-dev.csv"):
            file = here.folder / name
            text = file.read_text()
            file.write_text(text.replace("good", "fine", 1))
            said = here.train(whole, "--resume")
            file.write_text(text)
            named = "the file has changed" in said.err
            held += said.code == 2 and said.is_clean and named and outcome(whole) == before
        forced = here.train(whole, "--resume", "--force", "--set", "train.max_steps=14")
        held += forced.code == 0 and max(steps(whole)) == 14
    claim = "resumed with other settings or data: refused with the difference, unless forced"
    return Figure("R17", claim, len(chosen) + 3, held)
