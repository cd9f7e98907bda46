"""Labelled files that the config of a run does not name: how its tasks read them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cotrunk.data.reading.cells import is_undecoded
from cotrunk.data.reading.encodings import SAVE_AS_UTF8, encoding_fix
from cotrunk.data.reading.examples import Source
from cotrunk.data.reading.files import PLAIN_TEXT
from cotrunk.errors import Errors, UserError, near_names, option, spelled
from cotrunk.infer.model import Model
from cotrunk.kinds.task import Task


@dataclass(frozen=True)
class LabelledFile:
    """``called``: the name to show in messages."""

    path: Path
    called: str


@dataclass(frozen=True)
class FileReading:
    """How the tasks read the files: ``sources`` are, by task, the files that have its columns.

    ``columns`` are the columns of each file, ``needed`` those that each task reads, whether a file
    has them or not.
    """

    sources: Mapping[str, tuple[Source, ...]]
    columns: Mapping[str, Sequence[str]]
    needed: Mapping[str, Sequence[str]]

    @property
    def used(self) -> set[str]:
        """The files that some task reads."""
        return {source.place for files in self.sources.values() for source in files}


def reading_of(
    model: Model,
    tasks: Sequence[Task],
    files: Sequence[LabelledFile],
    *,
    label: str | None = None,
    skip_bad_rows: bool = False,
    encoding: str | None = None,
) -> FileReading:
    """Files are read like those of the config, except for ``label`` and ``encoding`` if given.

    If a file has labels of several tasks, a row may lack some of them.
    """
    known = {task.name: source for task in tasks if (source := _usual_source(model, task))}
    if label is not None:
        known = {name: replace(usual, label=label) for name, usual in known.items()}
    if encoding is not None:
        known = {name: replace(usual, encoding=encoding) for name, usual in known.items()}
    found: dict[str, list[Source]] = {name: [] for name in known}
    columns: dict[str, Sequence[str]] = {}
    errors = Errors()
    for file in files:
        with errors.gathered():
            mine = {}
            for name, usual in known.items():
                here = _source_for(usual, file, skip_bad_rows=skip_bad_rows)
                with here.open(_needed(here)) as table:
                    columns[file.called] = table.columns
                if here.id not in columns[file.called]:
                    here = replace(here, id=None)
                if set(_needed(here)) <= set(table.columns):
                    mine[name] = here
                elif any(map(is_undecoded, table.columns)):
                    fix = encoding_fix(file.path, here.encoding)
                    rule = f"the names of its columns are not {here.encoding.upper()}"
                    raise UserError(f"{file.called}: {rule}; {fix or SAVE_AS_UTF8}")
            several = sum(here.label is not None for here in mine.values()) > 1
            for name, here in mine.items():
                sparse = here.sparse_labels or (several and here.label is not None)
                found[name].append(replace(here, sparse_labels=sparse))
    errors.refuse()
    return FileReading(
        sources={name: tuple(sources) for name, sources in found.items() if sources},
        columns=columns,
        needed={name: _needed(usual) for name, usual in known.items()},
    )


def _usual_source(model: Model, task: Task) -> Source | None:
    """How the task reads its own files; None if it only reads those of other tasks."""
    if task.labels.texts_of:
        return None
    splits = (model.sources[split].get(task.name, ()) for split in ("dev", "test", "train"))
    return next((source for sources in splits for source in sources), None)


def _source_for(source: Source, file: LabelledFile, *, skip_bad_rows: bool) -> Source:
    is_plain_text = source.is_plain_text and file.path.suffix.lower() == PLAIN_TEXT
    return replace(
        source,
        path=file.path,
        called=file.called,
        part=None,
        is_plain_text=is_plain_text,
        skip_bad_rows=skip_bad_rows or source.skip_bad_rows,
    )


def _needed(source: Source) -> list[str]:
    return [*source.texts, *([source.label] if source.label is not None else [])]


def nearest_task(wanted: Mapping[str, Sequence[str]], columns: Sequence[str]) -> str:
    """The task that the file comes nearest to, and what it lacks; "" if it is near to none."""
    missing = {
        name: {text: near_names(text, columns) for text in texts if text not in columns}
        for name, texts in wanted.items()
    }

    def likeness(name: str) -> float:
        unlike = sum(not near for near in missing[name].values())
        return 1 - unlike / len(wanted[name])

    name = max(wanted, key=likeness)
    if not likeness(name):
        return ""
    lacking = [
        f"{text} (rename {near[0]!r})" if near else text for text, near in missing[name].items()
    ]
    return f"; nearest is {name}: the file lacks {', '.join(lacking)}"


@contextmanager
def naming_the_option() -> Iterator[None]:
    """Errors in the block name the command-line option or argument instead of the config key."""
    try:
        yield
    except UserError as error:
        raise UserError(*map(_with_options, error.lines)) from None


OF_TRAINING = re.compile(r"""( or the task's classes| or set scheme = "iob1"),?""")
OTHER_LABELS = re.compile(
    r"; (check the label column, or )?(set (classes|range|kind) = |say which label is ).*"
)
"""Fixes that change the config, which a trained run cannot do."""
SET_RANGE = re.compile(r"; set range = \[[^]]*\]$")
LIMIT = re.compile(r"(; correct the cells?) or (tasks\.\S+?\.range)(?=$|,? or set )(,?)")
SKIPPING = f"give {spelled(command='--skip-bad-rows', python='skip_bad_rows=True')}"


def _with_options(line: str) -> str:
    line = LIMIT.sub(r"\1 (the limits are \2 in the run's config)", line)
    line = SET_RANGE.sub("; check the label column, or the task's range in the run's config", line)
    line = OF_TRAINING.sub("", OTHER_LABELS.sub("; check the label column", line))
    for setting in ("sparse_labels = true or skip_bad_rows", "skip_bad_rows", "sparse_labels"):
        line = line.replace(f"set {setting} = true", SKIPPING)
    line = re.sub(r'set encoding = "(.*?)"', lambda found: _encoding(found[1]), line)
    return line.replace("set encoding to", f"set {spelled(command='--', python='')}encoding to")


def _encoding(name: str) -> str:
    return f"give {option('encoding', name)}"
