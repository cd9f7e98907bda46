"""Commands whose file operations are counted, fail or kill the process: eio.c, preloaded."""

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from faults.commands import Commands
from faults.world import World

COMPILER = "needs a C compiler: apt install gcc"


class Operation(NamedTuple):
    number: int
    what: str
    path: str


@contextmanager
def preloaded() -> Iterator[Path]:
    """eio.c, compiled."""
    with tempfile.TemporaryDirectory() as name:
        library = Path(name) / "eio.so"
        source = Path(__file__).with_name("eio.c")
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
        subprocess.run(command, check=True)
        yield library


@cache
def shared() -> Commands:
    """The commands of all lines that need nothing special, with eio.c if there is a C compiler.

    They end with this process.
    """
    kept = ExitStack()
    atexit.register(kept.close)
    env = {"LD_PRELOAD": str(kept.enter_context(preloaded()))} if shutil.which("cc") else {}
    return kept.enter_context(Commands(env=env))


def operations(here: World) -> list[Operation]:
    """The file operations of a training, in order; none without a C compiler."""
    log, run = here.folder / "operations", here.folder / "counted"
    env = here.env | {"FAULTS_UNDER": str(run), "FAULTS_LOG": str(log)}
    said = here.commands.run("train", here.config, "--out", run, env=env)
    assert said.code == 0, said
    lines = [line.split(" ", 2) for line in log.read_text().splitlines()] if log.exists() else []
    return [Operation(int(number), what, path) for number, what, path in lines]
