"""Settings -> tasks, all errors at once."""

from cotrunk.config.settings import Settings, TaskPart
from cotrunk.errors import UserError
from cotrunk.kinds.task import CERTAINTY, TAKEN, Task


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
