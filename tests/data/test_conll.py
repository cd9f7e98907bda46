"""CoNLL files: what is a sentence, what is a column, and what is refused with its line."""

import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sources import write

from cotrunk.data.reading.conll import LONGEST_SENTENCE
from cotrunk.data.reading.examples import Source
from cotrunk.data.reading.files import open_table
from cotrunk.data.reading.formats import Fault
from cotrunk.errors import UserError


def records(path, *names, columns=()):
    with open_table(path, needed=names, quoting="csv", place=str(path), columns=columns) as table:
        for name in names:
            table.require(name)
        return list(table.select(names))


def refusal(path, *names, columns=()):
    with pytest.raises(UserError) as caught:
        records(path, *names, columns=columns)
    (line,) = caught.value.lines
    return line


def sentence(path):
    ((_, cells),) = records(path, "tokens", "tags")
    return cells


@pytest.mark.parametrize("ending", [".conll", ".bio", ".iob", ".CONLL"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_sentence_is_a_record_at_the_line_of_its_first_word(tmp_path, ending, newline, bom):
    lines = ["", "Ada\tB-PER", "ran\tO", "\t", " ", "Oslo\tB-LOC"]
    path = write(tmp_path, f"a{ending}", bom + newline.join(lines))
    assert records(path, "tokens", "tags") == [
        (2, (["Ada", "ran"], ["B-PER", "O"])),
        (6, (["Oslo"], ["B-LOC"])),
    ]


def test_columns_are_separated_by_blanks_where_the_first_word_has_no_tab(tmp_path):
    path = write(tmp_path, "a.conll", "Ada  NNP B-PER \nran\tVBD  O\n")
    assert sentence(path) == (["Ada", "ran"], ["B-PER", "O"])


def test_a_word_may_hold_blanks_where_tabs_separate(tmp_path):
    path = write(tmp_path, "a.conll", "New York\tB-LOC\n")
    assert sentence(path) == (["New York"], ["B-LOC"])


def test_a_no_break_space_is_part_of_a_word(tmp_path):
    path = write(tmp_path, "a.conll", "10\u00a0000 O\n")
    assert sentence(path) == (["10\u00a0000"], ["O"])


def test_columns_between_words_and_tags_are_numbered(tmp_path):
    path = write(tmp_path, "a.conll", "Ada NNP I-NP B-PER\n")
    assert records(path, "column3", "tokens") == [(1, (["I-NP"], ["Ada"]))]


def test_columns_can_be_named(tmp_path):
    path = write(tmp_path, "a.conll", "1\tAda\tNNP\n2\tran\tVBD\n")
    found = records(path, "word", "pos", columns=["number", "word", "pos"])
    assert found == [(1, (["Ada", "ran"], ["NNP", "VBD"]))]


def test_words_alone_have_no_tags(tmp_path):
    path = write(tmp_path, "a.conll", "Ada\nran\n\n#\n")
    assert records(path, "tokens") == [(1, (["Ada", "ran"],)), (4, (["#"],))]
    assert refusal(path, "tags") == f"{path}: no column 'tags'; columns found: 'tokens'"


def test_document_starts_end_a_sentence_and_are_left_out(tmp_path):
    path = write(tmp_path, "a.conll", "-DOCSTART- -X- O\n\nAda NNP B-PER\n-DOCSTART-\nOslo NNP O\n")
    assert records(path, "tokens") == [(3, (["Ada"],)), (5, (["Oslo"],))]


@pytest.mark.parametrize("tab", ["\t", " "])
def test_comments_above_a_sentence_are_left_out_but_a_hash_is_a_word(tmp_path, tab):
    content = "# id = 1\n# text = # 1\n#|O\n1|O\n\n# text = # a\n#tag|O\n#|O\n".replace("|", tab)
    path = write(tmp_path, "a.conll", content)
    found = records(path, "tokens", "tags")
    assert found == [(3, (["#", "1"], ["O", "O"])), (7, (["#tag", "#"], ["O", "O"]))]


def test_a_comment_within_a_sentence_is_a_fault(tmp_path):
    path = write(tmp_path, "a.conll", "a\tO\n# text = b\nb\tO\n")
    reason = "a line must have 2 columns, as the first has; found 1"
    assert records(path, "tokens") == [(2, Fault(reason))]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"x", "a line must have 2 columns, as the first has; found 1"),
        (b"x\tNN\tO", "a line must have 2 columns, as the first has; found 3"),
        (b"x O", "a line must have 2 columns, as the first has; found 1"),
        (b"x\t", "column 2 is empty"),
        (b"\tO", "column 1 is empty"),
        (b"x\0y\tO", "a line must not contain NUL; found one at character 2"),
        (b"x\xff\tO", r"a line must be UTF-8; found 'x\xff\tO\n' at character 2"),
        (b"x" * 1_000_000 + b"\tO", "a line must not exceed 1,000,000 characters"),
    ],
)
def test_a_bad_line_is_named_and_spoils_only_its_sentence(tmp_path, line, told):
    path = write(tmp_path, "a.conll", b"a\tO\n\nb\tO\n" + line + b"\nc\tO\n\nd\tO\n")
    (_, before), (at, fault), (_, after) = records(path, "tokens")
    assert (before, at, after) == ((["a"],), 4, (["d"],))
    assert fault.reason.startswith(told)


