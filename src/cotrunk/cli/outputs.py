"""Output files and folders that the user named."""

import os
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

from cotrunk.errors import UserError
from cotrunk.runs.checkpoint import MANIFEST

MARKS = ("run.json", "seal.json")
"""Files that only a run folder has, whatever they contain now."""


def run_folder(arguments: Namespace) -> Path:
    """``--out`` of ``train``, else runs/<name of the config>."""
    return Path(arguments.out or Path("runs") / Path(arguments.config).stem)


def refuse_bad_target(path: Path, runs: Iterable[Path] = ()) -> None:
    """Check an output path before the work starts, not after it; ``runs`` are those it reads."""
    if path.is_dir():
        raise UserError(f"-o {path}: is a folder; give the name of a file")
    refuse_inside_run(path, runs)
    if not path.parent.is_dir():
        raise UserError(f"-o {path}: no such folder: {path.parent}; create it or choose another")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"-o {path}: no permission to write there; choose another path")


def refuse_inside_run(path: Path, runs: Iterable[Path] = ()) -> None:
    """Only training writes to a run folder: other output could replace its files.

    ``runs`` are folders that are certainly runs, because the command reads them.
    """
    place = path.resolve()
    known = {run.resolve() for run in runs}
    for folder in (place, *place.parents):
        if folder in known or _is_run(folder):
            raise UserError(f"-o {path}: is inside the run {folder}; choose a path outside it")


def _is_run(folder: Path) -> bool:
    """Whether a folder is a run or one of its saved networks, even if files were deleted."""
    if any(os.path.lexists(folder / mark) for mark in MARKS):
        return True
    # Other programs write a manifest.json, too.
    return os.path.lexists(folder / MANIFEST) and any(folder.glob("*.safetensors"))
