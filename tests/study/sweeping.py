"""Sweeps as a user calls them, each in a process of its own that can be killed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from toy import FILES

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


def command(file: Path, out: Path, engine: str, *more: str) -> list[str]:
    asked = ["sweep", str(file), "-o", str(out), "--engine", engine, *more]
    return [sys.executable, "-m", "cotrunk", *asked]


def run(file: Path, out: Path, engine: str, *more: str, code: int = 0) -> dict[str, Any]:
    """The document that a sweep prints."""
    asked = command(file, out, engine, "--json", *more)
    done = subprocess.run(asked, capture_output=True, text=True, timeout=600)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if done.stdout else {"said": done.stderr}


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
