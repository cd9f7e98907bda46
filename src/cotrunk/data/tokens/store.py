"""The cache: folders and small JSON notes, written atomically and verified when they are read."""

import json
import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import platformdirs

from cotrunk.errors import UserError
from cotrunk.files import open_regular, read_regular, sync, whole_folder, write_whole

SUMS = "sums.json"
MOST_SUMS_BYTES = 2**20
MOST_NOTE_BYTES = 2**28
BLOCK = 1 << 20
VERIFIERS = 2

Sum = tuple[int, int]
"""Size and CRC-32, which is fast (4 GB/s) and detects disk errors. It does not protect against an
attacker, who could write the sums as well.
"""


class CacheUnusable(UserError):
    """The cache cannot be written, because its disk is full or read-only, for example."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"the cache in {cache_folder()} cannot be written: {error.strerror or error}; "
            "make room there, or set COTRUNK_CACHE to another folder"
        )


def cache_folder() -> Path:
    """``COTRUNK_CACHE``, else the user's cache folder."""
    named = os.environ.get("COTRUNK_CACHE")
    return Path(named) if named else platformdirs.user_cache_path("cotrunk")


def is_intact(folder: Path) -> bool:
    """Whether a folder has exactly the files that were stored under its name, byte for byte."""
    try:
        sealed = json.loads(read_regular(folder / SUMS, MOST_SUMS_BYTES))
        if sealed["key"] != folder.name:  # another folder was renamed
            return False
        sums = sealed["files"]
        files = {path.name: path for path in folder.iterdir() if path.name != SUMS}
        if sums.keys() != files.keys():
            return False
        if any(path.stat().st_size != sums[name][0] for name, path in files.items()):
            return False
        largest_first = sorted(files, key=lambda name: sums[name][0], reverse=True)
        with ThreadPoolExecutor(VERIFIERS) as pool:  # zlib lets other threads run
            found = pool.map(_sum, [files[name] for name in largest_first])
            return all(tuple(sums[n]) == each for n, each in zip(largest_first, found, strict=True))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False


@contextmanager
def storing(folder: Path) -> Iterator[Path]:
    """Yields an empty folder; if the block succeeds, its files are summed, synced and renamed.

    A damaged ``folder`` is replaced. ``CacheUnusable`` if anything cannot be written.
    """
    try:
        with whole_folder(folder, is_intact) as beside:
            yield beside
            _seal(beside, key=folder.name)
        sync(folder.parent)
    except OSError as error:
        raise CacheUnusable(error) from error


def read_note(kind: str, name: str) -> Any:
    """A small JSON value that was noted before; None if it is missing or damaged."""
    try:
        content, crc = json.loads(read_regular(_note(kind, name), MOST_NOTE_BYTES))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return content if crc == _crc_of(kind, name, content) else None


def write_note(kind: str, name: str, content: object) -> None:
    """Notes only save time, so one that cannot be written is not an error."""
    place = _note(kind, name)
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, json.dumps([content, _crc_of(kind, name, content)]).encode())


def _note(kind: str, name: str) -> Path:
    return cache_folder() / kind / f"{name}.json"


def _crc_of(kind: str, name: str, content: object) -> int:
    """Includes the name: a note that was renamed is about something else."""
    return zlib.crc32(json.dumps([kind, name, content]).encode())


def _seal(folder: Path, *, key: str) -> None:
    sums = {}
    for path in sorted(folder.iterdir()):
        sums[path.name] = _sum(path)
        sync(path)
    (folder / SUMS).write_text(json.dumps({"key": key, "files": sums}))
    sync(folder / SUMS)
    sync(folder)


def _sum(path: Path) -> Sum:
    """Read through a buffer: pages of a mapped file would count as memory in use."""
    block, size, crc = memoryview(bytearray(BLOCK)), 0, 0
    with open_regular(path) as file:
        while count := file.readinto(block):
            size, crc = size + count, zlib.crc32(block[:count], crc)
    return size, crc
