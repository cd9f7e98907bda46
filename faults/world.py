"""Data, a config and runs to attack: a random tiny encoder, two tasks, twelve steps."""

import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faults.commands import Commands, Said

WORDS = ["good", "bad", "plot", "actor", "slow", "fine", "dull", "bright", "tea", "river", "stone"]
STEPS, INTERVAL = 12, 2
CONFIG = f"""
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

[tasks.rated]
kind = "score"
range = [0, 5]
text = ["sentence"]
label = "rated"
train = "rated-train.csv"
dev = "mood-dev.csv"

[train]
max_steps = {STEPS}
epochs = 20
batch = 4
lr = 1e-3
head_lr = "lr"
sampling = "together"
threads = 1
checkpoint = {INTERVAL}
evaluate = 4
gradients = "pcgrad"
"""


@dataclass(frozen=True)
class World:
    """A folder with data and config, and the way to start commands in it."""

    folder: Path
    commands: Commands

    @property
    def config(self) -> Path:
        return self.folder / "tiny.toml"

    @property
    def env(self) -> dict[str, str]:
        return {"COTRUNK_CACHE": str(self.folder / "cache")}

    def train(self, run: Path, *more: object, most: int = 0) -> Said:
        argv = ("train", self.config, "--out", run, *more)
        return self.commands.run(*argv, env=self.env, most=most)

    def verify(self, run: Path) -> list[str]:
        """The files that ``cotrunk verify`` calls damaged."""
        said = self.commands.run("verify", run, "--json")
        found = [each["file"] for each in said.document["damaged"]]
        assert (said.code == 0) == (not found), said
        return found

    def finished(self, name: str = "whole") -> Path:
        """A run that nothing disturbed."""
        said = self.train(self.folder / name)
        if said.code:
            raise RuntimeError(f"an undisturbed run fails: {said.err}")
        return self.folder / name

    def copy(self, run: Path) -> Path:
        target = self.folder / "copy"
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(run, target))


@contextmanager
def world(commands: Commands, *, dev: int = 24) -> Iterator[World]:
    with tempfile.TemporaryDirectory(dir=in_memory()) as name:
        write_world(Path(name), dev=dev)
        yield World(Path(name), commands)


def in_memory() -> str | None:
    """A folder in memory, where there is one: what a kill leaves does not depend on the disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def write_world(folder: Path, *, dev: int = 24) -> None:
    draw = random.Random(0)
    for file, count in (("mood-train", 40), ("rated-train", 40), ("mood-dev", dev)):
        rows = [
            f"{file}{i},{' '.join(draw.choices(WORDS, k=draw.randint(2, 6)))},{i % 3},{i % 6}"
            for i in range(count)
        ]
        text = "\n".join(["id,sentence,mood,rated", *rows]) + "\n"
        (folder / f"{file}.csv").write_text(text)
    (folder / "tiny.toml").write_text(CONFIG)


def outcome(run: Path) -> dict[str, bytes]:
    """What two runs must have in common, to the byte."""
    newest = max(steps(run), default=0)
    place = run / "checkpoints" / f"step-{newest:08d}"
    saved = [run / "final", run / "best", place]
    files = [path for folder in saved if folder.is_dir() for path in sorted(folder.iterdir())]
    files.append(run / "metrics.jsonl")
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in files
        if path.suffix in (".safetensors", ".jsonl") or path.name in ("evaluation.json",)
    }


def steps(run: Path) -> list[int]:
    """The steps of which there is a checkpoint."""
    return [int(path.name[5:]) for path in (run / "checkpoints").glob("step-*[0-9]")]


def steps_made(run: Path) -> int:
    """By metrics.jsonl, without a last line that is half written."""
    try:
        lines = (run / "metrics.jsonl").read_bytes().split(b"\n")[:-1]
    except OSError:
        return 0
    made = [json.loads(line)["step"] + 1 for line in lines if b'"event": "step"' in line]
    return max(made, default=0)


def is_saving(run: Path) -> bool:
    """Whether a checkpoint or network lies there half written."""
    return _has_growing(run / "checkpoints") or _has_growing(run)


def _has_growing(folder: Path) -> bool:
    try:
        return any(name.endswith(".tmp") for name in os.listdir(folder))
    except OSError:
        return False