@pytest.mark.slow
def test_a_file_without_blank_lines_is_a_fault_and_fills_no_memory(tmp_path):
    path = write(tmp_path, "a.conll", "a\tO\n" * 40 * LONGEST_SENTENCE)
    tracemalloc.start()
    found = records(path, "tokens")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    reason = (
        "a sentence must not exceed 10,000 words (is the blank line between sentences missing?)"
    )
    assert found == [(LONGEST_SENTENCE + 1, Fault(reason))]
    assert peak < 10_000_000


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", ": the file is empty"),
        (b"\n \n", ": the file has no sentence"),
        (b"-DOCSTART- O\n", ": the file has no sentence"),
        (b"\n" * 5000 + b"a\tO\n", ": the file has no sentence in its first 1,000 lines"),
        (b"\xff\xfea\0\t\0", ": is UTF-16 text"),
    ],
)
def test_a_file_without_sentences_is_refused(tmp_path, content, told):
    path = write(tmp_path, "a.conll", content)
    assert refusal(path, "tokens").startswith(f"{path}{told}")


def test_as_many_columns_must_be_named_as_there_are(tmp_path):
    path = write(tmp_path, "a.conll", "\nAda\tB-PER\n")
    told = refusal(path, "tokens", columns=["tokens", "pos", "tags"])
    finding = "columns lists 3 names (tokens, pos, tags), but this line has 2 columns"
    assert told == f"{path}:2: {finding}; name all columns of the file"


def test_words_alone_are_never_taken_for_another_column(tmp_path):
    """The labels are read alone, to find the classes."""
    path = write(tmp_path, "a.conll", "Ada\nran\n")
    tagged = Source(path, ("tokens",), "tags", columns=("tokens", "tags"))
    with replace(tagged, label=None).open(["tokens"]) as table:
        assert list(table.select(["tokens"])) == [(1, (["Ada", "ran"],))]
    for source in (tagged, replace(tagged, texts=("words",), label=None)):
        with pytest.raises(UserError, match="columns lists 2 names"), source.open(["tags"]):
            pass


@pytest.mark.slow
def test_how_much_was_read_is_known_on_the_way(tmp_path):
    path = write(tmp_path, "a.conll", "a\tO\n\n" * 100_000)
    with open_table(path, needed=(), quoting="csv", place="a") as table:
        seen = [table.share() for _ in table.select(["tokens"])]
    assert seen == sorted(seen)
    assert 0 < seen[0] < 0.5
    assert seen[-1] == 1


letters = st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs"])
words = st.text(letters, min_size=1, max_size=6).filter(lambda word: word != "-DOCSTART-")
tagged = st.lists(st.tuples(words, words), min_size=1, max_size=5)


@pytest.mark.slow
@pytest.mark.parametrize("separator", ["\t", " "])
@settings(max_examples=60, deadline=None)
@given(sentences=st.lists(tagged, min_size=1, max_size=5))
def test_sentences_come_back_exactly(tmp_path_factory, separator, sentences):
    blocks = ["\n".join(map(separator.join, sentence)) for sentence in sentences]
    path = write(tmp_path_factory.getbasetemp(), "exact.conll", "\n\n".join(blocks))
    found = [list(zip(*cells, strict=True)) for _, cells in records(path, "tokens", "tags")]
    assert found == sentences


pieces = st.sampled_from([b"\t", b" ", b"\n", b"\r", b"#", b"O", b"-DOCSTART-", b"\0", b"\xff"])


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(content=st.lists(pieces, max_size=40).map(b"".join))
def test_no_bytes_raise_anything_but_a_user_error(tmp_path_factory, content):
    path = write(tmp_path_factory.getbasetemp(), "mess.conll", content)
    try:
        found = records(path, "tokens")
    except UserError:
        return
    assert all(isinstance(cells, Fault) or cells[0] for _, cells in found)
