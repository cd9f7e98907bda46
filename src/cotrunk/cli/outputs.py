"""Output files and folders that the user named."""

import os
from argparse import Namespace
from pathlib import Path

from cotrunk.errors import UserError
from cotrunk.runs.folder import RunFolder


def run_folder(arguments: Namespace) -> Path:
    """``--out`` of ``train``, else runs/<name of the config>."""
    return Path(arguments.out or Path("runs") / Path(arguments.config).stem)


def refuse_bad_target(path: Path) -> None:
    """Check an output path before the work starts, not after it."""
    if path.is_dir():
        raise UserError(f"-o {path}: is a folder; give the name of a file")
    refuse_inside_run(path)
    if not path.parent.is_dir():
        raise UserError(f"-o {path}: no such folder: {path.parent}; create it or choose another")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"-o {path}: no permission to write there; choose another path")


def refuse_inside_run(path: Path) -> None:
    """Only training writes to a run folder: other output could replace its files."""
    place = path.resolve()
    for folder in (place, *place.parents):
        if RunFolder(folder).is_one:
            raise UserError(f"-o {path}: is inside the run {folder}; choose a path outside it")
