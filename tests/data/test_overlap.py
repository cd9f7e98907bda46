"""Rows that two files share are counted without holding either in memory, and counted once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cotrunk.data.reading.examples import Source
from cotrunk.data.tokens import overlap
from cotrunk.data.tokens.cache import Corpus, load_corpus
from cotrunk.data.tokens.encoded import fingerprints
from cotrunk.data.tokens.overlap import count_shared, shared_rows
from cotrunk.data.tokens.store import cache_folder
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.task import Task
from cotrunk.model.weights.tokenizer import character_tokenizer
from toy import write_rows

numbers = st.lists(st.integers(0, 30), max_size=60)


def test_rows_are_the_same_in_any_case_and_a_pair_in_either_order():
    train = fingerprints([("a cat", "a dog"), ("rain", "snow"), ("one", "two")])
    dev = fingerprints([("A  dog", "a cat"), ("a", "cat a dog"), ("one", "two"), ("x", "x")])
    assert count_shared(train, dev) == 2


@given(train=numbers, dev=numbers)
def test_as_many_are_counted_as_are_found_one_by_one(train, dev):
    before, overlap.BLOCK = overlap.BLOCK, 7
    try:
        found = count_shared(np.array(train, np.uint64), np.array(dev, np.uint64))
    finally:
        overlap.BLOCK = before
    assert found == sum(row in train for row in dev)


def corpus(path, texts: list[str]) -> Corpus:
    write_rows(path, ["text", "label"], [[text, 0] for text in texts])
    task = Task("t", 1, Binary())
    return load_corpus(task, Source(path, ("text",), "label"), character_tokenizer("bert"))


def test_the_count_is_remembered_and_a_damaged_note_is_written_again(tmp_path):
    train = corpus(tmp_path / "train.csv", ["one", "two", "three"])
    dev = corpus(tmp_path / "dev.csv", ["Two", "four", "one", "two"])
    assert shared_rows(train, dev) == 3
    [note] = (cache_folder() / "overlaps").iterdir()
    noted = note.read_bytes()
    for damage in (b"", b"[]", b"many", b"7", noted.replace(b"3", b"2", 1)):
        note.write_bytes(damage)
        assert shared_rows(train, dev) == 3
        assert note.read_bytes() == noted
    assert list((cache_folder() / "overlaps").iterdir()) == [note]
