"""Labels and answers in the words of the file."""

import numpy as np
import pytest

from cotrunk.config.kinds import make_kind
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes

LOGITS = np.array([[-1.0], [1.0]], dtype=np.float32)


@pytest.mark.parametrize(
    ("first", "answers"),
    [
        ("yes", ["no", "yes"]),
        (" No ", ["No", "Yes"]),
        ("TRUE", ["FALSE", "TRUE"]),
        (True, [False, True]),
        (False, [False, True]),
        ("1", [0, 1]),
        (0, [0, 1]),
    ],
)
def test_a_binary_task_answers_in_the_words_of_its_training_file(first, answers):
    labels = Binary().worded(iter([first, "never read"]))
    found = [answer.prediction for answer in labels.answers(LOGITS)]
    assert (found, list(map(type, found))) == (answers, list(map(type, answers)))
    for raw in ("0", 1, "No", "true", False):
        assert labels.read(raw) == Binary().read(raw)
    assert labels.reading_key() == Binary().reading_key()
    assert tuple(labels.thresholds()) == labels.output_names
    scores = labels.class_scores(LOGITS, np.array([0.0, 1.0]))
    assert [score.name for score in scores] == list(labels.histogram(np.array([0.0])))


def test_the_second_of_two_words_is_label_one():
    labels = Binary(classes=("ham", "spam"))
    assert [labels.read(word) for word in ("ham", " spam ")] == [(0.0,), (1.0,)]
    assert [answer.prediction for answer in labels.answers(LOGITS)] == ["ham", "spam"]
    assert [labels.minbert_value(answer, 1) for answer in labels.answers(LOGITS)] == [0, 1]
    assert labels.histogram(np.array([0.0, 1.0, 1.0])) == {"ham": 1, "spam": 2}
    for other in ("0", True, "yes"):
        with pytest.raises(ValueError, match="must be 'ham' or 'spam'"):
            labels.read(other)


def test_words_may_be_numbers_in_json():
    labels = Binary(classes=("1", "2"))
    assert [labels.read(raw) for raw in (1, 2, "2")] == [(0.0,), (1.0,), (1.0,)]


def test_usual_words_in_another_order_mean_what_is_listed():
    assert Binary(classes=("yes", "no")).read("no") == (1.0,)


@pytest.mark.parametrize("classes", [("a",), ("a", "a"), ("a", "b", "c"), ("a", "a", "b")])
def test_a_binary_task_has_two_words(classes):
    with pytest.raises(ValueError, match=r"^classes: give two different words"):
        Binary(classes=classes)


def test_weights_of_a_binary_task_go_by_its_words():
    labels = make_kind(Binary, {"classes": ["ham", "spam"], "class_weights": {"spam": 3, "ham": 1}})
    assert labels.class_weights == (1.0, 3.0)


def test_numbers_may_have_names():
    labels = make_kind(Classes, {"classes": {"0": "abbreviation", "1": "entity", "5": "number"}})
    assert labels.names == ("abbreviation", "entity", "number")
    assert [labels.read(raw) for raw in ("0", 1, "5")] == [(0.0,), (1.0,), (2.0,)]
    with pytest.raises(ValueError, match="one of '0', '1', '5'; found 'entity'"):
        labels.read("entity")
    (answer,) = labels.answers(np.array([[0.0, 0.0, 1.0]], dtype=np.float32))
    assert (answer.prediction, answer.more) == (5, {"name": "number"})
    assert labels.spelled(2) == "number"
    assert labels.to_columns("t", answer).keys() == set(labels.columns("t"))


def test_named_numbers_are_saved_and_made_again():
    labels = make_kind(Classes, {"classes": {"1": "one", "0": "zero"}})
    again = make_kind(Classes, {"classes": labels.classes, "file_labels": labels.file_labels})
    assert again == labels
    assert hash(again) == hash(labels)


@pytest.mark.parametrize(
    ("classes", "answers"),
    [(3, [0, 1]), (("1", "2"), [1, 2]), (("-1", "1"), [-1, 1]), (("01", "2"), ["01", "2"])],
)
def test_whole_numbers_are_answered_as_numbers(classes, answers):
    labels = Classes(classes)
    assert [labels.label_name(index) for index in (0, 1)] == answers


@pytest.mark.parametrize("classes", [{"0": "a"}, {"0": "a", "1": "a"}, {}])
def test_names_must_be_different_and_several(classes):
    with pytest.raises(ValueError, match="classes"):
        make_kind(Classes, {"classes": classes})
