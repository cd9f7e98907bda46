"""Words that the network does not read have no outputs; a network that gives NaN is an error."""

import numpy as np
import pytest

from cotrunk.infer.predictor import answers_of
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.rows import LoadedRows
from cotrunk.kinds.tags import Tags
from cotrunk.kinds.task import Task

WORDS = Task("words", 1, Tags(classes=("O", "B-X", "I-X")))
TEXTS = Task("mood", 1, Classes(2))
NAN = [np.nan] * 3
ENTITY = [0.0, 1.0, 0.0]


def answered(outputs: list[list[float]], sites: list[list[int]]) -> list[list[str]]:
    rows = LoadedRows.without_labels([()] * len(sites), [np.array(row, np.int64) for row in sites])
    found = answers_of(WORDS, np.array(outputs).reshape(-1, 3), rows)
    return [answer.prediction for answer in found]


def test_words_without_a_token_and_truncated_words_are_outside():
    assert answered([NAN, NAN], [[-1, -1]]) == [["O", "O"]]
    assert answered([NAN, ENTITY, NAN, NAN], [[-1, 0, 9], [-1]]) == [["O", "B-X", "O"], ["O"]]
    assert answered([], []) == []


@pytest.mark.parametrize("wrong", [NAN, [0.0, np.inf, 0.0], [0.0, np.nan, 0.0]])
def test_a_network_that_gives_nan_for_a_word_it_has_read_is_an_error(wrong):
    with pytest.raises(RuntimeError, match="task words: the network outputs NaN or infinity"):
        answered([ENTITY, wrong], [[0], [0]])


def test_a_network_that_gives_nan_for_a_text_is_an_error():
    rows = LoadedRows.without_labels([(), ()])
    with pytest.raises(RuntimeError, match="task mood"):
        answers_of(TEXTS, np.array([[0.0, 1.0], [np.nan, np.nan]]), rows)
