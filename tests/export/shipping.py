"""Runs to export: the toy world with a task about words, and weights that are all in use."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import cotrunk
from cotrunk.build.sources import sources_of, unlabelled_sources
from cotrunk.config.check import read_settings
from cotrunk.export.check import TOLERANCE
from cotrunk.export.export import Exported, Request, export
from cotrunk.infer.model import Model
from cotrunk.model.weights.pretrained import find, load_tokenizer
from toy import prepared, sentence, write_toy

TAGS = """
[tasks.names]
kind = "tags"
classes = ["O", "B-X", "I-X"]
text = ["tokens"]
label = "tags"
train = "names-train.jsonl"
dev = "names-dev.jsonl"
"""
# Looked for, not imported: that takes seconds, also for tests that are not run.
needs_peers = pytest.mark.skipif(
    not all(map(find_spec, ("onnxruntime", "onnx", "sentence_transformers"))),
    reason='needs pip install "cotrunk[export]"',
)
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


def untrained(config: Path, *changes: str) -> Model:
    """The network of a config, with noise on all weights, because some start at zero."""
    overrides = [*SHORT, *changes]
    settings = read_settings(config, overrides)
    run = prepared(config, *overrides)
    network, tasks = run.network, list(run.network.tasks.values())
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return Model(
        network,
        load_tokenizer(find(settings.encoder.weights, base=config.parent)),
        run.template,
        run.pair_formats,
        sources_of(settings, tasks, config.parent),
        unlabelled_sources(settings),
    )


def exported(
    model: Model, run: Path, to: str, tasks: Sequence[str], folder: Path, *, keep_lora: bool = False
) -> list[Exported]:
    """What was exported, which equals the model on its dev rows; ``run`` is that of the card."""
    found = export(model, Request(run, "best", to, tasks, folder, keep_lora=keep_lora))
    assert [one.task for one in found] == list(tasks)
    assert all(one.difference <= TOLERANCE and "dev row" in one.rows for one in found)
    return found
