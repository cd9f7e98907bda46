"""A checkpoint made to do harm: it runs nothing, reads nothing outside, and crashes nothing."""

import contextlib
import hashlib
import os
import pickle
import random

import pytest
from sealed import FILES, refusal

from cotrunk.runs.checkpoint import CheckpointDamaged, read_checkpoint, to_json
from hostile import Bomb, crafted, entry


def reseal(folder):
    """What an attacker does: a manifest that fits whatever the files hold."""
    files = {
        path.name: {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bytes": path.stat().st_size,
        }
        for path in folder.iterdir()
        if path.name != "manifest.json"
    }
    (folder / "manifest.json").write_bytes(to_json({"format": 1, "files": files}))


@pytest.mark.parametrize(
    "make", [os.mkdir, os.mkfifo, lambda path: os.symlink("/etc/passwd", path)]
)
def test_only_plain_files_are_opened(folder, make):
    (folder / "state.json").unlink()
    make(folder / "state.json")
    assert refusal(folder).expected == "a plain file"


@pytest.mark.parametrize("size", [9, None])
def test_a_manifest_cannot_point_outside_the_folder(folder, size):
    (folder.parent / "secret.json").write_text('"secret"\n')
    (folder / "manifest.json").unlink()
    for path in folder.iterdir():
        path.unlink()
    entry = {"sha256": hashlib.sha256(b'"secret"\n').hexdigest(), "bytes": size}
    manifest = {"format": 1, "files": {"../secret.json": entry}}
    (folder / "manifest.json").write_bytes(to_json(manifest))
    assert refusal(folder).actual == "no such file"


EXTRA = ["model.pt", "rng.pth", "pytorch_model.bin", "state.pkl", "array.npy", ".metadata"]


@pytest.mark.parametrize("file", FILES + EXTRA)
@pytest.mark.parametrize("sealed", [False, True])
def test_a_pickle_under_any_name_is_refused_and_never_run(folder, tmp_path, file, sealed):
    (folder / file).write_bytes(pickle.dumps(Bomb(tmp_path / "sentinel")))
    if sealed and file != "manifest.json":
        reseal(folder)
    refusal(folder)
    assert not (tmp_path / "sentinel").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 8,
        b"\xff" * 64,
        crafted(b"{" + b" " * 5 * 2**20 + b"}"),
        crafted({str(i): entry(shape=(0,), offsets=(0, 0)) for i in range(20_001)}),
        crafted([]),
        crafted(b"[" * 10**5),
        crafted({"a": entry(), "b": entry()}, b"1234"),
        crafted({"a": entry(offsets=(0, 8))}, b"12345678"),
        crafted({"a": entry(offsets=(4, 0))}, b"1234"),
        crafted({"a": entry(offsets=(0, 2**62))}, b"1234"),
        crafted({"a": entry(shape=(2**32, 2**32))}, b"1234"),
        crafted({"a": entry(dtype="OBJECT")}, b"1234"),
        crafted({"a": entry(dtype="F8_E8M0", shape=(4,))}, b"1234"),
        crafted({"a": entry()}, b"12345"),
        crafted({"a": entry()}),
    ],
    ids=range(16),
)
def test_crafted_safetensors_are_refused_even_under_a_fitting_manifest(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    reseal(folder)
    assert refusal(folder).file == folder / "model.safetensors"


@pytest.mark.slow
def test_mutated_safetensors_load_or_are_refused_but_never_crash(folder):
    chance = random.Random(3)
    file = folder / "model.safetensors"
    good = file.read_bytes()
    for _ in range(500):
        bad = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            bad[chance.randrange(8 + good[8:].index(b"}}"))] = chance.randrange(256)
        file.write_bytes(bad)
        reseal(folder)
        with contextlib.suppress(CheckpointDamaged):
            read_checkpoint(folder)
