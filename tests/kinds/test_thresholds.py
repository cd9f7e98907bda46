"""Decision thresholds: chosen to maximise F1, and used wherever a label is decided."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.metrics import f1_score, precision_recall_curve

from cotrunk.kinds.binary import Binary
from cotrunk.kinds.multilabel import Multilabel
from cotrunk.kinds.threshold import best_for_f1

RANDOM = np.random.default_rng(5)


@pytest.mark.slow
@given(st.integers(0, 10_000), st.sampled_from([0.02, 0.3, 0.9]))
def test_no_threshold_has_a_higher_f1(seed, share):
    random = np.random.default_rng(seed)
    gold = (random.random(60) < share).astype(float)
    gold[0] = 1
    logits = (random.normal(size=60).round(1) + gold).astype(np.float32)
    chosen = Binary(threshold=best_for_f1(logits, gold))
    precision, recall, _ = precision_recall_curve(gold, expit(logits.astype(float)))
    best = (2 * precision * recall / np.maximum(precision + recall, 1e-12)).max()
    assert f1_score(gold, chosen.predict_labels(logits[:, None])) == pytest.approx(best)


def test_of_equally_good_thresholds_the_one_nearest_to_a_half_is_chosen():
    assert best_for_f1(np.array([-2.0, 2.0]), np.array([0.0, 1.0])) == 0.5
    above = best_for_f1(np.array([1.0, 3.0, 5.0]), np.array([0.0, 1.0, 1.0]))
    assert above == pytest.approx(expit(2.0))


@pytest.mark.parametrize("gold", [[0.0, 0.0], [1.0, 1.0]])
def test_labels_without_a_contrast_leave_a_usable_threshold(gold):
    found = best_for_f1(np.array([-1.0, 1.0]), np.array(gold))
    assert 0 < found < 1
    assert best_for_f1(np.array([np.nan, 1.0]), np.array([0.0, 1.0])) == 0.5
    assert best_for_f1(np.array([-800.0, 800.0]), np.array([1.0, 1.0])) < 1


def test_a_half_decides_by_the_sign_of_the_logit():
    logits = np.array([[-1e-30], [0.0], [1e-30], [3.0]], np.float32)
    assert Binary().predict_labels(logits).tolist() == [0, 0, 1, 1]
    assert Binary(threshold="dev-f1").predict_labels(logits).tolist() == [0, 0, 1, 1]


def test_micro_f1_has_one_threshold_and_macro_f1_one_for_each_class():
    gold = (RANDOM.random((80, 3)) < (0.1, 0.4, 0.7)).astype(float)
    logits = RANDOM.normal(size=(80, 3)) + gold - (2, 0, -1)
    for metric, average in (("micro-f1", "micro"), ("macro-f1", "macro")):
        kind = Multilabel(classes=("a", "b", "c"), metric=metric, threshold="dev-f1")
        found = kind.chosen_on_dev(logits, gold.reshape(-1))["threshold"]
        assert isinstance(found, float if metric == "micro-f1" else tuple)
        tuned = Multilabel(classes=("a", "b", "c"), metric=metric, threshold=found)
        predicted = tuned.predict_labels(logits)
        before = f1_score(gold, kind.predict_labels(logits), average=average)
        assert f1_score(gold, predicted, average=average) > before
        cut = np.log(found) - np.log1p(-np.asarray(found))
        assert np.array_equal(predicted, logits > cut)


def test_the_probability_of_an_answer_is_that_of_the_label_given():
    kind = Binary(threshold=0.2)
    output = np.array([[-1.0], [-3.0]], np.float32)
    rows = [kind.to_columns("t", answer) for answer in kind.answers(output)]
    assert [row["t"] for row in rows] == [1, 0]
    assert [row["t_probability"] for row in rows] == pytest.approx([expit(-1), expit(3)])
    sure = kind.certainty(output, np.array([1.0, 1.0]))
    assert sure.confidence == pytest.approx([expit(-1), expit(3)])
    assert sure.right.tolist() == [True, False]
    sets = Multilabel(classes=("a", "b"), threshold=(0.2, 0.5))
    (answer,) = sets.answers(np.array([[-1.0, -3.0]], np.float32))
    assert answer.prediction == ["a"]
    assert sets.to_columns("t", answer)["t_probability"] == pytest.approx(expit(-1))


def test_several_networks_decide_at_the_mean_of_their_thresholds():
    binary = Binary(threshold=0.2).of_several([Binary(threshold=0.2), Binary(threshold=0.6)])
    assert binary.thresholds() == pytest.approx({"1": 0.4})
    one, other = (Multilabel(classes=2, threshold=t) for t in (0.5, (0.1, 0.3)))
    assert one.of_several([one, other]).thresholds() == pytest.approx({"0": 0.3, "1": 0.4})
    assert Binary().of_several([Binary()] * 3) == Binary()


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.1, 1.5, float("nan"), "dev"])
def test_what_is_not_a_probability_is_refused(threshold):
    for make in (Binary, lambda threshold: Multilabel(classes=2, threshold=threshold)):
        with pytest.raises(ValueError, match=r"^threshold = .*must lie between 0 and 1"):
            make(threshold=threshold)


def test_a_list_of_thresholds_has_one_for_each_class():
    with pytest.raises(ValueError, match=r"^threshold: give one number, or one for each of 3"):
        Multilabel(classes=3, threshold=(0.5, 0.5))


def test_targets_are_read_in_the_same_way_with_every_threshold():
    assert Binary(threshold=0.2).reading_key() == Binary().reading_key()
