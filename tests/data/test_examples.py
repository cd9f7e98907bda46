import csv
import gzip
import io
import json
import pickle
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotrunk.data.examples import Example, Rows, Source
from cotrunk.errors import UserError
from cotrunk.tasks import Task

STARS = Task("stars", "classes", 1, classes=("0", "1", "2", "3", "4"))
MOOD = Task("mood", "classes", 1, classes=("bad", "good"))
SAME = Task("same", "binary", 2)
CLOSE = Task("close", "score", 2, low=0, high=5)
YES = Task("yes", "binary", 1)

TAB_PAIRS = "\tid\tsentence1\tsentence2\tsimilarity\n"


def one(path, *, label="label", **options):
    return Source(path, ("text",), label, **options)


def pair(path, *, label="similarity", **options):
    return Source(path, ("sentence1", "sentence2"), label, **options)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(task, source):
    with pytest.raises(UserError) as caught:
        list(Rows(task, source))
    assert all("\n" not in line and line.isprintable() for line in caught.value.lines)
    return caught.value.lines


def test_a_csv_separated_by_tabs_with_an_unnamed_first_column_is_read(tmp_path):
    path = write(tmp_path, "sts.csv", TAB_PAIRS + "8\tab1\tA dog.\tA cat.\t2.5\n")
    assert list(Rows(CLOSE, pair(path))) == [Example(2, "ab1", ("A dog.", "A cat."), 2.5)]


def test_the_odd_header_of_the_course_test_files_names_the_columns(tmp_path):
    path = write(tmp_path, "test.csv", "0\t\tid\tsentence\n1\t0.0\tb7\t Effective but tepid\n")
    rows = Rows(STARS, Source(path, ("sentence",), None))
    assert list(rows) == [Example(2, "b7", (" Effective but tepid",), None)]


@pytest.mark.parametrize("delimiter", ["\t", ",", ";"])
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt"])
def test_the_header_tells_the_delimiter_whatever_the_ending(tmp_path, delimiter, ending):
    content = f"text{delimiter}label\nx{delimiter}3\n"
    (example,) = Rows(STARS, one(write(tmp_path, f"a{ending}", content)))
    assert (example.texts, example.label) == (("x",), 3.0)


def test_a_column_name_may_hold_the_other_delimiters(tmp_path):
    path = write(tmp_path, "a.csv", "one, two; three\ttext\tlabel\na, b\tx;y\t3\n")
    (example,) = Rows(STARS, one(path))
    assert example.texts == ("x;y",)


def test_a_single_column_needs_no_delimiter(tmp_path):
    path = write(tmp_path, "a.txt", "text\nfirst, and more; yes\nsecond\n")
    examples = list(Rows(STARS, one(path, label=None)))
    assert [example.texts[0] for example in examples] == ["first, and more; yes", "second"]
    assert [example.id for example in examples] == ["1", "2"]


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


