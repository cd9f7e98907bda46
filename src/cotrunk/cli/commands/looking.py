"""Commands that look: presets, data, plans, runs."""

import os
import re
import shlex
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cotrunk.build.heads import head_plans, pair_formats_of
from cotrunk.build.plan import plan_of, projected_plan
from cotrunk.build.sources import source_of
from cotrunk.build.tasks import fitted_tasks, tasks_of
from cotrunk.cli.commands.outputs import refuse_bad_target, write_whole
from cotrunk.cli.terminal import screen, tables
from cotrunk.config import presets
from cotrunk.config.settings import NAME, Settings, check_settings, read_settings
from cotrunk.data.batches.text import template_of, tokens_of
from cotrunk.data.reading.check import check, spelled_out
from cotrunk.data.reading.examples import Source, Text
from cotrunk.data.tokens.tokenise import Tokeniser
from cotrunk.errors import Errors, UserError
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.shape import Shape, named
from cotrunk.model.heads import HeadPlan
from cotrunk.model.sharing.parameter_table import ParameterTable, parameter_table
from cotrunk.model.sharing.plan import make_plan, parse_partition
from cotrunk.model.weights.pretrained import find, load_tokenizer
from cotrunk.runs.folder import RunFolder, best_evaluation

Document = dict[str, Any]
PLAN_OPTIONS = {
    "shape": "encoder.weights=random:{}",
    "tasks": "",
    "encoder": "sharing.encoder={}",
    "embeddings": "sharing.embeddings={}",
    "pooler": "sharing.pooler={}",
    "neck": "sharing.neck={}",
    "pal": "sharing.pal.size={}",
    "pal_heads": "sharing.pal.heads={}",
    "pal_who": "sharing.pal.who={}",
    "heads": "",
    "freeze": "train.freeze=encoder",
}
"""What describes a plan without a config, and the change of a config that says the same."""


def init(arguments: Namespace) -> Document:
    if arguments.list:
        known = presets.summaries()
        if not arguments.json:
            listed = screen.table("", ["preset", ""], known.items())
            listed.columns[1].justify = "left"
            screen.out().print(listed, markup=False)
        return {"presets": known}
    path = Path(arguments.output or "run.toml")
    text = presets.text(arguments.preset, data=_seen_from(path.parent, arguments.data))
    if path.exists():
        raise UserError(f"{path} is already there; give another name with -o, or remove it first")
    refuse_bad_target(path)
    write_whole(path, text)
    screen.say(f"wrote {path}; now: cotrunk train {path} --out runs/{path.stem}")
    return {"config": str(path), "preset": arguments.preset}


def _seen_from(folder: Path, data: str | None) -> str | None:
    """A config's paths are relative to it, but people name a folder as seen from where they are."""
    if data is None or Path(data).is_absolute() or not Path(data).is_dir():
        return data
    return os.path.relpath(data, folder)


def data_check(arguments: Namespace) -> Document:
    path = Path(arguments.config)
    settings = read_settings(path, arguments.set)
    tasks = fitted_tasks(settings, tasks_of(settings), path.parent)
    pretrained = find(settings.encoder.weights, base=path.parent)
    pair_formats = pair_formats_of(settings, pretrained.shape)
    tokenizer = load_tokenizer(pretrained)
    template, tokenise = template_of(tokenizer), Tokeniser(tokenizer)
    document: Document = {"tasks": {}}
    errors = Errors()
    sources: dict[str, dict[str, Source]] = {task.name: {} for task in tasks}
    for task in tasks:
        for split in ("train", "dev", "test"):
            with errors.gathered():
                source = source_of(settings, task.name, split, path.parent)
                sources[task.name] |= {split: source} if source else {}
    errors.refuse()  # how a file is read depends on who shares it, so names come before rows
    for task in tasks:

        def lengths(rows: Sequence[tuple[Text, ...]], task: Task = task) -> list[int]:
            texts = [spelled_out(text) for row in rows for text in row]
            sizes = iter([len(ids) for ids in tokenise(texts)])
            return [
                tokens_of(template, [next(sizes) for _ in row], pair_formats[task.name])
                for row in rows
            ]

        with errors.gathered():
            document["tasks"][task.name] = asdict(check(task, sources[task.name], lengths))[
                "splits"
            ]
    errors.refuse()
    if not arguments.json:
        for task in tasks:
            tables.show_check(task, document["tasks"][task.name])
    return document


def plan(arguments: Namespace) -> Document:
    made, reads = _planned(arguments)
    if not arguments.json:
        tables.show_plan(made, reads)
    return made.document()


def _planned(arguments: Namespace) -> tuple[ParameterTable, dict[str, list[str]]]:
    options = {name: getattr(arguments, name) for name in PLAN_OPTIONS}
    given = {name: value for name, value in options.items() if value is not None}
    if arguments.config is None:
        if arguments.set:
            raise UserError(
                "--set changes a config, and none is given; name it, or use the options"
            )
        return _planned_options(**given), {}
    if given:
        raise UserError(*(_says_already(name, given[name], arguments.config) for name in given))
    return _planned_config(Path(arguments.config), arguments.set)


