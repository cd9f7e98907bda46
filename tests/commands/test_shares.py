"""dev = 0.1: a share of the training rows, chosen once and remembered by the run."""

import csv

import pytest

NO_DEV = ["--set", "tasks.mood.dev=0.25", "tasks.mood.test=0.25"]


@pytest.fixture
def trained(cotrunk, toy):
    out = toy.parent / "shared"
    assert cotrunk("train", toy, "--out", out, *NO_DEV).code == 0
    return out


def rows_of(cotrunk, run, split):
    said = cotrunk("evaluate", run, "--task", "mood", "--split", split, "--json")
    assert said.code == 0, said.err
    return said.document["tasks"]["mood"]["rows"]


@pytest.mark.slow
def test_the_splits_are_parts_of_the_training_file(cotrunk, toy, trained):
    with (toy.parent / "mood-train.csv").open(newline="") as file:
        rows = len(list(csv.reader(file))) - 1
    counts = [rows_of(cotrunk, trained, split) for split in ("train", "dev", "test")]
    assert sum(counts) == rows
    assert min(counts) > 0


@pytest.mark.slow
def test_a_run_knows_its_test_rows_after_the_file_has_grown(cotrunk, toy, trained):
    before = rows_of(cotrunk, trained, "test")
    file = toy.parent / "mood-train.csv"
    with file.open(newline="") as lines:
        header, first, *_ = lines.read().splitlines()
    label = first.rpartition(",")[2]
    assert header
    with file.open("a") as lines:
        lines.writelines(f"{900 + n},entirely new words {n},{label}\n" for n in range(20))
    assert rows_of(cotrunk, trained, "test") == before
    assert rows_of(cotrunk, trained, "train") > 0


def test_data_check_shows_the_splits_without_rows_in_train(cotrunk, toy):
    said = cotrunk("data", "check", toy, *NO_DEV, "--json")
    assert said.code == 0
    found = said.document["tasks"]["mood"]
    assert found["dev"]["rows_in_train"] == found["test"]["rows_in_train"] == 0


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["tasks.mood.dev=0.6", "tasks.mood.test=0.5"], "tasks.mood.dev + test"),
        (["tasks.mood.dev=1.5"], "tasks.mood.dev"),
        (["tasks.mood.dev=0.0001"], "mood"),
    ],
)
def test_a_share_that_cannot_be_is_refused_in_one_line(cotrunk, toy, changes, key):
    said = cotrunk("train", toy, "--set", *changes)
    assert said.code == 2
    (line,) = said.err.splitlines()
    assert key in line


@pytest.mark.slow
def test_runs_of_some_tasks_of_a_file_can_be_compared_with_runs_of_all(cotrunk, tmp_path):
    rows = [f"word{n} is number {n},{n % 2},{n % 3}" for n in range(80)]
    (tmp_path / "all.csv").write_text("\n".join(["text,odd,third", *rows]) + "\n")
    tasks = {"odd": 2, "third": 3}
    for name, chosen in {"both": tasks, "one": {"odd": 2}}.items():
        parts = [
            f'[tasks.{task}]\nkind = "classes"\nclasses = {classes}\ntext = ["text"]\n'
            f'label = "{task}"\ntrain = "all.csv"\ndev = 0.2\n'
            for task, classes in chosen.items()
        ]
        head = '[encoder]\nweights = "random:tiny"\n[train]\nmax_steps = 1\n'
        (tmp_path / f"{name}.toml").write_text(head + "".join(parts))
        said = cotrunk("train", tmp_path / f"{name}.toml", "--out", tmp_path / name)
        assert said.code == 0, said.err
    said = cotrunk("compare", tmp_path / "both", tmp_path / "one", "--json")
    assert said.code == 0, said.err
    assert [each["task"] for each in said.document["differences"]] == ["odd"]