def test_rows_can_be_read_again(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\nx,1\n,2\n")
    rows = Rows(STARS, one(path, skip_bad_rows=True))
    assert list(rows) == list(rows)
    assert (rows.dropped_count, len(rows.dropped)) == (1, 1)


@pytest.mark.parametrize(
    ("task", "raw", "label"),
    [
        (STARS, "3", 3.0),
        (STARS, "3.0", 3.0),
        (STARS, 3, 3.0),
        (STARS, 3.0, 3.0),
        (MOOD, "good", 1.0),
        (YES, "0.0", 0.0),
        (YES, "1", 1.0),
        (YES, "TRUE", 1.0),
        (YES, "false", 0.0),
        (YES, True, 1.0),
        (YES, 0, 0.0),
        (Task("s", "score", 1, low=-1, high=1), "-2.5e-1", -0.25),
    ],
)
def test_labels_mean(tmp_path, task, raw, label):
    path = write(tmp_path, "a.jsonl", json.dumps({"text": "x", "label": raw}))
    assert [example.label for example in Rows(task, one(path))] == [label]


@pytest.mark.parametrize(
    ("task", "raw", "rule"),
    [
        (STARS, "3.7", "never rounded; found '3.7'"),
        (STARS, 3.7, "never rounded; found 3.7"),
        (STARS, "5", "one of 0..4; found '5'"),
        (STARS, "-1", "one of 0..4"),
        (STARS, "nan", "one of 0..4"),
        (STARS, True, "one of 0..4; found True"),
        (STARS, "٣", "one of 0..4"),
        (STARS, [3], "found a value of type list"),
        (MOOD, "goood", "one of 'bad', 'good'; found 'goood'; did you mean 'good'?"),
        (MOOD, "1", "one of 'bad', 'good'"),
        (MOOD, " good", "one of 'bad', 'good'"),
        (YES, "0.5", "0, 1, true or false"),
        (YES, "yes", "0, 1, true or false"),
        (YES, 2, "0, 1, true or false; found 2"),
        (Task("s", "score", 1), "nan", "a finite number"),
        (Task("s", "score", 1), "1e999", "a finite number"),
        (Task("s", "score", 1), 10**400, "a finite number"),
        (Task("s", "score", 1), "1_0", "a finite number"),
        (Task("s", "score", 1), "0,5", "a finite number; found '0,5'"),
        (Task("s", "score", 1), "1.01", "lie in 0..1; found '1.01'"),
    ],
)
def test_labels_that_mean_nothing_are_refused(tmp_path, task, raw, rule):
    path = write(tmp_path, "a.jsonl", json.dumps({"text": "x", "label": raw}))
    (line,) = refusal(task, one(path))
    assert line.startswith(f"{path}:1 (label): ")
    assert rule in line


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
        ("x", ":2: found 1 cell, the header has 2; correct the row"),
        ("x,1,2", ":2: found 3 cells, the header has 2"),
        (",1", ":2:1 (text): the text is empty"),
        ('" \t",1', ":2:1 (text): the text is empty"),
        ("x,", ":2:2 (label): the label is empty; fill the cell, or set sparse_labels = true"),
        ("a\0b,1", ":2:1 (text): a cell must not hold NUL; found it as character 2"),
        (b"caf\xe9,1", ":2:1 (text): a cell must be UTF-8; character 4 is not: 'caf\\udce9'"),
        (b"x,\xff", ":2:2 (label): a cell must be UTF-8"),
        (f"{'x' * 1_000_001},1", ":2: a cell must not exceed 1,000,000 characters"),
        ('"x,1\ny,2\nz,3', ":2: a quote is opened here and never closed"),
        ('"x,1\ny,2\nz" ,3,4', ":2: found 3 cells over 3 lines (is a quote left open?)"),
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
        path = write(tmp_path, "a.csv", "text,label\n" + "x,1\n" + "x,9\n" * bad)
        lines = refusal(STARS, one(path))
        assert len(lines) == (50 if bad == 50 else 51)
        assert (lines[-1] == "... and more: only the first 50 are listed") == (bad > 50)


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


def test_quoting_can_be_turned_off(tmp_path):
    path = write(tmp_path, "a.tsv", 'text\tlabel\n"open\t1\nclosed"\t2\n')
    examples = Rows(STARS, one(path, quoting="none"))
    assert [example.texts[0] for example in examples] == ['"open', 'closed"']


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
        refusal(STARS, one(path))[0] == f"{path}:1: 'text' must name one column; found it as 1, 3"
    )
    path = write(tmp_path, "a.jsonl", '{"text": "x", "text": "y", "label": 1}\n{"text": "x"}')
    assert "the key 'text' occurs twice" in refusal(STARS, one(path, sparse_labels=True))[0]


def zipped():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the file is empty"),
        (b"\n\n \n", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"text,label\n", "the file holds no rows"),
        (zipped(), "is a zip archive or an Excel workbook"),
        (gzip.compress(b"text,label\nx,1\n"), "is compressed with gzip"),
        (pickle.dumps({"text": "x"}), "is a Python pickle"),
        (b"PAR1\x15\x04\x15", "is a Parquet file"),
        ("text,label\nx,1\n".encode("utf-16"), "is UTF-16 text"),
        ("text,label\nx,1\n".encode("utf-16-le"), "is a binary file"),
        (b"\x01\x02\n\x00\x00\x03", "is a binary file"),
        (b"<!DOCTYPE html><p>Not found", "is a web page"),
        (b' {"text": "x", "label": 1}', "holds JSON, not .csv text; name it .jsonl"),
    ],
)
def test_a_file_that_is_no_table_is_told_in_one_line(tmp_path, content, told):
    path = write(tmp_path, "a.csv", content)
    (line,) = refusal(STARS, one(path))
    assert line.startswith(f"{path}: {told}")


