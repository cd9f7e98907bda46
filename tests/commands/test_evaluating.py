"""evaluate: scores as a document and as a table."""

import pytest
from calling import TASKS

from cotrunk.cli.terminal.tables import show_worst
from toy import write_rows


@pytest.mark.slow
def test_evaluate_gives_the_settled_document(cotrunk, run):
    document = cotrunk("evaluate", run, "--json").document
    assert list(document) == ["tasks", "overall", "split", "networks"]
    assert list(document["tasks"]) == TASKS
    for score in document["tasks"].values():
        assert list(score) == [
            *("metric", "score", "low", "high", "rows"),
            *("unit", "more", "per_class", "baseline", "thresholds", "masked_tokens", "files"),
        ]
        assert score["low"] <= score["score"] <= score["high"]
        assert score["rows"] == 24
    scores = [document["tasks"][task]["score"] for task in TASKS]
    assert document["overall"] == {
        "official": pytest.approx((scores[0] + scores[1] + (scores[2] + 1) / 2) / 3),
        "mean": pytest.approx(sum(scores) / 3),
    }


@pytest.mark.slow
def test_evaluate_repeats_what_training_measured(cotrunk, run):
    kept = cotrunk("info", run, "--json").document["scores"]
    again = cotrunk("evaluate", run, "--json").document["tasks"]
    for task in TASKS:
        assert again[task]["score"] == pytest.approx(kept[task]["score"], abs=1e-6)


@pytest.mark.slow
def test_evaluate_one_task_on_one_split(cotrunk, run):
    document = cotrunk("evaluate", run, "--task", "same", "--split", "train", "--json").document
    assert {task: score["rows"] for task, score in document["tasks"].items()} == {"same": 40}
    shown = cotrunk("evaluate", run, "--task", "same", "--which", "final").out
    assert "same" in shown
    assert "overall, official" in shown
    assert "official:" not in shown  # of one accuracy, both overall scores are the same


@pytest.mark.slow
def test_a_correlation_that_does_not_exist_is_null_and_a_dash(cotrunk, toy):
    header = ["id", "left", "right", "same", "alike"]
    write_rows(toy.parent / "pair-dev.csv", header, [[i, "a", f"b {i}", 1, 2] for i in range(5)])
    settings = ["--set", "train.max_steps=1", "tasks.same.sparse_labels=false"]
    said = cotrunk("train", toy, "--out", "run", "--json", *settings)
    assert said.document["scores"]["alike"]["score"] is None
    assert cotrunk("evaluate", "run", "--json").document["tasks"]["alike"]["score"] is None
    for command in ("info", "evaluate"):
        assert "alike" in cotrunk(command, "run").out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "finding"),
    [
        (["--task", "moood"], "--task moood: must be one of mood, same, alike"),
        (
            ["--split", "test"],
            "tasks.mood.test, tasks.same.test, tasks.alike.test: not set in the run's config",
        ),
    ],
)
def test_evaluate_refuses(cotrunk, run, options, finding):
    said = cotrunk("evaluate", run, *options, "--json")
    assert (said.code, said.out) == (2, "")
    assert finding in said.err


@pytest.mark.slow
def test_the_worst_rows_are_those_whose_labels_got_the_least_chance(cotrunk, run):
    document = cotrunk("evaluate", run, "--worst", "3", "--json").document
    every = cotrunk("evaluate", run, "--worst", "99", "--json").document["worst"]
    assert list(document["worst"]) == TASKS
    for task, rows in document["worst"].items():
        assert rows == every[task][:3]
        error = [row["error"] for row in every[task]]
        assert error == sorted(error, reverse=True)
    for row in every["alike"]:
        assert row["error"] == pytest.approx(abs(row["prediction"] - row["label"]))
    for task in ("mood", "same"):
        hit = document["tasks"][task]["score"] * 24
        assert len(every[task]) == 24 - round(hit)
        assert all(row["prediction"] != row["label"] for row in every[task])
    assert all(row["error"] >= 0.5 for row in every["same"])


@pytest.mark.slow
def test_a_worst_row_is_shown_with_its_line_and_its_texts(cotrunk, run, toy):
    document = cotrunk("evaluate", run, "--worst", "24", "--json").document
    lines = (toy.parent / "pair-dev.csv").read_text().splitlines()
    for row in document["worst"]["same"]:
        _, left, right, same, _ = lines[row["line"] - 1].split(",")
        assert row["texts"] == [left, right]
        assert row["label"] == int(same)
    shown = cotrunk("evaluate", run, "--worst", "1", "--task", "same").out
    worst = document["worst"]["same"][0]
    at = shown.splitlines().index("same: largest errors")
    told, left, right = shown.splitlines()[at + 1 : at + 4]
    where = f"line {worst['line']}, id {worst['id']}"
    assert told.startswith(f"{where}: predicted {worst['prediction']}, gold ")
    assert [left.strip(), right.strip()] == worst["texts"]
    assert '"error" is 1 - probability of the gold label' in shown


def test_errors_are_explained_only_where_some_are_shown(capsys):
    show_worst({"mood": []})
    assert capsys.readouterr().out == "\nmood: no errors\n"


@pytest.mark.slow
def test_brackets_and_colons_of_a_name_are_shown_as_they_are(cotrunk, run):
    named = run.rename(run.with_name("[bold]run[red] :smile:"))
    assert cotrunk("evaluate", named).out.startswith(f"{named}: dev\n")


@pytest.mark.slow
@pytest.mark.parametrize("count", ["-1", "many", "1.5"])
def test_a_number_of_worst_rows_that_is_none_is_refused(cotrunk, run, count):
    said = cotrunk("evaluate", run, f"--worst={count}")
    assert (said.code, said.out) == (2, "")
    assert "--worst: must be a whole number, 0 or more; found" in said.err
