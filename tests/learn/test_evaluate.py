"""Rows are put into batches by their lengths, which a corpus tells without being read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotrunk.data.batches.text import PairFormat, template_of
from cotrunk.data.reading.examples import Source
from cotrunk.data.tokens import cache
from cotrunk.data.tokens.cache import Corpus, CorpusRows, load_corpus
from cotrunk.infer import batching as evaluate
from cotrunk.infer.batching import by_length, row_tokens
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.task import Task
from cotrunk.model.weights.tokenizer import character_tokenizer
from toy import sentence, write_rows


def filled_one_by_one(lengths: list[int], budget: int) -> list[list[int]]:
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
        if not batches or sum(lengths[r] for r in batches[-1]) + lengths[row] > budget:
            batches.append([])
        batches[-1].append(row)
    return batches


@given(lengths=st.lists(st.integers(1, 20), max_size=40), budget=st.integers(1, 50))
def test_a_batch_takes_rows_until_one_more_would_exceed_the_budget(lengths, budget):
    found = [batch.tolist() for batch in by_length(lengths, budget)]
    assert found == filled_one_by_one(lengths, budget)


@pytest.fixture
def pairs(tmp_path) -> Corpus:
    random = np.random.default_rng(0)
    rows = [[sentence(random), sentence(random), i % 2] for i in range(50)]
    write_rows(tmp_path / "pairs.csv", ["left", "right", "label"], rows)
    source = Source(tmp_path / "pairs.csv", ("left", "right"), "label")
    return load_corpus(Task("alike", 2, Binary()), source, character_tokenizer("bert"))


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("max_tokens", [20, 128])
def test_a_corpus_tells_what_its_rows_tell_one_by_one(pairs, monkeypatch, joined, max_tokens):
    monkeypatch.setattr(evaluate, "ROWS_PER_BLOCK", 7)
    pair_format, template = (
        PairFormat(2, joined, max_tokens=max_tokens),
        template_of(character_tokenizer("bert")),
    )
    rows = CorpusRows(pairs)
    expected = row_tokens(list(rows), pair_format, template)
    assert row_tokens(rows, pair_format, template).tolist() == expected.tolist()


def test_letting_go_of_pages_changes_no_value(pairs, monkeypatch):
    before = [[piece.tolist() for piece in pairs.pieces(row)] for row in range(50)]
    monkeypatch.setattr(cache, "SMALL", 0)
    monkeypatch.setattr(cache, "RELEASED_EVERY", 3)
    held = pairs.pieces(1)
    assert [[piece.tolist() for piece in pairs.pieces(row)] for row in range(50)] == before
    assert [piece.tolist() for piece in held] == before[1]
