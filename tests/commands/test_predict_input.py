"""Where the rows of `predict` come from, and what is said about the bad ones among them."""

import io
import json
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from shapes import TINY, sentence

from cotrunk.cli.main import main
from cotrunk.infer.predictor import Answer, Answered, write_jsonl
from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task
from toy import train, write_toy


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """For reading only."""
    folder = tmp_path_factory.mktemp("input")
    changes = ["train.max_steps=1", "train.evaluate=never"]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("COTRUNK_CACHE", str(folder / "cache"))
        assert train(write_toy(folder), folder / "run", "--set", *changes) == 0
    return folder / "run"


@pytest.fixture
def predict(run, capsys, monkeypatch):
    def call(content: bytes | Path, *options: str) -> Said:
        file = str(content)
        if isinstance(content, bytes):
            file = "-"
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        code = main(["predict", str(run), file, "--which", "final", *options])
        return Said(code, *capsys.readouterr())

    return call


HOLE = b'id,sentence\na,good plot\nb,""\n'


def test_a_bad_row_of_standard_input_is_named_by_its_line(predict):
    said = predict(HOLE)
    assert (said.code, said.out) == (2, "")
    place = "error: standard input:3:2 (sentence): the text is empty; "
    assert place in said.err
    left = [line for line in said.err.splitlines() if line.startswith("note: ")]
    assert "because standard input lacks their columns: same ('left' and 'right')" in left[0]


def test_a_skipped_row_of_standard_input_is_named_by_its_line(predict):
    said = predict(HOLE, "--skip-bad-rows", "--task", "mood")
    assert said.code == 0
    assert said.err.endswith("first: standard input:3:2 (sentence): the text is empty\n")


def test_plain_text_on_standard_input_is_met_with_how_it_was_read(predict):
    for options in ([], ["--task", "mood"]):
        said = predict(b"Anna went to Rome\n", *options)
        assert said.code == 2
        assert "was read as CSV, whose first line names the columns" in said.err


def test_a_file_for_the_only_task_is_told_the_missing_and_the_found_columns(predict):
    said = predict(b"texte\nBon film\n", "--task", "mood")
    assert "no column 'sentence'; columns found: 'texte'; rename it" in said.err


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (b"", "standard input: the file is empty"),
        (b"a,b\n1,2\n", "standard input: the columns are 'a', 'b', but mood reads sentence"),
        (b'{"sentence": "a"}\n{"sentence"\n', "standard input:2:12: a line must be one JSON"),
        (b"PAR1 and no more", "standard input: the Parquet file is damaged"),
        (b"\x89PNG", "standard input: is a picture"),
    ],
    ids=["empty", "other columns", "objects", "parquet", "picture"],
)
def test_what_is_wrong_with_standard_input_is_said_of_standard_input(predict, content, finding):
    said = predict(content)
    assert said.code == 2
    errors = [line for line in said.err.splitlines() if not line.startswith("note: ")]
    assert len(errors) == 1
    assert errors[0].startswith(f"error: {finding}")


def test_the_file_may_follow_any_option(run, tmp_path, capsys):
    file = tmp_path / "new.csv"
    file.write_text("sentence\ngood\n")
    final = ("--which", "final")
    orders = [
        (run, *final, "--task", "mood", "--json", file),
        (run, "--json", file, *final, "--task", "mood"),
        (run, *final, "--json", file),
        ("--json", *final, run, file),
        (run, file, *final, "--json"),
    ]
    for order in orders:
        assert main(["predict", *map(str, order)]) == 0
    capsys.readouterr()
    assert main(["predict", str(run), *final]) == 2
    assert capsys.readouterr().err.endswith("; see cotrunk predict --help\n")


@pytest.mark.parametrize(
    ("columns", "nearest"),
    [
        ("left,b", "; nearest is same: the file lacks right"),
        ("a,sentense", "; nearest is mood: the file lacks sentence (rename 'sentense')"),
        ("a,b", "or JSON lines"),
    ],
)
def test_a_file_that_fits_no_task_is_told_the_nearest(predict, columns, nearest):
    assert predict(f"{columns}\n1,2\n".encode()).err.endswith(f"{nearest}\n")


@pytest.mark.parametrize(
    "content",
    [
        '{"id": "a", "sentence": "x y"}\n',
        "id,sentence\na,x y\n",
        "\ufeffid\tsentence\na\tx y\n",
        "sentence,id\nx y,a\n",
    ],
)
def test_standard_input_tells_its_format(predict, content):
    said = predict(content.encode(), "--format", "jsonl")
    assert said.code == 0
    assert json.loads(said.out)["id"] == "a"


def test_objects_on_standard_input_may_begin_with_a_byte_order_mark(predict):
    said = predict(b'\xef\xbb\xbf{"id": "a", "sentence": "good"}\n', "--format", "jsonl")
    assert json.loads(said.out)["id"] == "a"


def test_a_row_of_the_document_is_a_line_of_jsonl(run, predict):
    document = json.loads(predict(run.parent / "pair-dev.csv", "--json").out)
    lines = predict(run.parent / "pair-dev.csv", "--format", "jsonl").out.splitlines()
    assert document["rows"] == [json.loads(line) for line in lines]
    first = document["rows"][0]
    assert list(first) == ["id", "same", "alike"]
    assert list(first["same"]) == list(first["alike"]) == ["prediction", "probabilities"]
    assert first["alike"]["probabilities"] == []


