"""Caches that rot, or that cannot be written, never change a result."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from calling import files

DAMAGES = {
    "zeroed": lambda data: bytes(len(data)),
    "all ones": lambda data: b"\xff" * len(data),
    "one bit": lambda data: bytes([data[0] ^ 1]) + data[1:],
}


def cache() -> Path:
    return Path(os.environ["COTRUNK_CACHE"])


def damage(kind: str, how: str) -> int:
    """Overwrite the arrays in place, as a failing disk would; returns how many there were."""
    arrays = [path for path in (cache() / kind).rglob("*") if path.is_file()]
    arrays = [path for path in arrays if path.suffix != ".json" and path.stat().st_size]
    for path in arrays:
        path.write_bytes(DAMAGES[how](path.read_bytes()))
    return len(arrays)


@pytest.mark.slow
@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_tokens_and_labels_are_made_again(cotrunk, run, how):
    before = cotrunk("evaluate", run, "--json").document
    assert damage("tokens", how) > 20
    assert cotrunk("evaluate", run, "--json").document == before


@pytest.mark.slow
def test_damaged_vectors_of_a_frozen_encoder_are_made_again(cotrunk, toy):
    frozen = ["train.freeze=encoder", "sharing.encoder=S2", "train.max_steps=3"]
    assert cotrunk("train", toy, "--out", "one", "--set", *frozen).code == 0
    assert damage("features", "zeroed") > 2
    assert cotrunk("train", toy, "--out", "two", "--set", *frozen).code == 0
    weights = [Path(run, "final/model.safetensors").read_bytes() for run in ("one", "two")]
    assert weights[0] == weights[1]


@pytest.fixture
def blocked(monkeypatch, tmp_path) -> Path:
    """A cache in a place where nothing can be written, not even by root."""
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("COTRUNK_CACHE", str(tmp_path / "file" / "cache"))
    return tmp_path / "file" / "cache"


def test_training_names_a_cache_that_cannot_be_written(cotrunk, toy, blocked):
    before = files(toy.parent)
    said = cotrunk("train", toy, "--out", "run")
    assert said.code == 1
    [line] = said.err.splitlines()
    assert str(blocked) in line
    assert "COTRUNK_CACHE" in line
    assert files(toy.parent) == before


@pytest.mark.slow
def test_evaluate_goes_on_without_a_cache_that_cannot_be_written(cotrunk, run, monkeypatch):
    before = cotrunk("evaluate", run, "--json").document
    (run.parent / "file").write_text("not a folder")
    monkeypatch.setenv("COTRUNK_CACHE", str(run.parent / "file" / "cache"))
    said = cotrunk("evaluate", run, "--json")
    assert said.code == 0
    assert said.document == before
    assert said.err.count("COTRUNK_CACHE") == 1


def no_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.slow
def test_evaluate_goes_on_with_a_cache_that_is_full(cotrunk, run, tmp_path):
    (tmp_path / "full").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "cotrunk", "evaluate", str(run)],
        env=os.environ | {"COTRUNK_CACHE": str(tmp_path / "full")},
        preexec_fn=no_room,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert done.stdout == cotrunk("evaluate", run).out
    assert "COTRUNK_CACHE" in done.stderr
    assert not [path for path in (tmp_path / "full").rglob("*") if path.is_file()]
