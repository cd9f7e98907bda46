"""Output files that the user named."""

import os
from pathlib import Path

from cotrunk.errors import UserError


def refuse_bad_target(path: Path) -> None:
    """Called before the work starts, not when it is done."""
    if path.is_dir():
        raise UserError(f"-o {path}: is a folder; give a file")
    if not path.parent.is_dir():
        raise UserError(f"-o {path}: no such folder: {path.parent}; create it or choose another")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"-o {path}: no permission to write there; choose another path")
