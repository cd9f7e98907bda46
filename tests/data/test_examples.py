"""Records become examples: columns, ids, bad rows, rows without a label."""

import json

import pytest
from sources import CLOSE, SAME, STARS, TAB_PAIRS, one, pair, refusal, write

from cotrunk.data.reading.examples import Rows
from cotrunk.errors import UserError


def test_rows_can_be_read_again(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\nx,1\n,2\n")
    rows = Rows(STARS, one(path, skip_bad_rows=True))
    assert list(rows) == list(rows)
    assert (rows.dropped_count, len(rows.dropped)) == (1, 1)


def test_an_error_names_file_line_column_rule_finding_and_fix(tmp_path):
    good = "1\ta\tx\ty\t2\n"
    path = write(tmp_path, "sts-train.csv", TAB_PAIRS + good + "2\tb\tx\ty\t7.5\n" + good)
    assert refusal(CLOSE, pair(path)) == (
        f"{path}:3:5 (similarity): a score must lie in 0..5; found '7.5'; "
        "correct the cell or set skip_bad_rows = true",
    )


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("x", ":2: found 1 cell; the header has 2; correct the row"),
        ("x,1,2", ":2: found 3 cells; the header has 2"),
        (",1", ":2:1 (text): the text is empty"),
        ('" \t",1', ":2:1 (text): the text is empty"),
        ("x,", ":2:2 (label): the label is empty; fill the cell, or set sparse_labels = true"),
        ("a\0b,1", ":2:1 (text): a cell must not contain NUL; found one at character 2"),
        (b"caf\xe9,1", ":2:1 (text): a cell must be UTF-8; character 4 is not: 'caf\\udce9'"),
        (b"x,\xff", ":2:2 (label): a cell must be UTF-8"),
        (f"{'x' * 1_000_001},1", ":2: a cell must not exceed 1,000,000 characters"),
        ('"x,1\ny,2\nz,3', ":2: the row opens a quote and never closes it; close it, or"),
        ('"x,1\ny,2\nz",3,4', ":2: found 3 cells over 3 lines (is a quote left open?)"),
        ('"x" y,1', ":2: text follows a closing quote; double the quotes inside a cell, or"),
        ('"x,1\ny,2\nz" ,3', ":2: text follows a closing quote 2 lines below the opening one"),
        (
            '"' + "x,1\n" * 300_000,
            ":2: a cell must not exceed 1,000,000 characters; found more over",
        ),
    ],
)
def test_bad_rows_are_named(tmp_path, row, told):
    row = row if isinstance(row, bytes) else row.encode()
    path = write(tmp_path, "a.csv", b"text,label\n" + row + b"\n")
    assert refusal(STARS, one(path))[0].startswith(f"{path}{told}")


def test_all_bad_cells_of_a_row_are_named(tmp_path):
    path = write(tmp_path, "a.csv", "id,text,label\n,,9\n")
    assert [line.split(" ")[1] for line in refusal(STARS, one(path))] == [
        "(text):",
        "(id):",
        "(label):",
    ]


def test_fifty_errors_are_listed_and_no_more(tmp_path):
    for bad in (50, 51, 5000):
        path = write(tmp_path, "a.csv", "text,label\n" + "x,1\n" + ",2\n" * bad)
        lines = refusal(STARS, one(path))
        assert len(lines) == (50 if bad == 50 else 51)
        more = f"{path}: only the first 50 errors are listed"
        assert (lines[-1] == more) == (bad > 50)


