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

from cotrunk.files import sync, whole_folder, write_whole

SUMS = "sums.json"
BLOCK = 1 << 20
VERIFIERS = 2

Sum = tuple[int, int]
"""Size and CRC-32, which is fast (4 GB/s) and detects disk errors. It does not protect against an
attacker, who could write the sums as well.
"""


class CacheUnusable(RuntimeError):
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
    """Whether a folder has exactly the files that were stored in it, byte for byte."""
    try:
        sums = json.loads((folder / SUMS).read_bytes())
        files = {path.name: path for path in folder.iterdir() if path.name != SUMS}
        if sums.keys() != files.keys():
            return False
        if any(path.stat().st_size != sums[name][0] for name, path in files.items()):
            return False
        largest_first = sorted(files, key=lambda name: sums[name][0], reverse=True)
        with ThreadPoolExecutor(VERIFIERS) as pool:  # zlib lets other threads run
            found = pool.map(_sum, [files[name] for name in largest_first])
            return all(tuple(sums[n]) == each for n, each in zip(largest_first, found, strict=True))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False


@contextmanager
def storing(folder: Path) -> Iterator[Path]:
    """Yields an empty folder; if the block succeeds, its files are summed, synced and renamed.

    A damaged ``folder`` is replaced. ``CacheUnusable`` if anything cannot be written.
    """
    try:
        with whole_folder(folder, is_intact) as beside:
            yield beside
            _seal(beside)
        sync(folder.parent)
    except OSError as error:
        raise CacheUnusable(error) from error


def read_note(kind: str, name: str) -> Any:
    """A small JSON value that was noted before; None if it is missing or damaged."""
    try:
        content, crc = json.loads(_note(kind, name).read_bytes())
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return content if crc == _crc_of(content) else None


def write_note(kind: str, name: str, content: object) -> None:
    """Notes only save time, so one that cannot be written is not an error."""
    place = _note(kind, name)
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, json.dumps([content, _crc_of(content)]).encode())


def _note(kind: str, name: str) -> Path:
    return cache_folder() / kind / f"{name}.json"


def _crc_of(content: object) -> int:
    return zlib.crc32(json.dumps(content).encode())


def _seal(folder: Path) -> None:
    sums = {}
    for path in sorted(folder.iterdir()):
        sums[path.name] = _sum(path)
        sync(path)
    (folder / SUMS).write_text(json.dumps(sums))
    sync(folder / SUMS)
    sync(folder)


def _sum(path: Path) -> Sum:
    """Read through a buffer: pages of a mapped file would count as memory in use."""
    block, size, crc = memoryview(bytearray(BLOCK)), 0, 0
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(block):
            size, crc = size + count, zlib.crc32(block[:count], crc)
    return size, crc
