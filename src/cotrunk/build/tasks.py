"""Settings -> tasks, all errors at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tokenizers import Tokenizer

from cotrunk.build.sources import source_of
from cotrunk.config.kinds import make_kind
from cotrunk.config.settings import Settings, TaskPart
from cotrunk.data.reading.examples import raw_labels
from cotrunk.errors import Errors, UserError
from cotrunk.kinds import CERTAINTY, KINDS, Kind
from cotrunk.kinds.task import TAKEN, Task


def tasks_of(settings: Settings, kinds: Mapping[str, type[Kind]] = KINDS) -> list[Task]:
    """What the tasks are, all errors at once; some kinds must still be fitted (`fitted_tasks`)."""
    tasks: list[Task] = []
    errors = Errors()
    for name, part in settings.tasks.items():
        with errors.gathered():
            tasks.append(_task(name, part, kinds))
    errors.refuse()
    return tasks


def _task(name: str, part: TaskPart, kinds: Mapping[str, type[Kind]]) -> Task:
    place = f"tasks.{name}"
    if name in TAKEN or name.endswith(CERTAINTY):
        taken = f"{', '.join(TAKEN)} or ...{CERTAINTY}"
        raise UserError(
            f"{place}: no task can be called {taken}: answers and scores have such names"
        )
    columns = [*part.text, *([part.label] if part.label is not None else [])]
    if len(set(columns)) < len(columns):
        raise UserError(f"{place}: text and label must be different columns: {', '.join(columns)}")
    return Task(name, len(part.text), make_kind(kinds[part.kind], part.model_extra or {}))


def fitted_tasks(settings: Settings, tasks: Sequence[Task], base: Path) -> list[Task]:
    """Tasks whose kinds have seen the labels of the training file, where they need to."""
    errors = Errors()
    fitted: list[Task] = []
    for task in tasks:
        with errors.gathered():
            fitted.append(_fitted(settings, task, base) if task.labels.needs_fitting else task)
    errors.refuse()
    return fitted


def _fitted(settings: Settings, task: Task, base: Path) -> Task:
    source = source_of(settings, task.name, "train", base)
    if source is None:
        raise UserError(f"tasks.{task.name}.train is missing: its labels must be seen first")
    labels: Iterator[object] = raw_labels(source, task.labels)
    try:
        return replace(task, labels=task.labels.fitted(labels))
    except ValueError as error:
        raise UserError(f"tasks.{task.name}.{error}") from None


def bound_tasks(tasks: Sequence[Task], tokenizer: Tokenizer) -> list[Task]:
    """Tasks whose kinds know the tokenizer."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    return [replace(task, labels=task.labels.bound(vocabulary)) for task in tasks]


def with_fitted_kinds(settings: Settings, tasks: Sequence[Task]) -> Settings:
    """Settings that say what fitting has found, so that a saved model needs no training file."""
    raw = settings.model_dump()
    for task in tasks:
        chosen = (settings.tasks[task.name].model_extra or {}).keys()
        raw["tasks"][task.name] |= {key: getattr(task.labels, key) for key in chosen}
    return Settings.model_validate(raw)
