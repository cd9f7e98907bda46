"""Versions and machine of a run: recorded in run.json, never compared."""

import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import cotrunk

PACKAGES = ("torch", "numpy", "tokenizers")
GIT_SECONDS = 5


@cache
def environment() -> Mapping[str, Any]:
    """Versions, the commit of the package if it is a checkout, and the CPU of this process."""
    return {
        "versions": {
            "cotrunk": cotrunk.__version__,
            "python": platform.python_version(),
            **{package: _version(package) for package in PACKAGES},
        },
        "commit": commit(Path(cotrunk.__file__).parent),
        "cpu": cpu_model(Path("/proc/cpuinfo")),
        "cores": os.cpu_count(),
    }


def commit(package: Path) -> str | None:
    """The git commit of a folder, with ``-dirty`` if its files have changes.

    None if its files are not tracked: it may be installed inside another project's checkout.
    """
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    head = _git(package, "rev-parse", "HEAD")
    changed = _git(package, "status", "--porcelain", "--", ".")
    return f"{head}-dirty" if head and changed else head


def cpu_model(cpuinfo: Path) -> str:
    """The CPU's name from /proc/cpuinfo, else from ``platform``."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=GIT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
