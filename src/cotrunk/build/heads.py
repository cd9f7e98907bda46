"""Settings -> head and pair format of each task; all errors are reported at once."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cotrunk.config.settings import Head, Reading, Settings
from cotrunk.errors import UserError, did_you_mean
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.shape import Shape
from cotrunk.model.head_plan import HeadPlan, Read

if TYPE_CHECKING:  # packing needs torch, which `cotrunk plan` does without
    from cotrunk.data.batches.text import PairFormat


def head_plans(settings: Settings, tasks: list[Task]) -> dict[str, HeadPlan]:
    """The head of each task; all errors are reported at once."""
    by_name = {task.name: task for task in tasks}
    wrong = [line for task in tasks for line in _wrong_head(settings, task, by_name)]
    if wrong:
        raise UserError(*wrong)
    return {
        name: HeadPlan(
            pooling="tokens"
            if by_name[name].is_about_tokens
            else part.pooling or settings.encoder.pooling,
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
    return [
        *_wrong_loss(settings, task),
        *_wrong_token_head(settings, task),
        *_wrong_tied_head(settings, task),
        *_wrong_pair(settings, task),
        *_wrong_reads(settings, task, tasks),
    ]


def _wrong_pair(settings: Settings, task: Task) -> list[str]:
    part, place = settings.tasks[task.name], f"tasks.{task.name}"
    wrong = []
    if task.texts == 1 and part.pair != "joined" and not task.is_about_tokens:
        wrong.append(f"{place}.pair = {part.pair!r} needs two texts, but text names one column")
    cosine = part.pair == "cosine" and task.texts == 2
    if cosine and task.labels.span is None:
        wrong.append(f'{place}.pair = "cosine" needs kind = "score" and a range')
    if cosine and part.reads:
        wrong.append(
            f'{place}.reads needs a head with layers, but pair = "cosine" has none; '
            'use pair = "all"'
        )
    if part.swap and (task.texts == 1 or part.pair != "joined") and not task.is_about_tokens:
        wrong.append(f'{place}.swap needs two texts and pair = "joined"')
    return wrong


def _wrong_reads(settings: Settings, task: Task, tasks: Mapping[str, Task]) -> list[str]:
    part, place = settings.tasks[task.name], f"tasks.{task.name}"
    wrong = []
    for read in () if task.labels.is_tied_to_words else dict.fromkeys(part.reads):
        if part.reads.count(read) > 1:
            wrong.append(f"{place}.reads lists {read!r} {part.reads.count(read)} times")
        if why := _wrong_read(settings, task, read, tasks):
            wrong.append(f"{place}.{why}")
    cycle = _cycle(settings, task.name)
    if cycle and cycle[0] == min(cycle):
        wrong.append(
            f"{place}.reads: heads cannot read each other in a cycle: {' reads '.join(cycle)}; "
            "remove one of these reads"
        )
    return wrong


def _wrong_read(settings: Settings, task: Task, read: str, tasks: Mapping[str, Task]) -> str:
    """Why the head of a task cannot read that of another; empty if it can."""
    if read not in tasks:
        hint = did_you_mean(read, tasks)
        return f"reads: {read!r} is not a task; tasks are {', '.join(tasks)}{hint}"
    other, part, other_part = tasks[read], settings.tasks[task.name], settings.tasks[read]
    if read == task.name:
        return f"reads: a task cannot read itself; remove {read!r}"
    if not other.labels.can_answer:
        return f"reads: {read!r} makes no predictions to read; remove it"
    if other.is_about_tokens != task.is_about_tokens:
        words, texts = (read, task.name) if other.is_about_tokens else (task.name, read)
        return f"reads: {words!r} labels words, but {texts!r} labels whole texts"
    if other.texts > task.texts:
        return f"reads: {read!r} needs two texts, but {task.name} has one"
    if other.texts == 2 and _pairing(settings, read) != _pairing(settings, task.name):
        return (
            f"reads: {read!r} must have the same pair, segments and swap; "
            f"pair is {other_part.pair!r} there and {part.pair!r} here"
        )
    if other_part.pair == "cosine" and part.reading.what == "hidden":
        return f'reading.what = "hidden": {read!r} has no hidden layer (pair = "cosine")'
    return ""


def _wrong_loss(settings: Settings, task: Task) -> list[str]:
    part = settings.tasks[task.name]
    try:
        task.labels.loss_name(part.loss, smoothing=part.label_smoothing)
    except ValueError as error:
        return [f"tasks.{task.name}.{error}"]
    return []


def _wrong_token_head(settings: Settings, task: Task) -> list[str]:
    """Settings that a token-level task cannot have: pooling, separate or swapped texts."""
    part, place = settings.tasks[task.name], f"tasks.{task.name}"
    if not task.is_about_tokens:
        return []
    wrong, kind = [], part.kind
    if part.pooling is not None:
        wrong.append(
            f"{place}.pooling: kind {kind} predicts tokens, which are not pooled; remove it"
        )
    if part.pair != "joined" or part.swap:
        key = "swap" if part.pair == "joined" else "pair"
        wrong.append(
            f'{place}.{key}: kind {kind} predicts tokens; it needs pair = "joined" and no swap'
        )
    if task.labels.reads_words and task.texts == 2:
        wrong.append(f"{place}.text: kind {kind} reads the words of one column; found two")
    return wrong


def _wrong_tied_head(settings: Settings, task: Task) -> list[str]:
    """Settings that a head tied to the word table does not have."""
    part, place = settings.tasks[task.name], f"tasks.{task.name}"
    if not task.labels.is_tied_to_words:
        return []
    given = {"head": part.head != Head(), "reading": part.reading != Reading()}
    given["reads"] = bool(part.reads)
    return [
        f"{place}.{key}: kind {part.kind} uses the encoder's pre-training head, "
        "which has no options; remove it"
        for key, is_given in given.items()
        if is_given
    ]


def _pairing(settings: Settings, task: str) -> tuple[bool, bool, bool]:
    part = settings.tasks[task]
    return part.pair == "joined", part.segments, part.swap


def _cycle(settings: Settings, start: str) -> list[str]:
    """A path of reads from a task back to itself, through at least one other task."""
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


def pair_formats_of(
    settings: Settings, shape: Shape, tasks: Sequence[Task]
) -> dict[str, "PairFormat"]:
    from cotrunk.data.batches.text import PairFormat

    longest = settings.encoder.max_tokens
    if longest > shape.max_tokens:
        raise UserError(
            f"encoder.max_tokens = {longest}, but the encoder reads at most {shape.max_tokens}"
        )
    return {
        task.name: PairFormat(
            texts=task.texts,
            joined=part.pair == "joined",
            segments=part.segments,
            swapped=part.swap,
            max_tokens=longest,
        )
        for task in tasks
        if (part := settings.tasks[task.name])
    }
