"""Finds, checks and reads the safetensors files of a model folder."""

import hashlib
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotrunk.errors import UserError
from cotrunk.files import MOST_HEADER_BYTES, MOST_TENSORS, read_regular

if TYPE_CHECKING:  # reading a shape needs only JSON
    from torch import Tensor

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"

# Other formats, never opened: some of them can run code.
OTHER_FORMATS = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")

MOST_JSON_BYTES = 16 * 2**20


def read_json(path: Path) -> dict[str, object]:
    """The JSON object in a small file; UserError if it is anything else."""
    try:
        content = json.loads(read_bounded(path, MOST_JSON_BYTES))
    except RecursionError as error:
        raise UserError(f"{path}: nested too deeply") from error
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error})") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: must be a JSON object; found a {type(content).__name__}")
    return content


def read_bounded(path: Path, most: int) -> bytes:
    """The content of a regular file; UserError if it is anything else or larger than ``most``."""
    try:
        return read_regular(path, most)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error


def weight_files(folder: Path) -> list[Path]:
    """The one weights file of a folder, or the shards its index names, sorted by name."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        return _shards(folder / INDEX)
    others = sorted(path.name for path in folder.iterdir() if path.suffix in OTHER_FORMATS)
    if others:
        raise UserError(
            f"{folder}: has no {WEIGHTS}, and the format of {others[0]} is not supported because "
            f"it can run code; convert it once with: {conversion(str(folder), str(folder))}"
        )
    raise UserError(f"{folder}: has no {WEIGHTS} and no {INDEX}")


def conversion(source: str, target: str) -> str:
    """A command that converts a model to safetensors."""
    return "python -c " + shlex.quote(
        "from transformers import AutoModel; "
        f"AutoModel.from_pretrained({json.dumps(source)}).save_pretrained({json.dumps(target)})"
    )


def read_tensors(files: Sequence[Path]) -> dict[str, "Tensor"]:
    """All tensors of the files, under the names the files give them."""
    tensors: dict[str, Tensor] = {}
    for file in files:
        more = _read_file(file)
        twice = sorted(more.keys() & tensors.keys())
        if twice:
            raise UserError(f"{file}: {twice[0]!r} is also in another shard")
        tensors |= more
    return tensors


def digest(files: Sequence[Path]) -> str:
    """SHA-256 of the files' bytes, one file after the other."""
    total = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(2**20):
                total.update(block)
    return total.hexdigest()


def _shards(index: Path) -> list[Path]:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise UserError(f"{index}: weight_map must map every tensor to a file name")
    shards = []
    for name in sorted({str(value) for value in places.values()}):
        # A name with a separator could point anywhere on the disk.
        if "/" in name or "\\" in name or not name.endswith(".safetensors"):
            raise UserError(
                f"{index}: {name!r} is not the name of a safetensors file in the same folder"
            )
        if not (index.parent / name).is_file():
            raise UserError(f"{index}: the folder has no file {name!r}")
        shards.append(index.parent / name)
    return shards


def _read_file(file: Path) -> dict[str, "Tensor"]:
    from safetensors import SafetensorError, safe_open

    _refuse_long_header(file)
    try:
        with safe_open(file, framework="pt") as content:
            names = content.keys()
            if len(names) > MOST_TENSORS:
                raise UserError(f"{file}: has {len(names)} tensors; the limit is {MOST_TENSORS}")
            return {name: content.get_tensor(name) for name in names}
    except UserError:
        raise
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError) as error:
        raise UserError(f"{file}: not a readable safetensors file ({error})") from error


def _refuse_long_header(file: Path) -> None:
    """Checks the header length, in the first eight bytes, before anything is parsed."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
    if length > MOST_HEADER_BYTES:
        raise UserError(
            f"{file}: header of {length} bytes; the limit is {MOST_HEADER_BYTES}; "
            "the file is damaged or not a safetensors file"
        )
