"""evaluate on labelled files: any file with a task's columns is scored as a split is."""

import csv
import json

import pytest

from toy import write_rows


@pytest.fixture
def there(several_runs, monkeypatch):
    """The folder of runs, whose files are beside it; its cache is used."""
    monkeypatch.setenv("COTRUNK_CACHE", str(several_runs.parent / "cache"))
    return several_runs


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def converted(path, to):
    """The same rows in another format."""
    rows = rows_of(path)
    if to.suffix == ".jsonl":
        to.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif to.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), to)
    else:
        lines = [list(rows[0]), *(list(row.values()) for row in rows)]
        to.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    return to


def scores(document):
    return {
        task: {key: score[key] for key in ("score", "low", "high", "rows", "more")}
        for task, score in document["tasks"].items()
    }


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_the_dev_files_score_as_the_dev_split_in_every_format(cotrunk, there, tmp_path, suffix):
    run, beside = there / "apart", there.parent
    files = [beside / "mood-dev.csv", beside / "pair-dev.csv"]
    if suffix != "csv":
        files = [converted(file, tmp_path / f"{file.stem}.{suffix}") for file in files]
    split = cotrunk("evaluate", run, "--json").document
    found = cotrunk("evaluate", run, *files, "--json").document
    assert scores(found) == scores(split)
    assert (found["split"], split["split"]) == (None, "dev")
    assert found["tasks"]["mood"]["files"] == [str(files[0])]
    assert found["tasks"]["same"]["files"] == found["tasks"]["alike"]["files"] == [str(files[1])]


def test_the_document_names_plan_seed_step_and_files(cotrunk, there):
    runs = [there / "shared" / "1", there / "apart"]
    document = cotrunk("evaluate", *runs, "--json").document
    assert document["networks"] == [
        {"run": str(run), "which": "best", "plan": {"encoder": plan}, "seed": seed, "step": 3}
        for run, plan, seed in zip(runs, ("S1 I1", "I2"), (1, 11711), strict=True)
    ]
    (file,) = document["tasks"]["mood"]["files"]
    assert file.endswith("mood-dev.csv")
    final = cotrunk("evaluate", runs[0], "--which", "final", "--json").document["networks"]
    assert (final[0]["which"], final[0]["step"]) == ("final", 3)


def test_several_runs_are_one_system_on_a_file(cotrunk, there):
    runs = [there / "shared" / seed for seed in "12"]
    file = there.parent / "pair-dev.csv"
    found = cotrunk("evaluate", *runs, file, "--json")
    split = cotrunk("evaluate", *runs, "--task", "same", "alike", "--json").document
    assert scores(found.document) == scores(split)
    assert {score["averaged"] for score in found.document["tasks"].values()} == {2}
    assert found.err.count("mood is skipped") == 1


def test_several_files_of_a_task_are_read_as_one(cotrunk, there, tmp_path):
    dev = there.parent / "mood-dev.csv"
    rows = [list(row.values()) for row in rows_of(dev)]
    halves = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for path, part in zip(halves, (rows[:10], rows[10:]), strict=True):
        write_rows(path, ["id", "sentence", "mood"], part)
    found, whole = (
        cotrunk("evaluate", there / "apart", *files, "--json").document["tasks"]["mood"]
        for files in (halves, [dev])
    )
    assert (found["score"], found["rows"]) == (whole["score"], 24)


def test_another_label_column_is_named_with_its_task(cotrunk, there, tmp_path):
    path = tmp_path / "named.csv"
    rows = [[row["sentence"], row["mood"]] for row in rows_of(there.parent / "mood-dev.csv")]
    write_rows(path, ["sentence", "feeling"], rows)
    run = there / "apart"
    said = cotrunk("evaluate", run, path)
    assert (said.code, said.out) == (2, "")
    assert "the columns are sentence, feeling, but mood needs sentence, mood" in said.err
    assert "--task mood --label COLUMN" in said.err
    options = ["--task", "mood", "--label", "feeling", "--json"]
    found = cotrunk("evaluate", run, path, *options).document["tasks"]
    assert (
        found["mood"]["score"]
        == cotrunk("evaluate", run, "--json").document["tasks"]["mood"]["score"]
    )


def test_a_file_that_fits_no_task_is_told_the_nearest(cotrunk, there, tmp_path):
    path = tmp_path / "misspelt.csv"
    write_rows(path, ["sentense", "mood"], [["good", 1]])
    said = cotrunk("evaluate", there / "apart", path)
    assert (said.code, said.out) == (2, "")
    nearest = "; nearest is mood: the file lacks sentence (rename 'sentense')\n"
    assert said.err.endswith(nearest)


def test_names_of_columns_that_are_not_utf8_are_refused_with_the_encoding(cotrunk, there, tmp_path):
    path = tmp_path / "latin.csv"
    path.write_text("sentence,humeur \xe9tat\ngood \xe9t\xe9,1\n", encoding="latin-1")
    said = cotrunk("evaluate", there / "apart", path)
    assert (said.code, said.out) == (2, "")
    assert said.err.endswith(
        "latin.csv: the names of its columns are not UTF-8; the file looks like Latin-1: "
        "give --encoding latin-1\n"
    )


def test_the_label_column_of_a_run_with_one_task_needs_no_task(cotrunk, toy):
    text = toy.read_text()
    toy.write_text(text.partition("[tasks.same]")[0] + "[train]" + text.partition("[train]")[2])
    assert cotrunk("train", toy, "--out", "run", "--set", "train.max_steps=1").code == 0
    write_rows(toy.parent / "new.csv", ["sentence", "feeling"], [["good tea", 1], ["bad tea", 0]])
    said = cotrunk("evaluate", "run", "new.csv", "--label", "feeling", "--json")
    assert said.document["tasks"]["mood"]["rows"] == 2


