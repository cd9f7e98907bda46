"""Settings -> where the rows of each task and split lie."""

import os
from pathlib import Path

from cotrunk.config.settings import Settings
from cotrunk.data import sample
from cotrunk.data.reading.examples import Source
from cotrunk.data.reading.files import near_name, tables_in
from cotrunk.errors import UserError

SAMPLE = "sample:"


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
