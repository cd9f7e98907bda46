"""Settings -> the files of each task and split."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from cotrunk.config.settings import Settings, TaskPart
from cotrunk.data import sample
from cotrunk.data.reading.examples import Source
from cotrunk.data.reading.files import PLAIN_TEXT, near_name, tables_in
from cotrunk.data.reading.formats import LINE
from cotrunk.data.reading.splits import Part, Split, Splits
from cotrunk.errors import UserError, complaints
from cotrunk.kinds.task import Task

SAMPLE = "sample:"
SPLITS: tuple[Split, ...] = ("train", "dev", "test")
Sources = Mapping[str, Mapping[str, tuple[Source, ...]]]
"""By split and task; several files if a task reads the texts of other tasks."""


def sources_of(
    settings: Settings, tasks: Sequence[Task], base: Path, splits: Splits | None = None
) -> Sources:
    """Every file that the settings name, whether it exists or not.

    ``splits``: the texts held out of training, for splits that are a share of the training rows.
    """
    return {
        split: {
            task.name: found
            for task in tasks
            if (found := _sources(settings, task, split, base, splits))
        }
        for split in SPLITS
    }


def existing_sources(
    settings: Settings, task: Task, split: Split, base: Path, splits: Splits | None = None
) -> tuple[Source, ...]:
    """The files of a task and split, after checking that they exist."""
    found = _sources(settings, task, split, base, splits)
    for source in found:
        refuse_absent(source.path, place=f"tasks.{task.name}.{split}")
    return found


def unlabelled_sources(settings: Settings) -> dict[str, Source]:
    """How each task reads a file without labels; the path is a placeholder."""
    return {
        name: Source(
            Path(),
            tuple(part.text or ()),
            label=None,
            id=part.id,
            skip_bad_rows=part.skip_bad_rows,
            quoting=part.quoting,
            encoding=part.encoding,
            columns=tuple(part.columns),
        )
        for name, part in settings.tasks.items()
    }


def absent_files(settings: Settings, tasks: Sequence[Task], sources: Sources) -> list[str]:
    """Error lines about files that do not exist, each at the setting that names the file."""
    own = {task.name for task in tasks if not task.labels.texts_of}  # the rest read these
    wrong = []
    for split in SPLITS:
        for task, files in sources[split].items():
            shared = share_of(settings.tasks[task], split)  # then its file is that of train
            for source in files if task in own and not shared else ():
                place = f"tasks.{task}.{split}"
                wrong += complaints(partial(refuse_absent, source.path, place=place))
    return wrong


def refuse_absent(path: Path, *, place: str) -> None:
    if path.is_file():
        return
    if path.is_dir():
        raise UserError(f"{place}: {path} is a folder; name a file")
    beside = tables_in(path.parent)
    near = near_name(path.name, beside)
    hint = f"did you mean {near!r}?" if near else "paths are relative to the config"
    if path.parent == sample.folder():
        hint = f"the samples are {', '.join(beside)}"
    raise UserError(f"{place}: there is no file {path}; {hint}")


def _sources(
    settings: Settings, task: Task, split: Split, base: Path, splits: Splits | None
) -> tuple[Source, ...]:
    """The files of a task, or those of the tasks whose texts it reads."""
    if split == "test" and task.labels.texts_of:  # never train on test texts
        return ()
    named = task.labels.texts_of or (task.name,)
    sparse = task.labels.missing_is_unlabelled
    found = [
        replace(
            _source(settings, name, split, file, base, sparse=sparse),
            part=_part(settings, name, split, splits, of_all=bool(task.labels.texts_of)),
        )
        for name in named
        for file in files_of(settings.tasks[name], split)
    ]
    if task.labels.takes_any_text:
        own = not task.labels.texts_of
        found = [_any_text(source, task, own=own) for source in found]
    return tuple(dict.fromkeys(found))  # a file that two tasks share is read once


def _any_text(source: Source, task: Task, *, own: bool) -> Source:
    """The source as raw text without labels; a .txt file of its ``own`` has no columns."""
    is_plain_text = own and source.path.suffix.lower() == PLAIN_TEXT
    texts = source.texts[: task.labels.texts_read(len(source.texts))]
    return replace(
        source,
        texts=(LINE,) if is_plain_text else texts,
        label=None,
        sparse_labels=False,
        is_plain_text=is_plain_text,
    )


def files_of(part: TaskPart, split: Split) -> tuple[str, ...]:
    """The files that a task names for a split; a file listed twice is read once."""
    named = part.train if share_of(part, split) else getattr(part, split)
    files = [named] if isinstance(named, str) else named or []
    return tuple(dict.fromkeys(files))


def share_of(part: TaskPart, split: Split) -> float:
    """The share of the training rows that is the split; 0 if it has files of its own, or none."""
    named = getattr(part, split)
    return named if isinstance(named, float) else 0.0


def _part(
    settings: Settings, task: str, split: Split, splits: Splits | None, *, of_all: bool
) -> Part | None:
    """``of_all``: the rows that any task holds out, for a task that reads the texts of others."""
    if splits is None or (split != "train" and not share_of(settings.tasks[task], split)):
        return None
    return Part(split, splits.of_all if of_all else splits.of(task, split))


def _source(
    settings: Settings, task: str, split: Split, file: str, base: Path, *, sparse: bool
) -> Source:
    """``sparse``: rows without a label are expected."""
    part = settings.tasks[task]
    labelled = [other for other in settings.tasks.values() if other.label is not None]
    # Several tasks in one file: not every row has a label for every task.
    sparse = sparse or sum(file in files_of(other, split) for other in labelled) > 1
    if part.sparse_labels is not None:
        sparse = part.sparse_labels
    return Source(
        path=_path(file, base),
        texts=tuple(part.text or ()),
        label=part.label,
        id=part.id,
        sparse_labels=sparse,
        skip_bad_rows=part.skip_bad_rows,
        quoting=part.quoting,
        encoding=part.encoding,
        columns=tuple(part.columns),
    )


def _path(file: str, base: Path) -> Path:
    """``sample:`` names a file in the package; other paths are relative to the config."""
    if file.startswith(SAMPLE):
        return sample.folder() / file.removeprefix(SAMPLE)
    return base / os.path.expanduser(file)
