"""From files with words of their own to answers in these words."""

import json
import tomllib

import pytest

from toy import WORDS

pytestmark = pytest.mark.slow
TINY = ["--set", "encoder.weights=random:tiny", "train.epochs=1"]


def rows(label, count=60):
    return [
        f"{WORDS[n % 11]} {WORDS[n % 7]} {WORDS[n % 5]} café {n},{label(n)}" for n in range(count)
    ]


@pytest.fixture
def trained(cotrunk, tmp_path):
    def run(label, *changes, encoding="utf-8"):
        content = "\n".join(["text,label", *rows(label), ""])
        (tmp_path / "a.csv").write_bytes(content.encode(encoding))
        assert cotrunk("init", "a.csv", "-o", "a.toml").code == 0
        said = cotrunk("train", "a.toml", "--out", "out", *TINY, *changes)
        assert said.code == 0, said.err
        task = tomllib.loads((tmp_path / "a.toml").read_text())["tasks"]["label"]
        answers = cotrunk("predict", "out", "a.csv", "--format", "jsonl").out.splitlines()
        return task, [json.loads(line)["label"] for line in answers]

    return run


def test_yes_and_no_in_a_latin_file(trained):
    task, answers = trained(lambda n: ["No", "Yes"][n % 2], encoding="latin-1")
    assert (task["kind"], task["encoding"], task.get("classes")) == ("binary", "latin-1", None)
    assert {answer["prediction"] for answer in answers} <= {"No", "Yes"}


def test_numbers_with_names(trained, cotrunk):
    names = '{ 0 = "one", 1 = "two", 2 = "three" }'
    task, answers = trained(lambda n: n % 3, f"tasks.label.classes={names}")
    assert task["classes"] == 3
    named = {0: "one", 1: "two", 2: "three"}
    assert all(answer["name"] == named[answer["prediction"]] for answer in answers)
    shown = cotrunk("predict", "out", "a.csv").out.splitlines()[0]
    assert shown == "id,label,label_name,label_probability"


def test_the_start_of_training_says_passes_and_names_the_run(cotrunk, toy):
    said = cotrunk("train", toy, "--out", "runs/mine", "--set", "train.max_steps=2")
    assert "passes over the rows in 2 steps: mood 0.40, same 0.40, alike 0.40" in said.err
    assert (
        "the first 2 of 10 steps see few rows: 40% of alike, 40% of mood, 40% of same" in said.err
    )
    assert "mine: step 2/2" in said.err
    table = cotrunk("train", toy, "--out", "x", "--dry-run").out
    assert "passes over its rows" in table


def test_a_run_that_max_seconds_stopped_says_so_and_goes_on(cotrunk, toy):
    little = ["--out", "run", "--set", "train.max_seconds=0.000001", "train.checkpoint=1"]
    said = cotrunk("train", toy, *little)
    assert said.code == 0
    assert (
        "stopped by train.max_seconds = 1e-06 after step 0 of 10; --resume starts over" in said.err
    )
    enough = ["--out", "run", "--resume", "--set", "train.max_seconds=99", "train.checkpoint=1"]
    said = cotrunk("train", toy, *enough)
    assert said.code == 0, said.err
    assert "step 10/10" in said.err
    assert "stopped by" not in said.err
