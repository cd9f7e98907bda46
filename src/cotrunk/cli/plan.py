"""``cotrunk plan``: the parameters of a sharing plan, and which tasks own them."""

import re
import shlex
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cotrunk.build.freezing import always_frozen
from cotrunk.build.heads import head_plans
from cotrunk.build.plan import plan_of, projected_plan, trunk_of
from cotrunk.build.read import read_reporting_all
from cotrunk.build.sources import existing_sources
from cotrunk.build.tasks import fitted_tasks, tasks_of
from cotrunk.cli.terminal import tables
from cotrunk.cli.terminal.output import Document
from cotrunk.config.findings import NAME
from cotrunk.config.settings import Settings
from cotrunk.errors import Errors, UserError, complaints
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.shape import Shape, named
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.parameter_table import ParameterTable, parameter_table
from cotrunk.model.sharing.partition import parse_partition
from cotrunk.model.sharing.place import Place
from cotrunk.model.sharing.places import linear_head_place, trunk_places
from cotrunk.model.sharing.plan import Plan
from cotrunk.model.weights.locate import local_shape, shape_of

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
"""Options that describe a plan without a config, each with the equivalent --set."""


def plan(arguments: Namespace) -> Document:
    made, reads = planned(arguments)
    if not arguments.json:
        tables.show_plan(made, reads)
    return made.document()


def planned(arguments: Namespace) -> tuple[ParameterTable, dict[str, list[str]]]:
    options = {name: getattr(arguments, name) for name in PLAN_OPTIONS}
    given = {name: value for name, value in options.items() if value is not None}
    if arguments.config is None:
        if arguments.set or arguments.unset:
            given_option = "--set" if arguments.set else "--unset"
            fix = "give one, or use the other options"
            raise UserError(f"{given_option} needs a config to change; {fix}")
        return _table_of_options(**given), {}
    if given:
        raise UserError(*(_already_set(name, given[name], arguments.config) for name in given))
    return _table_of_config(Path(arguments.config), arguments.set, arguments.unset)


def _already_set(option: str, value: object, config: str) -> str:
    change = PLAN_OPTIONS[option].format(value)
    fix = f", or use --set {shlex.quote(change)} instead" if change else ""
    place = f"--{option.replace('_', '-')}"
    return f"{place}: {config} already sets it; change it there{fix}"


def _table_of_options(
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
    trunk = trunk_places(
        names,
        sizes,
        encoder=f"S{sizes.layers}" if encoder is None else encoder,
        embeddings=embeddings,
        pooler=pooler,
        neck=neck,
        projected=projected,
        place="plan",
    )
    made = Plan(tuple(names), (*trunk, *_heads(heads, names, sizes)))
    frozen = [place.name for place in made.places if place.pretrained and freeze]
    return parameter_table(made, frozen=frozen)


def _task_names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    wrong = [name for name in names if not re.match(NAME, name)]
    if wrong or len(set(names)) < len(names):
        finding = f"{wrong[0]!r} is not a valid name" if wrong else "a name occurs twice"
        raise UserError(f"--tasks {text}: give distinct names, separated by commas; {finding}")
    return names


def _heads(text: str | None, tasks: list[str], shape: Shape) -> list[Place]:
    if text is None:
        return []
    counts = [part.strip() for part in text.split(",")]
    if len(counts) != len(tasks) or not all(count.isdecimal() for count in counts):
        raise UserError(f"--heads {text}: give one number of outputs per task ({len(tasks)})")
    return [
        linear_head_place(task, shape.width, int(count))
        for task, count in zip(tasks, counts, strict=True)
    ]


def _table_of_config(
    path: Path, changes: Sequence[str], unset: Sequence[str]
) -> tuple[ParameterTable, dict[str, list[str]]]:
    base = path.parent
    check = partial(_refuse_wrong, base=base)
    settings = read_reporting_all(path, changes, unset=unset, check=check)
    tasks = fitted_tasks(settings, _refuse_wrong(settings, base), base)
    shape = shape_of(settings.encoder.weights, base=base)
    heads = head_plans(settings, tasks)
    reads = {name: list(part.reads) for name, part in settings.tasks.items() if part.reads}
    return parameter_table_of(settings, tasks, shape, heads), reads


def _refuse_wrong(settings: Settings, base: Path) -> list[Task]:
    """Check what a plan depends on, before a file is read; returns the tasks, not yet fitted."""
    errors = Errors()
    with errors.gathered():
        tasks = tasks_of(settings)
        errors.lines += complaints(partial(head_plans, settings, tasks))
        for task in tasks:
            if task.labels.needs_fitting:
                errors.lines += complaints(partial(existing_sources, settings, task, "train", base))
    with errors.gathered():
        if (shape := local_shape(settings.encoder.weights, base=base)) is not None:
            trunk_of(settings, shape)
    errors.refuse()
    return tasks


def parameter_table_of(
    settings: Settings, tasks: list[Task], shape: Shape, heads: dict[str, HeadPlan]
) -> ParameterTable:
    made = plan_of(settings, shape, tasks, heads)
    return parameter_table(made, frozen=always_frozen(settings, made))
