"""Files that are no table, files that cannot be opened, and standard input."""

import gzip
import io
import pickle
import sys
import zipfile
from pathlib import Path

import pytest
from sources import STARS, one, refusal, write


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
        (b"text,label\n", "the file has no rows"),
        (zipped(), "is a zip archive or an Excel workbook"),
        (gzip.compress(b"text,label\nx,1\n", mtime=0), "is compressed with gzip"),
        (pickle.dumps({"text": "x"}), "is a Python pickle"),
        (b"PAR1\x15\x04\x15", "is a Parquet file"),
        ("text,label\nx,1\n".encode("utf-16"), "is UTF-16 text"),
        ("text,label\nx,1\n".encode("utf-16-le"), "is a binary file"),
        (b"\x01\x02\n\x00\x00\x03", "is a binary file"),
        (b"<!DOCTYPE html><p>Not found", "is a web page"),
        (b' {"text": "x", "label": 1}', "contains JSON, not .csv text; rename it to .jsonl"),
    ],
)
def test_a_file_that_is_no_table_is_told_in_one_line(tmp_path, content, told):
    path = write(tmp_path, "a.csv", content)
    (line,) = refusal(STARS, one(path))
    assert line.startswith(f"{path}: {told}")


def test_a_file_that_cannot_be_opened_is_told_in_one_line(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    assert refusal(STARS, one(tmp_path / "none.csv")) == (f"{tmp_path}/none.csv: no such file",)
    assert "is a folder" in refusal(STARS, one(tmp_path / "folder.csv"))[0]
    assert "NUL" in refusal(STARS, one(Path("a\0.csv")))[0]
    assert "must be one of .csv .tsv" in refusal(STARS, one(tmp_path / "a.xlsx"))[0]
    assert "cannot be read" in refusal(STARS, one(tmp_path / ("a" * 999 + ".csv")))[0]


def test_parquet_without_pyarrow_tells_what_to_install(tmp_path, monkeypatch):
    path = write(tmp_path, "a.parquet", b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert 'pip install "cotrunk[parquet]"' in refusal(STARS, one(path))[0]
