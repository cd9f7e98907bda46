"""Checks that every file of a run matches its recorded hash."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cotrunk.errors import UserError
from cotrunk.files import read_regular
from cotrunk.runs import seal as seals
from cotrunk.runs.checkpoint import (
    MANIFEST,
    MAX_DOCUMENT_BYTES,
    damages,
    identity,
    place_of,
)
from cotrunk.runs.seal import (
    Entry,
    Seal,
    SealBroken,
    entry_of,
    manifest_sha256,
    read_seal,
    saved_folders,
)


@dataclass(frozen=True)
class Damage:
    """``file`` is relative to the run folder."""

    file: str
    why: str


@dataclass(frozen=True)
class Verified:
    files: int
    damaged: tuple[Damage, ...]


def verify(folder: Path) -> Verified:
    """Check all files; once more if a running training has replaced some of them."""
    if not any((folder / name).exists() for name in ("run.json", seals.NAME)):
        raise UserError(
            f"{folder} is not a run: it has no run.json; give a folder written by `cotrunk train`"
        )
    while True:
        before = _state(folder)
        found = _verify(folder)
        if not found.damaged or _state(folder) == before:
            return found


def _verify(folder: Path) -> Verified:
    seal, damaged, count = Seal(), list[Damage](), 1
    try:
        seal = read_seal(folder)
    except SealBroken as error:
        if saved_folders(folder) or (folder / seals.GROWING[0]).exists():
            damaged.append(Damage(seals.NAME, str(error)))
        documents = [folder / name for name in seals.DOCUMENTS if (folder / name).exists()]
        damaged += [Damage(file.name, why) for file in documents if (why := _not_json(file))]
        count += len(documents)
    count += len(seal.files)
    for name, entry in seal.files.items():
        # Costs are added to timing.jsonl when a finished run is resumed, before it is sealed again.
        exactly = name in seals.DOCUMENTS or (seal.finished and name != "timing.jsonl")
        damaged += [Damage(name, why) for why in _faults(folder / name, entry, exactly=exactly)]
    for name in sorted(seal.folders.keys() | set(saved_folders(folder))):
        files, more = _folder(folder, name, seal)
        count, damaged = count + files, [*damaged, *more]
    return Verified(count, tuple(damaged))


def _not_json(path: Path) -> str:
    """All that can be said of a document without its hash; "" if it can be read."""
    try:
        json.loads(read_regular(path, MAX_DOCUMENT_BYTES))
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        return f"is not JSON: {error}"
    return ""


def _faults(path: Path, entry: Entry, *, exactly: bool) -> Iterator[str]:
    if not path.is_file() or path.is_symlink():
        yield "is not a plain file" if path.is_symlink() or path.exists() else "no such file"
        return
    try:
        size = path.stat().st_size
        if size < entry.bytes or (exactly and size != entry.bytes):
            yield f"expected {entry.bytes} bytes, found {size}"
        elif (found := entry_of(path, entry.bytes).sha256) != entry.sha256:
            yield f"expected SHA-256 {entry.sha256[:12]}.., found {found[:12]}.."
    except OSError as error:
        yield f"cannot be read: {error.strerror}"


def _folder(run: Path, name: str, seal: Seal) -> tuple[int, list[Damage]]:
    place = place_of(run / name)
    if not place.is_dir():
        return 1, [Damage(name, "no such folder")]
    count, found = damages(place)
    manifest = place / MANIFEST
    sha256 = manifest_sha256(place)
    if seal.finished and sha256 and sha256 != seal.folders.get(name):
        # In an unfinished run it may be newer than the seal; then only its own manifest counts.
        why = "is not the one that was sealed when the run finished"
        return count, [Damage(str(manifest.relative_to(run)), why)]
    return count, [
        Damage(str(each.file.relative_to(run)), f"expected {each.expected}, found {each.actual}")
        for each in found
    ]


def _state(folder: Path) -> object:
    try:
        seal = read_regular(folder / seals.NAME, seals.MOST_BYTES)
    except OSError:
        seal = b""
    return seal, [identity(place_of(folder / name)) for name in saved_folders(folder)]
