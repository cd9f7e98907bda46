"""What a label in a file means, and which mean nothing."""

import json

import pytest
from sources import STARS, one, refusal, write

from cotrunk.data.reading.examples import Rows
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task

MOOD = Task("mood", 1, Classes(("bad", "good")))
YES = Task("yes", 1, Binary())


@pytest.mark.parametrize(
    ("task", "raw", "label"),
    [
        (STARS, "3", 3.0),
        (STARS, "3.0", 3.0),
        (STARS, 3, 3.0),
        (STARS, 3.0, 3.0),
        (MOOD, "good", 1.0),
        (YES, "0.0", 0.0),
        (YES, "1", 1.0),
        (YES, "TRUE", 1.0),
        (YES, "false", 0.0),
        (YES, True, 1.0),
        (YES, 0, 0.0),
        (Task("s", 1, Scores(range=(-1, 1))), "-2.5e-1", -0.25),
    ],
)
def test_labels_mean(tmp_path, task, raw, label):
    path = write(tmp_path, "a.jsonl", json.dumps({"text": "x", "label": raw}))
    assert [example.target for example in Rows(task, one(path))] == [(label,)]


@pytest.mark.parametrize(
    ("task", "raw", "rule"),
    [
        (STARS, "3.7", "not rounded); found '3.7'"),
        (STARS, 3.7, "not rounded); found 3.7"),
        (STARS, "5", "one of 0..4; found '5'"),
        (STARS, "-1", "one of 0..4"),
        (STARS, "nan", "one of 0..4"),
        (STARS, True, "one of 0..4; found True"),
        (STARS, "٣", "one of 0..4"),
        (STARS, [3], "found a value of type list"),
        (MOOD, "goood", "one of 'bad', 'good'; found 'goood' (did you mean 'good'?)"),
        (MOOD, "1", "one of 'bad', 'good'"),
        (MOOD, " good", "one of 'bad', 'good'"),
        (YES, "0.5", "0 or 1, no or yes, false or true"),
        (YES, "yep", "0 or 1, no or yes, false or true"),
        (YES, 2, "0 or 1, no or yes, false or true; found 2"),
        (Task("s", 1, Scores(range=(0, 1))), "nan", "a finite number"),
        (Task("s", 1, Scores(range=(0, 1))), "1e999", "a finite number"),
        (Task("s", 1, Scores(range=(0, 1))), "1e-999", "a finite number"),
        (Task("s", 1, Binary()), "1e-999", "found '1e-999'"),
        (STARS, "-0.01e-999", "found '-0.01e-999'"),
        (Task("s", 1, Scores(range=(0, 1))), 10**400, "a finite number"),
        (Task("s", 1, Scores(range=(0, 1))), "1_0", "a finite number"),
        (
            Task("s", 1, Scores(range=(0, 1))),
            "0,5",
            "a number must have a decimal point; found '0,5'; write it with a point",
        ),
        (Task("s", 1, Scores(range=(0, 1))), "1.01", "lie in 0..1; found '1.01'"),
    ],
)
def test_labels_that_mean_nothing_are_refused(tmp_path, task, raw, rule):
    path = write(tmp_path, "a.jsonl", json.dumps({"text": "x", "label": raw}))
    (line,) = refusal(task, one(path))
    assert line.startswith(f"{path}:1 (label): ")
    assert rule in line