def test_an_answer_that_is_no_number_is_null_in_jsonl():
    file = io.StringIO()
    row = Answered(2, "a", {"alike": Answer(float("nan"), ())})
    write_jsonl([Task("alike", 1, Scores())], [row], file)
    assert json.loads(file.getvalue()) == {
        "id": "a",
        "alike": {"prediction": None, "probabilities": []},
    }


MIXED = [
    {"id": "a", "sentence": "good plot"},
    {"id": "b", "left": "tea", "right": "river"},
    {"id": "c", "sentence": "slow", "left": "tea", "right": "stone"},
    {"id": "d", "sentence": "dull", "left": "tea", "right": None},
    {"sentence": "no id"},
]


def lines(objects):
    return "".join(json.dumps(entry) + "\n" for entry in objects).encode()


def test_a_row_is_answered_by_the_tasks_whose_columns_it_has(predict):
    said = predict(lines(MIXED))
    assert (said.code, said.err) == (0, "")
    answers = [json.loads(line) for line in said.out.splitlines()]
    assert [list(answer) for answer in answers] == [
        ["id", "mood"],
        ["id", "same", "alike"],
        ["id", "mood", "same", "alike"],
        ["id", "mood"],
        ["id", "mood"],
    ]
    assert [answer["id"] for answer in answers] == ["a", "b", "c", "d", "5"]


def test_a_mixed_row_is_answered_as_it_is_alone(predict):
    together = predict(lines(MIXED)).out.splitlines()
    for entry, line in zip(MIXED[:4], together, strict=False):
        alone = json.loads(predict(lines([entry])).out)
        for task, answer in json.loads(line).items():
            if task != "id":
                expected = alone[task]["probabilities"]
                assert answer["probabilities"] == pytest.approx(expected, abs=1e-5)


def test_a_task_may_appear_after_many_rows_of_another(predict):
    said = predict(lines([MIXED[0]] * 150 + [MIXED[1]]))
    assert list(json.loads(said.out.splitlines()[-1])) == ["id", "same", "alike"]


def test_a_row_that_no_task_can_answer_is_bad(predict):
    content = lines([*MIXED, {"id": "x", "left": "alone"}, {"id": "y"}])
    said = predict(content)
    assert (said.code, said.out) == (2, "")
    errors = [line for line in said.err.splitlines() if line.startswith("error: ")]
    rule = "a row must have the texts of a task (sentence or left+right)"
    assert errors == [
        f"error: standard input:6: {rule}; found only left; add the text or give --skip-bad-rows",
        f"error: standard input:7: {rule}; found none; add the text or give --skip-bad-rows",
    ]
    said = predict(content, "--skip-bad-rows")
    assert (said.code, len(said.out.splitlines())) == (0, 5)
    assert "standard input:6" in said.err


def test_rows_of_other_tasks_are_left_out_where_a_task_is_chosen(predict):
    said = predict(lines(MIXED), "--task", "same")
    assert [json.loads(line)["id"] for line in said.out.splitlines()] == ["b", "c"]
    said = predict(lines(MIXED[:1]), "--task", "same")
    assert said.code == 2
    assert "no columns 'left' and 'right'; columns found: 'id', 'sentence'" in said.err


def test_an_empty_text_is_still_bad_in_mixed_rows(predict):
    said = predict(lines([*MIXED, {"id": "e", "sentence": " "}]))
    assert said.code == 2
    assert "standard input:6 (sentence): the text is empty" in said.err


def test_the_encoding_of_a_file_can_be_given(predict, tmp_path):
    file = tmp_path / "latin.csv"
    file.write_bytes("sentence\ncafé\n".encode("latin-1"))
    said = predict(file)
    assert said.code == 2
    assert "looks like Latin-1: give --encoding latin-1" in said.err
    assert predict(file, "--encoding", "latin-1").code == 0
    assert "--encoding odd: must be a text encoding" in predict(file, "--encoding", "odd").err


TAGGED = """
[tasks.{0}]
kind = "tags"
scheme = "{1}"
columns = ["tokens", "pos", "ner"]
text = ["tokens"]
label = "{0}"
train = "a.conll"
dev = 0.2
"""
SCHEMES = {"pos": "plain", "ner": "bio"}


@pytest.mark.slow
def test_words_without_tags_are_predicted_though_the_config_names_several_columns(
    cotrunk, tmp_path
):
    sentences = ["\n".join(f"{word} NN B-LOC" for word in sentence().split()) for _ in range(40)]
    tagged = "\n\n".join(sentences) + "\n\nno DT O\n"
    (tmp_path / "a.conll").write_text(tagged)
    config = "".join(TAGGED.format(label, scheme) for label, scheme in SCHEMES.items())
    (tmp_path / "run.toml").write_text(config)
    assert cotrunk("train", "run.toml", "--out", "out", *TINY).code == 0
    words = [[line.split()[0] for line in one.splitlines()] for one in tagged.split("\n\n")]
    (tmp_path / "new.conll").write_text("\n\n".join("\n".join(some) for some in words))
    rows = cotrunk("predict", "out", "new.conll", "--json").document["rows"]
    assert [len(row["ner"]["prediction"]) for row in rows] == [len(some) for some in words]
    assert rows == cotrunk("predict", "out", "a.conll", "--json").document["rows"]
    (tmp_path / "two.conll").write_text("river NN\n")
    told = "two.conll:1: columns lists 3 names (tokens, pos, ner), but this line has 2 columns"
    said = cotrunk("predict", "out", "two.conll")
    assert f"{told}; give all of them, or tokens alone" in said.err
    told = "new.conll:1: columns lists 3 names (tokens, pos, ner), but this line has 1 column"
    assert told in cotrunk("evaluate", "out", "new.conll").err
