"""Atomic writes: files and folders get a temporary name first and are renamed when complete.

Also size-limited reads of files that others may have written.
"""

import errno
import math
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TextIO

UNFINISHED = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{32}")
"""The temporary name of a cache folder."""
ONE_DAY = 24 * 60 * 60
MOST_HEADER_BYTES = 4 * 2**20
MOST_TENSORS = 20_000
"""Limits of a safetensors file. Published encoders have under 500 tensors of 100 header bytes."""


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file atomically: readers see the old contents or the new, never a part.

    A device (``-o /dev/stdout``) cannot be replaced, so it is written to directly. Errors name
    ``path``; those of a plain ``write()`` do not.
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
def whole_file(path: Path) -> Iterator[TextIO]:
    """A text file that replaces ``path`` when the block is done, unless it fails.

    For what is too long to hold in memory; otherwise as ``write_whole``.
    """
    path = path.resolve()
    is_device = path.exists() and not path.is_file()
    beside = path if is_device else _beside(path)
    try:
        with beside.open("w", encoding="utf-8", newline="") as file:
            yield file
        if not is_device:
            sync(beside)
            beside.replace(path)
    except OSError as error:
        if error.filename not in (None, str(beside)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        if not is_device:
            beside.unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: Path, is_whole: Callable[[Path], bool]) -> Iterator[Path]:
    """Yields a temporary folder, which is renamed to ``folder`` unless the block fails.

    If another process was faster, ``is_whole`` decides whether its folder is complete.
    """
    clear_leftovers(folder.parent)
    beside = _beside(folder)
    beside.mkdir(parents=True)
    try:
        yield beside
        try:
            beside.rename(folder)
        except OSError:
            if not is_whole(folder):  # damaged: replace it
                shutil.rmtree(folder, ignore_errors=True)
                beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder, which is renamed to ``folder`` unless the block fails.

    Unlike ``whole_folder`` it never replaces anything but an empty folder.
    """
    folder = folder.resolve()
    beside = _beside(folder)
    beside.mkdir(parents=True)
    try:
        yield beside
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file to read it; ``OSError`` for anything else.

    Opening a pipe could wait forever, and reading a device could never end.
    """
    # Opened before it is checked, so that nobody can exchange it in between.
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(number).st_mode):
        return open(number, "rb")
    os.close(number)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_regular(path: Path, most: int) -> bytes:
    """The content of a regular file of at most that many bytes; ``OSError`` for anything else."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(size + 1) if size <= most else b""  # it may be growing
        if max(size, len(data)) > most:
            raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
    return data


def clear_leftovers(folder: Path) -> None:
    """Remove the unfinished folders of killed processes: those not written to for a day.

    Age decides, not a process id: the process may run on another machine with the same home.
    """
    unfinished = [path for path in folder.glob("*.*") if UNFINISHED.fullmatch(path.name)]
    for path in unfinished:
        if time.time() - _last_written(path) > ONE_DAY:
            shutil.rmtree(path, ignore_errors=True)  # another process may remove it too


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def without_nan(value: object) -> object:
    """NaN and infinities become None, because JSON has neither."""
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
    except OSError:  # finished or removed in the meantime
        return math.inf
