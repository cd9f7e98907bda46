"""SHA-256 of data files, cached as long as a file is certainly unchanged."""

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from cotrunk.data.reading.examples import Source
from cotrunk.data.tokens.store import read_note, write_note
from cotrunk.errors import UserError

SETTLED_AFTER = 2_000_000_000
"""Nanoseconds. File systems record times with a resolution of up to two seconds; within that, a
file can change without a new timestamp.
"""

Stamp = list[int]


def digest_of(sources: Sequence[Source]) -> str:
    """A digest of the rows of all files; for a single whole file, its SHA-256."""
    each = [_of_rows(source) for source in sources]
    return each[0] if len(each) == 1 else hashlib.sha256(" ".join(each).encode()).hexdigest()


def _of_rows(source: Source) -> str:
    whole, part = file_digest(source.path), source.part
    if part is None:
        return whole
    return hashlib.sha256(f"{whole} {part.split} {part.held.digest}".encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file, cached until its stamp changes.

    A file with a very recent timestamp, or one in the future, is read again each time.
    """
    stamp = stamp_of(path)
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()
    known = read_note("digests", name)
    if isinstance(known, dict) and known.get("stamp") == stamp:
        return str(known.get("sha256"))
    now = time.time_ns()
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    refuse_changed(path, stamp)
    if now - max(_times(stamp)) > SETTLED_AFTER:
        write_note("digests", name, {"stamp": stamp, "sha256": sha256})
    return sha256


def stamp_of(path: Path) -> Stamp:
    """Changes with the file: the time of the last change (ctime) cannot be set back."""
    status = path.stat()
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def refuse_changed(path: Path, stamp: Stamp) -> None:
    if stamp_of(path) != stamp:
        raise UserError(f"{path}: changed while it was read; start again when it is complete")


def _times(stamp: Stamp) -> Stamp:
    return stamp[2:]
