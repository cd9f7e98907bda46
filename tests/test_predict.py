"""Answers about new text: the course's files to the byte, and nothing that leaks between rows."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import cotrunk
from cotrunk.cli.main import main
from cotrunk.data.reading.examples import Rows
from cotrunk.errors import UserError
from cotrunk.infer.minbert import course_file
from cotrunk.infer.predictor import Answer, Answered, Predictor, row_of
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task
from toy import sentence, train, write_rows, write_toy

CLASSES = Task("sst", 1, Classes(("0", "1", "2", "3", "4")))
BINARY = Task("para", 2, Binary())
SCORE = Task("sts", 2, Scores(range=(0.0, 5.0)))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """For reading only."""
    folder = tmp_path_factory.mktemp("predict")
    changes = ["train.max_steps=4", "tasks.same.skip_bad_rows=true"]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("COTRUNK_CACHE", str(folder / "cache"))
        assert train(write_toy(folder), folder / "run", "--set", *changes) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def predictor(run) -> Predictor:
    return cotrunk.load(run)


def minbert(task: Task, predictions: Sequence[str | int | float]) -> str:
    answers = [{task.name: Answer(prediction, ())} for prediction in predictions]
    rows = [Answered(number + 2, f"id{number}", answer) for number, answer in enumerate(answers)]
    return course_file(task, rows)


@pytest.mark.parametrize(
    ("task", "predictions", "written"),
    [
        (CLASSES, [4, 0], "id \t Predicted_Sentiment \nid0 , 4 \nid1 , 0 \n"),
        (BINARY, [1, 0], "id \t Predicted_Is_Paraphrase \nid0 , 1.0 \nid1 , 0.0 \n"),
        (SCORE, [4.25, 0], "id \t Predicted_Similiary \nid0 , 4.25 \nid1 , 0.0 \n"),
    ],
    ids=["classes", "binary", "score"],
)
def test_a_course_file_is_right_to_the_byte(task, predictions, written):
    assert minbert(task, predictions) == written


def test_a_course_file_has_the_number_of_a_named_class():
    named = Task("tone", 1, Classes(("bad", "so-so", "good")))
    assert minbert(named, ["good", "bad"]).splitlines()[1:] == ["id0 , 2 ", "id1 , 0 "]


@pytest.mark.slow
def test_predict_writes_course_files_with_the_ids_of_the_input(run, tmp_path):
    asked = ["predict", str(run), str(run.parent / "mood-dev.csv"), "--format", "minbert"]
    assert main([*asked, "--task", "mood", "-o", str(tmp_path / "out.csv")]) == 0
    content = (tmp_path / "out.csv").read_bytes()
    lines = content.decode().split("\n")
    assert lines[0] == "id \t Predicted_Sentiment "
    assert lines[-1] == ""
    rows = [line.split(" , ") for line in lines[1:-1]]
    assert [row[0] for row in rows] == [f"dev{i}" for i in range(24)]
    assert {row[1] for row in rows} <= {"0 ", "1 ", "2 "}
    assert b"\r" not in content


def test_the_course_s_test_file_with_its_odd_header_is_readable(run, tmp_path):
    odd = tmp_path / "ids-sst-test-student.csv"
    odd.write_text("0\t\tid\tsentence\n1\t0.0\tb757\t Effective\n2\t1.0\t9e1c\t A river\n")
    asked = ["predict", str(run), str(odd), "--format", "minbert"]
    assert main([*asked, "-o", str(tmp_path / "predictions")]) == 0
    lines = (tmp_path / "predictions" / "mood-test-output.csv").read_text().splitlines()
    assert [line.split(" , ")[0] for line in lines[1:]] == ["b757", "9e1c"]


def pairs(count: int) -> list[tuple[str, str]]:
    random = np.random.default_rng(3)
    return [(sentence(random), sentence(random)) for _ in range(count)]


def numbers(answers: Sequence[Answer]) -> list[float]:
    return [a.probabilities[0] if a.probabilities else float(a.prediction) for a in answers]


@pytest.mark.parametrize("task", ["same", "alike"])
def test_an_answer_does_not_depend_on_the_other_rows_or_their_order(predictor, task):
    rows = pairs(12)
    together = numbers(predictor.predict(task, rows))
    backwards = numbers(predictor.predict(task, rows[::-1]))[::-1]
    alone = [numbers(predictor.predict(task, [row]))[0] for row in rows]
    assert backwards == pytest.approx(together, abs=1e-6)
    assert alone == pytest.approx(together, abs=1e-6)
    assert len(set(together)) > 6


def test_an_answer_does_not_depend_on_the_other_tasks(predictor):
    rows = pairs(12)
    both = predictor.answer_rows(["same", "alike"], rows)
    for task in ("same", "alike"):
        alone = numbers(predictor.predict(task, rows))
        assert alone == pytest.approx(numbers(both[task]), abs=1e-6)


def test_int8_answers_nearly_the_same_whatever_the_other_rows(run, predictor):
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("this torch has no fbgemm")
    rows, rough = pairs(12), cotrunk.load(run, int8=True)
    together = numbers(rough.predict("alike", rows))
    exact = numbers(predictor.predict("alike", rows))
    assert together != exact
    assert together == pytest.approx(exact, abs=0.1)
    alone = [numbers(rough.predict("alike", [row]))[0] for row in rows]
    apart = np.abs(np.subtract(together, alone))  # a number on the edge of two steps may tip over
    assert np.median(apart) < 1e-6


def test_a_long_text_is_cut_and_answered(predictor):
    [answer] = predictor.predict("mood", ["good plot " * 200])
    assert answer.prediction in (0, 1, 2)
    assert sum(answer.probabilities) == pytest.approx(1, abs=1e-6)


def test_a_row_needs_as_many_texts_as_its_task_reads(predictor):
    with pytest.raises(ValueError, match="task same reads a pair"):
        predictor.predict("same", ["just one"])
    assert predictor.predict("same", []) == []


@pytest.mark.parametrize(
    ("task", "texts", "finding"),
    [
        ("mood", ["good", None], "texts[1]: the text is missing"),
        ("mood", ["good", 3.5], "texts[1]: the text must be a string; found 3.5"),
        ("mood", [[["good"]]], "texts[0]: the text must be a string; found a value of type list"),
        ("mood", [b"good"], "texts[0]: the text must be a string; found a value of type bytes"),
        ("mood", ["good", " "], "texts[1]: the text is empty"),
        ("mood", ["a\0b"], "texts[0]: a cell must not contain NUL"),
        ("mood", ["\udc80"], "texts[0]: a cell must be UTF-8"),
        ("mood", [("a", "b")], "texts[0]: task mood reads one text per row; found 2 values"),
        ("mood", "good", "texts must be a list; found 'good'; write predict(task"),
        ("mood", None, "texts must be a list; found nothing"),
        ("mood", {"a": 1}, "texts must be a list; found a value of type dict"),
        ("same", [("a", "b"), ("a", None)], "texts[1][1]: the text is missing"),
        ("same", [("a", "")], "texts[0][1]: the text is empty"),
        ("same", ("a", "b"), "texts[0]: task same reads a pair (left, right) per row; found 'a'"),
        ("same", [None], "texts[0]: task same reads a pair (left, right) per row; found nothing"),
        (["mood"], ["good"], "['mood'] is not a task of this run; tasks are mood, same, alike"),
    ],
)
def test_what_is_no_text_is_refused_with_its_row(predictor, task, texts, finding):
    with pytest.raises(UserError) as refused:
        predictor.predict(task, texts)
    assert refused.value.lines[0].startswith(finding)


def test_all_rows_that_are_no_text_are_named_at_once(predictor):
    with pytest.raises(UserError) as refused:
        predictor.predict("mood", ["good", "", None] * 10)
    assert [line.split(":")[0] for line in refused.value.lines] == [
        f"texts[{number}]" for number in range(30) if number % 3
    ]
    with pytest.raises(UserError) as refused:
        predictor.predict("mood", [""] * 51)
    assert len(refused.value.lines) == 51
    assert refused.value.lines[-1] == "texts: there are more; only the first 50 are listed"


def test_texts_may_come_as_a_tuple_or_an_array(predictor):
    expected = predictor.predict("same", [("good plot", "tea")])
    for texts in ([["good plot", "tea"]], np.array([["good plot", "tea"]])):
        assert predictor.predict("same", texts) == expected


def test_probabilities_are_those_of_the_prediction(predictor):
    for answer in predictor.predict("mood", ["good", "dull river"]):
        row = row_of([predictor.tasks["mood"]], Answered(2, "a", {"mood": answer}))
        assert row["mood"] == answer.probabilities.index(max(answer.probabilities))
        assert row["mood_probability"] == max(answer.probabilities)
    for answer in predictor.predict("same", pairs(5)):
        row = row_of([predictor.tasks["same"]], Answered(2, "a", {"same": answer}))
        assert row["same"] == int(answer.probabilities[0] > 0.5)
        assert row["same_probability"] >= 0.5


def test_more_rows_than_a_chunk_keep_their_order(run, predictor, monkeypatch):
    source = replace(predictor.model.unlabelled["mood"], path=run.parent / "mood-dev.csv")
    rows = Rows(predictor.tasks["mood"], source)
    whole = list(predictor.answer_file(["mood"], rows))
    monkeypatch.setattr("cotrunk.infer.predictor.CHUNK", 5)
    pieces = list(predictor.answer_file(["mood"], rows))
    assert [row.id for row in pieces] == [row.id for row in whole] == [f"dev{i}" for i in range(24)]
    assert [row.line for row in pieces] == list(range(2, 26))
    for piece, one in zip(pieces, whole, strict=True):
        chances = one.answers["mood"].probabilities
        assert piece.answers["mood"].probabilities == pytest.approx(chances, abs=1e-6)


def predicted(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[list[str], str]:
    capsys.readouterr()
    assert main(["predict", *map(str, arguments)]) == 0
    said = capsys.readouterr()
    return said.out.splitlines(), said.err


def test_a_bad_row_is_dropped_where_the_config_says_so_and_named(run, tmp_path, capsys):
    new = tmp_path / "new.csv"
    write_rows(new, ["id", "left", "right"], [["a", "x", "y"], ["b", "x", ""]])
    lines, said = predicted(capsys, run, new, "--task", "same")
    assert [line.split(",")[0] for line in lines] == ["id", "a"]
    assert "skipped 1 bad row; first: " in said
    assert "new.csv:3:3 (right): the text is empty" in said
    assert main(["predict", str(run), str(new), "--task", "alike"]) == 2


def test_rows_of_tasks_with_other_columns_stay_side_by_side(run, tmp_path, capsys):
    header = ["id", "left", "right", "sentence"]
    rows = [["a", "x", "y", "good"], ["b", "x", "", "bad"], ["c", "tea", "y", "dull"]]
    write_rows(tmp_path / "new.csv", header, rows)
    asked = [run, tmp_path / "new.csv", "--task", "same", "mood"]
    lines, _ = predicted(capsys, *asked)
    assert lines[0] == "id,same,same_probability,mood,mood_probability"
    cells = [line.split(",") for line in lines[1:]]
    assert [row[0] for row in cells] == ["a", "b", "c"]
    assert [bool(row[1]) for row in cells] == [True, False, True]
    assert all(row[3] for row in cells)
    found, _ = predicted(capsys, *asked, "--format", "jsonl")
    answered = [sorted(json.loads(line)) for line in found]
    assert answered == [["id", "mood", "same"], ["id", "mood"], ["id", "mood", "same"]]


@pytest.mark.parametrize("ending", [".tsv", ".jsonl", ".parquet"])
def test_the_format_of_the_input_does_not_matter(run, tmp_path, capsys, ending):
    header = ["id", "sentence"]
    rows = [[f"row {i}", text] for i, text in enumerate(["good, plot", 'a "slow" river', "tea"])]
    write_rows(tmp_path / "new.csv", header, rows)
    expected, _ = predicted(capsys, run, tmp_path / "new.csv")
    _write_as(tmp_path / f"new{ending}", [dict(zip(header, row, strict=True)) for row in rows])
    found, _ = predicted(capsys, run, tmp_path / f"new{ending}", "--format", "csv")
    assert found == expected


def _write_as(path: Path, rows: list[dict[str, str]]) -> None:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".tsv":
        lines = [list(rows[0]), *(list(row.values()) for row in rows)]
        quoted = (['"' + cell.replace('"', '""') + '"' for cell in line] for line in lines)
        path.write_text("".join("\t".join(line) + "\n" for line in quoted))
    else:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
