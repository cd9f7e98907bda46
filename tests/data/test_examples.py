"""Records become examples: columns, ids, bad rows, rows without a label."""

import json

import pytest
from sources import CLOSE, SAME, STARS, TAB_PAIRS, one, pair, refusal, write

from cotrunk.data.reading.examples import Rows
from cotrunk.data.reading.refusal import FEW
from cotrunk.errors import UserError
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.kind import Kind
from cotrunk.kinds.score import Scores
from cotrunk.kinds.tags import Tags
from cotrunk.kinds.task import Task


class Picky(Kind):
    """Refuses every label for a reason of its own."""

    def read(self, raw):
        raise ValueError(f"rule number {raw} is broken")


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
        "correct the cell or tasks.close.range, or set skip_bad_rows = true",
    )


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("x", ":2: a row must have 2 cells, as the header has; found 1; correct the row"),
        ("x,1,2", ":2: a row must have 2 cells, as the header has; found 3; put quotes around"),
        (",1", ":2:1 (text): the text is empty"),
        ('" \t",1', ":2:1 (text): the text is empty"),
        ("x,", ":2:2 (label): the label is empty; fill the cell"),
        ("a\0b,1", ":2:1 (text): a cell must not contain NUL; found one at character 2"),
        (b"caf\xe9,1", ":2:1 (text): a cell must be UTF-8; found 'caf\\xe9' at character 4"),
        (b"x,\xff", ":2:2 (label): a cell must be UTF-8"),
        (f"{'x' * 1_000_001},1", ":2: a cell must not exceed 1,000,000 characters"),
        ('"x,1\ny,2\nz,3', ":2: the row opens a quote and never closes it; close it, or"),
        (
            '"x,1\ny,2\nz",3,4',
            ":2: a row must have 2 cells, as the header has; found 3 over 3 lines (is a",
        ),
        ('"x" y,1', ":2: text follows a closing quote; double the quotes inside a cell, or"),
        (
            '"x,1\ny,2\nz" ,3',
            ":2: text follows a closing quote; found it 2 lines below the opening one",
        ),
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
    path = write(
        tmp_path, "a.jsonl", "".join(f'{{"text": "x", "label": {n}}}\n' for n in range(60))
    )
    lines = refusal(Task("each", 1, Picky()), one(path))
    assert len(lines) == 51
    assert lines[-1] == f"{path}: only the first 50 errors are listed"


def test_rows_with_the_same_mistake_are_one_line_if_they_are_many(tmp_path):
    for bad in (FEW, FEW + 1, 5000):
        path = write(tmp_path, "a.csv", "text,label\n" + "x,1\n" + ",2\n" * bad)
        lines = refusal(STARS, one(path))
        assert len(lines) == (bad if bad == FEW else 1)
        assert lines[0].startswith(f"{path}:3:1 (text): the text is empty")
        assert (f"({bad:,} of {bad + 1:,} rows)" in lines[0]) == (bad > FEW)


