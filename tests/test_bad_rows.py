"""Bad rows are told all at once, whatever task and split they belong to, and each only once."""

import re
from pathlib import Path

import pytest

from cotrunk.cli.main import main
from toy import write_rows

PAIRS = ["id", "left", "right", "same", "alike"]
MOODS = ["id", "sentence", "mood"]


@pytest.fixture
def places(capsys):
    """The places, as in mood.csv:3:2, that a refused command names."""

    def refused(*arguments: object) -> list[str]:
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 2
        lines = capsys.readouterr().err.splitlines()
        found = [re.match(r"error: .*?([\w-]+\.csv:[\d:]+) ", line) for line in lines]
        return [match[1] for match in found if match]

    return refused


def spoil(folder: Path) -> None:
    write_rows(folder / "mood-train.csv", MOODS, [[1, "good", 3], [2, "", 1]])
    write_rows(folder / "pair-train.csv", PAIRS, [[1, "a", "", 1, 9], [2, "a", "b", 7, 2]])
    write_rows(folder / "pair-dev.csv", PAIRS, [[1, "", "b", 1, 3], [2, "a", "b", 1, 6]])


@pytest.mark.parametrize("command", [["train"], ["train", "--dry-run"], ["data", "check"]])
def test_bad_rows_of_all_tasks_and_splits_are_told_at_once(places, toy, tmp_path, command):
    spoil(tmp_path)
    told = places(*command, toy)
    assert sorted(told) == [
        "mood-train.csv:2:3",
        "mood-train.csv:3:2",
        "pair-dev.csv:2:2",  # of both tasks that read the file
        "pair-dev.csv:3:5",
        "pair-train.csv:2:3",
        "pair-train.csv:2:5",
        "pair-train.csv:3:4",
    ]


@pytest.mark.parametrize("command", [["train"], ["data", "check"]])
def test_missing_files_are_all_told_before_bad_rows(toy, tmp_path, capsys, command):
    spoil(tmp_path)
    changes = ["tasks.mood.train=gone.csv", "tasks.same.dev=lost.csv"]
    assert main([*command, str(toy), "--set", *changes]) == 2
    said = capsys.readouterr().err
    for finding in ("tasks.mood.train: there is no file", "tasks.same.dev: there is no file"):
        assert said.count(finding) == 1
    assert ":2:3 (right)" not in said


def test_predict_tells_the_bad_rows_of_all_tasks_at_once(places, toy, tmp_path):
    run = tmp_path / "run"
    changes = ["train.max_steps=1", "train.evaluate=never"]
    assert main(["train", str(toy), "--out", str(run), "--set", *changes]) == 0
    header = ["id", "sentence", "left", "right"]
    rows = [["a", "good", "x", ""], ["b", "", "x", "y"], ["", "good", "x", "y"]]
    write_rows(tmp_path / "new.csv", header, rows)
    told = places("predict", run, tmp_path / "new.csv", "--which", "final")
    assert sorted(told) == ["new.csv:2:4", "new.csv:3:2", "new.csv:4:1"]


@pytest.mark.parametrize(("bad", "said"), [(1, "1 bad row;"), (2, "2 bad rows;")])
def test_one_is_not_spoken_of_as_many(toy, tmp_path, capsys, bad, said):
    run = tmp_path / "run"
    changes = ["train.max_steps=1", "train.evaluate=never"]
    assert main(["train", str(toy), "--out", str(run), "--set", *changes]) == 0
    write_rows(tmp_path / "new.csv", ["id", "sentence"], [[0, "good"], *([[1, ""]] * bad)])
    asked = ["predict", str(run), str(tmp_path / "new.csv"), "--task", "mood", "--which", "final"]
    assert main([*asked, "--skip-bad-rows"]) == 0
    assert f"note: mood: skipped {said} first: " in capsys.readouterr().err


def test_an_absent_file_is_told_once_though_dev_is_a_share_of_it(toy, capsys):
    changes = ["--set", "tasks.mood.train=gone.csv", "tasks.mood.dev=0.2"]
    assert main(["train", str(toy), "--out", "run", *changes]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "tasks.mood.train: there is no file" in line


def test_rows_are_not_judged_while_a_file_name_is_wrong(toy, capsys):
    """Whether a label may be empty depends on who shares the file."""
    path = toy.parent / "pair-train.csv"
    write_rows(path, PAIRS, [[0, "a", "b", 1, ""], [1, "a", "b", "", 3], [2, "c", "d", 0, 2]])
    assert main(["train", str(toy), "--dry-run"]) == 0
    capsys.readouterr()
    assert main(["train", str(toy), "--set", "tasks.alike.train=pair-trian.csv"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "did you mean 'pair-train.csv'?" in line
