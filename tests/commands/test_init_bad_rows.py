"""``cotrunk init FILE...`` on files with odd labels and bad rows: its config trains as it is."""

import json
import tomllib

import pytest
from shapes import TINY, sentence, write_csv


@pytest.fixture
def made(cotrunk, tmp_path):
    """Makes a config of files, trains it and returns its tasks, its text and what init said."""

    def of(*files):
        said = cotrunk("init", *files, "-o", "run.toml")
        assert said.code == 0, said.err
        trained = cotrunk("train", "run.toml", "--out", "out", *TINY)
        assert trained.code == 0, trained.err
        text = (tmp_path / "run.toml").read_text()
        return tomllib.loads(text)["tasks"], text, said.err

    return of


@pytest.fixture
def dropped(cotrunk):
    """By task: how many training rows are dropped as bad."""

    def of(config):
        tasks = cotrunk("data", "check", config, "--json").document["tasks"]
        return {name: splits["train"]["dropped"] for name, splits in tasks.items()}

    return of


def table(folder, columns, rows=120):
    """A file with a text column and others, each made from the number of a row."""
    lines = [[sentence(), *(cell(n) for cell in columns.values())] for n in range(rows)]
    return write_csv(folder / "a.csv", ["text", *columns], lines)


def test_labels_with_leading_zeros_are_names(made, tmp_path):
    tasks, text, _ = made(table(tmp_path, {"code": lambda n: ["007", "08", "1"][n % 3]}))
    assert tasks["code"]["classes"] == ["007", "08", "1"]
    assert "3 different values" in text


def test_rows_with_nul_are_skipped_and_counted(made, dropped, tmp_path):
    file = tmp_path / "a.csv"
    rows = [f"{sentence()}{chr(0) * (n % 9 == 0)},{n % 3}\n" for n in range(1, 121)]
    file.write_text("text,stars\n" + "".join(rows))
    tasks, text, said = made(file)
    assert tasks["stars"]["skip_bad_rows"] is True
    assert "# 13 rows that cannot be read: skipped, and counted\n" in text
    assert "note: stars skips 13 rows that cannot be read; list them" in said
    assert dropped("run.toml") == {"stars": 13}


@pytest.mark.slow
def test_nul_far_down_in_a_long_file_is_found(cotrunk, tmp_path):
    rows = [f"{sentence()} {n},{n % 3}\n" for n in range(20_100)]
    rows[20_050] = "a\0b,1\n"
    (tmp_path / "a.csv").write_text("text,stars\n" + "".join(rows))
    assert cotrunk("init", "a.csv", "-o", "run.toml").code == 0
    assert "# 1 row that cannot be read" in (tmp_path / "run.toml").read_text()


def test_lines_of_plain_text_with_nul_are_skipped_and_counted(made, tmp_path):
    lines = [f"{sentence()} {n}{chr(0) * (n == 7)}\n" for n in range(60)]
    (tmp_path / "a.txt").write_text("".join(lines))
    tasks, text, _ = made("a.txt")
    assert tasks["a"]["skip_bad_rows"] is True
    assert "in each of 59 lines" in text
    assert "# 1 row that cannot be read" in text


def test_rows_with_a_marker_instead_of_a_label_are_skipped_for_that_task_alone(
    made, dropped, tmp_path
):
    markers = {0: "NA", 1: "NA", 2: "?"}
    columns = {
        "mood": lambda n: markers.get(n % 30, ["calm", "none"][n % 2]),
        "grade": lambda n: "n/a" if n % 20 == 5 else f"{n % 7}.5",
        "liked": lambda n: "NaN" if n < 3 else ["no", "yes"][n % 2],
        "topic": lambda n: "abc"[n % 3],
    }
    tasks, text, said = made(table(tmp_path, columns))
    kinds = {name: task["kind"] for name, task in tasks.items()}
    assert kinds == {"mood": "classes", "grade": "score", "liked": "binary", "topic": "classes"}
    assert tasks["mood"]["classes"] == ["calm", "none"]
    assert "skip_bad_rows" not in tasks["topic"]
    assert "# 12 rows with 'NA' or '?' instead of a label: skipped" in text
    assert "note: mood skips 12 rows with 'NA' or '?' instead of a label; list them" in said
    assert dropped("run.toml") == {"mood": 12, "grade": 6, "liked": 3, "topic": 0}


def test_answers_are_spelled_like_the_labels_even_if_the_first_is_a_marker(cotrunk, made, tmp_path):
    made(table(tmp_path, {"liked": lambda n: "NA" if n < 3 else ["no", "yes"][n % 2]}))
    assert cotrunk("predict", "out", "a.csv", "-o", "answers.jsonl").code == 0
    lines = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert {json.loads(line)["liked"]["prediction"] for line in lines} <= {"no", "yes"}


def test_a_file_that_is_given_twice_is_refused(cotrunk, tmp_path):
    table(tmp_path, {"topic": lambda n: "abc"[n % 3]})
    for again in ("a.csv", tmp_path / "a.csv"):
        said = cotrunk("init", "a.csv", again, "-o", "run.toml")
        assert said.code == 2
        assert said.err == f"error: {again} is given twice; name each file once\n"


def test_a_folder_is_not_written_over_and_the_message_says_what_it_is(cotrunk, tmp_path):
    file = table(tmp_path, {"topic": lambda n: "abc"[n % 3]})
    said = cotrunk("init", file, "-o", tmp_path)
    assert (said.code, said.err) == (
        2,
        f"error: -o {tmp_path}: is a folder; give the name of a file\n",
    )


def test_a_place_that_cannot_be_written_is_named_as_the_option(cotrunk, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cotrunk.cli.init.write_whole", full)
    file = table(tmp_path, {"topic": lambda n: "abc"[n % 3]})
    said = cotrunk("init", file, "-o", "run.toml")
    assert (said.code, said.err) == (
        2,
        "error: -o run.toml: cannot be written: No space left on device\n",
    )
