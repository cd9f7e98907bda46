"""A toy world: three small tasks, a random tiny encoder, everything in a temporary folder."""

import csv
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from cotrunk.experiment import prepare
from cotrunk.learn.train import Interrupt, Stepped, Surroundings, train
from cotrunk.runs.folder import RunFolder
from cotrunk.settings import read_settings

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

WORDS = ["good", "bad", "plot", "actor", "slow", "fine", "dull", "bright", "tea", "river", "stone"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads what another one, or the user, has cached."""
    monkeypatch.setenv("COTRUNK_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def own_threads() -> Iterator[None]:
    """No test leaves another number of threads behind."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def sentence(random: np.random.Generator) -> str:
    return " ".join(random.choice(WORDS, size=random.integers(2, 7)))


def write_rows(path: Path, header: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def cut(config: Path, folder: Path, changes: list[str], *, after: int) -> None:
    """Train, but stop without a word after some steps."""
    job = prepare(read_settings(config, changes), config.parent)
    run = RunFolder.create(folder)
    run.write_document("run", job.record)
    around = Surroundings(run, job.documents, job.dev, Interrupt())
    for event in train(job.network, job.stages, around, None):
        if isinstance(event, Stepped) and event.step == after:
            return


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """The path of a config that trains in seconds."""
    random = np.random.default_rng(0)
    for split, count in (("train", 40), ("dev", 24)):
        single = [[f"{split}{i}", sentence(random), i % 3] for i in range(count)]
        write_rows(tmp_path / f"mood-{split}.csv", ["id", "sentence", "mood"], single)
        pairs = [[i, sentence(random), sentence(random), i % 2, i % 6] for i in range(count)]
        header = ["id", "left", "right", "same", "alike"]
        write_rows(tmp_path / f"pair-{split}.csv", header, pairs)
    config = tmp_path / "toy.toml"
    config.write_text(TOY, encoding="utf-8")
    return config


TOY = """
[encoder]
weights = "random:tiny"
max_tokens = 64

[sharing]
encoder = "S1 I1"

[tasks.mood]
kind = "classes"
classes = 3
text = ["sentence"]
label = "mood"
train = "mood-train.csv"
dev = "mood-dev.csv"

[tasks.same]
kind = "binary"
text = ["left", "right"]
label = "same"
train = "pair-train.csv"
dev = "pair-dev.csv"

[tasks.alike]
kind = "score"
range = [0, 5]
text = ["left", "right"]
label = "alike"
train = "pair-train.csv"
dev = "pair-dev.csv"

[train]
epochs = 2
batch = 8
lr = 1e-3
threads = 1
"""
