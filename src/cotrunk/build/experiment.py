"""Settings -> a run that can start, or a trained network. The place where all parts meet."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from cotrunk.build.heads import head_plans, pair_formats_of
from cotrunk.build.plan import plan_of, with_dropout
from cotrunk.build.sources import source_of
from cotrunk.build.stages import (
    Inputs,
    findings_before,
    plan_stages,
    refuse_idle_methods,
    refuse_senseless_freezing,
    refuse_senseless_training,
    stream_of,
)
from cotrunk.build.tasks import bound_tasks, fitted_tasks, tasks_of, with_fitted_kinds
from cotrunk.config.settings import Settings, check_settings
from cotrunk.data.batches.stream import Stream
from cotrunk.data.batches.text import PairFormat, Template, template_of
from cotrunk.data.reading.examples import Source
from cotrunk.data.tokens.cache import Corpus, file_digest, load_corpus
from cotrunk.errors import Errors, UserError, plural
from cotrunk.kinds import KINDS, Kind
from cotrunk.kinds.task import Task
from cotrunk.learn.stage import StageSpec
from cotrunk.model.encoder.shape import Shape, config_from_shape, shape_from_config
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.plan import is_in_encoder
from cotrunk.model.weights.initial import initialise
from cotrunk.model.weights.pretrained import find, load_tokenizer
from cotrunk.model.weights.warm_start import difference, have_same_heads, warm_start
from cotrunk.progress import OnProgress, ignore_progress
from cotrunk.runs.checkpoint import read_checkpoint
from cotrunk.runs.folder import RunFolder

LISTED = 12
"""Names in a note."""


@dataclass(frozen=True)
class PreparedRun:
    """A training run, ready to start."""

    network: Network
    stages: tuple[StageSpec, ...]
    streams: tuple[Stream, ...]
    dev: Mapping[str, Corpus]
    record: dict[str, Any]
    documents: dict[str, object]
    notes: tuple[str, ...]

    @property
    def steps(self) -> int:
        return self.stages[-1].first + self.stages[-1].steps


@dataclass(frozen=True)
class Model:
    """A trained network with what it needs to read text."""

    network: Network
    tokenizer: Tokenizer
    template: Template
    pair_formats: Mapping[str, PairFormat]
    settings: Settings
    base: Path


def corpora_of(
    settings: Settings,
    tasks: list[Task],
    split: str,
    base: Path,
    tokenizer: Tokenizer,
    *,
    on_progress: OnProgress,
) -> dict[str, Corpus]:
    """The tokenised rows of every task that names a file for the split; all errors at once."""
    corpora: dict[str, Corpus] = {}
    sources: dict[str, Source | None] = {}
    errors = Errors()
    for task in tasks:
        with errors.gathered():
            sources[task.name] = source_of(settings, task.name, split, base)
    errors.refuse()  # how a file is read depends on who shares it, so names come before rows
    for task in tasks:
        if (source := sources[task.name]) is not None:
            with errors.gathered():
                corpora[task.name] = load_corpus(task, source, tokenizer, on_progress=on_progress)
    errors.refuse()
    return corpora


def prepare(
    settings: Settings,
    base: Path,
    *,
    kinds: Mapping[str, type[Kind]] = KINDS,
    on_progress: OnProgress = ignore_progress,
) -> PreparedRun:
    """Check everything, read the data, build the network; only the token cache is written to."""
    tasks = tasks_of(settings, kinds)
    heads = head_plans(settings, tasks)
    _refuse_missing_files(settings)
    pretrained = find(settings.encoder.weights, base=base)
    shape = with_dropout(pretrained.shape, settings)
    plan, pair_formats = plan_of(settings, shape), pair_formats_of(settings, shape)
    refuse_senseless_freezing(settings, plan)
    refuse_senseless_training(settings)
    tokenizer = load_tokenizer(pretrained)
    tasks = bound_tasks(fitted_tasks(settings, tasks, base), tokenizer)
    template = template_of(tokenizer, segments=shape.segments)
    read: dict[str, dict[str, Corpus]] = {}
    errors = Errors()
    for split in ("train", "dev"):
        with errors.gathered():
            read[split] = corpora_of(
                settings, tasks, split, base, tokenizer, on_progress=on_progress
            )
    errors.refuse()
    network = Network(shape, plan, tasks, heads)
    kept = _kept_tensors(pretrained.tensors, settings, shape)
    drawn = initialise(network, kept, seed=settings.train.seed)
    notes = _notes(read, drawn, bool(pretrained.tensors))
    if settings.train.init_from:
        trained = base / settings.train.init_from
        notes += start_from(network, load_model(trained, kinds=kinds), template, pair_formats)
        if not RunFolder(trained).is_finished:
            notes += (f"train.init_from: the training of {trained} has not finished",)
    refuse_idle_methods(settings, network)
    network.to(device_of(settings.train.device))
    parts = Inputs(settings, network, tasks, read["train"], read["dev"], pair_formats, template)
    streams = tuple(
        stream_of(settings, train, read["train"], number=number)
        for number, train in enumerate(settings.stages_of_training)
    )
    record = {
        "format": 1,
        "settings": settings.model_dump(),
        "base": str(base.resolve()),
        "weights": pretrained.digest,
        "data": {s: {t: c.digest for t, c in corpora.items()} for s, corpora in read.items()},
        "threads": torch.get_num_threads(),
    }
    documents: dict[str, object] = {
        "settings": with_fitted_kinds(settings, tasks).model_dump(),
        "base": str(base.resolve()),
        "config": config_from_shape(shape),
        "tokenizer": json.loads(tokenizer.to_str()),
    }
    test = {
        name: file_digest(source.path)
        for name in settings.tasks
        if (source := source_of(settings, name, "test", base)) and source.path.is_file()
    }
    findings = findings_before(parts, streams, test)
    if any(finding.fatal for finding in findings):
        raise UserError(*(str(finding) for finding in findings))
    notes += tuple(f"warning: {finding}" for finding in findings)
    stages = plan_stages(parts, streams)
    return PreparedRun(network, stages, streams, read["dev"], record, documents, notes)


def _refuse_missing_files(settings: Settings) -> None:
    measured = any(train.evaluate != "never" for train in settings.stages_of_training)
    wrong = []
    for name, part in settings.tasks.items():
        if part.train is None:
            wrong.append(f"tasks.{name}.train is missing: name the file of training rows")
        if part.dev is None and measured:
            wrong.append(
                f"tasks.{name}.dev is missing: name the file to measure on, "
                'or set train.evaluate = "never"'
            )
    if wrong:
        raise UserError(*wrong)


def _kept_tensors(
    tensors: Mapping[str, torch.Tensor], settings: Settings, shape: Shape
) -> dict[str, torch.Tensor]:
    """Pretrained tensors without those of the top layers that are to start afresh."""
    kept = shape.layers - settings.encoder.reset_layers
    return {
        name: tensor
        for name, tensor in tensors.items()
        if not (name.startswith("layers.") and int(name.split(".")[1]) >= kept)
    }


def device_of(name: str) -> torch.device:
    """``auto`` takes the fastest at hand."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"train.device = {name!r} is not at hand here: {reason}") from None
    return device


