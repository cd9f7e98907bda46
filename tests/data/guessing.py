"""Files to guess tasks from, and what is made of them."""

import pytest
from sources import write

from cotrunk.data.guess.tasks import guess_tasks
from cotrunk.errors import UserError

SENTENCE = "the river is slow and bright"
TEXTS = [f"{SENTENCE} {n}" for n in range(60)]


def csv(folder, header, rows, name="a.csv"):
    lines = [",".join(map(str, cells)) for cells in (header, *rows)]
    return write(folder, name, "\n".join(lines) + "\n")


def tasks_of(path):
    return {task.name: task for task in guess_tasks([path])}


def refusal(path):
    with pytest.raises(UserError) as caught:
        guess_tasks([path])
    (line,) = caught.value.lines
    return line
