"""Files that are not UTF-8: read as told, guessed where not."""

import json

import pytest
from sources import STARS, one, refusal, write

from cotrunk.data.reading.encodings import guess_encoding, wrong_encoding
from cotrunk.data.reading.examples import Rows, Source
from cotrunk.kinds.tags import Tags
from cotrunk.kinds.task import Task

TEXT = "un café à la carte, naïve Ärger"
NER = Task("ner", 1, Tags(("O", "B-X", "I-X")))


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8", "utf-7"])
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl"])
def test_a_file_is_read_in_its_encoding(tmp_path, encoding, ending):
    if ending == ".jsonl":
        content = json.dumps({"text": TEXT, "label": 1}, ensure_ascii=False) + "\n"
    else:
        content = f'text{"," if ending == ".csv" else chr(9)}label\n"{TEXT}"?1\n'
        content = content.replace("?", "," if ending == ".csv" else "\t")
    path = write(tmp_path, f"a{ending}", content.encode(encoding))
    (example,) = Rows(STARS, one(path, encoding=encoding))
    assert (example.texts, example.target) == ((TEXT,), (1.0,))


def test_a_conll_file_is_read_in_its_encoding(tmp_path):
    path = write(tmp_path, "a.conll", "café B-X\nfermé O\n".encode("latin-1"))
    source = Source(path, ("tokens",), "tags", encoding="latin-1")
    assert [example.texts for example in Rows(NER, source)] == [(("café", "fermé"),)]
    lines = refusal(NER, Source(path, ("tokens",), "tags"))
    assert 'set encoding = "latin-1"' in lines[0]


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (f"{TEXT}\n", "utf-8"),
        (f"{TEXT}\n", "latin-1"),
        ("“quoted” naïve\n", "cp1252"),
        ("plain\n", "utf-8"),
        (TEXT, "utf-16"),
    ],
)
def test_the_encoding_of_western_files_is_guessed(tmp_path, content, encoding):
    assert guess_encoding(write(tmp_path, "a.csv", (content * 9).encode(encoding))) == encoding


def test_other_scripts_are_not_taken_for_latin(tmp_path):
    for encoding in ("cp1251", "koi8-r"):
        content = "совсем другое письмо\n".encode(encoding)
        assert guess_encoding(write(tmp_path, "a.csv", content)) is None


def test_a_few_damaged_rows_do_not_make_a_file_latin(tmp_path):
    path = write(tmp_path, "a.csv", b"text,label\n" + "café,1\n".encode() * 9 + b"\xe9,1\n")
    (line,) = refusal(STARS, one(path))
    assert "Latin-1" not in line
    assert "correct the cell or set skip_bad_rows = true" in line


def test_a_latin_file_is_one_line_with_the_setting(tmp_path):
    content = "text,label\n" + "".join(f"café {number},1\n" for number in range(99))
    (line,) = refusal(STARS, one(write(tmp_path, "a.csv", content.encode("latin-1"))))
    assert 'looks like Latin-1: set encoding = "latin-1"' in line
    assert "(all 99 rows)" in line
    assert "skip_bad_rows" not in line


def test_column_names_in_another_encoding_are_met_with_its_name(tmp_path):
    path = write(tmp_path, "a.csv", "text,catégorie\nun été,1\n".encode("latin-1") * 9)
    source = Source(path, ("text",), "catégorie")
    assert 'looks like Latin-1: set encoding = "latin-1"' in refusal(STARS, source)[0]


def test_utf8_is_never_read_as_another_encoding(tmp_path):
    path = write(tmp_path, "a.csv", f'text,label\n"{TEXT}",1\n')
    (line,) = refusal(STARS, one(path, encoding="latin-1"))
    assert 'is UTF-8 text, not LATIN-1; set encoding = "utf-8"' in line


def test_text_that_is_not_in_the_encoding_is_refused_in_one_line(tmp_path):
    (line,) = refusal(STARS, one(write(tmp_path, "a.csv", b"odd"), encoding="utf-16"))
    assert "UTF-16" in line
    path = write(tmp_path, "b.csv", "text,label\nx,1\n".encode("utf-16"))
    assert 'encoding = "utf-16"' in refusal(STARS, one(path))[0]


@pytest.mark.parametrize("name", ["latin1", "UTF-8", "utf_16", "cp037", "shift_jis"])
def test_text_codecs_are_encodings(name):
    assert wrong_encoding(name) is None


@pytest.mark.parametrize("name", ["latin1x", "rot13", "base64", "", "a\0b", "undefined", "../x"])
def test_other_names_are_refused(name):
    assert "text encoding" in wrong_encoding(name)
