"""Entities of tags, against seqeval; and what is wrong with tags."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB1, IOB2, Tokens

from cotrunk.kinds.spans import Span, faults, spans

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-creative-work", "I-creative-work", "B", "I"]
sentences = st.lists(st.sampled_from(TAGS), max_size=12)


@given(tags=sentences)
def test_entities_are_those_of_seqeval_by_default(tags):
    assert spans(tags) == [(start, last + 1, kind) for kind, start, last in get_entities(tags)]


@given(tags=sentences)
def test_strict_seqeval_finds_the_same_entities_where_bio_has_no_faults(tags):
    wrong = {fault.word for fault in faults(tags, "bio")}
    sound = ["B" + tag[1:] if word in wrong else tag for word, tag in enumerate(tags)]
    assert not list(faults(sound, "bio"))
    strict = [(e.start, e.end, e.tag) for e in Tokens(sound, IOB2).entities]
    assert spans(tags) == spans(sound) == strict


@given(tags=sentences)
def test_strict_seqeval_finds_the_same_entities_where_each_b_separates(tags):
    entities = spans(tags)
    iob1 = ["O"] * len(tags)
    for number, (start, end, kind) in enumerate(entities):
        before = entities[number - 1] if number else Span(-1, -1, "")
        prefix = "B" if (before.end, before.type) == (start, kind) else "I"
        iob1[start:end] = [f"{prefix}-{kind}"] + [f"I-{kind}"] * (end - start - 1)
    strict = [(e.start, e.end, e.tag) for e in Tokens(iob1, IOB1).entities]
    assert spans(iob1) == entities == strict


@given(tags=sentences)
def test_bio_of_its_own_spans_reads_the_same(tags):
    written = ["O"] * len(tags)
    for start, end, kind in spans(tags):
        written[start:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - start - 1)
    assert not list(faults(written, "bio"))
    assert spans(written) == spans(tags)


@pytest.mark.parametrize(
    ("tags", "word", "found"),
    [
        (["I-PER"], 0, "'I-PER' at the start"),
        (["O", "I-PER", "I-PER"], 1, "'I-PER' after 'O'"),
        (["B-PER", "I-LOC"], 1, "'I-LOC' after 'B-PER'"),
    ],
)
def test_an_i_tag_that_continues_nothing_is_a_fault_of_bio_alone(tags, word, found):
    (fault,) = faults(tags, "bio")
    assert fault == (word, "under scheme bio an I- tag must continue an entity", found)
    assert not list(faults(tags, "iob1"))


@pytest.mark.parametrize("tag", ["PER", "S-PER", "b-PER", "B-", "I_PER", "", "o", "O-PER", "0"])
@pytest.mark.parametrize("scheme", ["bio", "iob1"])
def test_a_tag_without_its_prefix_is_a_fault(tag, scheme):
    (fault,) = faults(["O", tag, "O"], scheme)
    assert fault == (1, f"under scheme {scheme} a tag must be O, B-TYPE or I-TYPE", repr(tag))
    assert spans(["O", tag, "O"]) == []