def test_wrong_labels_are_one_line_with_the_count_of_each(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\nx,1\n" + "x,9\nx,8\n" * 100 + "x,7\n")
    assert list(refusal(STARS, one(path))) == [
        f"{path}:3:2 (label): a class must be one of 0..4; "
        "found '9' in 100 rows, '8' in 100 rows, '7' in 1 row (201 of 202 rows); "
        "correct the cells or the task's classes"
    ]


@pytest.mark.parametrize("others", [["9", "9", "8"], [str(n) for n in range(10, 20)] * 2])
def test_the_first_value_that_is_listed_is_the_one_at_the_place(tmp_path, others):
    labels = ["1", "7", *others * 3]
    path = write(tmp_path, "a.csv", "text,label\n" + "".join(f"x,{label}\n" for label in labels))
    (line,) = refusal(STARS, one(path))
    assert line.startswith(f"{path}:3:2 ")
    assert "; found '7'" in line


@pytest.mark.parametrize("good", [0, 1, 20])
@pytest.mark.parametrize("bad", [2, 9])
def test_decimal_commas_of_scores_come_with_the_fix(tmp_path, good, bad):
    rows = "x;4.5\n" * good + "".join(f"x;1,{n:02}\n" for n in range(bad))
    path = write(tmp_path, "a.csv", "text;label\n" + rows)
    lines = refusal(Task("mark", 1, Scores(range=(0, 5))), one(path))
    assert len(lines) == (bad if bad <= FEW else 1)
    for line in lines:
        assert "must have a decimal point" in line
        assert "; write it with a point" in line
        assert "kind" not in line


def test_all_causes_are_told_at_once(tmp_path):
    rows = b"caf\xe9,1\n" * 9 + b",1\n" * 8 + b"x,7\n" * 7 + b"x,1,2\n" * 6 + b"x,\n"
    lines = refusal(STARS, one(write(tmp_path, "a.csv", b"text,label\n" + rows)))
    counted = [line.split("(")[-1].split(" of")[0] for line in lines[:4]]
    assert counted == ["9", "8", "7", "6"]
    assert "the label is empty" in lines[4]
    assert len(lines) == 5


def test_a_row_with_two_bad_cells_is_counted_once(tmp_path):
    header = "id,sentence1,sentence2,similarity\n"
    path = write(tmp_path, "a.csv", header.encode() + b"1,caf\xe9,caf\xe9,1\n" * 9)
    (line,) = refusal(CLOSE, pair(path))
    assert "(all 9 rows)" in line


@pytest.mark.parametrize("good", [0, 1, 12, 13])
def test_skipping_bad_rows_is_not_advised_if_most_rows_would_go(tmp_path, good):
    content = "text,label\n,1\nx,\nx,9\nx\n" + "y,1,1\n" * 9 + "x,1\n" * good
    lines = refusal(STARS, one(write(tmp_path, "a.csv", content)))
    assert len(lines) == 5
    assert all(("skip_bad_rows = true" in line) == (good >= 13) for line in lines)


@pytest.mark.parametrize("good", [0, 1])
def test_labels_that_most_rows_lack_may_be_declared_sparse(tmp_path, good):
    path = write(tmp_path, "a.csv", "text,label\n" + "x,1\n" * good + "x,\n" * 9)
    (line,) = refusal(STARS, one(path))
    assert line.endswith(
        "; fill the cells or set sparse_labels = true" if good else "fill the cells"
    )


def test_a_scheme_that_allows_all_wrong_tags_is_named_once(tmp_path):
    rows = [{"text": ["x", "y"], "label": ["O", tag]} for tag in ("I-PER", "I-LOC") * 4]
    path = write(tmp_path, "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    tags = Tags(classes=("O", "B-PER", "I-PER", "B-LOC", "I-LOC"))
    (line,) = refusal(Task("names", 1, tags), one(path))
    assert "'I-PER' after 'O' in 4 rows, 'I-LOC' after 'O' in 4 rows" in line
    assert line.count('set scheme = "iob1"') == 1


def test_rows_of_other_tasks_do_not_count_as_lost(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\n" + "x,\n" * 9 + "x,1\nx,9\n")
    (line,) = refusal(STARS, one(path, sparse_labels=True))
    assert line.endswith("or set skip_bad_rows = true")


@pytest.mark.parametrize("count", [6, 500])
def test_a_file_without_any_label_of_the_task_says_what_it_holds(tmp_path, count):
    named = Task("t", 1, Classes(tuple("abcdef")))
    rows = "".join(f"x,{number % 6}\n" for number in range(count))
    (line,) = refusal(named, one(write(tmp_path, "a.csv", "text,label\n" + rows)))
    assert "no label is one of the task's classes 'a', 'b'" in line
    assert f"the file holds 0..5 (all {count} rows)" in line
    assert 'classes = { 0 = "a", 1 = "b",' in line
    assert "skip_bad_rows" not in line


@pytest.mark.parametrize(
    ("labels", "cells", "holds", "fix"),
    [
        (Binary(), ["ham", "spam"], "'ham', 'spam'", 'set classes = ["ham", "spam"]'),
        (Binary(), ["1", "2"], "", None),
        (Binary(), ["3", "4", "5"], "3..5", 'kind = "classes"'),
        (Scores(range=(0, 1)), ["3", "4.5", "9"], "numbers from 3 to 9", "set range = [3, 9]"),
        (Scores(range=(0, 5)), ["7"], "'7'", "set range = [0, 7]"),
        (Scores(), ["low", "high"], "'low', 'high'", 'kind = "classes"'),
        (Classes(3), ["7", "8"], "'7', '8'", 'classes = ["7", "8"]'),
    ],
)
def test_labels_that_are_wrong_in_every_row_are_one_line(tmp_path, labels, cells, holds, fix):
    rows = "".join(f"x,{cell}\n" for cell in cells * 20)
    path = write(tmp_path, "a.csv", "text,label\n" + rows)
    (line,) = refusal(Task("t", 1, labels), one(path))
    if fix is None:  # some labels fit
        assert "found '2'" in line
        return
    assert f"the file holds {holds} (all {len(cells) * 20} rows)" in line
    assert fix in line


@pytest.mark.parametrize("cells", [["1e999"], ["1e999", "7"]])
def test_numbers_that_a_float_cannot_hold_are_refused_even_in_every_row(tmp_path, cells):
    path = write(tmp_path, "a.csv", "text,label\n" + "".join(f"x,{cell}\n" for cell in cells * 20))
    lines = refusal(Task("t", 1, Scores(range=(0, 5))), one(path))
    assert "a score must be a finite number that a float can hold; found '1e999'" in lines[0]


def test_unquoted_delimiters_are_one_line_that_says_what_quotes_would_fix(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\nx,1\n" + "a, b,1\n" * 30 + "a, b, c,1\n" * 20)
    (line,) = refusal(STARS, one(path))
    assert "found 3 in 30 rows, 4 in 20 rows (50 of 51 rows)" in line
    assert "put quotes around cells that contain ','" in line


def test_skipped_rows_are_counted_and_told_by_cause(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\n" + "x,9\n" * 60 + ",1\n" + "x,1\n")
    rows = Rows(STARS, one(path, skip_bad_rows=True))
    assert [example.line for example in rows] == [63]
    assert (rows.dropped_count, len(rows.dropped)) == (61, 2)
    assert rows.dropped[0].startswith(f"{path}:2:2 (label): a class must be one of 0..4; found '9'")


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