def test_a_file_that_cannot_be_opened_is_told_in_one_line(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    assert refusal(STARS, one(tmp_path / "none.csv")) == (f"{tmp_path}/none.csv: no such file",)
    assert "is a directory" in refusal(STARS, one(tmp_path / "folder.csv"))[0]
    assert "NUL" in refusal(STARS, one(Path("a\0.csv")))[0]
    assert "must be one of .csv .tsv" in refusal(STARS, one(tmp_path / "a.xlsx"))[0]
    assert "cannot be read" in refusal(STARS, one(tmp_path / ("a" * 999 + ".csv")))[0]


def test_a_header_that_opens_a_quote_is_refused(tmp_path):
    path = write(tmp_path, "a.csv", 'text,label,"more\nx,1,2\n')
    assert "the header opens a quote" in refusal(STARS, one(path))[0]


def test_nothing_left_is_an_error(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\nx,9\ny,\n")
    source = one(path, skip_bad_rows=True, sparse_labels=True)
    assert refusal(STARS, source)[0] == (
        f"{path}: no usable row is left of 2: 1 dropped as bad, 1 without label"
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", ":1:2: a line must be one JSON object"),
        ("3", ":1: a line must be one JSON object; found 3"),
        ("[" * 100_000, ""),
        ('{"a":' * 100_000, ":1: a line must be one JSON object; this one is nested too deeply"),
        ('{"label": ' + "1" * 5000 + "}", ":1: a line must be one JSON object; Exceeds the limit"),
        ('{"text": null, "label": 1}', ":1 (text): the text is missing"),
        ('{"text": 3, "label": 1}', ":1 (text): the text must be a string; found 3"),
        ('{"text": "\\ud800", "label": 1}', ":1 (text): a cell must be UTF-8"),
        ('{"text": "\\u0000", "label": 1}', ":1 (text): a cell must not hold NUL"),
        ('{"text": "x", "label": 1, "id": true}', ":1 (id): the id must be a string; found True"),
    ],
)
def test_bad_objects_are_named(tmp_path, line, told):
    path = write(tmp_path, "a.jsonl", line + '\n{"id": "a", "text": "x", "label": 1}')
    assert refusal(STARS, one(path))[0].startswith(f"{path}{told}")


def test_a_source_must_name_as_many_texts_as_the_task_reads(tmp_path):
    with pytest.raises(UserError, match="reads 2 text"):
        Rows(SAME, one(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    "content", ['{"text": "x y"}\n', "text\nx y\n", "id,text\n1,x y\n", "\ufeffa\ttext\n1\tx y\n"]
)
def test_standard_input_tells_its_format(monkeypatch, content):
    stdin = io.TextIOWrapper(io.BytesIO(content.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    (example,) = Rows(STARS, one(Path("-"), label=None))
    assert example.texts == ("x y",)
    assert not stdin.buffer.closed


def test_errors_of_standard_input_say_so(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n")))
    lines = refusal(STARS, one(Path("-"), label=None))
    assert lines == ("standard input:1: no column 'text'; columns found: 'a', 'b'",)


def test_parquet_without_pyarrow_tells_what_to_install(tmp_path, monkeypatch):
    path = write(tmp_path, "a.parquet", b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert 'pip install "cotrunk[parquet]"' in refusal(STARS, one(path))[0]


def parquet(path, columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path, row_group_size=2)
    return path


def test_parquet_rows_are_named_by_row_and_column(tmp_path):
    columns = {"id": [7, 8, 9], "text": ["x", None, "z"], "label": [0, 1, 9]}
    assert refusal(STARS, one(parquet(tmp_path / "a.parquet", columns))) == (
        f"{tmp_path}/a.parquet:2:2 (text): the text is missing; "
        "correct the cell or set skip_bad_rows = true",
        f"{tmp_path}/a.parquet:3:3 (label): a class must be one of 0..4; found 9; "
        "correct the cell or set skip_bad_rows = true",
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


letters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
texts = st.one_of(
    st.sampled_from(
        ["NA", "null", "nan", "None", " x ", '"', '"a" b', "a\tb,c;d", "👍🏽", "שלום", "\\"]
    ),
    st.text(letters, min_size=1, max_size=20).filter(lambda text: not text.isspace()),
)
pairs = st.lists(st.tuples(texts, texts, st.sampled_from([0.0, 1.0])), min_size=1, max_size=8)


def as_delimited(delimiter):
    def write_rows(path, rows):
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
            writer.writerows([("sentence1", "sentence2", "similarity"), *rows])

    return write_rows


def as_objects(path, rows):
    keys = ("sentence1", "sentence2", "similarity")
    lines = [json.dumps(dict(zip(keys, row, strict=True)), ensure_ascii=False) for row in rows]
    path.write_bytes("\n".join(lines).encode())


def as_parquet(path, rows):
    first, second, label = zip(*rows, strict=True)
    parquet(path, {"sentence1": first, "sentence2": second, "similarity": label})


@pytest.mark.parametrize(
    ("ending", "write_rows"),
    [
        (".csv", as_delimited(",")),
        (".csv", as_delimited(";")),
        (".tsv", as_delimited("\t")),
        (".jsonl", as_objects),
        (".parquet", as_parquet),
    ],
)
@settings(max_examples=60, deadline=None)
@given(rows=pairs)
def test_good_rows_come_back_exactly(tmp_path_factory, ending, write_rows, rows):
    path = tmp_path_factory.getbasetemp() / f"exact{ending}"
    write_rows(path, rows)
    found = [(*example.texts, example.label) for example in Rows(SAME, pair(path))]
    assert found == rows


signs = [b"\t", b",", b";", b"\n", b"\r", b'"', b"{", b"}", b"[", b":", b"1", b" ", b"\0", b"\xff"]
words = [b"text", b"label", b"id", b'{"text":"x","label":1}', b"\xef\xbb\xbf", b"PAR1", b"x,1\n"]
pieces = st.sampled_from(signs + words)
messes = st.one_of(st.binary(max_size=200), st.lists(pieces, max_size=40).map(b"".join))


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt", ".jsonl", ".parquet"])
@pytest.mark.parametrize("header", [b"", b"text,label\nx,1\n", b"id\ttext\tlabel\n1\tx\t1\n"])
@settings(max_examples=60, deadline=None)
@given(content=messes, skip=st.booleans(), sparse=st.booleans(), quoted=st.booleans())
def test_no_bytes_raise_anything_but_a_user_error(
    tmp_path_factory, ending, header, content, skip, sparse, quoted
):
    path = write(tmp_path_factory.getbasetemp(), f"mess{ending}", header + content)
    quoting = "csv" if quoted else "none"
    rows = Rows(STARS, one(path, skip_bad_rows=skip, sparse_labels=sparse, quoting=quoting))
    told: tuple[str, ...] = ()
    examples: list[Example] = []
    try:
        examples = list(rows)
    except UserError as error:
        told = tuple(error.lines)
    assert bool(told) != bool(examples)
    assert all("\n" not in line and line.isprintable() for line in told)
    assert all(example.texts[0].strip() for example in examples)
    assert all(example.label in range(5) for example in examples)


@settings(max_examples=200, deadline=None)
@given(body=st.text(alphabet='a"\t\n\r 19', max_size=80))
def test_every_record_is_read_or_dropped_or_unlabelled(tmp_path_factory, body):
    content = "text\tlabel\nx\t1\n" + body
    path = write(tmp_path_factory.getbasetemp(), "count.tsv", content)
    rows = Rows(STARS, one(path, skip_bad_rows=True, sparse_labels=True))
    examples = list(rows)
    with path.open(newline="") as file:
        records = [record for record in csv.reader(file, delimiter="\t") if record]
    assert len(examples) + rows.dropped_count + rows.unlabelled == len(records) - 1
    wanted = [record for record in records[1:] if len(record) == 2]
    assert {example.texts[0] for example in examples} <= {record[0] for record in wanted}
