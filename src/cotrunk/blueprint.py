"""Settings -> plain values: tasks, plan, heads, views and sources, with all errors at once."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from cotrunk import sample
from cotrunk.data.examples import Source
from cotrunk.data.files import near_name, tables_in
from cotrunk.data.text import View
from cotrunk.errors import UserError, counted, did_you_mean
from cotrunk.learn.balance import balance
from cotrunk.learn.combine import combiner
from cotrunk.learn.losses import loss_for
from cotrunk.learn.smooth import smoothing
from cotrunk.model.heads import HeadPlan, Read
from cotrunk.model.plan import Plan, ProjectedPlan, make_plan, parse_partition
from cotrunk.model.shape import Shape
from cotrunk.settings import Settings, TaskPart
from cotrunk.tasks import CERTAINTY, TAKEN, Task

SAMPLE = "sample:"


def tasks_of(settings: Settings) -> list[Task]:
    """What the tasks are, all errors at once."""
    tasks: list[Task] = []
    wrong: list[str] = []
    for name, part in settings.tasks.items():
        try:
            tasks.append(_task(name, part))
        except UserError as error:
            wrong += error.lines
    if wrong:
        raise UserError(*wrong)
    return tasks


def _task(name: str, part: TaskPart) -> Task:
    place = f"tasks.{name}"
    if name in TAKEN or name.endswith(CERTAINTY):
        taken = f"{', '.join(TAKEN)} or ...{CERTAINTY}"
        raise UserError(
            f"{place}: no task can be called {taken}: answers and scores have such names"
        )
    columns = [*part.text, part.label]
    if len(set(columns)) < len(columns):
        raise UserError(f"{place}: text and label must be different columns: {', '.join(columns)}")
    if part.kind == "classes":
        if part.classes is None:
            raise UserError(f"{place}.classes is missing: say how many there are, or name them")
        named = part.classes if isinstance(part.classes, list) else range(part.classes)
        names = tuple(map(str, named))
        if len(names) < 2 or len(set(names)) < len(names):
            found = ", ".join(map(repr, names)) or "none"
            raise UserError(f"{place}.classes: give two or more different names; found {found}")
        return Task(name, part.kind, len(part.text), classes=names)
    if part.kind == "binary":
        return Task(name, part.kind, len(part.text))
    if part.range is None or not part.range[0] < part.range[1]:
        raise UserError(f"{place}.range: give the lowest and the highest score, as in [0, 5]")
    return Task(name, part.kind, len(part.text), low=part.range[0], high=part.range[1])


def plan_of(settings: Settings, shape: Shape) -> Plan:
    sharing, names = settings.sharing, list(settings.tasks)
    if settings.encoder.reset_layers > shape.layers:
        raise UserError(
            f"encoder.reset_layers = {settings.encoder.reset_layers}, "
            f"but the encoder has {counted(shape.layers, 'layer')}"
        )
    return make_plan(
        names,
        layers=shape.layers,
        encoder=f"S{shape.layers}" if sharing.encoder is None else sharing.encoder,
        embeddings=sharing.embeddings,
        pooler=sharing.pooler,
        neck=sharing.neck,
        pooled_norm=sharing.pooled_norm,
        projected=_projected(settings, shape),
    )


def _projected(settings: Settings, shape: Shape) -> ProjectedPlan | None:
    pal = settings.sharing.pal
    if pal is None:
        return None
    depths = tuple(range(shape.layers)) if pal.layers == "all" else tuple(sorted(set(pal.layers)))
    who = parse_partition(pal.who, list(settings.tasks), place="sharing.pal.who")
    return projected_plan(who, pal.size, pal.heads, depths, shape, gelu=pal.gelu, bias=pal.bias)


def projected_plan(
    who: tuple[frozenset[str], ...],
    size: int,
    heads: int,
    depths: tuple[int, ...],
    shape: Shape,
    *,
    gelu: bool = False,
    bias: bool = False,
    place: str = "sharing.pal",
) -> ProjectedPlan:
    if size < 1 or heads < 1:
        raise UserError(f"{place}.size = {size} and {place}.heads = {heads} must be 1 or more")
    if size % heads:
        below, above = size - size % heads, size - size % heads + heads
        nearest = " or ".join(str(n) for n in (below, above) if n)
        raise UserError(
            f"{place}.size = {size} is not divisible by {place}.heads = {heads}; "
            f"the nearest sizes that are: {nearest}"
        )
    absent = [depth for depth in depths if depth >= shape.layers]
    if absent or not depths:
        raise UserError(
            f"{place}.layers: the encoder has layers 0..{shape.layers - 1}; "
            + (f"there is no layer {absent[0]}" if absent else "none is named")
            + '; name some of these, or write layers = "all"'
        )
    return ProjectedPlan(who, size, heads, depths, gelu, bias)


def head_plans(settings: Settings, tasks: list[Task]) -> dict[str, HeadPlan]:
    """How each task answers, all errors at once."""
    by_name = {task.name: task for task in tasks}
    wrong = [line for task in tasks for line in _wrong_head(settings, task, by_name)]
    if wrong:
        raise UserError(*wrong)
    return {
        name: HeadPlan(
            pooling=part.pooling or settings.encoder.pooling,
            pair=part.pair,
            reads=tuple(
                Read(read, part.reading.what, part.reading.gradient) for read in part.reads
            ),
            combine=part.reading.combine,
            **part.head.model_dump(),
        )
        for name, part in settings.tasks.items()
    }


def _wrong_head(settings: Settings, task: Task, tasks: Mapping[str, Task]) -> list[str]:
    part, place = settings.tasks[task.name], f"tasks.{task.name}"
    wrong = _complaints(partial(loss_for, task, part.loss, smoothing=part.label_smoothing))
    if task.texts == 1 and part.pair != "joined":
        wrong.append(f"{place}.pair = {part.pair!r} needs two texts, but text names one column")
    cosine = part.pair == "cosine" and task.texts == 2
    if cosine and task.kind != "score":
        wrong.append(f'{place}.pair = "cosine" answers a score, but the kind is {task.kind}')
    if cosine and part.reads:
        wrong.append(f'{place}.reads: pair = "cosine" has no layer to read with; use "all"')
    if part.swap and (task.texts == 1 or part.pair != "joined"):
        wrong.append(f'{place}.swap needs two texts and pair = "joined"')
    for read in dict.fromkeys(part.reads):
        if part.reads.count(read) > 1:
            wrong.append(f"{place}.reads: {read!r} stands there {part.reads.count(read)} times")
        if read not in tasks:
            hint = did_you_mean(read, tasks)
            wrong.append(f"{place}.reads: {read!r} is no task; tasks are {', '.join(tasks)}{hint}")
        elif read == task.name:
            wrong.append(f"{place}.reads: a task cannot read itself; leave {read!r} out")
        elif tasks[read].texts > task.texts:
            wrong.append(f"{place}.reads: {read!r} needs two texts, but {task.name} has one")
        elif tasks[read].texts == 2 and _pairing(settings, read) != _pairing(settings, task.name):
            wrong.append(
                f"{place}.reads: {read!r} and {task.name} must encode pairs alike; "
                f"pair is {settings.tasks[read].pair!r} there and {part.pair!r} here"
            )
        elif settings.tasks[read].pair == "cosine" and part.reading.what == "hidden":
            wrong.append(f'{place}.reading.what = "hidden": {read!r} is a cosine and has none')
    circle = _circle(settings, task.name)
    if circle and circle[0] == min(circle):
        wrong.append(
            f"{place}.reads: heads cannot read in a circle: {' reads '.join(circle)}; "
            "leave one of these reads out"
        )
    return wrong


def _complaints(make: Callable[[], object]) -> list[str]:
    try:
        make()
    except UserError as error:
        return list(error.lines)
    return []


def refuse_wrong_options(settings: Settings) -> None:
    """Ways of training that do not know their options, or lack a package; all at once.

    They are made only when their stage begins, and that would be too late to say so.
    """
    tasks = tasks_of(settings)
    weights = {name: part.weight for name, part in settings.tasks.items()}
    wrong: list[str] = []
    for train in settings.stages_of_training:
        wrong += _complaints(partial(combiner, train.gradients, train.gradient_options))
        wrong += _complaints(partial(smoothing, train.smooth, train.smooth_options))
        options = train.balance_options
        wrong += _complaints(partial(balance, train.balance, tasks, weights, options))
    if wrong:
        raise UserError(*dict.fromkeys(wrong))


def _pairing(settings: Settings, task: str) -> tuple[bool, bool, bool]:
    part = settings.tasks[task]
    return part.pair == "joined", part.segments, part.swap


def _circle(settings: Settings, start: str) -> list[str]:
    """A path of reads from a task back to itself, of two tasks or more."""
    paths = [[start]]
    while paths:
        path = paths.pop()
        part = settings.tasks.get(path[-1])
        for read in part.reads if part else []:
            if read == start and len(path) > 1:
                return [*path, start]
            if read not in path:
                paths.append([*path, read])
    return []


def views_of(settings: Settings, shape: Shape) -> dict[str, View]:
    longest = settings.encoder.max_tokens
    if longest > shape.max_tokens:
        raise UserError(
            f"encoder.max_tokens = {longest}, but the encoder reads at most {shape.max_tokens}"
        )
    return {
        name: View(
            texts=len(part.text),
            joined=part.pair == "joined",
            segments=part.segments,
            swapped=part.swap,
            max_tokens=longest,
        )
        for name, part in settings.tasks.items()
    }


def resolve(file: str, base: Path, *, place: str) -> Path:
    """A data file: ``sample:`` names one that lies in the package, others are relative to base."""
    inside = file.startswith(SAMPLE)
    path = (
        sample.folder() / file.removeprefix(SAMPLE) if inside else base / os.path.expanduser(file)
    )
    if path.is_file():
        return path
    if path.is_dir():
        raise UserError(f"{place} = {file!r}: {path} is a folder; name a file")
    beside = tables_in(path.parent)
    near = near_name(path.name, beside)
    hint = f"did you mean {near!r}?" if near else "paths are relative to the config"
    if inside:
        hint = f"the samples are {', '.join(beside)}"
    raise UserError(f"{place} = {file!r}: there is no file {path}; {hint}")


def source_of(settings: Settings, task: str, split: str, base: Path) -> Source | None:
    """Where the rows of a task and split lie, if the settings name a file for them."""
    part = settings.tasks[task]
    file = getattr(part, split)
    if file is None:
        return None
    files = [getattr(other, split) for other in settings.tasks.values()]
    # One file with several label columns: not every row has every label.
    sparse = part.sparse_labels if part.sparse_labels is not None else files.count(file) > 1
    return Source(
        path=resolve(file, base, place=f"tasks.{task}.{split}"),
        texts=tuple(part.text),
        label=part.label,
        id=part.id,
        sparse_labels=sparse,
        skip_bad_rows=part.skip_bad_rows,
        quoting=part.quoting,
    )


def with_dropout(shape: Shape, settings: Settings) -> Shape:
    """The encoder's own dropout rates unless the settings name others."""
    chosen = {
        name: rate
        for name in ("dropout", "attention_dropout")
        if (rate := getattr(settings.encoder, name)) is not None
    }
    return replace(shape, **chosen)
