"""Answers against gold labels, and the probability of each answer."""

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, multilabel_confusion_matrix

from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.mlm import MaskedWords
from cotrunk.kinds.multilabel import Multilabel
from cotrunk.kinds.score import Scores
from cotrunk.kinds.tags import Tags

RANDOM = np.random.default_rng(3)
CLASSES = Classes(classes=("a", "b", "c"))


def test_a_confusion_matrix_equals_scikit_learns():
    output, gold = RANDOM.normal(size=(200, 3)), RANDOM.integers(0, 3, 200).astype(float)
    found = CLASSES.confusion(output, gold)
    assert np.array_equal(found.counts, confusion_matrix(gold, output.argmax(1)))
    assert found.rows == found.columns == ("a", "b", "c")
    output, gold = RANDOM.normal(size=(200, 1)), RANDOM.integers(0, 2, 200).astype(float)
    expected = confusion_matrix(gold, output[:, 0] > 0)
    assert np.array_equal(Binary().confusion(output, gold).counts, expected)


def test_rare_classes_are_counted_together():
    names = tuple(map(str, range(100)))
    output = RANDOM.normal(size=(300, 100))
    gold = np.minimum(RANDOM.integers(0, 100, 300), 40).astype(float)
    found = Classes(classes=names).confusion(output, gold)
    assert len(found.rows) == 20
    assert "40" in found.rows
    assert found.counts.sum() == 300
    hits = (output.argmax(1) == gold) & (gold == 40)
    assert found.counts[18, 18] == hits.sum()


def test_sets_of_classes_are_found_missed_or_wrongly_given():
    kind = Multilabel(classes=("a", "b"))
    output, gold = RANDOM.normal(size=(60, 2)), RANDOM.integers(0, 2, (60, 2)).astype(float)
    matrices = multilabel_confusion_matrix(gold, output > 0)
    expected = [[m[1, 1], m[1, 0], m[0, 1]] for m in matrices]
    assert kind.confusion(output, gold.reshape(-1)).counts.tolist() == expected


def test_numbers_beyond_the_range_are_in_the_outermost_bins():
    found = Scores(range=(0, 5)).confusion(np.array([[-3.0], [9.0], [2.6]]), np.array([0, 5, 2.4]))
    assert found.counts.sum() == 3
    assert found.counts[0, 0] == found.counts[-1, -1] == found.counts[4, 5] == 1
    assert Scores().confusion(np.zeros((3, 1)), np.ones(3)) is None


@pytest.mark.parametrize("kind", [CLASSES, Tags(classes=("O", "B-X", "I-X"))])
def test_the_certainty_of_an_answer_is_its_probability(kind):
    probability = np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [np.nan] * 3])
    found = kind.certainty(np.log(probability), np.array([0.0, 2.0, 1.0]))
    assert found.confidence == pytest.approx([0.7, 0.5])
    assert found.right.tolist() == [True, False]


def test_each_decision_between_two_labels_has_its_own_certainty():
    logit = np.log([[0.8 / 0.2], [0.3 / 0.7]])
    found = Binary().certainty(logit, np.array([1.0, 1.0]))
    assert found.confidence == pytest.approx([0.8, 0.7])
    assert found.right.tolist() == [True, False]
    both = Multilabel(classes=("a", "b")).certainty(logit.T, np.array([1.0, 0.0]))
    assert both.confidence == pytest.approx([0.8, 0.7])
    assert both.right.tolist() == [True, True]


def test_kinds_without_probabilities_have_no_certainty():
    assert Scores().certainty(np.zeros((2, 1)), np.zeros(2)) is None
    assert MaskedWords().certainty(np.zeros((2, 3)), np.zeros(0)) is None
    assert MaskedWords().confusion(np.zeros((2, 3)), np.zeros(0)) is None
