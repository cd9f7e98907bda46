"""Caches that rot, or that cannot be written, never change a result."""

import json
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


def exchange(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def alike(kind: str) -> tuple[Path, Path]:
    """Two folders of the cache that have the same file names but not the same content."""
    folders = {}
    for folder in sorted((cache() / kind).iterdir()):
        found = {path.name: path.read_bytes() for path in folder.iterdir()}
        del found["sums.json"]
        shape = tuple(sorted((name, len(data)) for name, data in found.items() if name != "target"))
        for other, content in folders.get(shape, []):
            if content != found:
                return folder, other
        folders.setdefault(shape, []).append((folder, found))
    raise AssertionError(f"all {kind} differ in their files")


def test_tokens_under_the_name_of_others_are_made_again(cotrunk, run):
    before = cotrunk("evaluate", run, "--json").document
    exchange(*alike("tokens"))  # two tasks with the same texts and other labels
    assert cotrunk("evaluate", run, "--json").document == before


@pytest.mark.slow
def test_vectors_under_the_name_of_others_are_made_again(cotrunk, toy):
    text = toy.read_text().replace("mood-dev.csv", "mood-train.csv")
    rows = (toy.parent / "mood-train.csv").read_text().splitlines()
    toy.write_text(text.replace('dev = "mood-train.csv"', 'dev = "mood-dev.csv"'))
    turned = [rows[0], *reversed(rows[1:])]
    (toy.parent / "mood-dev.csv").write_text("\n".join(turned) + "\n")
    frozen = ["train.freeze=encoder", "sharing.encoder=S2", "train.max_steps=3"]
    assert cotrunk("train", toy, "--out", "one", "--set", *frozen).code == 0
    exchange(*alike("features"))
    assert cotrunk("train", toy, "--out", "two", "--set", *frozen).code == 0
    weights = [Path(run, "final/model.safetensors").read_bytes() for run in ("one", "two")]
    assert weights[0] == weights[1]


def test_held_out_rows_under_the_name_of_others_are_chosen_again(cotrunk, toy):
    held_out = [f"tasks.{task}.dev=0.2" for task in ("mood", "same", "alike")]
    changes = ["--set", "train.max_steps=1", *held_out]
    assert cotrunk("train", toy, "--out", "one", *changes).code == 0
    one, *_, other = sorted((cache() / "splits").iterdir())
    exchange(one, other)
    assert cotrunk("train", toy, "--out", "two", *changes).code == 0
    data = [json.loads(Path(run, "run.json").read_bytes())["data"] for run in ("one", "two")]
    assert data[0] == data[1]


@pytest.mark.parametrize("how", ["nested", "pipe", "device", "huge"])
def test_sums_that_are_no_sums_are_made_again(cotrunk, run, how):
    before = cotrunk("evaluate", run, "--json").document
    files = list((cache() / "tokens").glob("*/sums.json"))
    for file in files:
        file.unlink()
        match how:
            case "nested":
                file.write_text("[" * 100_000 + "]" * 100_000)
            case "pipe":
                os.mkfifo(file)
            case "device":
                file.symlink_to("/dev/zero")
            case "huge":
                with file.open("wb") as made:
                    made.truncate(2**40)  # sparse: it takes no space
    assert cotrunk("evaluate", run, "--json").document == before


@pytest.fixture
def blocked(monkeypatch, tmp_path) -> Path:
    """A cache in a place where nothing can be written, not even by root."""
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("COTRUNK_CACHE", str(tmp_path / "file" / "cache"))
    return tmp_path / "file" / "cache"


def test_training_names_a_cache_that_cannot_be_written(cotrunk, toy, blocked):
    before = files(toy.parent)
    said = cotrunk("train", toy, "--out", "run")
    assert said.code == 2
    [line] = said.err.splitlines()
    assert str(blocked) in line
    assert "COTRUNK_CACHE" in line
    assert files(toy.parent) == before


def test_a_dry_run_goes_on_without_a_cache_that_cannot_be_written(
    cotrunk, toy, blocked, monkeypatch
):
    said = cotrunk("train", toy, "--dry-run", "--json")
    assert said.code == 0
    [line] = [line for line in said.err.splitlines() if "COTRUNK_CACHE" in line]
    assert str(blocked) in line
    monkeypatch.setenv("COTRUNK_CACHE", str(toy.parent / "cache"))
    assert cotrunk("train", toy, "--dry-run", "--json").document == said.document


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
