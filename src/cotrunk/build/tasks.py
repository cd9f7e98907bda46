"""Settings -> tasks; all errors are reported at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from cotrunk import late_numpy as np
from cotrunk.build.sources import SPLITS, existing_sources, files_of
from cotrunk.config.kinds import make_kind
from cotrunk.config.settings import Settings, TaskPart
from cotrunk.data.reading.encodings import wrong_encoding
from cotrunk.data.reading.examples import raw_labels
from cotrunk.data.reading.files import PLAIN_TEXT
from cotrunk.errors import Errors, UserError, did_you_mean
from cotrunk.kinds import CERTAINTY, KINDS, Kind, LabelError
from cotrunk.kinds.task import TAKEN, Task

if TYPE_CHECKING:  # `cotrunk plan` does not need tokens
    from tokenizers import Tokenizer


def tasks_of(settings: Settings, kinds: Mapping[str, type[Kind]] = KINDS) -> list[Task]:
    """The tasks of a config; some kinds must still be fitted (`fitted_tasks`)."""
    tasks: list[Task] = []
    errors = Errors()
    for name, part in settings.tasks.items():
        with errors.gathered():
            tasks.append(_task(name, part, kinds, settings))
    with errors.gathered():
        _refuse_same_columns(tasks)
    errors.refuse()
    return tasks


def _refuse_same_columns(tasks: Sequence[Task]) -> None:
    """The predictions of all tasks are columns of one table, so their names must differ."""
    owner: dict[str, str] = {}
    for task in tasks:
        for column in task.labels.columns(task.name):
            if owner.setdefault(column, task.name) != task.name:
                raise UserError(
                    f"tasks.{task.name}: answers would have a column {column!r} twice, because "
                    f"task {owner[column]} has one; rename one of the tasks"
                )


def _task(name: str, part: TaskPart, kinds: Mapping[str, type[Kind]], settings: Settings) -> Task:
    place = f"tasks.{name}"
    if name in TAKEN or name.endswith(CERTAINTY):
        taken = f"{', '.join(TAKEN)} or ...{CERTAINTY}"
        raise UserError(f"{place}: a task cannot be called {taken}: outputs use these names")
    texts = part.text or []
    columns = [*texts, *([part.label] if part.label is not None else [])]
    if len(set(columns)) < len(columns):
        raise UserError(f"{place}: text and label must be different columns: {', '.join(columns)}")
    if why := wrong_encoding(part.encoding):
        raise UserError(f"{place}.encoding = {part.encoding!r}: {why}")
    labels = make_kind(kinds[part.kind], part.model_extra or {})
    if not labels.takes_any_text:
        return Task(name, len(texts), labels)
    wrong = _wrong_texts_of(name, part, labels, settings) if labels.texts_of else _lacks_text(part)
    if wrong:
        raise UserError(*(f"{place}.{line}" for line in wrong))
    return Task(name, 1, labels)


def _wrong_texts_of(name: str, part: TaskPart, labels: Kind, settings: Settings) -> list[str]:
    """Names in ``texts_of`` that are not tasks with texts, and keys that it replaces."""
    wrong = [
        f"{key} and texts_of both say where the texts are; remove one of them"
        for key in ("text", "id", "train", "dev", "test")
        if getattr(part, key) is not None
    ]
    for other in dict.fromkeys(labels.texts_of):
        if labels.texts_of.count(other) > 1:
            wrong.append(f"texts_of lists {other!r} {labels.texts_of.count(other)} times")
        if other not in settings.tasks:
            known, hint = ", ".join(settings.tasks), did_you_mean(other, settings.tasks)
            wrong.append(f"texts_of: {other!r} is not a task; tasks are {known}{hint}")
        elif other == name:
            wrong.append(f"texts_of: a task cannot name itself; remove {other!r}")
        elif (settings.tasks[other].model_extra or {}).get("texts_of"):
            wrong.append(f"texts_of: {other!r} has only texts_of itself; name the tasks it names")
    return wrong


def _lacks_text(part: TaskPart) -> list[str]:
    files = [file for split in SPLITS for file in files_of(part, split)]
    are_plain = all(Path(file).suffix.lower() == PLAIN_TEXT for file in files)
    if part.text is not None or (files and are_plain):
        return []
    columns = 'name the text columns, as in text = ["sentence"]'
    return [f"text is missing: {columns}, or set texts_of to the tasks whose texts to read"]


def fitted_tasks(settings: Settings, tasks: Sequence[Task], base: Path) -> list[Task]:
    """Tasks with kinds fitted to the labels of the training file, if they need it."""
    errors = Errors()
    fitted: list[Task] = []
    for task in tasks:
        with errors.gathered():
            fitted.append(_fitted(settings, task, base) if task.labels.needs_fitting else task)
    errors.refuse()
    return fitted


def scaled_tasks(tasks: Sequence[Task], targets: Mapping[str, np.ndarray]) -> list[Task]:
    """Tasks whose losses have the scale of their train targets."""
    return [replace(task, labels=task.labels.scaled_to(targets[task.name])) for task in tasks]


def with_units_of(tasks: Sequence[Task], trained: Mapping[str, Task]) -> list[Task]:
    """Tasks whose heads mean the same as those of the run that they start from."""
    found = []
    for task in tasks:
        source = trained[task.name].labels if task.name in trained else None
        found.append(replace(task, labels=task.labels.with_unit_of(source)))
    return found


def worded_tasks(settings: Settings, tasks: Sequence[Task], base: Path) -> list[Task]:
    """Tasks that answer in the words of their training files."""
    return [_worded(settings, task, base) for task in tasks]


def _worded(settings: Settings, task: Task, base: Path) -> Task:
    try:
        sources = existing_sources(settings, task, "train", base)
        labelled = [source for source in sources if source.label is not None]
        labels = chain.from_iterable(raw_labels(source, task.labels) for source in labelled)
        return replace(task, labels=task.labels.worded(labels))
    except UserError:  # reported when the rows are read, with all other errors
        return task


def _fitted(settings: Settings, task: Task, base: Path) -> Task:
    sources = existing_sources(settings, task, "train", base)
    if not sources:
        raise UserError(
            f"tasks.{task.name}.train is missing: its kind is fitted to the training labels"
        )
    labels = chain.from_iterable(raw_labels(source, task.labels) for source in sources)
    try:
        with _by_key(task):
            return replace(task, labels=task.labels.fitted(labels))
    except LabelError as error:
        place = f"{sources[0].place} ({sources[0].label})"
        raise UserError(f"{place}: {error}; {error.fix}") from None


def bound_tasks(tasks: Sequence[Task], tokenizer: Tokenizer, *, vocabulary: int) -> list[Task]:
    """Tasks with kinds bound to the tokenizer; ``vocabulary``: rows of the word table."""
    from cotrunk.data.tokens.vocabulary import vocabulary_of

    words = vocabulary_of(tokenizer, size=vocabulary)
    errors = Errors()
    bound: list[Task] = []
    for task in tasks:
        with errors.gathered(), _by_key(task):
            bound.append(replace(task, labels=task.labels.bound(words)))
    errors.refuse()
    return bound


@contextmanager
def _by_key(task: Task) -> Iterator[None]:
    """Prefixes the errors of a kind with ``tasks.NAME``; some of them start with a key."""
    try:
        yield
    except (UserError, LabelError):
        raise
    except ValueError as error:
        first = re.split(r"\W", str(error), maxsplit=1)[0]
        is_key = first == "kind" or first in [field.name for field in fields(task.labels)]
        raise UserError(f"tasks.{task.name}{'.' if is_key else ': '}{error}") from None


def with_fitted_kinds(settings: Settings, tasks: Sequence[Task]) -> Settings:
    """Settings with the fitted values, so that a saved model needs no training file."""
    raw = settings.model_dump()
    for task in tasks:
        chosen = (settings.tasks[task.name].model_extra or {}).keys()
        fitted = [
            field.name
            for field in fields(task.labels)
            if field.default is not MISSING and getattr(task.labels, field.name) != field.default
        ]
        raw["tasks"][task.name] |= {key: getattr(task.labels, key) for key in (*chosen, *fitted)}
    return Settings.model_validate(raw)
