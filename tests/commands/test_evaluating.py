"""evaluate: scores as a document and as a table."""

import pytest
from calling import TASKS

from toy import write_rows


def test_evaluate_gives_the_settled_document(cotrunk, run):
    document = cotrunk("evaluate", run, "--json").document
    assert list(document) == ["tasks", "overall"]
    assert list(document["tasks"]) == TASKS
    for score in document["tasks"].values():
        assert list(score) == ["metric", "score", "low", "high", "rows"]
        assert score["low"] <= score["score"] <= score["high"]
        assert score["rows"] == 24
    scores = [document["tasks"][task]["score"] for task in TASKS]
    assert document["overall"] == {
        "official": pytest.approx((scores[0] + scores[1] + (scores[2] + 1) / 2) / 3),
        "mean": pytest.approx(sum(scores) / 3),
    }


def test_evaluate_repeats_what_training_measured(cotrunk, run):
    kept = cotrunk("info", run, "--json").document["scores"]
    again = cotrunk("evaluate", run, "--json").document["tasks"]
    for task in TASKS:
        assert again[task]["score"] == pytest.approx(kept[task]["score"], abs=1e-6)


def test_evaluate_one_task_on_one_split(cotrunk, run):
    document = cotrunk("evaluate", run, "--task", "same", "--split", "train", "--json").document
    assert {task: score["rows"] for task, score in document["tasks"].items()} == {"same": 40}
    shown = cotrunk("evaluate", run, "--task", "same", "--which", "final").out
    assert "same" in shown
    assert "overall, official" in shown


def test_a_correlation_that_does_not_exist_is_null_and_a_dash(cotrunk, toy):
    header = ["id", "left", "right", "same", "alike"]
    write_rows(toy.parent / "pair-dev.csv", header, [[i, "a", f"b {i}", 1, 2] for i in range(5)])
    settings = ["--set", "train.max_steps=1", "tasks.same.sparse_labels=false"]
    said = cotrunk("train", toy, "--out", "run", "--json", *settings)
    assert said.document["scores"]["alike"]["score"] is None
    assert cotrunk("evaluate", "run", "--json").document["tasks"]["alike"]["score"] is None
    for command in ("info", "evaluate"):
        assert "alike" in cotrunk(command, "run").out


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        (["--task", "moood"], "--task moood: the run's tasks are mood, same, alike"),
        (["--split", "test"], "tasks.mood.test is not set in the run's config"),
    ],
)
def test_evaluate_refuses(cotrunk, run, options, finding):
    said = cotrunk("evaluate", run, *options, "--json")
    assert (said.code, said.out) == (2, "")
    assert finding in said.err
