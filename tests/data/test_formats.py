"""Delimited text, JSON lines and Parquet: how a file becomes records that know their place."""

import pytest
from sources import CLOSE, STARS, TAB_PAIRS, one, pair, parquet, refusal, write

from cotrunk.data.reading.examples import Example, Rows, Source


def test_a_csv_separated_by_tabs_with_an_unnamed_first_column_is_read(tmp_path):
    path = write(tmp_path, "sts.csv", TAB_PAIRS + "8\tab1\tA dog.\tA cat.\t2.5\n")
    assert list(Rows(CLOSE, pair(path))) == [Example(2, "ab1", ("A dog.", "A cat."), (2.5,))]


def test_the_odd_header_of_the_course_test_files_names_the_columns(tmp_path):
    path = write(tmp_path, "test.csv", "0\t\tid\tsentence\n1\t0.0\tb7\t Effective but tepid\n")
    rows = Rows(STARS, Source(path, ("sentence",), None))
    assert list(rows) == [Example(2, "b7", (" Effective but tepid",), None)]


@pytest.mark.parametrize("delimiter", ["\t", ",", ";"])
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt"])
def test_the_header_tells_the_delimiter_whatever_the_ending(tmp_path, delimiter, ending):
    content = f"text{delimiter}label\nx{delimiter}3\n"
    (example,) = Rows(STARS, one(write(tmp_path, f"a{ending}", content)))
    assert (example.texts, example.target) == (("x",), (3.0,))


def test_a_column_name_may_hold_the_other_delimiters(tmp_path):
    path = write(tmp_path, "a.csv", "one, two; three\ttext\tlabel\na, b\tx;y\t3\n")
    (example,) = Rows(STARS, one(path))
    assert example.texts == ("x;y",)


def test_a_single_column_needs_no_delimiter(tmp_path):
    path = write(tmp_path, "a.txt", "text\nfirst, and more; yes\nsecond\n")
    examples = list(Rows(STARS, one(path, label=None)))
    assert [example.texts[0] for example in examples] == ["first, and more; yes", "second"]
    assert [example.id for example in examples] == ["1", "2"]


def test_a_blank_line_among_the_rows_of_a_single_column_is_an_empty_text(tmp_path):
    path = write(tmp_path, "a.csv", "text\nfirst\n\n\nsecond\n\n\n")
    assert list(refusal(STARS, one(path, label=None))) == [
        f"{path}:{line}:1 (text): the text is empty; correct the cell or set skip_bad_rows = true"
        for line in (3, 4)
    ]
    rows = Rows(STARS, one(path, label=None, skip_bad_rows=True))
    assert [(example.line, example.id) for example in rows] == [(2, "1"), (5, "4")]
    assert rows.dropped_count == 2


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_byte_order_marks_and_all_line_ends_are_fine(tmp_path, newline, bom):
    lines = ["text,label", "x,1", "", '"two', 'lines",2', "y,3"]
    path = write(tmp_path, "a.csv", bom + newline.join(lines))
    examples = list(Rows(STARS, one(path)))
    assert [example.line for example in examples] == [2, 4, 6]
    assert [example.texts[0] for example in examples] == ["x", f"two{newline}lines", "y"]


def test_blank_lines_above_the_header_are_counted(tmp_path):
    (example,) = Rows(STARS, one(write(tmp_path, "a.csv", "\n  \ntext,label\nx,1\n")))
    assert example.line == 4


def test_a_hundred_thousand_columns_are_fine(tmp_path):
    header = ",".join(f"c{n}" for n in range(100_000))
    path = write(tmp_path, "a.csv", f"{header},text,label\n{',' * 100_000}x,1\n")
    (example,) = Rows(STARS, one(path))
    assert example.texts == ("x",)


def test_quoting_can_be_turned_off(tmp_path):
    path = write(tmp_path, "a.tsv", 'text\tlabel\n"open\t1\nclosed"\t2\n')
    examples = Rows(STARS, one(path, quoting="none"))
    assert [example.texts[0] for example in examples] == ['"open', 'closed"']


def test_a_header_that_opens_a_quote_is_refused(tmp_path):
    path = write(tmp_path, "a.csv", 'text,label,"more\nx,1,2\n')
    assert "the header opens a quote" in refusal(STARS, one(path))[0]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", ":1:2: a line must be one JSON object; found its end (expecting property name"),
        ('{"a": oui}', ":1:7: a line must be one JSON object; found 'oui}' (expecting value)"),
        ("3", ":1: a line must be one JSON object; found 3"),
        ("[" * 100_000, ""),
        ('{"a":' * 100_000, ":1: a line must be one JSON object; this one is nested too deeply"),
        ('{"label": ' + "1" * 5000 + "}", ":1: a line must be one JSON object; Exceeds the limit"),
        ('{"text": null, "label": 1}', ":1 (text): the text is missing"),
        ('{"text": 3, "label": 1}', ":1 (text): the text must be a string; found 3"),
        ('{"text": "\\ud800", "label": 1}', ":1 (text): a cell must be UTF-8"),
        ('{"text": "\\u0000", "label": 1}', ":1 (text): a cell must not contain NUL"),
        ('{"text": "x", "label": 1, "id": true}', ":1 (id): the id must be a string; found True"),
    ],
)
def test_bad_objects_are_named(tmp_path, line, told):
    path = write(tmp_path, "a.jsonl", line + '\n{"id": "a", "text": "x", "label": 1}')
    assert refusal(STARS, one(path))[0].startswith(f"{path}{told}")


def test_parquet_rows_are_named_by_row_and_column(tmp_path):
    columns = {"id": [7, 8, 9, 6], "text": ["x", None, "z", "x"], "label": [0, 1, 9, 0]}
    assert refusal(STARS, one(parquet(tmp_path / "a.parquet", columns))) == (
        f"{tmp_path}/a.parquet:2:2 (text): the text is missing; "
        "correct the cell or set skip_bad_rows = true",
        f"{tmp_path}/a.parquet:3:3 (label): a class must be one of 0..4; found 9; "
        "correct the cell or the task's classes, or set skip_bad_rows = true",
    )


def test_parquet_text_that_is_not_utf8_is_named(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    data = pyarrow.py_buffer(b"x\xff")
    text = pyarrow.StringArray.from_buffers(1, pyarrow.py_buffer(b"\0\0\0\0\2\0\0\0"), data)
    path = parquet(tmp_path / "a.parquet", {"text": text, "label": [1]})
    assert ":1:1 (text): a cell must be UTF-8" in refusal(STARS, one(path))[0]


def test_damaged_parquet_is_told_in_one_line(tmp_path):
    path = parquet(tmp_path / "a.parquet", {"text": ["x" * 50, "y"], "label": [0, 1]})
    whole = path.read_bytes()
    for damaged in (b"PAR1", whole[:-9], whole[:20] + bytes(60) + whole[80:], b"text,label"):
        path.write_bytes(damaged)
        (line,) = refusal(STARS, one(path))
        assert "the Parquet file is damaged" in line
