"""Settings -> a run that is ready to start."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from cotrunk.build.checks import refuse_wrong, refuse_wrong_network
from cotrunk.build.corpora import LoadCorpus, corpora_of, not_cached
from cotrunk.build.extensions import NO_EXTENSIONS, Extensions
from cotrunk.build.findings import epochs_within, findings_before
from cotrunk.build.heads import head_plans, pair_formats_of
from cotrunk.build.load import device_of, load_model, start_from
from cotrunk.build.plan import plan_of, reset_places, settings_of_saved, with_dropout
from cotrunk.build.sources import Sources, share_of, sources_of
from cotrunk.build.splits import splits_by
from cotrunk.build.stage import make_stage, steps_of, stream_of, trained_names
from cotrunk.build.tasks import (
    bound_tasks,
    fitted_tasks,
    scaled_tasks,
    with_fitted_kinds,
    with_units_of,
    worded_tasks,
)
from cotrunk.config.settings import Settings
from cotrunk.data.batches.stream import Stream
from cotrunk.data.batches.text import PairFormat, Template, template_of
from cotrunk.data.reading.splits import Splits
from cotrunk.data.tokens.cache import Corpus, load_corpus
from cotrunk.data.tokens.digests import digest_of
from cotrunk.data.tokens.workers import cores
from cotrunk.errors import Errors, UserError, plural
from cotrunk.infer.model import Model
from cotrunk.kinds.task import Task
from cotrunk.learn.run import Interrupt, Run
from cotrunk.learn.untrained import Untrained, untrained
from cotrunk.model.encoder.shape import Shape, config_of_saved
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.place import Place
from cotrunk.model.weights.initial import initialise
from cotrunk.model.weights.locate import place_of
from cotrunk.model.weights.pretrained import Pretrained, find, load_tokenizer
from cotrunk.progress import OnProgress, ignore_progress
from cotrunk.runs.cost import Meter
from cotrunk.runs.environment import environment
from cotrunk.runs.events import Finding
from cotrunk.runs.folder import RunFolder

Corpora = Mapping[str, Mapping[str, Corpus]]
"""By split and task."""


def prepare(
    settings: Settings,
    base: Path,
    out: Path,
    *,
    extensions: Extensions = NO_EXTENSIONS,
    load: LoadCorpus = load_corpus,
    on_progress: OnProgress = ignore_progress,
    interrupt: Interrupt | None = None,
) -> Run:
    """Check everything, read the data, build the network; writes only to the token cache.

    ``base``: the folder that paths in the settings are relative to; ``out``: the run folder.
    """
    meter = Meter(RunFolder(out))
    interrupt = interrupt or Interrupt()
    with meter.phase("prepare"):
        return _prepare(settings, base, meter, extensions, load, on_progress, interrupt)


@dataclass(frozen=True)
class _Built:
    """The network before any row is read, and what was built on the way.

    ``drawn``: parameters initialised at random; ``started``: notes about a warm start.
    """

    tasks: list[Task]
    shape: Shape
    pretrained: Pretrained
    tokenizer: Tokenizer
    template: Template
    pair_formats: Mapping[str, PairFormat]
    network: Network
    drawn: Mapping[str, Place]
    started: tuple[str, ...]
    warnings: tuple[str, ...]


def _prepare(
    settings: Settings,
    base: Path,
    meter: Meter,
    extensions: Extensions,
    load: LoadCorpus,
    on_progress: OnProgress,
    interrupt: Interrupt,
) -> Run:
    built = _build(settings, base, extensions)
    network = built.network
    splits = splits_by(settings, built.tasks, base)
    sources = sources_of(settings, built.tasks, base, splits)
    read = _read(built.tasks, sources, built.tokenizer, load, on_progress)
    tasks = scaled_tasks(built.tasks, {name: rows.target for name, rows in read["train"].items()})
    network.tasks = {task.name: task for task in tasks}
    network.to(device_of(settings.train.device))
    streams = _streams(settings, read["train"])
    findings = _findings(settings, network, streams, read, sources)
    steps = map(steps_of, settings.stages_of_training, streams)
    saved = settings_of_saved(with_fitted_kinds(settings, tasks))
    return Run(
        folder=meter.folder,
        network=network,
        train=read["train"],
        dev=read["dev"],
        pair_formats=built.pair_formats,
        template=built.template,
        streams=streams,
        ends=tuple(accumulate(steps)),
        make_stage=partial(make_stage, settings),
        keep=_keep(settings, tasks),
        max_seconds=settings.train.max_seconds,
        record=_record(settings, base, built.pretrained, read, network),
        splits=splits,
        untrained=_untrained(settings, network),
        keep_checkpoints=settings.train.keep_checkpoints,
        documents=_documents(saved, base, built.shape, built.tokenizer),
        notes=_notes(settings, built, read, splits, streams),
        warnings=built.warnings,
        findings=findings,
        on_progress=on_progress,
        interrupt=interrupt,
        meter=meter,
    )


def _streams(settings: Settings, train: Mapping[str, Corpus]) -> tuple[Stream, ...]:
    return tuple(
        stream_of(settings, stage, train, number=number)
        for number, stage in enumerate(settings.stages_of_training)
    )


def _build(settings: Settings, base: Path, extensions: Extensions) -> _Built:
    """Check the settings, then build the network."""
    tasks = refuse_wrong(settings, base, extensions)
    heads = head_plans(settings, tasks)
    pretrained = find(settings.encoder.weights, base=base)
    shape = with_dropout(pretrained.shape, settings)
    refuse_wrong_network(settings, shape, tasks, heads, extensions.places)
    pair_formats = pair_formats_of(settings, shape, tasks)
    source = _source_run(settings, base, extensions)
    warnings = use_threads(settings.train.threads)
    tokenizer = load_tokenizer(pretrained)
    tasks = bound_tasks(tasks, tokenizer, vocabulary=shape.vocabulary)
    tasks = worded_tasks(settings, fitted_tasks(settings, tasks, base), base)
    tasks = with_units_of(tasks, source.network.tasks if source else {})
    plan = plan_of(settings, shape, tasks, heads, more=extensions.places)
    template = template_of(tokenizer, segments=shape.segments)
    network = Network(shape, plan, tasks, heads)
    reset = reset_places(settings, plan)
    drawn = initialise(network, pretrained.tensors, seed=settings.train.seed, reset=reset)
    started = start_from(network, source, template, pair_formats) if source else ()
    return _Built(
        tasks=tasks,
        shape=shape,
        pretrained=pretrained,
        tokenizer=tokenizer,
        template=template,
        pair_formats=pair_formats,
        network=network,
        drawn=drawn,
        started=(*started, *_unfinished_source(settings, base)),
        warnings=warnings,
    )


def _findings(
    settings: Settings,
    network: Network,
    streams: Sequence[Stream],
    read: Corpora,
    sources: Sources,
) -> tuple[Finding, ...]:
    """The findings of the guards before training; raises if one of them is fatal."""
    findings = findings_before(
        settings,
        network,
        streams,
        train=read["train"],
        dev=read["dev"],
        test={name: digest_of(files) for name, files in sources["test"].items()},
    )
    if any(finding.fatal for finding in findings):
        raise UserError(*(str(finding) for finding in findings))
    return tuple(findings)


def _source_run(settings: Settings, base: Path, extensions: Extensions) -> Model | None:
    """The trained network to start from."""
    if settings.train.init_from is None:
        return None
    try:
        return load_model(base / settings.train.init_from, extensions=extensions)
    except UserError as error:
        raise UserError(*(f"train.init_from: {line}" for line in error.lines)) from None


def _unfinished_source(settings: Settings, base: Path) -> tuple[str, ...]:
    trained = settings.train.init_from
    if trained is None or RunFolder(base / trained).is_finished:
        return ()
    return (f"train.init_from: the training of {base / trained} has not finished",)


def _read(
    tasks: list[Task],
    sources: Sources,
    tokenizer: Tokenizer,
    load: LoadCorpus,
    on_progress: OnProgress,
) -> dict[str, dict[str, Corpus]]:
    read: dict[str, dict[str, Corpus]] = {}
    errors = Errors()
    for split in ("train", "dev"):
        with errors.gathered():
            read[split] = corpora_of(
                sources, split, tasks, tokenizer, load=load, on_progress=on_progress
            )
    errors.refuse()
    return read


def _keep(settings: Settings, tasks: list[Task]) -> str:
    """``train.keep``, or the task's own score if its only task has no overall score."""
    alone = len(tasks) == 1 and not tasks[0].labels.in_overall
    return tasks[0].name if alone else settings.train.keep


