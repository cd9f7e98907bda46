"""Small files, and how a task reads them."""

import pytest

from cotrunk.data.reading.examples import Rows, Source
from cotrunk.errors import UserError
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task

STARS = Task("stars", 1, Classes(("0", "1", "2", "3", "4")))
SAME = Task("same", 2, Binary())
CLOSE = Task("close", 2, Scores(range=(0, 5)))
TAB_PAIRS = "\tid\tsentence1\tsentence2\tsimilarity\n"


def one(path, *, label="label", **options):
    return Source(path, ("text",), label, **options)


def pair(path, *, label="similarity", **options):
    return Source(path, ("sentence1", "sentence2"), label, **options)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(task, source):
    with pytest.raises(UserError) as caught:
        list(Rows(task, source))
    assert all("\n" not in line and line.isprintable() for line in caught.value.lines)
    return caught.value.lines


def parquet(path, columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path, row_group_size=2)
    return path
