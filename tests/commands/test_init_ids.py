"""The column of ids that ``cotrunk init`` finds, and the names of rows in predictions."""

import json
import tomllib

import pytest
from shapes import TINY, sentence, write_csv

HEADER = ["text", "ticket_id", "topic"]


def tickets(path, ids):
    rows = [[f"{sentence()} {n}", name, "ab"[n % 2]] for n, name in enumerate(ids)]
    return write_csv(path, HEADER, rows)


@pytest.fixture
def made(cotrunk, tmp_path):
    def make(*files):
        said = cotrunk("init", *files, "-o", "run.toml")
        assert said.code == 0, said.err
        text = (tmp_path / "run.toml").read_text()
        return tomllib.loads(text)["tasks"]["topic"], text

    return make


@pytest.mark.parametrize("name", ["T-{}", "{}", "90{}7"])
def test_a_column_with_another_value_in_each_row_names_the_rows(made, tmp_path, name):
    files = [tickets(tmp_path / f"{s}.csv", map(name.format, range(60))) for s in ("train", "dev")]
    task, _ = made(*files)
    assert task["id"] == "ticket_id"


@pytest.mark.parametrize("last", ["T-0", ""])
def test_a_column_that_does_not_name_each_row_of_dev_is_a_comment(made, tmp_path, last):
    names = [f"T-{n}" for n in range(60)]
    train = tickets(tmp_path / "train.csv", names)
    task, text = made(train, tickets(tmp_path / "dev.csv", [*names, last]))
    assert "id" not in task
    assert '# id = "ticket_id"' in text


def test_ids_that_rows_cannot_have_are_a_comment(made, tmp_path):
    rows = [{"text": f"{sentence()} {n}", "nr": n + 0.0, "topic": "ab"[n % 2]} for n in range(60)]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task, text = made(file)
    assert "id" not in task
    assert '# id = "nr"' in text


@pytest.fixture
def trained(cotrunk, made, tmp_path):
    made(tickets(tmp_path / "tickets.csv", [f"T-{7 * n}" for n in range(60)]))
    said = cotrunk("train", "run.toml", "--out", "out", *TINY)
    assert said.code == 0, said.err
    return "out"


@pytest.mark.slow
def test_predictions_have_the_ids_of_the_file_or_else_row_numbers_and_a_note(
    cotrunk, trained, tmp_path
):
    def names(file):
        said = cotrunk("predict", trained, file, "--json")
        assert said.code == 0, said.err
        return [row["id"] for row in said.document["rows"]], said.err

    has = write_csv(tmp_path / "has.csv", HEADER[:2], [[sentence(), f"X{n}"] for n in range(3)])
    assert names(has) == (["X0", "X1", "X2"], "")
    lacks = write_csv(tmp_path / "lacks.csv", ["text"], [[sentence()] for _ in range(3)])
    found, said = names(lacks)
    assert found == ["1", "2", "3"]
    assert "has no column 'ticket_id'; its rows are named by their numbers" in said
    lines = tmp_path / "lacks.jsonl"
    lines.write_text(json.dumps({"text": sentence()}) + "\n")
    assert names(lines)[0] == ["1"]


@pytest.mark.slow
def test_a_file_without_the_ids_of_training_can_be_scored(cotrunk, trained, tmp_path):
    rows = [[sentence(), "ab"[n % 2]] for n in range(6)]
    said = cotrunk("evaluate", trained, write_csv(tmp_path / "new.csv", ["text", "topic"], rows))
    assert said.code == 0, said.err
