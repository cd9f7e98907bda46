"""The timed work: three tasks with 32 rows each per step, on the sample or the course's data."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cotrunk.build.corpora import corpora_of
from cotrunk.build.heads import head_plans, pair_formats_of
from cotrunk.build.plan import plan_of, with_dropout
from cotrunk.build.sources import sources_of
from cotrunk.build.stage import make_stage, stream_of
from cotrunk.build.tasks import tasks_of
from cotrunk.config.check import check_settings
from cotrunk.config.overrides import apply_changes
from cotrunk.config.settings import Settings
from cotrunk.data.batches.packing import Packed
from cotrunk.data.batches.text import pack_rows, template_of
from cotrunk.learn.run import Run
from cotrunk.learn.stage import Progress, Stage
from cotrunk.learn.step import make_step
from cotrunk.model.sharing.network import Network
from cotrunk.model.weights.initial import initialise
from cotrunk.model.weights.pretrained import find, load_tokenizer
from cotrunk.runs.cost import Meter
from cotrunk.runs.events import Finding

BERT_BASE: dict[str, Any] = {"layers": 12, "width": 768, "inner": 3072, "heads": 12}
# Of Quora the dev file: the train file has the same kind of rows, but ten times as many.
FILES = {"sst": "ids-sst-train.csv", "para": "quora-dev.csv", "sts": "sts-train.csv"}
SAMPLES = {"sst": "sentiment", "para": "paraphrase", "sts": "similarity"}
ROWS_PER_TASK = 32
"""Of a step. Fixed here, like the sampling: figures must not change with the defaults of a run."""


@dataclass(frozen=True)
class Bench:
    """How much to measure, and on which rows."""

    data: Path | None
    quick: bool

    def rounds(self, usual: int) -> int:
        return max(2, usual // 3) if self.quick else usual


class NoRun:
    """A run folder that writes nothing."""

    def append_metrics(self, record: dict[str, Any]) -> None:
        pass

    append_timing = append_metrics

    def append_findings(self, step: int, findings: Sequence[Finding]) -> None:
        pass


@contextmanager
def empty_cache() -> Iterator[None]:
    """Within the context the token and feature caches are empty."""
    before = os.environ.get("COTRUNK_CACHE")
    with tempfile.TemporaryDirectory() as empty:
        os.environ["COTRUNK_CACHE"] = empty
        try:
            yield
        finally:
            if before is None:
                del os.environ["COTRUNK_CACHE"]
            else:
                os.environ["COTRUNK_CACHE"] = before


def settings_of(bench: Bench, *changes: str) -> Settings:
    raw: dict[str, Any] = {
        "tasks": {
            "sst": {"kind": "classes", "classes": 5, "text": ["sentence"], "label": "sentiment"},
            "para": {"kind": "binary", "label": "is_duplicate"},
            "sts": {"kind": "score", "range": [0, 5], "label": "similarity"},
        },
        "sharing": {"encoder": "S6"},
        "train": {
            "batch": ROWS_PER_TASK,
            "sampling": "together",
            "epochs": 3,
            "lr": 5e-5,
            "head_lr": "lr",
            "evaluate": "never",
            "device": "cpu",
        },
    }
    for task, part in raw["tasks"].items():
        part.setdefault("text", ["sentence1", "sentence2"])
        part["skip_bad_rows"] = True
        sample = f"sample:{SAMPLES[task]}-train.csv"
        part["train"] = str(bench.data / FILES[task]) if bench.data else sample
    apply_changes(raw, list(changes))
    return check_settings(raw, place="bench")


def stage_of(bench: Bench, *changes: str, sizes: dict[str, Any] | None = None) -> Stage:
    """A new training stage; ``sizes`` replaces those of MiniLM."""
    settings, base = settings_of(bench, *changes), Path.cwd()
    tasks = tasks_of(settings)
    pretrained = find("minilm", base=base)
    shape = replace(with_dropout(pretrained.shape, settings), **(sizes or {}))
    heads = head_plans(settings, tasks)
    network = Network(shape, plan_of(settings, shape, tasks, heads), tasks, heads)
    initialise(network, {} if sizes else pretrained.tensors, seed=settings.train.seed)
    tokenizer = load_tokenizer(pretrained)
    read = corpora_of(sources_of(settings, tasks, base), "train", tasks, tokenizer)
    stream = stream_of(settings, settings.train, read, number=0)
    run = Run(
        folder=NoRun(),  # type: ignore[arg-type]
        network=network,
        train=read,
        dev={},
        pair_formats=pair_formats_of(settings, shape, tasks),
        template=template_of(tokenizer),
        streams=(stream,),
        ends=(stream.steps,),
        make_stage=partial(make_stage, settings),
        keep=settings.train.keep,
        max_seconds=None,
        record={},
        documents={},
        meter=Meter(NoRun()),  # type: ignore[arg-type]
    )
    return run.make_stage(run, 0)


class Steps:
    """Runs our training steps one by one."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.at = stage, Progress()

    def __call__(self) -> None:
        make_step(self.stage, NoRun(), self.at)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Rows:
    """A task's batch as sequences in row order."""

    task: str
    text: Packed
    ids: list[Tensor]
    segments: list[Tensor]
    target_R: Tensor


def batches(stage: Stage, step: int) -> Iterator[Rows]:
    """The rows of one of our steps, as input for the peers."""
    forward: Any = stage.forward
    for batch in stage.stream.batches(step):
        pieces = [forward.corpora[batch.task].pieces(row) for row in batch.rows.tolist()]
        text, index = pack_rows(forward.template, pieces, forward.pair_formats[batch.task])
        lengths, places = text.length_S.tolist(), index.places[0].tolist()
        ids, segments = text.token_T.split(lengths), text.segment_T.split(lengths)
        yield Rows(
            batch.task,
            text,
            [ids[place] for place in places],
            [segments[place] for place in places],
            torch.from_numpy(forward.load(batch.task, batch.rows, ()).target),
        )
