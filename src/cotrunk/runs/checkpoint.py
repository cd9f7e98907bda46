"""A checkpoint: a folder of safetensors and JSON, sealed by a manifest of SHA-256 sums.

It is written to ``name.tmp``, synced and then renamed, so a folder with the final name is complete.
Reading verifies every byte before use, and nothing is ever unpickled.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from safetensors import SafetensorError

from cotrunk.files import (
    MOST_HEADER_BYTES,
    MOST_TENSORS,
    open_regular,
    read_regular,
    sync,
)

if TYPE_CHECKING:  # importing torch takes seconds; most readers need only the JSON
    import numpy as np
    from torch import Tensor

MANIFEST = "manifest.json"
FORMAT = 1
MAX_DOCUMENT_BYTES = 64 * 2**20

Json = Any
Found = TypeVar("Found")
Tensors = Mapping[str, Mapping[str, "Tensor"]]


class CheckpointError(RuntimeError):
    """A checkpoint could not be written or read."""


class CheckpointDamaged(CheckpointError):
    """A file of a checkpoint does not match the manifest."""

    def __init__(self, file: Path, expected: str, actual: str) -> None:
        self.file, self.expected, self.actual = file, expected, actual
        name = ascii(file.name)[1:-1]  # a stray file may have any name
        super().__init__(f"{file.parent} is damaged: {name}: expected {expected}, found {actual}")


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint, completely in memory."""

    folder: Path
    documents: dict[str, Json]
    loaded: dict[str, dict[str, "Tensor"]]

    def tensors(self, name: str) -> dict[str, "Tensor"]:
        if name not in self.loaded:
            raise CheckpointError(f"{self.folder} has no {name}.safetensors")
        return self.loaded[name]


