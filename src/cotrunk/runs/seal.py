"""seal.json: sizes and hashes of a run's files, so that ``cotrunk verify`` finds any damage.

It is written when training starts, at every checkpoint and at the end. A checkpoint or saved
network has its own manifest; the seal has the SHA-256 of that. During training,
metrics.jsonl and timing.jsonl are covered up to where they ended at the last seal, and ``best`` may
be newer than the seal. Once the run is ``finished``, everything must match exactly.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cotrunk.files import MOST_HEADER_BYTES, read_regular, sync, write_whole
from cotrunk.runs.checkpoint import MANIFEST, place_of, to_json
from cotrunk.runs.structure import SealDocument, misfit

NAME = "seal.json"
FORMAT = 1
MOST_BYTES = 4 * 2**20
MAX_LOG_BYTES = 2**32
DOCUMENTS = ("run.json", "findings.json")
GROWING = ("metrics.jsonl", "timing.jsonl")
SAVED = re.compile(r"(best(-[A-Za-z0-9_-]+)?|final)(\.old)?")
STEP = re.compile(r"step-\d{8,}(\.old)?")


class SealBroken(RuntimeError):
    """seal.json itself is damaged or missing."""


@dataclass(frozen=True)
class Entry:
    """The first ``bytes`` of a file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Seal:
    """``files`` of the run folder itself; ``folders`` with the SHA-256 of their manifests."""

    finished: bool = False
    files: Mapping[str, Entry] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)


def entry_of(path: Path, length: int | None = None) -> Entry:
    """The entry of a file's first ``length`` bytes, by default of all its complete lines."""
    data = read_regular(path, MAX_LOG_BYTES)
    used = data[: data.rfind(b"\n") + 1 if length is None else length]
    return Entry(len(used), hashlib.sha256(used).hexdigest())


def seal_run(folder: Path, *, finished: bool = False, without: Collection[str] = ()) -> None:
    """Seal the files of a run; ``without`` the folders that are about to be deleted.

    What was sealed before stays as it was: damage must not be sealed as if it were right.
    """
    before = last_seal(folder).files
    found = {name: before.get(name) or _found(folder / name) for name in DOCUMENTS}
    found |= {name: _extended(folder / name, before.get(name)) for name in GROWING}
    files = {name: entry for name, entry in found.items() if entry}
    # ``final`` is deleted when a finished run is resumed.
    hidden = without if finished else (*without, "final")
    names = [name for name in saved_folders(folder) if name not in hidden]
    write_seal(folder, Seal(finished, files, manifest_sums(folder, names)))


def has_changed(path: Path) -> bool:
    """Whether a file no longer begins with what was sealed of it."""
    sealed = last_seal(path.parent).files.get(path.name)
    return sealed is not None and entry_of(path, sealed.bytes) != sealed


def loosen_seal(folder: Path, files: Mapping[str, Entry]) -> None:
    """Cover only these ``files`` and timing.jsonl, because the others are about to be rewritten."""
    seal_run(folder)
    before = read_seal(folder)
    kept = {name: before.files[name] for name in GROWING if name in before.files}
    write_seal(folder, Seal(False, {**kept, **files}, before.folders))


def last_seal(folder: Path) -> Seal:
    """Nothing is sealed if seal.json is damaged or missing."""
    try:
        return read_seal(folder)
    except SealBroken:
        return Seal()


def _found(path: Path) -> Entry | None:
    return entry_of(path) if path.is_file() else None


def _extended(path: Path, before: Entry | None) -> Entry | None:
    """The entry of a file that has only grown since ``before``; otherwise still ``before``.

    The file is read and hashed once, because this happens at every checkpoint.
    """
    if before is None or not path.is_file():
        return before or _found(path)
    data = read_regular(path, MAX_LOG_BYTES)
    content = hashlib.sha256(data[: before.bytes])
    if len(data) < before.bytes or content.hexdigest() != before.sha256:
        return before
    end = data.rfind(b"\n") + 1
    if end <= before.bytes:
        return before
    content.update(data[before.bytes : end])
    return Entry(end, content.hexdigest())


def write_seal(folder: Path, seal: Seal) -> None:
    write_whole(folder / NAME, _sealed(_content(seal)))
    sync(folder)


def read_seal(folder: Path) -> Seal:
    try:
        data = read_regular(folder / NAME, MOST_BYTES)
    except FileNotFoundError:
        raise SealBroken("no such file") from None
    except OSError as error:
        raise SealBroken(f"cannot be read: {error.strerror}") from error
    try:
        content = json.loads(data)
        if _sealed({key: content[key] for key in content if key != "sha256"}) != data:
            raise SealBroken("does not match its own SHA-256")
        if content["format"] != FORMAT:
            raise SealBroken(f"has format {content['format']!r}, not {FORMAT}")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SealBroken("is not the record of sizes and hashes that training wrote") from None
    if wrong := misfit(SealDocument, content):
        raise SealBroken(f"is not what training wrote: {wrong}")
    files = {name: Entry(**entry) for name, entry in content["files"].items()}
    return Seal(content["finished"], files, content["folders"])


def saved_folders(folder: Path) -> list[str]:
    """The saved networks and checkpoints that lie in a run folder, by relative name."""
    saved = [path.name for path in folder.iterdir() if SAVED.fullmatch(path.name)]
    steps = folder / "checkpoints"
    if steps.is_dir():
        saved += [
            f"{steps.name}/{path.name}" for path in steps.iterdir() if STEP.fullmatch(path.name)
        ]
    return sorted({name.removesuffix(".old") for name in saved})


def manifest_sums(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """The SHA-256 of the manifest of each saved folder."""
    sums = {name: manifest_sha256(place_of(folder / name)) for name in names}
    return {name: sha256 for name, sha256 in sums.items() if sha256}


def manifest_sha256(place: Path) -> str:
    """The SHA-256 of a saved folder's manifest; "" if it cannot be read."""
    try:
        manifest = read_regular(place / MANIFEST, MOST_HEADER_BYTES)
    except OSError:
        return ""
    return hashlib.sha256(manifest).hexdigest()


def _content(seal: Seal) -> dict[str, object]:
    return {"format": FORMAT, **asdict(seal)}


def _sealed(content: dict[str, object]) -> bytes:
    sha256 = hashlib.sha256(to_json(content)).hexdigest()
    return to_json({**content, "sha256": sha256})
