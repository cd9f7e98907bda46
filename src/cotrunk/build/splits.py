"""Settings -> the texts that are held out of the training files for dev and test."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from cotrunk.build.sources import existing_sources, share_of
from cotrunk.config.settings import Settings
from cotrunk.data.reading.examples import Rows, Source
from cotrunk.data.reading.splits import HeldOut, Indivisible, Share, Splits, Text, hold_out
from cotrunk.data.tokens.digests import file_digest
from cotrunk.data.tokens.store import read_note, write_note
from cotrunk.errors import Errors, UserError
from cotrunk.kinds.task import Task

FORMAT = 4


def splits_by(settings: Settings, tasks: Sequence[Task], base: Path) -> Splits | None:
    """None if no task has a share of its training rows as dev or test rows."""
    sharing = [
        task
        for task in tasks
        if any(share_of(settings.tasks[task.name], split) for split in ("dev", "test"))
    ]
    if not sharing:
        return None
    errors, files = Errors(), dict[str, tuple[Source, ...]]()
    for task in sharing:
        with errors.gathered():
            files[task.name] = existing_sources(settings, task, "train", base)
    errors.refuse()
    found: dict[str, HeldOut] = {}
    for task in sharing:
        with errors.gathered():
            found[task.name] = _held_out_by(settings, task, files[task.name])
    errors.refuse()
    return Splits(found)


def _held_out_by(settings: Settings, task: Task, files: tuple[Source, ...]) -> HeldOut:
    name = _identity(settings, task, files)
    if (known := _cached(name)) is not None:
        return known
    try:
        held = hold_out(_share(settings, task, files), seed=settings.train.split_seed)
    except Indivisible as error:
        share = share_of(settings.tasks[task.name], error.split)
        place = f"tasks.{task.name}.{error.split} = {share:g}"
        raise UserError(f"{place}: {error}; name a file of {error.split} rows") from None
    write_note("splits", name, [sorted(held.dev), sorted(held.test), held.left_out])
    return held


def _share(settings: Settings, task: Task, files: Sequence[Source]) -> Share:
    part = settings.tasks[task.name]
    return Share(
        task=task.name,
        dev=share_of(part, "dev"),
        test=share_of(part, "test"),
        rows=list(_rows(task, files)),
        strata=task.labels.strata,
    )


def _rows(
    task: Task, files: Sequence[Source]
) -> Iterator[tuple[tuple[Text, ...], tuple[float, ...]]]:
    for source in files:
        for example in Rows(task, source):
            yield example.texts, example.target or ()


def _identity(settings: Settings, task: Task, files: tuple[Source, ...]) -> str:
    """A digest of everything that the choice depends on."""
    content = [
        task.name,
        task.labels.reading_key(),
        [share_of(settings.tasks[task.name], split) for split in ("dev", "test")],
        [[file_digest(s.path), asdict(s) | {"path": s.path.suffix}] for s in files],
    ]
    identity = json.dumps([FORMAT, settings.train.split_seed, content], sort_keys=True)
    return hashlib.sha256(identity.encode()).hexdigest()


def _cached(name: str) -> HeldOut | None:
    match read_note("splits", name):
        case [list(dev), list(test), int(left_out)]:
            return HeldOut(frozenset(dev), frozenset(test), left_out)
    return None