def test_a_row_may_lack_the_label_of_one_of_several_tasks(cotrunk, there, tmp_path):
    path = tmp_path / "gaps.csv"
    header = ["left", "right", "same", "alike"]
    write_rows(path, header, [["a", f"b {i}", i % 2 if i < 6 else "", i % 5] for i in range(10)])
    said = cotrunk("evaluate", there / "apart", path, "--json")
    assert {task: score["rows"] for task, score in said.document["tasks"].items()} == {
        "same": 6,
        "alike": 10,
    }
    assert "same: left out 4 rows without a label" in said.err


def test_bad_rows_are_a_line_each_and_can_be_skipped(cotrunk, there, tmp_path):
    path = tmp_path / "bad.csv"
    rows = [["good", 0], ["bad", 7], ["", 1], ["slow", ""], ["plot", 1], ["tea", 2]]
    write_rows(path, ["sentence", "mood"], rows)
    said = cotrunk("evaluate", there / "apart", path)
    assert (said.code, said.out) == (2, "")
    assert [line.split(":")[2] for line in said.err.splitlines()] == ["3", "4", "5"]
    assert said.err.count("give --skip-bad-rows") == 3
    assert "skip_bad_rows = true" not in said.err
    assert "correct the cell or give --skip-bad-rows" in said.err  # a run keeps its classes
    found = cotrunk("evaluate", there / "apart", path, "--skip-bad-rows", "--json")
    assert found.document["tasks"]["mood"]["rows"] == 3
    assert "mood: skipped 3 bad rows; first: " in found.err


@pytest.mark.slow
def test_a_column_that_two_tasks_read_is_named_when_a_label_is_wrong(cotrunk, toy):
    text = toy.read_text().replace('label = "alike"', 'label = "same"')
    toy.write_text(text)
    assert cotrunk("train", toy, "--out", "run", "--set", "train.max_steps=1").code == 0
    write_rows(toy.parent / "new.csv", ["left", "right", "same"], [["a", "b", 3]])
    said = cotrunk("evaluate", "run", "new.csv")
    assert said.code == 2
    assert "same and alike read their labels from the same column, same" in said.err
    assert cotrunk("evaluate", "run", "new.csv", "--task", "alike").code == 0


@pytest.mark.parametrize(
    ("arguments", "finding"),
    [
        (["RUN", "mood-dev.csv", "--split", "dev"], "--split dev: names files of the config"),
        (["RUN", "--label", "mood"], "--label mood: names a column of a file"),
        (
            ["RUN", "mood-dev.csv", "--label", "mood"],
            "name the one task it is for with --task T; tasks are mood, same, alike",
        ),
        (
            ["RUN", "mood-dev.csv", "--label", "moood", "--task", "mood"],
            "--label moood: mood-dev.csv has no column 'moood'; columns are id, sentence, mood; "
            "did you mean 'mood'?",
        ),
        (["RUN", "moood-dev.csv"], "no such file; did you mean 'mood-dev.csv'?"),
        (["RUN", "nowhere"], "nowhere is not a run: there is no such folder"),
        (["mood-dev.csv"], "mood-dev.csv is not a run"),
        (["RUN", "toy.toml"], "the extension must be one of"),
        (["RUN", "."], "is not a run: it has no run.json"),
        (["RUN", "mood-dev.csv", "--task", "same"], "but same needs left, right, same"),
        (
            ["RUN", "mood-dev.csv", "--task", "mood", "same"],
            "--task same: no file has its columns (left, right, same)",
        ),
    ],
)
def test_evaluate_refuses_files(cotrunk, there, monkeypatch, arguments, finding):
    monkeypatch.chdir(there.parent)
    said = cotrunk("evaluate", *(there / "apart" if a == "RUN" else a for a in arguments))
    assert (said.code, said.out) == (2, "")
    (line,) = said.err.splitlines()
    assert finding in line


def test_detail_has_metrics_classes_confusion_and_calibration(cotrunk, there):
    run = there / "apart"
    document = cotrunk("evaluate", run, "--detail", "--json").document
    detail = document["detail"]
    assert list(detail) == ["mood", "same", "alike"]
    for task, found in detail.items():
        score = document["tasks"][task]
        assert found["metrics"][score["metric"]] == score["score"]
        assert found["constant"][score["metric"]] == score["baseline"]
    assert [one["name"] for one in detail["mood"]["classes"]] == ["0", "1", "2"]
    assert sum(one["support"] for one in detail["same"]["classes"]) == 24
    assert sum(map(sum, detail["mood"]["confusion"]["counts"])) == 24
    assert 0 <= detail["mood"]["calibration"]["error"] <= 1
    assert "rmse" in detail["alike"]["metrics"]
    shown = cotrunk("evaluate", run, "--detail").out
    for word in ("precision", "recall", "F1", "support", "rmse", "mood: calibration error"):
        assert word in shown


def test_a_score_is_shown_with_its_metric_its_rows_and_the_constant_answer(cotrunk, there):
    run = there / "apart"
    for command in ("evaluate", "info"):
        lines = cotrunk(command, run).out.splitlines()
        assert any("metric" in line and "constant answer" in line for line in lines)
        (row,) = (line.split() for line in lines if line.startswith("mood "))
        assert row[1] == "accuracy"
        assert row[-2:] == ["0.333", "24"]
    assert "mood: accuracy on 24 rows (constant answer 0.333)" in cotrunk("compare", run).out
    constants = cotrunk("compare", run, "--json").document["constants"]
    assert constants["mood"] == pytest.approx(1 / 3)
    assert constants["alike"] is None