def use_threads(wanted: int | None) -> tuple[str, ...]:
    """Set torch's number of threads; returns a warning if there are fewer cores.

    By default torch uses all cores of the machine, even if the container may use fewer.
    """
    torch.set_num_threads(wanted or min(torch.get_num_threads(), cores()))
    if wanted is None or wanted <= cores():
        return ()
    are = "is" if cores() == 1 else "are"
    return (
        f"train.threads = {wanted}, but there {are} only {plural(cores(), 'core')}: "
        "more threads than cores are slower",
    )


def _record(
    settings: Settings, base: Path, pretrained: Pretrained, read: Corpora, network: Network
) -> dict[str, Any]:
    """The content of run.json."""
    return {
        "format": 1,
        "settings": settings.model_dump(),
        "base": str(base.resolve()),
        "weights": pretrained.digest,
        "data": {s: {t: c.digest for t, c in corpora.items()} for s, corpora in read.items()},
        "parameters": _parameters(settings, network),
        "threads": torch.get_num_threads(),
        "environment": environment(),
    }


def _untrained(settings: Settings, network: Network) -> Untrained:
    """The parameters that no stage trains, and where they come from."""
    trained, init_from = _trained_by_any(settings, network), settings.train.init_from
    source = f'train.init_from = "{init_from}"' if init_from else place_of(settings.encoder.weights)
    parameters = network.named_parameters()
    return untrained(source, {name: found for name, found in parameters if name not in trained})