def write_checkpoint(
    folder: Path,
    *,
    tensors: Tensors,
    documents: Mapping[str, object],
    beside: Sequence[Path] = (),
) -> None:
    """Write ``tensors[k]`` to k.safetensors and ``documents[k]`` to k.json, all or nothing.

    Files that are equal in a checkpoint ``beside`` it become hard links, to take their space once.
    """
    from safetensors.torch import save_file

    texts = {f"{name}.json": to_json(document) for name, document in documents.items()}
    if MANIFEST in texts:
        raise ValueError(
            "a document cannot be called 'manifest': it would overwrite the checkpoint's"
        )
    for name, named in tensors.items():
        if len(named) > MOST_TENSORS:
            raise ValueError(f"{name}: has {len(named)} tensors; the limit is {MOST_TENSORS}")
    growing, old = _beside(folder, ".tmp"), _beside(folder, ".old")
    try:
        shutil.rmtree(growing, ignore_errors=True)
        growing.mkdir()
        for name, text in texts.items():
            (growing / name).write_bytes(text)
        for name, named in tensors.items():
            save_file(dict(named), growing / f"{name}.safetensors")
        _seal(growing, beside)
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
        growing.rename(folder)
        sync(folder.parent)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{folder} could not be written: {error}") from error
    finally:
        shutil.rmtree(growing, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read and verify every file; anything unexpected is ``CheckpointDamaged``."""
    return _read_consistently(folder, ("json", "safetensors"))


def read_documents(folder: Path) -> dict[str, Json]:
    """Read and verify the JSON files; of the others only check existence and size."""
    return _read_consistently(folder, ("json",)).documents


def read_arrays(folder: Path, name: str) -> "dict[str, np.ndarray]":
    """Read and verify ``name``.safetensors without torch."""

    def read(place: Path) -> "dict[str, np.ndarray]":
        file = place / f"{name}.safetensors"
        try:
            sums = _check_listing(place)
            if file.name not in sums:
                raise CheckpointError(f"{folder} has no {file.name}")
            return _parse_arrays(file, _verified(file, sums[file.name]))
        except OSError as error:
            raise CheckpointDamaged(file, "a readable file", f"{error.strerror}") from error

    return _retry_if_replaced(folder, read)


def _read_consistently(folder: Path, kinds: Sequence[str]) -> Checkpoint:
    return _retry_if_replaced(folder, lambda place: _read(place, kinds))


def _retry_if_replaced(folder: Path, read: Callable[[Path], Found]) -> Found:
    while True:
        place = place_of(folder)
        seen = identity(place)
        try:
            return read(place)
        except CheckpointError:
            # A running training may have replaced the folder meanwhile: then try again.
            if identity(place_of(folder)) == seen:
                raise


def looks_whole(folder: Path) -> bool:
    """Whether the folder has exactly the files of the manifest, by name and size."""
    try:
        _check_listing(place_of(folder))
    except (CheckpointDamaged, OSError):
        return False
    return True


def damages(folder: Path) -> tuple[int, list[CheckpointDamaged]]:
    """How many files a checkpoint has, and all that differ from its manifest; loads nothing."""
    place = place_of(folder)
    try:
        sums, misfits = _compared(place)
        wrong = {misfit.file.name for misfit in misfits}
        for name, sha256 in sums.items():
            if name not in wrong and (actual := file_sha256(place / name)) != sha256:
                misfits.append(_other_content(place / name, sha256, actual))
    except CheckpointDamaged as damage:
        return 1, [damage]
    except OSError as error:
        file = Path(error.filename or place / MANIFEST)
        return 1, [CheckpointDamaged(file, "a readable file", f"the error {error.strerror}")]
    return len(sums) + 1, misfits


def file_sha256(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def delete_checkpoint(folder: Path) -> None:
    """Rename to ``.tmp`` and delete, so that a kill leaves nothing that looks complete."""
    gone = _beside(folder, ".tmp")
    shutil.rmtree(_beside(folder, ".old"), ignore_errors=True)
    shutil.rmtree(gone, ignore_errors=True)
    if folder.exists():
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def to_json(document: object) -> bytes:
    """The canonical JSON text of a document; NaN is a ValueError, because JSON has none."""
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()


def _beside(folder: Path, suffix: str) -> Path:
    return folder.with_name(folder.name + suffix)


def place_of(folder: Path) -> Path:
    """The folder, or its old version if a replacement was killed between its two renames."""
    old = _beside(folder, ".old")
    return old if old.exists() and not folder.exists() else folder


def identity(place: Path) -> tuple[Path, int, int]:
    try:
        stat = place.stat()
    except OSError:
        return place, 0, 0
    return place, stat.st_ino, stat.st_mtime_ns  # inodes may be reused


def _seal(folder: Path, beside: Sequence[Path]) -> None:
    files: dict[str, dict[str, str | int]] = {}
    readable_as_folder = (
        folder.stat().st_mode & 0o666
    )  # safetensors writes files that only the owner can read
    for path in sorted(folder.iterdir()):
        path.chmod(readable_as_folder)
        files[path.name] = {"sha256": file_sha256(path), "bytes": path.stat().st_size}
        sync(path)
    for other in beside:
        _link_equal(folder, {name: str(entry["sha256"]) for name, entry in files.items()}, other)
    (folder / MANIFEST).write_bytes(to_json({"format": FORMAT, "files": files}))
    sync(folder / MANIFEST)
    sync(folder)


def _link_equal(folder: Path, sums: Mapping[str, str], other: Path) -> None:
    """Replace files by hard links to equal files of another checkpoint, where that is possible.

    The files of the other one are hashed again, because they may have been damaged since.
    """
    link = folder / "link"
    try:
        recorded, _ = _compared(other)
        for name, sha256 in sums.items():
            if recorded.get(name) == sha256 == file_sha256(other / name):
                link.hardlink_to(other / name)
                link.replace(folder / name)
    except (OSError, CheckpointDamaged):
        link.unlink(missing_ok=True)


def _read(folder: Path, endings: Sequence[str]) -> Checkpoint:
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: there is no such checkpoint")
    checkpoint = Checkpoint(folder, documents={}, loaded={})
    try:
        for name, sha256 in _check_listing(folder).items():
            stem, _, ending = name.rpartition(".")
            if ending not in ("json", "safetensors"):
                raise CheckpointDamaged(folder / name, ".json or .safetensors", f".{ending}")
            if ending not in endings:
                continue
            data = _verified(folder / name, sha256)
            if ending == "json":
                checkpoint.documents[stem] = _parse_json(folder / name, data)
            else:
                checkpoint.loaded[stem] = _parse_tensors(folder / name, data)
    except OSError as error:
        file = Path(error.filename or folder / MANIFEST)
        raise CheckpointDamaged(file, "a readable file", f"the error {error.strerror}") from error
    return checkpoint


def _check_listing(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file, after checking names and sizes against the manifest."""
    sums, misfits = _compared(folder)
    for misfit in misfits:
        raise misfit
    return sums


def _compared(folder: Path) -> tuple[dict[str, str], list[CheckpointDamaged]]:
    """The SHA-256 of every listed file, and the files whose name or size does not match.

    A name from the manifest is used as a path only if the folder's listing has it.
    """
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_file(follow_symlinks=False):
                raise CheckpointDamaged(folder / entry.name, "a plain file", "something else")
            found[entry.name] = entry.stat(follow_symlinks=False).st_size
    manifest = folder / MANIFEST
    size = found.pop(MANIFEST, None)
    if size is None or size > MOST_HEADER_BYTES:
        raise CheckpointDamaged(manifest, "a manifest", _size(size))
    data = read_regular(manifest, MOST_HEADER_BYTES)
    content = _parse_json(manifest, data)
    try:
        listed = {name: entry["bytes"] for name, entry in content["files"].items()}
        sums = {name: str(entry["sha256"]) for name, entry in content["files"].items()}
        # The comparison with the canonical text finds what a lenient parser accepts.
        known = content["format"] == FORMAT and to_json(content) == data
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        known = False
    if not known:
        raise CheckpointDamaged(manifest, f"a manifest of format {FORMAT}", "something else")
    misfits = [
        CheckpointDamaged(folder / Path(name).name, _size(listed.get(name)), _size(found.get(name)))
        for name in sorted(listed.keys() | found.keys())
        if name not in found or listed.get(name) != found[name]
    ]
    return sums, misfits


def _size(count: int | None) -> str:
    return "no such file" if count is None else f"{count} bytes"


def _verified(file: Path, sha256: str) -> bytes:
    with open_regular(file) as stream:
        # Checked before parsing: a long crafted header takes minutes to parse.
        header = int.from_bytes(stream.read(8), "little")
        if file.suffix == ".safetensors" and header > MOST_HEADER_BYTES:
            raise CheckpointDamaged(file, f"a header <= {MOST_HEADER_BYTES} bytes", f"{header}")
        size = os.fstat(stream.fileno()).st_size
        if file.suffix == ".json" and size > MAX_DOCUMENT_BYTES:
            raise CheckpointDamaged(file, f"at most {MAX_DOCUMENT_BYTES} bytes", f"{size}")
        stream.seek(0)
        data = stream.read()
    actual = hashlib.sha256(data).hexdigest()
    if actual != sha256:
        raise _other_content(file, sha256, actual)
    return data


def _other_content(file: Path, expected: str, actual: str) -> CheckpointDamaged:
    return CheckpointDamaged(file, f"SHA-256 {expected[:12]}..", f"{actual[:12]}..")


def _parse_json(file: Path, data: bytes) -> Json:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CheckpointDamaged(file, "JSON", str(error)) from error


def _parse_tensors(file: Path, data: bytes) -> dict[str, "Tensor"]:
    from safetensors.torch import load

    return _parsed(file, data, load)


def _parse_arrays(file: Path, data: bytes) -> "dict[str, np.ndarray]":
    from safetensors.numpy import load

    return _parsed(file, data, load)


def _parsed(file: Path, data: bytes, load: Callable[[bytes], Found]) -> Found:
    header = _parse_json(file, data[8 : 8 + int.from_bytes(data[:8], "little")])
    if not isinstance(header, dict) or len(header) > MOST_TENSORS:
        raise CheckpointDamaged(
            file, f"a header of at most {MOST_TENSORS} tensors", "something else"
        )
    try:
        return load(data)
    except (SafetensorError, KeyError, ValueError, RuntimeError, AssertionError) as error:
        raise CheckpointDamaged(file, "safetensors", str(error)) from error
