"""predict --format minbert: the course's names, headers by role, nothing lost, a zip."""

import zipfile
from argparse import Namespace
from pathlib import Path

import pytest

from cotrunk.cli.minbert import course_targets
from cotrunk.data.reading.examples import Source
from cotrunk.errors import UserError
from cotrunk.infer.minbert import course_file, course_name
from cotrunk.infer.predictor import Answer, Answered
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.task import Task


@pytest.fixture
def predict(cotrunk, several_runs, monkeypatch):
    """Predicts a file of the toy world with a run of all three tasks."""
    monkeypatch.setenv("COTRUNK_CACHE", str(several_runs.parent / "cache"))

    def call(file, *options):
        path = several_runs.parent / file
        return cotrunk("predict", several_runs / "apart", path, "--format", "minbert", *options)

    return call


@pytest.mark.slow
def test_files_are_named_by_task_and_split(predict):
    said = predict("mood-dev.csv", "-o", "out", "--json")
    assert said.document == {"files": {"mood": "out/mood-dev-output.csv"}}
    predict("mood-train.csv", "-o", "out")
    predict("pair-dev.csv", "-o", "out")
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "alike-dev-output.csv",
        "mood-dev-output.csv",
        "mood-train-output.csv",
        "same-dev-output.csv",
    ]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("data/ids-sst-test-student.csv", "sst-test-output.csv"),
        ("ids-sst-dev.csv", "sst-dev-output.csv"),
        ("sst-sentiment-test-student.csv", "sst-test-output.csv"),
        ("devices.csv", "sst-devices-output.csv"),
        ("-", "sst-stdin-output.csv"),
    ],
)
def test_the_split_is_a_word_of_the_name_else_the_name_itself(file, name):
    assert course_name("sst", file, {"train": {}, "dev": {}, "test": {}}) == name


def test_the_config_knows_the_split_of_a_file_better_than_its_name(tmp_path):
    file = tmp_path / "dev-of-last-year.csv"
    file.touch()
    sources = {"dev": {}, "test": {"sst": (Source(file, ("sentence",), None),)}}
    assert course_name("sst", str(file), sources) == "sst-test-output.csv"


def test_a_binary_task_about_one_text_is_sentiment():
    """CFIMDB: the header of SST, and whole numbers."""
    rows = [Answered(2, "a", {"film": Answer(1, (0.9,))})]
    assert course_file(Task("film", 1, Binary()), rows) == "id \t Predicted_Sentiment \na , 1 \n"
    pairs = course_file(Task("film", 2, Binary()), rows)
    assert pairs == "id \t Predicted_Is_Paraphrase \na , 1.0 \n"


def test_a_task_without_a_role_in_the_course_is_refused():
    asked = Namespace(output=None, file="x.csv")
    with pytest.raises(UserError, match="has no task like entails"):
        course_targets(asked, [Task("entails", 2, Classes(classes=3))], {})


def test_the_file_of_another_task_is_never_overwritten(predict):
    assert predict("pair-dev.csv", "--task", "same", "-o", "one.csv").code == 0
    before = Path("one.csv").read_bytes()
    said = predict("pair-dev.csv", "--task", "alike", "-o", "one.csv")
    assert said.code == 2
    assert "has the predictions of another task (Predicted_Is_Paraphrase)" in said.err
    assert Path("one.csv").read_bytes() == before
    assert predict("pair-dev.csv", "--task", "same", "-o", "one.csv").code == 0


def test_predictions_for_other_rows_are_never_overwritten(predict):
    assert predict("mood-dev.csv", "-o", "one.csv").code == 0
    said = predict("mood-train.csv", "-o", "one.csv")
    assert said.code == 2
    assert "has predictions for other rows" in said.err


@pytest.mark.slow
def test_a_zip_collects_the_files_of_a_submission(predict):
    for file in ("mood-dev.csv", "mood-train.csv", "pair-dev.csv"):
        assert predict(file, "-o", "submission.zip").code == 0
    predict("pair-dev.csv", "-o", "out")
    with zipfile.ZipFile("submission.zip") as packed:
        assert packed.namelist() == [
            "predictions/alike-dev-output.csv",
            "predictions/mood-dev-output.csv",
            "predictions/mood-train-output.csv",
            "predictions/same-dev-output.csv",
        ]
        same = packed.read("predictions/same-dev-output.csv")
    assert same == Path("out/same-dev-output.csv").read_bytes()
    before = Path("submission.zip").read_bytes()
    assert predict("pair-dev.csv", "-o", "submission.zip").code == 0
    assert Path("submission.zip").read_bytes() == before


def test_a_zip_that_is_none_is_left_alone(predict):
    Path("submission.zip").write_text("mine")
    said = predict("mood-dev.csv", "-o", "submission.zip")
    assert said.code == 2
    assert "is not a zip file" in said.err
    assert Path("submission.zip").read_text() == "mine"
