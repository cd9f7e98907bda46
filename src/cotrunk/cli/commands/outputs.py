"""Files that a user named to be written."""

import os
from pathlib import Path

from cotrunk.errors import UserError


def refuse_bad_target(path: Path) -> None:
    """Said before the work, not after it."""
    if path.is_dir():
        raise UserError(f"-o {path}: that is a folder; name a file")
    if not path.parent.is_dir():
        raise UserError(f"-o {path}: there is no folder {path.parent}; make it, or name another")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"-o {path}: you may not write there; name another place")