def test_a_class_that_is_not_known_is_told_once_and_then_counted(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\nx,1\n" + "x,9\nx,8\n" * 100 + "x,7\n")
    rule = "a class must be one of 0..4; found"
    fix = "correct the cell or the task's classes, or set skip_bad_rows = true"
    assert list(refusal(STARS, one(path))) == [
        f"{path}:3:2 (label): {rule} '9'; {fix}",
        f"{path}:4:2 (label): {rule} '8'; {fix}",
        f"{path}:203:2 (label): {rule} '7'; {fix}",
        f"{path}: 99 more rows with the same error: {rule} '9'",
        f"{path}: 99 more rows with the same error: {rule} '8'",
    ]


def test_skipped_rows_are_counted_and_the_first_fifty_named(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\n" + "x,9\n" * 60 + "x,1\n")
    rows = Rows(STARS, one(path, skip_bad_rows=True))
    assert [example.line for example in rows] == [62]
    assert (rows.dropped_count, len(rows.dropped)) == (60, 50)
    assert rows.dropped[0] == f"{path}:2:2 (label): a class must be one of 0..4; found '9'"


def test_sparse_labels_leave_out_rows_of_other_tasks(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\nx,1\n,\ny, \n")
    rows = Rows(STARS, one(path, sparse_labels=True))
    assert [example.line for example in rows] == [2]
    assert (rows.unlabelled, rows.dropped_count) == (2, 0)


def test_objects_of_other_tasks_may_lack_the_label(tmp_path):
    objects = [{"text": "x"}] * 200 + [{"text": "y", "label": None}, {"text": "z", "label": 1}]
    path = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, objects)))
    rows = Rows(STARS, one(path, sparse_labels=True))
    assert [example.texts for example in rows] == [("z",)]
    assert rows.unlabelled == 201


def test_the_id_comes_from_the_named_column_or_id_or_the_row_number(tmp_path):
    path = write(tmp_path, "a.csv", "key,id,text,label\nk,i,x,1\n")
    assert [example.id for example in Rows(STARS, one(path, id="key"))] == ["k"]
    assert [example.id for example in Rows(STARS, one(path))] == ["i"]
    path = write(tmp_path, "b.csv", "text,label\n,1\nx,1\n")
    assert [example.id for example in Rows(STARS, one(path, skip_bad_rows=True))] == ["2"]
    path = write(tmp_path, "c.tsv", "\ttext\tlabel\n17\tx\t1\n")
    assert [example.id for example in Rows(STARS, one(path, id=""))] == ["17"]
    path = write(tmp_path, "c.jsonl", '{"id": 7, "text": "x", "label": 1}')
    assert [example.id for example in Rows(STARS, one(path))] == ["7"]


def test_a_missing_column_is_told_once_with_the_columns_found(tmp_path):
    path = write(tmp_path, "a.csv", "\tid\ttexts\tlabel\n" + "0\ta\tx\t1\n" * 9)
    assert refusal(STARS, one(path)) == (
        f"{path}:1: no column 'text'; columns found: '', 'id', 'texts', 'label'; "
        "did you mean 'texts'?",
    )
    path = write(tmp_path, "a.jsonl", '{"texts": "x", "label": 1}\n' * 9)
    assert refusal(STARS, one(path)) == (
        f"{path}: no column 'text'; columns found: 'texts', 'label'; did you mean 'texts'?",
    )


def test_a_needed_column_must_not_occur_twice(tmp_path):
    path = write(tmp_path, "a.csv", "text,label,text\nx,1,y\n")
    assert (
        refusal(STARS, one(path))[0] == f"{path}:1: 'text' must name one column; found columns 1, 3"
    )
    path = write(tmp_path, "a.jsonl", '{"text": "x", "text": "y", "label": 1}\n{"text": "x"}')
    assert "the key 'text' occurs twice" in refusal(STARS, one(path, sparse_labels=True))[0]


def test_nothing_left_is_an_error(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\nx,9\ny,\n")
    source = one(path, skip_bad_rows=True, sparse_labels=True)
    assert refusal(STARS, source)[0] == (
        f"{path}: none of 2 rows is usable: 1 bad, 1 without a label"
    )


def test_a_source_must_name_as_many_texts_as_the_task_reads(tmp_path):
    with pytest.raises(UserError, match="reads 2 text"):
        Rows(SAME, one(tmp_path / "a.csv"))