def _says_already(option: str, value: object, config: str) -> str:
    change = PLAN_OPTIONS[option].format(value)
    fix = f", or give --set {shlex.quote(change)} instead" if change else ""
    place = f"--{option.replace('_', '-')}"
    return f"{place}: {config} says that already; change it there{fix}"


def _planned_options(
    *,
    shape: str = "bert-base",
    tasks: str = "sst,para,sts",
    encoder: str | None = None,
    embeddings: str | None = None,
    pooler: str | None = None,
    neck: str = "",
    pal: int | None = None,
    pal_heads: int = 12,
    pal_who: str = "I",
    heads: str | None = None,
    freeze: bool = False,
) -> ParameterTable:
    names, sizes = _task_names(tasks), named(shape, "--shape")
    projected = None
    if pal is not None:
        who = parse_partition(pal_who, names, place="--pal-who")
        depths = tuple(range(sizes.layers))
        projected = projected_plan(who, pal, pal_heads, depths, sizes, place="plan.pal")
    made = make_plan(
        names,
        layers=sizes.layers,
        encoder=f"S{sizes.layers}" if encoder is None else encoder,
        embeddings=embeddings,
        pooler=pooler,
        neck=neck,
        projected=projected,
        place="plan",
    )
    return parameter_table(made, sizes, heads=_head_sizes(heads, names, sizes), frozen=freeze)


def _task_names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    wrong = [name for name in names if not re.match(NAME, name)]
    if wrong or len(set(names)) < len(names):
        finding = f"{wrong[0]!r} is no name" if wrong else "one stands there twice"
        raise UserError(f"--tasks {text}: give different names, separated by commas; {finding}")
    return names


def _head_sizes(text: str | None, tasks: list[str], shape: Shape) -> dict[str, int]:
    if text is None:
        return {}
    counts = [part.strip() for part in text.split(",")]
    if len(counts) != len(tasks) or not all(count.isdecimal() for count in counts):
        raise UserError(f"--heads {text}: give one number of outputs per task ({len(tasks)})")
    return {task: (shape.width + 1) * int(count) for task, count in zip(tasks, counts, strict=True)}


def _planned_config(
    path: Path, changes: Sequence[str]
) -> tuple[ParameterTable, dict[str, list[str]]]:
    settings = read_settings(path, list(changes))
    tasks = fitted_tasks(settings, tasks_of(settings), path.parent)
    shape = find(settings.encoder.weights, base=path.parent).shape
    heads = head_plans(settings, tasks)
    reads = {name: list(part.reads) for name, part in settings.tasks.items() if part.reads}
    return parameter_table_of(settings, tasks, shape, heads), reads


def parameter_table_of(
    settings: Settings, tasks: list[Task], shape: Shape, heads: dict[str, HeadPlan]
) -> ParameterTable:
    made = plan_of(settings, shape)
    return parameter_table(
        made,
        shape,
        heads=head_parameters(tasks, heads, shape),
        pooled=[name for name, head in heads.items() if head.pooling == "pooler"],
        frozen=all(train.freeze == "encoder" for train in settings.stages_of_training),
    )


def head_parameters(tasks: list[Task], heads: dict[str, HeadPlan], shape: Shape) -> dict[str, int]:
    import torch

    from cotrunk.model.sharing.network import make_heads

    with torch.device("meta"):
        made = make_heads({task.name: task for task in tasks}, heads, shape.width)
    return {name: sum(p.numel() for p in head.parameters()) for name, head in made.items()}


def info(arguments: Namespace) -> Document:
    run = RunFolder.open(Path(arguments.folder))
    settings = _settings_of(run)
    steps = [entry for entry in run.read_metrics() if entry.get("event") == "step"]
    kept = best_evaluation(run)
    document: Document = {
        "run": str(run.path),
        "weights": settings.encoder.weights,
        "sharing": settings.sharing.model_dump(exclude_defaults=True),
        "tasks": {name: part.kind for name, part in settings.tasks.items()},
        "steps": len(steps),
        "finished": run.final.is_dir(),
        "checkpoints": sorted(path.name for path in run.checkpoints.glob("step-*")),
        "best_step": kept.get("step"),
        "scores": {task: kept["scores"][task] for task in settings.tasks} if kept else {},
        "overall": {key: kept.get(key) for key in ("official", "mean")},
    }
    if not arguments.json:
        tables.show_info(document)
    return document


def _settings_of(run: RunFolder) -> Settings:
    record = run.read_document("run")
    if not isinstance(record, dict) or not isinstance(record.get("settings"), dict):
        raise UserError(f"{run.settings} was not written by `cotrunk train`: it has no settings")
    return check_settings(record["settings"], place=str(run.settings))
