"""Entity F1, per type and overall, against seqeval; its interval against hand-drawn resamples."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from seqeval.metrics import classification_report, f1_score, precision_score, recall_score

from cotrunk.kinds.entity_f1 import (
    count_entities,
    f1,
    f1_over_sentences,
    precision,
    recall,
)
from cotrunk.kinds.intervals import interval

TAGS = ["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
tag = st.sampled_from(TAGS)
both = st.lists(st.lists(st.tuples(tag, tag), min_size=1, max_size=8), min_size=1, max_size=6)


def apart(sentences):
    gold = [[tag for tag, _ in sentence] for sentence in sentences]
    return gold, [[tag for _, tag in sentence] for sentence in sentences]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@given(sentences=both)
def test_overall_scores_are_those_of_seqeval(sentences):
    gold, predicted = apart(sentences)
    counts_3 = count_entities(gold, predicted).total_3
    assert_allclose(f1(counts_3), f1_score(gold, predicted))
    assert_allclose(precision(counts_3), precision_score(gold, predicted))
    assert_allclose(recall(counts_3), recall_score(gold, predicted))


@pytest.mark.slow
@given(sentences=both)
def test_scores_of_each_type_are_those_of_seqeval(sentences):
    gold, predicted = apart(sentences)
    by_type = count_entities(gold, predicted).by_type
    if not by_type:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = classification_report(gold, predicted, output_dict=True)
    assert list(by_type) == [name for name in report if not name.endswith(" avg")]
    for name, counts_3 in by_type.items():
        assert_allclose(f1(counts_3), report[name]["f1-score"])
        assert_allclose(precision(counts_3), report[name]["precision"])
        assert_allclose(recall(counts_3), report[name]["recall"])
        assert counts_3[2] == report[name]["support"]


@pytest.mark.slow
@given(sentences=both)
def test_sentences_and_types_add_up_to_the_same_total(sentences):
    counts = count_entities(*apart(sentences))
    assert counts.sentence_S3.shape == (len(sentences), 3)
    total_3 = sum(counts.by_type.values(), np.zeros(3, np.int64))
    assert total_3.tolist() == counts.total_3.tolist()


@pytest.mark.slow
@given(sentences=both)
def test_the_order_of_sentences_does_not_matter(sentences):
    one, other = (count_entities(*apart(order)) for order in (sentences, sentences[::-1]))
    assert one.total_3.tolist() == other.total_3.tolist()


def sample(sentences=200):
    random = np.random.default_rng(0)
    gold_S = random.poisson(1.0, sentences)
    right_S = random.binomial(gold_S, 0.6)
    return np.stack([right_S, right_S + random.poisson(0.4, sentences), gold_S], axis=1)


@pytest.mark.slow
def test_the_interval_is_that_of_sentences_drawn_by_hand():
    counts_S3 = sample()
    random = np.random.default_rng(1)
    drawn = [f1(counts_S3[random.integers(0, 200, 200)].sum(axis=0)) for _ in range(20_000)]
    found = interval(f1_over_sentences(counts_S3))
    assert_allclose(found, np.percentile(drawn, [2.5, 97.5]), atol=0.01)
    assert found[0] < f1(counts_S3.sum(axis=0)) < found[1]


def test_few_sentences_have_no_interval():
    assert np.isnan(interval(f1_over_sentences(sample(3)))).all()


def test_nothing_to_find_and_nothing_found_scores_zero_and_says_nothing():
    counts = count_entities([["O"]] * 5, [["O"]] * 5)
    assert f1(counts.total_3) == 0
    assert interval(f1_over_sentences(counts.sentence_S3)) == (0, 1)


def test_finding_few_entities_without_a_mistake_is_no_proof():
    counts_S3 = np.zeros((300, 3), np.int64)
    counts_S3[:5] = 1
    low, high = interval(f1_over_sentences(counts_S3))
    assert low < 0.6
    assert high == 1
