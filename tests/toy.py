"""The toy world: its words, its files, its config, and runs made from it."""

import csv
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np

import cotrunk
from cotrunk.build.extensions import NO_EXTENSIONS, Extensions
from cotrunk.build.prepare import prepare
from cotrunk.cli.main import main
from cotrunk.config.check import read_settings
from cotrunk.learn.loop import train as train_network
from cotrunk.learn.run import Run
from cotrunk.learn.stage import Stage
from cotrunk.runs.events import Evaluated, Stepped
from cotrunk.runs.folder import RunFolder

WORDS = ["good", "bad", "plot", "actor", "slow", "fine", "dull", "bright", "tea", "river", "stone"]
FILES = (
    "final/model.safetensors",
    "best/model.safetensors",
    "best/dev.safetensors",
    "best/evaluation.json",
    "metrics.jsonl",
)


def sentence(random: np.random.Generator) -> str:
    return " ".join(random.choice(WORDS, size=random.integers(2, 7)))


def write_rows(path: Path, header: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def write_toy(folder: Path) -> Path:
    """The files of the toy world; returns the path of its config."""
    for name, (header, rows) in toy_tables().items():
        write_rows(folder / name, header, rows)
    config = folder / "toy.toml"
    config.write_text(TOY, encoding="utf-8")
    return config


@cache
def toy_tables() -> dict[str, tuple[list[str], list[list[object]]]]:
    random = np.random.default_rng(0)
    tables = {}
    for split, count in (("train", 40), ("dev", 24)):
        single = [[f"{split}{i}", sentence(random), i % 3] for i in range(count)]
        tables[f"mood-{split}.csv"] = ["id", "sentence", "mood"], single
        pairs = [[i, sentence(random), sentence(random), i % 2, i % 6] for i in range(count)]
        tables[f"pair-{split}.csv"] = ["id", "left", "right", "same", "alike"], pairs
    return tables


def train(config: Path, run: Path, *more: str) -> int:
    return main(["train", str(config), "--out", str(run), *more])


def prepared(
    config: Path,
    *changes: str,
    out: Path | None = None,
    extensions: Extensions = NO_EXTENSIONS,
) -> Run:
    """A run that has not started; its folder is not made."""
    settings = read_settings(config, list(changes), kinds=extensions.all_kinds)
    return prepare(settings, config.parent, out or Path("nowhere"), extensions=extensions)


def stage_of(config: Path, *changes: str, extensions: Extensions = NO_EXTENSIONS) -> Stage:
    """The first stage of a run that has not started."""
    run = prepared(config, *changes, extensions=extensions)
    return run.make_stage(run, 0)


def train_until(
    config: Path,
    folder: Path,
    *changes: str,
    stop: int | None = None,
    extensions: Extensions = NO_EXTENSIONS,
) -> list[Evaluated]:
    """Train into a folder, or go on there; stop without a word after step ``stop``."""
    evaluated = []
    events = cotrunk.train_events(
        config, folder, resume=folder.exists(), overrides=changes, extensions=extensions
    )
    with closing(events):
        for event in events:
            if isinstance(event, Evaluated):
                evaluated.append(event)
            if isinstance(event, Stepped) and event.step == stop:
                break
    return evaluated


def cut(config: Path, folder: Path, changes: list[str], *, after: int) -> None:
    """Train, but stop without a word after some steps."""
    run = prepared(config, *changes, out=folder)
    RunFolder.create(folder).write_document("run", run.record)
    for event in train_network(run, None):
        if isinstance(event, Stepped) and event.step == after:
            return


def contents(run: Path) -> dict[str, bytes]:
    """What two runs must have in common to be called the same."""
    newest = max((run / "checkpoints").iterdir())
    found = {name: (run / name).read_bytes() for name in FILES if (run / name).exists()}
    return found | {"optimizer": (newest / "optimizer.safetensors").read_bytes()}


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
head_lr = "lr"
sampling = "together"
threads = 1
"""
