"""Files that a user named to be written."""

import os
import uuid
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


def write_whole(path: Path, text: str) -> None:
    """All or nothing: what was there stays until the new text is on disk."""
    path = path.resolve()
    replaceable = path.is_file() or not path.exists()  # a device is neither
    growing = path.with_name(f"{path.name}.{uuid.uuid4().hex}") if replaceable else path
    try:
        growing.write_text(text, encoding="utf-8", newline="")
        if replaceable:
            growing.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        if replaceable:
            growing.unlink(missing_ok=True)