def _trained_by_any(settings: Settings, network: Network) -> set[str]:
    stages = settings.stages_of_training
    return set[str]().union(*(trained_names(settings, stage, network) for stage in stages))


def _parameters(settings: Settings, network: Network) -> dict[str, int]:
    """How many parameters the network has, and how many any stage trains."""
    names = _trained_by_any(settings, network)
    sizes = {name: parameter.numel() for name, parameter in network.named_parameters()}
    return {"total": sum(sizes.values()), "trained": sum(sizes[name] for name in names)}


def _documents(
    settings: Settings, base: Path, shape: Shape, tokenizer: Tokenizer
) -> dict[str, object]:
    """What a saved network needs besides its weights."""
    return {
        "settings": settings.model_dump(),
        "base": str(base.resolve()),
        "config": config_of_saved(shape),
        "tokenizer": json.loads(tokenizer.to_str()),
    }


def small_shares(settings: Settings, read: Corpora) -> Iterator[str]:
    """Splits that have less than half of the share they should have."""
    for name, corpus in read["dev"].items():
        share = share_of(settings.tasks[name], "dev")
        rows = len(corpus) + len(read["train"][name])
        if 2 * len(corpus) < share * rows:
            found = plural(len(corpus), "row")
            yield (
                f"{name}: dev = {share:g} of {rows:,} rows gives only {found}, "
                "because rows that share a text stay together; name a file of dev rows instead"
            )


def left_out_notes(splits: Splits | None) -> Iterator[str]:
    for name, held in splits.by_task.items() if splits else ():
        if held.left_out:
            yield (
                f"{name}: {plural(held.left_out, 'row')} left out of all splits, because they "
                "share texts with more than one of them; name a file for each split to use them"
            )


def passes_notes(settings: Settings, streams: Sequence[Stream]) -> Iterator[str]:
    """How often an epoch sees the rows of each task; if ``max_steps`` ends none, these steps."""
    for number, (train, stream) in enumerate(
        zip(settings.stages_of_training, streams, strict=True), 1
    ):
        stage = f"stage {number}: " if len(streams) > 1 else ""
        steps = steps_of(train, stream)
        ended, cut = epochs_within(stream, steps)
        plans, said = ended or cut, []
        for task in stream.sizes if plans else ():
            passes = [plan["passes"][task] for plan in plans]
            least, most = (f"{some:.2f}" for some in (min(passes), max(passes)))
            said.append(f"{task} {least}" if least == most else f"{task} {least} to {most}")
        if said:
            when = "an epoch" if ended else plural(steps, "step")
            yield f"{stage}passes over the rows in {when}: {', '.join(said)}"


def _notes(
    settings: Settings,
    built: _Built,
    read: Corpora,
    splits: Splits | None,
    streams: Sequence[Stream],
) -> tuple[str, ...]:
    """What a user should know before training begins."""
    return (
        *not_cached(corpus for corpora in read.values() for corpus in corpora.values()),
        *_row_notes(settings, read),
        *_weight_notes(built.drawn, built.pretrained),
        *small_shares(settings, read),
        *left_out_notes(splits),
        *passes_notes(settings, streams),
        *built.started,
    )


def _row_notes(settings: Settings, read: Corpora) -> Iterator[str]:
    for split, corpora in read.items():
        for task, corpus in corpora.items():
            is_split = bool(share_of(settings.tasks[task], "dev"))  # one file, read for both
            if is_split and split != "train":
                continue
            where = task if is_split else f"{task} {split}"
            if corpus.dropped_count:
                dropped = plural(corpus.dropped_count, "bad row")
                yield f"{where}: {dropped} dropped, the first: {corpus.dropped[0]}"
            if corpus.unlabelled:
                verb = "has" if corpus.unlabelled == 1 else "have"
                unlabelled = f"{plural(corpus.unlabelled, 'row')} {verb} no label for this task"
                yield f"{where}: {unlabelled}"


def _weight_notes(drawn: Mapping[str, Place], weights: Pretrained) -> Iterator[str]:
    fresh = [name for name, place in drawn.items() if place.pretrained]
    if weights.tensors and fresh:
        yield f"not in the weights, so initialised at random: {', '.join(fresh[:6])}"
    heads = dict.fromkeys(place.name for place in drawn.values() if place.tied)
    if weights.tensors and heads:
        why = weights.masked_head_problem
        yield f"{', '.join(heads)}: initialised at random, because {why}"
