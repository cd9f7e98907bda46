"""Settings -> everything else. The only file that reads settings and wires the parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from cotrunk.blueprint import (
    head_plans,
    plan_of,
    source_of,
    tasks_of,
    views_of,
    with_dropout,
)
from cotrunk.data.cache import Corpus, Progress, load_corpus
from cotrunk.data.sampling import Law
from cotrunk.data.stream import Stream
from cotrunk.data.text import Template, View, template_of
from cotrunk.errors import UserError
from cotrunk.learn.combine import combiner
from cotrunk.learn.gradients import Surgery, blocks_of
from cotrunk.learn.losses import loss_for
from cotrunk.learn.optimizer import OPTIMIZERS, parameter_groups, schedule
from cotrunk.learn.train import Judge, Learner, Recipe
from cotrunk.model.initial import initialise
from cotrunk.model.network import Network
from cotrunk.model.pretrained import find, load_tokenizer
from cotrunk.model.shape import Shape, config_from_shape, shape_from_config
from cotrunk.runs.checkpoint import read_checkpoint
from cotrunk.runs.folder import RunFolder
from cotrunk.settings import Settings, check_settings
from cotrunk.tasks import Task


@dataclass(frozen=True)
class Job:
    """A training run, ready to start."""

    learner: Learner
    judge: Judge
    record: dict[str, Any]
    documents: dict[str, object]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Model:
    """A trained network with what it needs to read text."""

    network: Network
    tokenizer: Tokenizer
    template: Template
    views: Mapping[str, View]
    settings: Settings
    base: Path


def corpora_of(
    settings: Settings,
    tasks: list[Task],
    split: str,
    base: Path,
    tokenizer: Tokenizer,
    *,
    progress: Progress,
) -> dict[str, Corpus]:
    """The tokenised rows of every task that names a file for the split; all errors at once."""
    corpora: dict[str, Corpus] = {}
    wrong: list[str] = []
    for task in tasks:
        source = source_of(settings, task.name, split, base)
        if source is None:
            continue
        try:
            corpora[task.name] = load_corpus(task, source, tokenizer, progress=progress)
        except UserError as error:
            wrong += error.lines
    if wrong:
        raise UserError(*wrong)
    return corpora


def prepare(settings: Settings, base: Path, *, progress: Progress = lambda _: None) -> Job:
    """Check everything, read the data, build the network; only the token cache is written to."""
    tasks = tasks_of(settings)
    heads = head_plans(settings, tasks)
    _refuse_missing_files(settings)
    pretrained = find(settings.encoder.weights, base=base)
    shape = with_dropout(pretrained.shape, settings)
    views = views_of(settings, shape)
    network = Network(shape, plan_of(settings, shape), tasks, heads)
    drawn = initialise(
        network, _kept_tensors(pretrained.tensors, settings, shape), seed=settings.train.seed
    )
    device = device_of(settings.train.device)
    network.to(device)
    tokenizer = load_tokenizer(pretrained)
    template = template_of(tokenizer)
    read = {
        split: corpora_of(settings, tasks, split, base, tokenizer, progress=progress)
        for split in ("train", "dev")
    }
    stream = _stream(settings, read["train"], views, template)
    record = {
        "format": 1,
        "settings": settings.model_dump(),
        "base": str(base.resolve()),
        "weights": pretrained.digest,
        "data": {s: {t: c.digest for t, c in corpora.items()} for s, corpora in read.items()},
    }
    documents: dict[str, object] = {
        "settings": settings.model_dump(),
        "base": str(base.resolve()),
        "config": config_from_shape(shape),
        "tokenizer": tokenizer.to_str(),
    }
    learner = _learner(settings, network, stream, device, tasks)
    notes = _notes(read, drawn, bool(pretrained.tensors))
    return Job(learner, Judge(read["dev"], views, template), record, documents, notes)


def _refuse_missing_files(settings: Settings) -> None:
    wrong = []
    for name, part in settings.tasks.items():
        if part.train is None:
            wrong.append(f"tasks.{name}.train is missing: name the file of training rows")
        if part.dev is None and settings.train.evaluate != "never":
            wrong.append(
                f"tasks.{name}.dev is missing: name the file to measure on, "
                'or set train.evaluate = "never"'
            )
    keep, known = settings.train.keep, ["official", "mean", "sum", *settings.tasks]
    if keep not in known:
        wrong.append(f"train.keep = {keep!r} is not one of {', '.join(known)}")
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


def _stream(
    settings: Settings, corpora: Mapping[str, Corpus], views: Mapping[str, View], template: Template
) -> Stream:
    train = settings.train
    law = Law(
        train.sampling,
        alpha=train.alpha,
        temperature=train.temperature,
        cap=train.cap,
        steps_per_epoch=train.steps_per_epoch,
        batches_per_epoch=train.batches_per_epoch,
        share_of_data=train.share_of_data,
    )
    batch = {name: part.batch or train.batch for name, part in settings.tasks.items()}
    return Stream(corpora, views, template, law, batch, train.seed, train.epochs, train.accumulate)


def _learner(
    settings: Settings, network: Network, stream: Stream, device: torch.device, tasks: list[Task]
) -> Learner:
    train = settings.train
    names = list(settings.tasks)
    steps = stream.steps if train.max_steps is None else min(train.max_steps, stream.steps)
    factors = learning_rate_factors(settings, network)
    groups = parameter_groups(
        network.named_parameters(), lr=train.lr, decay=train.decay, factors=factors
    )
    recipe = Recipe(
        steps=steps,
        seed=train.seed,
        weights={name: part.weight for name, part in settings.tasks.items()},
        losses={
            task.name: loss_for(
                task,
                settings.tasks[task.name].loss,
                smoothing=settings.tasks[task.name].label_smoothing,
            )
            for task in tasks
        },
        lr=train.lr,
        schedule=schedule(train.schedule, steps=max(stream.steps, 1), warmup=train.warmup),
        clip=train.clip,
        evaluate=train.evaluate,
        checkpoint=train.checkpoint,
        keep=train.keep,
        max_seconds=train.max_seconds,
        on_nan=train.on_nan,
        soft_l2=settings.sharing.soft.l2,
        soft_trace=settings.sharing.soft.trace,
    )
    surgery = None
    if train.gradients != "sum":
        blocks = blocks_of(network.named_parameters(), network.moved_by())
        surgery = Surgery(blocks, names, combiner(train.gradients), seed=train.seed)
    optimizer = OPTIMIZERS[train.optimizer](groups)
    return Learner(network, stream, optimizer, surgery, recipe, device)


def learning_rate_factors(settings: Settings, network: Network) -> dict[str, float]:
    """Heads at their own rate; each layer further from the heads slower by ``layer_decay``."""
    train, layers = settings.train, network.shape.layers
    head = (train.head_lr or train.lr) / train.lr
    factors = {}
    for name, _ in network.named_parameters():
        place, second = name.split(".")[:2]
        if place == "layers":
            factors[name] = train.layer_decay ** (layers - 1 - int(second))
        elif place == "embeddings":
            factors[name] = train.layer_decay**layers
        elif place in ("heads", "neck", "pooled_norm"):
            factors[name] = head
    return {name: factor for name, factor in factors.items() if factor != 1}


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
                notes.append(
                    f"{task} {split}: {corpus.dropped_count} bad rows dropped, the first: "
                    f"{corpus.dropped[0]}"
                )
            if corpus.unlabelled:
                notes.append(f"{task} {split}: {corpus.unlabelled} rows have no label for it")
    fresh = [name for name in drawn if name.split(".")[0] in ("embeddings", "layers", "pooler")]
    if pretrained and fresh:
        notes.append(f"not in the weights, so drawn at random: {', '.join(fresh[:6])}")
    return tuple(notes)


def load_model(folder: Path, *, which: str = "best", device: str = "cpu") -> Model:
    """A trained network from a run folder, verified."""
    run = RunFolder.open(folder)
    place = run.path / which
    if not place.is_dir():
        raise UserError(f"{folder} has no {which}/: its training has not got that far")
    checkpoint = read_checkpoint(place)
    documents = checkpoint.documents
    settings = check_settings(documents["settings"], place=f"{place}/settings.json")
    shape = shape_from_config(documents["config"], f"{place}/config.json")
    tasks = tasks_of(settings)
    network = Network(shape, plan_of(settings, shape), tasks, head_plans(settings, tasks))
    network.load_state_dict(checkpoint.tensors("model"), strict=True)
    network.to(device_of(device))
    tokenizer = Tokenizer.from_str(documents["tokenizer"])
    return Model(
        network,
        tokenizer,
        template_of(tokenizer),
        views_of(settings, shape),
        settings,
        Path(documents["base"]),
    )
