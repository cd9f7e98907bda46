"""Every metric, each class, calibration and the constant answer, against independent references."""

import numpy as np
import pytest
from seqeval.metrics import classification_report
from sklearn import metrics as reference
from sklearn.dummy import DummyClassifier, DummyRegressor

from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.detail import detail_of
from cotrunk.kinds.mlm import MaskedWords
from cotrunk.kinds.multilabel import Multilabel
from cotrunk.kinds.score import Scores
from cotrunk.kinds.tags import Tags

RANDOM = np.random.default_rng(9)
NER = Tags(classes=("O", "B-PER", "I-PER", "B-LOC", "I-LOC"), scheme="iob1")


def table(found):
    return [[one.precision, one.recall, one.f1, one.support] for one in found.classes]


def expected(gold, predicted, **options):
    found = reference.precision_recall_fscore_support(gold, predicted, zero_division=0, **options)
    return np.array(found, float).T


@pytest.mark.parametrize(
    "kind", [Classes(("a", "b", "c", "never")), Binary(threshold=0.7)], ids=str
)
def test_each_class_is_scored_as_scikit_learn_does(kind):
    output = RANDOM.normal(size=(90, kind.outputs))
    gold = RANDOM.integers(0, 2 if kind.outputs == 1 else 3, 90).astype(float)
    found = detail_of(kind, output, gold)
    labels = range(max(2, kind.outputs))
    assert np.allclose(table(found), expected(gold, kind.predict_labels(output), labels=labels))
    assert found.metrics == kind.scores(output, gold).more
    matrix = reference.confusion_matrix(gold, kind.predict_labels(output), labels=labels)
    assert found.document()["confusion"]["counts"] == matrix.tolist()


def test_each_class_of_several_per_text_is_scored_as_scikit_learn_does():
    kind = Multilabel(classes=("a", "b", "c"))
    output, gold = RANDOM.normal(size=(60, 3)), RANDOM.integers(0, 2, (60, 3)).astype(float)
    found = detail_of(kind, output, gold.reshape(-1))
    assert np.allclose(table(found), expected(gold, output > 0, average=None))
    assert [one.name for one in found.classes] == ["a", "b", "c"]


def test_each_type_of_entity_is_scored_as_seqeval_does():
    counts = np.array([4, 6, 5, 3, 7])
    gold = RANDOM.integers(0, 5, counts.sum()).astype(float)
    output = RANDOM.normal(size=(len(gold), 5)) + 2 * np.eye(5)[gold.astype(int)]
    sentences = [
        [[NER.names[int(tag)] for tag in row] for row in np.split(tags, np.cumsum(counts)[:-1])]
        for tags in (gold, NER.predict_labels(output))
    ]
    report = classification_report(*sentences, output_dict=True, zero_division=0)
    for one in detail_of(NER, output, gold, counts=counts).classes:
        other = report[one.name]
        assert [one.precision, one.recall, one.f1, one.support] == pytest.approx(
            [other["precision"], other["recall"], other["f1-score"], other["support"]]
        )


def test_tags_that_mark_no_spans_are_scored_word_by_word():
    kind = Tags(classes=("NN", "VB"), scheme="plain")
    output, gold = RANDOM.normal(size=(20, 2)), RANDOM.integers(0, 2, 20).astype(float)
    found = detail_of(kind, output, gold, counts=np.array([12, 8]))
    assert np.allclose(table(found), expected(gold, output.argmax(1)))
    assert "entity-f1" not in found.constant


def test_the_errors_of_scores_equal_scikit_learns():
    gold = RANDOM.normal(size=50)
    output = gold[:, None] + RANDOM.normal(size=(50, 1))
    found = detail_of(Scores(), output, gold)
    mean = DummyRegressor().fit(gold, gold).predict(gold)
    for name, metric in (
        ("mean absolute error", reference.mean_absolute_error),
        ("rmse", reference.root_mean_squared_error),
    ):
        assert found.metrics[name] == pytest.approx(metric(gold, output[:, 0]))
        assert found.constant[name] == pytest.approx(metric(gold, mean))
    assert set(found.metrics) == {"pearson", "spearman", "mean absolute error", "rmse"}
    assert np.isnan(found.constant["pearson"])
    assert found.document()["classes"] == []
    assert found.calibration is None


def test_the_constant_answer_is_that_of_scikit_learns_dummies():
    gold = np.repeat([0.0, 1.0, 2.0], [20, 33, 7])
    common = DummyClassifier(strategy="most_frequent").fit(gold, gold).predict(gold)
    found = Classes(3).baselines(gold)
    assert found == pytest.approx(
        {
            "accuracy": reference.accuracy_score(gold, common),
            "macro-f1": reference.f1_score(gold, common, average="macro", zero_division=0),
            "mcc": 0,
        }
    )


def test_a_rare_label_has_the_constant_f1_of_always_giving_it():
    gold = np.repeat([0.0, 1.0], [90, 10])
    found = Binary().baselines(gold)
    assert found["f1"] == pytest.approx(reference.f1_score(gold, np.ones(100)))
    assert found["accuracy"] == 0.9
    assert Binary(metric="f1").scores(np.ones((100, 1)), gold).baseline == found["f1"]


@pytest.mark.parametrize("metric", ["micro-f1", "macro-f1"])
def test_no_constant_set_of_classes_is_better_than_the_one_that_is_shown(metric):
    gold = (RANDOM.random((30, 4)) < (0.05, 0.3, 0.5, 0.0)).astype(float)
    average = metric.removesuffix("-f1")
    every = (np.broadcast_to(one, gold.shape) for one in np.ndindex(2, 2, 2, 2))
    best = max(reference.f1_score(gold, one, average=average, zero_division=0) for one in every)
    kind = Multilabel(classes=4, metric=metric)
    assert kind.baseline(gold.reshape(-1)) == pytest.approx(best)


def test_the_calibration_error_is_the_mean_gap_of_ten_bins():
    output, gold = RANDOM.normal(size=(300, 3)) * 2, RANDOM.integers(0, 3, 300).astype(float)
    odds = np.exp(output)
    sure = (odds / odds.sum(1, keepdims=True)).max(1)
    right, gap = output.argmax(1) == gold, 0.0
    for low in np.arange(10) / 10:
        inside = (sure >= low) & (sure < low + 0.1)
        if inside.any():
            gap += inside.mean() * abs(sure[inside].mean() - right[inside].mean())
    found = detail_of(Classes(3), output, gold).calibration
    assert found is not None
    assert found.error == pytest.approx(gap)


def test_outputs_that_are_not_finite_have_no_detail():
    found = detail_of(Classes(2), np.full((3, 2), np.nan), np.zeros(3)).document()
    assert (found["metrics"], found["classes"], found["confusion"]) == ({}, [], None)


def test_a_kind_without_labels_has_metrics_only():
    evidence = np.array([[0.5, 1, 7, 7], [1.5, 0, 8, 6]])
    found = detail_of(MaskedWords(), evidence, np.zeros(0), counts=np.array([2])).document()
    assert set(found["metrics"]) == {"accuracy", "loss", "perplexity"}
    assert found["constant"]["accuracy"] == 0.5
    assert (found["classes"], found["confusion"], found["calibration"]) == ([], None, None)