def _notes(
    read: Mapping[str, Mapping[str, Corpus]], drawn: list[str], pretrained: bool
) -> tuple[str, ...]:
    """What a user should know before training begins."""
    notes = []
    for split, corpora in read.items():
        for task, corpus in corpora.items():
            if corpus.dropped_count:
                dropped = plural(corpus.dropped_count, "bad row")
                notes.append(f"{task} {split}: {dropped} dropped, the first: {corpus.dropped[0]}")
            if corpus.unlabelled:
                verb = "has" if corpus.unlabelled == 1 else "have"
                unlabelled = f"{plural(corpus.unlabelled, 'row')} {verb} no label for it"
                notes.append(f"{task} {split}: {unlabelled}")
    fresh = [name for name in drawn if is_in_encoder(name)]
    if pretrained and fresh:
        notes.append(f"not in the weights, so drawn at random: {', '.join(fresh[:6])}")
    return tuple(notes)


def load_model(
    folder: Path,
    *,
    which: str = "best",
    device: str = "cpu",
    kinds: Mapping[str, type[Kind]] = KINDS,
) -> Model:
    """A trained network from a run folder, verified."""
    run = RunFolder.open(folder)
    place = run.path / which
    if not re.fullmatch(r"final|best(-[A-Za-z0-9_-]+)?", which):
        raise UserError(f"--which {which}: give best, final or best-TASK")
    if not (place.is_dir() or place.with_name(f"{which}.old").is_dir()):
        if run.is_finished and which.startswith("best-"):
            why = "it was trained without train.keep_each = true, or has no such task"
        else:
            why = "its training has not got that far; go on, by `cotrunk train` with --resume"
        raise UserError(f"{folder} has no {which}/: {why}")
    checkpoint = read_checkpoint(place)
    documents = checkpoint.documents
    settings = check_settings(documents["settings"], place=f"{place}/settings.json", kinds=kinds)
    shape = shape_from_config(documents["config"], f"{place}/config.json")
    tokenizer = Tokenizer.from_str(json.dumps(documents["tokenizer"]))
    tasks = bound_tasks(tasks_of(settings, kinds), tokenizer)
    network = Network(shape, plan_of(settings, shape), tasks, head_plans(settings, tasks))
    network.load_state_dict(checkpoint.tensors("model"), strict=True)
    network.to(device_of(device))
    return Model(
        network,
        tokenizer,
        template_of(tokenizer, segments=shape.segments),
        pair_formats_of(settings, shape),
        settings,
        Path(documents["base"]),
    )


def _without_dropout(shape: Shape) -> Shape:
    return replace(shape, dropout=0.0, attention_dropout=0.0)


def start_from(
    network: Network, source: Model, template: Template, pair_formats: Mapping[str, PairFormat]
) -> tuple[str, ...]:
    """Copy a trained run's parameters into a network of another plan, and compare what they say."""
    if _without_dropout(source.network.shape) != _without_dropout(network.shape):
        raise UserError("train.init_from: the run has another encoder; encoder.weights must match")
    fresh = warm_start(network, source.network)
    known = [task for task in network.tasks if task in source.network.tasks]
    alike = [task for task in known if have_same_heads(network, source.network, task)]
    apart = difference(network, source.network, alike, template, pair_formats)
    if not fresh and apart > 1e-5:
        raise RuntimeError(f"all parameters were copied, but outputs differ by {apart:.2g}")
    met = f"its outputs for {', '.join(alike)} are met within {apart:.1g}"
    notes = [f"started from a trained run; {met if alike else 'no head is as it was there'}"]
    if fresh:
        more = f" and {len(fresh) - LISTED} more" if len(fresh) > LISTED else ""
        notes.append(f"not in that run, so they start afresh: {', '.join(fresh[:LISTED])}{more}")
    return tuple(notes)
