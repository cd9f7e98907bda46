"""Sweeps as a user calls them, each in a process of its own that can be killed."""

import io
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from cotrunk.cli.main import main
from toy import FILES

ON_A_BUSY_MACHINE = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # loopback only
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # when it is ended; nothing is left to finish
}
SWEEP = """
base = "toy.toml"
max_concurrent = 2
[overrides]
"train.epochs" = 4
[axes]
"train.lr" = [0.001, 0.01, 0.1]
"""


def write_sweep(toy: Path, text: str = SWEEP) -> Path:
    file = toy.with_name("sweep.toml")
    file.write_text(text, encoding="utf-8")
    return file


@contextmanager
def cluster() -> Iterator[str]:
    """A Ray cluster of one node on this machine; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with tempfile.TemporaryDirectory(prefix="ct", dir="/tmp") as scratch:  # Ray needs short paths
        asked = f"""
            start --head --block --node-ip-address=127.0.0.1 --port={address.partition(":")[2]}
            --num-cpus=2 --object-store-memory=80000000 --include-dashboard=false
            --disable-usage-stats --temp-dir={scratch}
        """
        head = subprocess.Popen(
            [Path(sys.executable).with_name("ray"), *asked.split()],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=dict(os.environ, **ON_A_BUSY_MACHINE),
        )
        try:
            assert head.stdout is not None
            said = []
            while "Ray runtime started" not in "".join(said[-1:]):
                said.append(head.stdout.readline())
                assert said[-1], "".join(said)
            yield address
        finally:
            head.terminate()
            head.communicate(timeout=60)


def command(file: Path, out: Path, engine: str, *more: str) -> list[str]:
    """``engine``: local, ray, or the address of a Ray cluster."""
    is_address = ":" in engine
    where = ["--engine", "ray", "--address", engine] if is_address else ["--engine", engine]
    asked = ["sweep", str(file), "-o", str(out), *where, *more]
    return [sys.executable, "-m", "cotrunk", *asked]


def run(file: Path, out: Path, engine: str, *more: str, code: int = 0) -> dict[str, Any]:
    """The document that a sweep prints.

    Ray is started in a process of its own; trials in plain processes are started from this one.
    """
    asked = command(file, out, engine, "--json", *more)
    if engine == "local":
        with redirect_stdout(io.StringIO()) as answer, redirect_stderr(io.StringIO()) as notes:
            found, printed, said = main(asked[3:]), answer.getvalue(), notes.getvalue()
    else:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=600)
        found, printed, said = done.returncode, done.stdout, done.stderr
    assert found == code, said
    return json.loads(printed) if printed else {"said": said}


def results(out: Path) -> dict[str, bytes]:
    """The files in which two runs of the same settings are equal, of all runs."""
    return {
        f"{folder.parent.name}/{name}": (folder.parent / name).read_bytes()
        for folder in sorted(out.glob("*/run.json"))
        for name in FILES
        if (folder.parent / name).exists()
    }


def finished(out: Path) -> dict[str, tuple[int, int]]:
    """The runs that are finished, and what would change if one were trained again."""
    found = {path.parent.parent.name: path.stat() for path in out.glob("*/final/model.safetensors")}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in found.items()}


def trials_running(out: Path) -> list[int]:
    """Processes that hold a file of the sweep open: its trials."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            files = [os.readlink(link) for link in (folder / "fd").iterdir()]
        except OSError:
            continue
        if any(file.startswith(f"{out.resolve()}/") and "trial.log" in file for file in files):
            found.append(int(folder.name))
    return found
