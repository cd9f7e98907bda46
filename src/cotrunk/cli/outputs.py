"""Output files that the user named."""

import os
import uuid
from pathlib import Path

from cotrunk.errors import UserError


def refuse_bad_target(path: Path) -> None:
    """Checked before the work starts, not when it is done."""
    if path.is_dir():
        raise UserError(f"-o {path}: is a folder; give a file")
    if not path.parent.is_dir():
        raise UserError(f"-o {path}: there is no folder {path.parent}; create it, or give another")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"-o {path}: no permission to write there; give another place")


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
