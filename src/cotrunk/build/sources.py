"""Settings -> where the rows of each task and split lie; and the rows, tokenised."""

import os
from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer

from cotrunk.config.settings import Settings
from cotrunk.data import sample
from cotrunk.data.reading.examples import Source
from cotrunk.data.reading.files import near_name, tables_in
from cotrunk.data.tokens.cache import Corpus, load_corpus
from cotrunk.errors import Errors, UserError
from cotrunk.kinds.task import Task
from cotrunk.progress import OnProgress, ignore_progress

SAMPLE = "sample:"
SPLITS = ("train", "dev", "test")
Sources = Mapping[str, Mapping[str, Source]]
"""By split and task."""


def sources_of(settings: Settings, base: Path) -> Sources:
    """Every file that the settings name, whether it exists or not."""
    return {
        split: {
            task: _source(settings, task, split, base)
            for task, part in settings.tasks.items()
            if getattr(part, split) is not None
        }
        for split in SPLITS
    }


def source_of(settings: Settings, task: str, split: str, base: Path) -> Source | None:
    """The existing file of a task and split, if the settings name one."""
    if getattr(settings.tasks[task], split) is None:
        return None
    source = _source(settings, task, split, base)
    refuse_absent(source.path, place=f"tasks.{task}.{split}")
    return source


def unlabelled_sources(settings: Settings) -> dict[str, Source]:
    """How each task reads a file without labels; its path is for the reader to replace."""
    return {
        name: Source(
            Path(),
            tuple(part.text),
            label=None,
            id=part.id,
            skip_bad_rows=part.skip_bad_rows,
            quoting=part.quoting,
            columns=tuple(part.columns),
        )
        for name, part in settings.tasks.items()
    }


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


def corpora_of(
    sources: Sources,
    split: str,
    tasks: list[Task],
    tokenizer: Tokenizer,
    *,
    on_progress: OnProgress = ignore_progress,
) -> dict[str, Corpus]:
    """The tokenised rows of every task that has a file for the split; all errors at once."""
    named = [(task, sources[split][task.name]) for task in tasks if task.name in sources[split]]
    errors = Errors()
    for task, source in named:
        with errors.gathered():
            refuse_absent(source.path, place=f"tasks.{task.name}.{split}")
    errors.refuse()  # before the first file is read
    corpora: dict[str, Corpus] = {}
    for task, source in named:
        with errors.gathered():
            corpora[task.name] = load_corpus(task, source, tokenizer, on_progress=on_progress)
    errors.refuse()
    return corpora


def _source(settings: Settings, task: str, split: str, base: Path) -> Source:
    part = settings.tasks[task]
    file = getattr(part, split)
    files = [getattr(other, split) for other in settings.tasks.values()]
    # One file with several label columns: not every row has every label.
    sparse = part.sparse_labels if part.sparse_labels is not None else files.count(file) > 1
    return Source(
        path=_path(file, base),
        texts=tuple(part.text),
        label=part.label,
        id=part.id,
        sparse_labels=sparse,
        skip_bad_rows=part.skip_bad_rows,
        quoting=part.quoting,
        columns=tuple(part.columns),
    )


def _path(file: str, base: Path) -> Path:
    """``sample:`` names a file that lies in the package; others are relative to the config."""
    if file.startswith(SAMPLE):
        return sample.folder() / file.removeprefix(SAMPLE)
    return base / os.path.expanduser(file)
