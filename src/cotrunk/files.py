"""Files and folders that appear whole or not at all: written beside their name, then renamed.

And JSON, which has no word for NaN.
"""

import math
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

BEGUN = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{32}")
"""A folder of the cache that is being filled."""
A_DAY = 24 * 60 * 60


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file; a reader sees the old contents or the new, never a part.

    A device (``-o /dev/stdout``) cannot be replaced and is written to directly. An error names
    ``path``, which that of ``write()`` does not.
    """
    path = path.resolve()
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            _replace(path, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _replace(path: Path, data: bytes) -> None:
    beside = _beside(path)
    try:
        beside.write_bytes(data)
        sync(beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: Path, is_whole: Callable[[Path], bool]) -> Iterator[Path]:
    """A place beside ``folder`` to fill; it takes that name once nothing has failed.

    ``is_whole`` says whether a folder that another process put there first can be used.
    """
    clear_leftovers(folder.parent)
    beside = _beside(folder)
    beside.mkdir(parents=True)
    try:
        yield beside
        try:
            beside.rename(folder)
        except OSError:
            if not is_whole(folder):  # else another process was quicker
                shutil.rmtree(folder, ignore_errors=True)  # something in it is lost or cut short
                beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def clear_leftovers(folder: Path) -> None:
    """Remove folders that a killed process left unfinished: nothing was written there for a day.

    Their age decides, not their process: it may run on another machine with the same home.
    """
    begun = [path for path in folder.glob("*.*") if BEGUN.fullmatch(path.name)]
    for path in begun:
        if time.time() - _last_written(path) > A_DAY:
            shutil.rmtree(path, ignore_errors=True)  # another process may do so too


def sync(path: Path) -> None:
    """Make a file, or the names inside a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def without_nan(value: object) -> object:
    """NaN and infinities become None, which JSON can say."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(inner) for inner in value]
    return value


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.{uuid.uuid4().hex}")


def _last_written(folder: Path) -> float:
    try:
        return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
    except OSError:  # it was finished or removed meanwhile
        return math.inf
