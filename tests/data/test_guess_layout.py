"""What ``init`` makes of delimiters, of CoNLL in text files and of encodings."""

import csv as written

import pytest
from guessing import SENTENCE, TEXTS, refusal, tasks_of
from sources import write


def delimited(folder, header, rows, delimiter, name="a.csv"):
    with (folder / name).open("w", newline="") as file:
        written.writer(file, delimiter=delimiter).writerows([header, *rows])
    return folder / name


@pytest.mark.parametrize("delimiter", ["\t", ";", ",", "|"])
@pytest.mark.parametrize("name", ["text", "text, short", "text; short", "text | short"])
@pytest.mark.parametrize("text", ["{}", "well, {}", "so; {}"])
def test_the_delimiter_is_the_one_that_fits_the_rows(tmp_path, delimiter, name, text):
    rows = [[n, text.format(cell), "ab"[n % 2], "x"] for n, cell in enumerate(TEXTS)]
    path = delimited(tmp_path, ["nr", name, "label", "by"], rows, delimiter)
    (task,) = tasks_of(path).values()
    assert (task.texts, task.label) == ((name,), "label")


def test_a_header_with_commas_that_are_not_quoted_does_not_hide_the_semicolons(tmp_path):
    rows = [f"x;well, {text};{'AB'[n % 2]}" for n, text in enumerate(TEXTS)]
    path = write(tmp_path, "a.csv", "\n".join(["Titel, kurz;Text;Klasse", *rows]) + "\n")
    assert tasks_of(path)["Klasse"].texts == ("Text",)


def test_a_label_with_a_pipe_stays_one_cell(tmp_path):
    rows = [[text, ["A|B", "C|D"][n % 2]] for n, text in enumerate(TEXTS)]
    (task,) = tasks_of(delimited(tmp_path, ["text", "label"], rows, ",")).values()
    assert task.options["classes"] == ["A|B", "C|D"]


@pytest.mark.parametrize("gap", [" ", "\t"])
@pytest.mark.parametrize("tags", ["NNP B-NP B-PER", "B-PER"])
@pytest.mark.parametrize("start", ["", "-DOCSTART- -X- O O\n\n"])
def test_conll_in_a_text_file_is_refused_with_the_right_name(tmp_path, gap, tags, start):
    sentence = "".join(f"{word} {tags}\n" for word in ["Ada", "met", "Bob", "today"])
    text = start + (f"{sentence}\n" * 30).replace(" ", gap)
    line = refusal(write(tmp_path, "train.txt", text))
    assert "looks like CoNLL" in line
    assert line.endswith("rename it to train.conll")


def test_short_lines_between_blank_ones_are_still_plain_text(tmp_path):
    verse = "The river is slow\nand bright.\nSo what?\n\n"
    (task,) = tasks_of(write(tmp_path, "verse.txt", verse * 20)).values()
    assert task.kind == "mlm"


def test_conll_u_is_refused_with_a_command_that_converts_it(tmp_path):
    line = refusal(write(tmp_path, "a.conllu", "1\tDogs\tdog\tNOUN\n"))
    assert "multiword tokens" in line
    assert line.endswith("a.conllu > a.conll")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_byte_order_mark_is_recognised(tmp_path, encoding):
    lines = ["text,label", *(f"{text},{'ab'[n % 2]}" for n, text in enumerate(TEXTS))]
    path = write(tmp_path, "a.csv", "\n".join(lines).encode(encoding))
    (task,) = tasks_of(path).values()
    assert (task.label, task.encoding) == ("label", encoding)


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ('"ner": [1, 0, 3]', "ner (lists of numbers; tags or classes need names)"),
        ('"talk": [{"role": "user"}]', "talk (lists of objects, whose texts"),
    ],
)
def test_lists_that_cannot_be_used_are_refused_with_the_reason(tmp_path, column, says):
    rows = [f'{{"nr": {n}, {column}}}\n' for n in range(30)]
    assert says in refusal(write(tmp_path, "a.jsonl", "".join(rows)))


def test_a_row_of_words_is_not_taken_for_a_delimiter(tmp_path):
    rows = [[f"{SENTENCE} {n}", "ab"[n % 2]] for n in range(30)]
    (task,) = tasks_of(delimited(tmp_path, ["my text", "label"], rows, ",")).values()
    assert task.texts == ("my text",)
