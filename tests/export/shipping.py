"""Runs to export: the toy world with a task about words, and weights that are all in use."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import cotrunk
from cotrunk.build.load import load_model
from cotrunk.export.check import TOLERANCE
from cotrunk.export.export import Exported, Request, export
from cotrunk.infer.model import Model
from toy import sentence, write_toy

TAGS = """
[tasks.names]
kind = "tags"
classes = ["O", "B-X", "I-X"]
text = ["tokens"]
label = "tags"
train = "names-train.jsonl"
dev = "names-dev.jsonl"
"""
TASKS = ["mood", "same", "alike", "names"]
SHORT = ["train.max_steps=1", "train.epochs=1", "encoder.max_tokens=24"]
"""Some texts have more tokens, so that cutting them is compared too."""


def write_world(folder: Path) -> Path:
    """The toy world and a task that labels words."""
    config = write_toy(folder)
    config.write_text(config.read_text() + TAGS, encoding="utf-8")
    random = np.random.default_rng(1)
    for split, count in (("train", 16), ("dev", 12)):
        rows = []
        for _ in range(count):
            words = f"{sentence(random)} Tea's {sentence(random)}".split()
            rows.append({"tokens": words, "tags": random.choice(["O", "B-X"], len(words)).tolist()})
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"names-{split}.jsonl").write_text(lines, encoding="utf-8")
    return config


def train(config: Path, *changes: str) -> Path:
    """A run of one step."""
    run = config.with_name("run")
    cotrunk.train(config, run, overrides=[*SHORT, *changes])
    return run


def stirred(run: Path) -> Model:
    """The network of a run, with noise on all weights: some start at zero and would do nothing."""
    model = load_model(run, device="cpu")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def exported(
    model: Model, run: Path, to: str, tasks: Sequence[str], folder: Path, *, keep_lora: bool = False
) -> list[Exported]:
    """What was exported, which equals the run on its dev rows."""
    found = export(model, Request(run, "best", to, tasks, folder, keep_lora=keep_lora))
    assert [one.task for one in found] == list(tasks)
    assert all(one.difference <= TOLERANCE and "dev row" in one.rows for one in found)
    return found
