"""R10: disks that are full, files that may not grow, and disks that fail (EIO)."""

import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.commands import Commands, Said
from faults.figure import Figure, Size
from faults.preload import COMPILER, operations, shared
from faults.world import World, in_memory, outcome, world, write_world


def r10(seed: int, size: Size) -> Figure:
    """A run fails for want of space or by EIO; with the fault gone, ``--resume`` completes it."""
    draw, notes = random.Random(seed), []
    tried, held = _limited_files(draw, 8 if size == "long" else 1)
    if _may_mount():
        more = _small_disks(draw, 12 if size == "long" else 1)
        tried, held = tried + more[0], held + more[1]
        notes.append(f"{more[0]} on a full tmpfs")
    else:
        notes.append("no tmpfs: mounting is not allowed here")
    if shutil.which("cc"):
        places = _failing_operations(draw, 50 if size == "long" else 2)
        tried, held = tried + places[0], held + places[1]
        notes.append(f"EIO at {places[0]} operations of a save")
    else:
        tried += size == "long"
        notes.append(f"EIO {COMPILER}")
    claim = "disk full or EIO: one line, nothing half written, --resume byte-identical"
    return Figure("R10", claim, tried, held, "; ".join(notes))


def _limited_files(draw: random.Random, count: int) -> tuple[int, int]:
    """ulimit -f: no file may grow over a size between a log's and a checkpoint's."""
    held = 0
    with world(shared()) as here:
        whole = here.finished()
        sizes = [path.stat().st_size for path in whole.rglob("*.safetensors")]
        log = (whole / "metrics.jsonl").stat().st_size
        limits = [log // 2] + [draw.randrange(log + 8192, max(sizes)) for _ in range(count - 1)]
        for number, limit in enumerate(limits):
            run = here.folder / f"run-{number}"
            said = here.train(run, most=limit)
            held += _recovers(here, run, said, "File too large", outcome(whole))
    return len(limits), held


def _small_disks(draw: random.Random, count: int) -> tuple[int, int]:
    """A tmpfs with too little room, in a mount namespace of its own; more room is made later."""
    held = 0
    with tempfile.TemporaryDirectory(dir=in_memory()) as name, _mounting(Path(name)) as commands:
        # The small disk as this process sees it: through the namespace of the other one.
        inside = Path(f"/proc/{commands.process.pid}/root") / name.lstrip("/")
        write_world(inside)
        here = World(Path(name), commands)
        here.finished()
        whole = outcome(inside / "whole")
        room = sum(path.stat().st_size for path in (inside / "whole").rglob("*"))
        filler = inside / "filler"
        for number in range(count):
            run = Path(name) / f"run-{number}"
            shutil.rmtree(inside / f"run-{number - 1}", ignore_errors=True)
            _fill(filler, free=room * (number + draw.random()) / (count + 1))
            said = here.train(run)
            freed = _removed(filler)
            held += _recovers(
                here, run, said, "No space left", whole, seen=inside / run.name, before=freed
            )
    return count, held


def _failing_operations(draw: random.Random, count: int) -> tuple[int, int]:
    """EIO at one operation of a save: opening, writing, syncing, renaming."""
    held = 0
    with world(shared()) as here:
        whole, run = outcome(here.finished()), here.folder / "run"
        numbers = _operations_of_saves(here)
        step = len(numbers) / min(count, len(numbers))
        chosen = [numbers[int((i + draw.random()) * step)] for i in range(min(count, len(numbers)))]
        for number in chosen:
            shutil.rmtree(run, ignore_errors=True)
            env = here.env | {"FAULTS_UNDER": str(run), "FAULTS_AT": str(number)}
            said = here.commands.run("train", here.config, "--out", run, env=env)
            held += _recovers(here, run, said, "Input/output error", whole)
    return len(chosen), held


def _operations_of_saves(here: World) -> list[int]:
    """The numbers of the file operations that save the best network and the next checkpoints."""
    made = operations(here)
    first = next(one.number for one in made if "/best.tmp" in one.path)
    last = max(one.number for one in made if "/step-00000006.tmp" in one.path)
    return list(range(first, last + 6))  # also the rename and the seal


def _recovers(
    here: World,
    run: Path,
    said: Said,
    reason: str,
    whole: dict[str, bytes],
    *,
    seen: Path | None = None,
    before: Callable[[], None] = lambda: None,
) -> bool:
    """``seen``: the run's folder for this process; ``before``: done before it is resumed."""
    place = seen or run
    if said.code == 0:  # the fault hit something that is not needed
        return outcome(place) == whole
    failed = said.code == 1 and said.is_clean and reason in said.err
    before()
    damaged = here.verify(run) if (place / "run.json").exists() else []
    resumed = here.train(run, "--resume")
    return failed and not damaged and resumed.code == 0 and outcome(place) == whole


def _fill(file: Path, *, free: float) -> None:
    """Write a file that leaves so many bytes free on its disk."""
    size = shutil.disk_usage(file.parent).free - int(free)
    with file.open("wb") as stream:
        stream.write(bytes(max(size, 0)))


def _removed(file: Path) -> Callable[[], None]:
    return lambda: file.unlink(missing_ok=True)


def _may_mount() -> bool:
    if not shutil.which("unshare"):
        return False
    return (
        subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
    )


@contextmanager
def _mounting(folder: Path) -> Iterator[Commands]:
    script = 'mount -t tmpfs -o size=32m none "$0" && exec "$@"'
    with Commands(prefix=["unshare", "-rm", "sh", "-c", script, str(folder)]) as commands:
        commands.run("--version")  # the disk is mounted when it answers
        yield commands
