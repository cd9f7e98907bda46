"""Whatever a file holds: good rows come back exactly, other bytes are no more than a user error."""

import csv
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sources import SAME, STARS, one, pair, parquet, write

from cotrunk.data.reading.examples import Example, Rows
from cotrunk.errors import UserError

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


@pytest.mark.slow
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
    found = [(*example.texts, *example.target) for example in Rows(SAME, pair(path))]
    assert found == rows


signs = [b"\t", b",", b";", b"\n", b"\r", b'"', b"{", b"}", b"[", b":", b"1", b" ", b"\0", b"\xff"]
words = [b"text", b"label", b"id", b'{"text":"x","label":1}', b"\xef\xbb\xbf", b"PAR1", b"x,1\n"]
pieces = st.sampled_from(signs + words)
messes = st.one_of(st.binary(max_size=200), st.lists(pieces, max_size=40).map(b"".join))


@pytest.mark.slow
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
    assert all(example.target[0] in range(5) for example in examples)


def strict_records(reader):
    """What the csv module reads; a record that it refuses is None."""
    while True:
        try:
            yield from (record for record in reader if record)
            return
        except csv.Error:
            yield None


@settings(max_examples=200, deadline=None)
@given(body=st.text(alphabet='a"\t\n\r 19', max_size=80))
def test_every_record_is_read_or_dropped_or_unlabelled(tmp_path_factory, body):
    content = "text\tlabel\nx\t1\n" + body
    path = write(tmp_path_factory.getbasetemp(), "count.tsv", content)
    rows = Rows(STARS, one(path, skip_bad_rows=True, sparse_labels=True))
    examples = list(rows)
    with path.open(newline="") as file:
        records = list(strict_records(csv.reader(file, delimiter="\t", strict=True)))
    assert len(examples) + rows.dropped_count + rows.unlabelled == len(records) - 1
    wanted = [record for record in records[1:] if record and len(record) == 2]
    assert {example.texts[0] for example in examples} <= {record[0] for record in wanted}
