"""Safetensors files of a model folder: found, measured before they are opened, and read."""

import hashlib
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotrunk.errors import UserError

if TYPE_CHECKING:  # whoever only wants to know a shape reads nothing but JSON
    from torch import Tensor

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"

# Formats of other tools. They are never opened: some of them can run code.
OTHER_FORMATS = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")

# Published encoders stay under 500 tensors and 100 bytes of header for each.
MOST_HEADER_BYTES = 4 * 2**20
MOST_TENSORS = 20_000
MOST_JSON_BYTES = 16 * 2**20


def read_json(path: Path) -> dict[str, object]:
    """The JSON object in a small file; UserError where it is anything else."""
    try:
        size = path.stat().st_size
        if size > MOST_JSON_BYTES:
            raise UserError(f"{path}: {size} bytes, but at most {MOST_JSON_BYTES} are read")
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except RecursionError as error:
        raise UserError(f"{path}: nested too deeply") from error
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error})") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: must hold a JSON object, but holds a {type(content).__name__}")
    return content


def weight_files(folder: Path) -> list[Path]:
    """The one weights file of a folder, or the shards its index names, sorted by name."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        return _shards(folder / INDEX)
    others = sorted(path.name for path in folder.iterdir() if path.suffix in OTHER_FORMATS)
    if others:
        raise UserError(
            f"{folder}: has no {WEIGHTS}, and {others[0]} is in a format that is never opened "
            f"here; convert it once with: {conversion(str(folder), str(folder))}"
        )
    raise UserError(f"{folder}: has no {WEIGHTS} and no {INDEX}")


def conversion(source: str, target: str) -> str:
    """The command with which a user can turn a model of another format into safetensors."""
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
            raise UserError(f"{file}: {twice[0]!r} is in another shard, too")
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
        raise UserError(f"{index}: weight_map must give a file name for every tensor")
    shards = []
    for name in sorted({str(value) for value in places.values()}):
        # A name with a separator could point anywhere on the disk.
        if "/" in name or "\\" in name or not name.endswith(".safetensors"):
            raise UserError(f"{index}: {name!r} is not the plain name of a safetensors file")
        if not (index.parent / name).is_file():
            raise UserError(f"{index}: names {name!r}, but the folder has no such file")
        shards.append(index.parent / name)
    return shards


def _read_file(file: Path) -> dict[str, "Tensor"]:
    from safetensors import SafetensorError, safe_open

    _refuse_long_header(file)
    try:
        with safe_open(file, framework="pt") as content:
            names = content.keys()
            if len(names) > MOST_TENSORS:
                raise UserError(
                    f"{file}: {len(names)} tensors, but at most {MOST_TENSORS} are read"
                )
            return {name: content.get_tensor(name) for name in names}
    except UserError:
        raise
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError) as error:
        raise UserError(f"{file}: not a readable safetensors file ({error})") from error


def _refuse_long_header(file: Path) -> None:
    """The first eight bytes say how much would be parsed: look at them before anything is."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
    if length > MOST_HEADER_BYTES:
        raise UserError(
            f"{file}: claims a header of {length} bytes, but at most {MOST_HEADER_BYTES} are read; "
            "the file is damaged or not a safetensors file"
        )
