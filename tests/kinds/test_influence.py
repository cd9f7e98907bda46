"""The influence of each row, against the jackknife done by hand: every row left out in turn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from cotrunk.kinds import influence
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.influence import by_rows, jackknife_groups
from cotrunk.kinds.intervals import (
    around,
    interval,
    least_error,
    standard_error,
    t_quantile,
    wilson,
)
from cotrunk.kinds.metrics import ACCURACY, Metric, pearson
from cotrunk.kinds.mlm import MaskedWords
from cotrunk.kinds.multilabel import Multilabel
from cotrunk.kinds.score import Scores
from cotrunk.kinds.tags import Tags

METRICS = {
    f"{type(kind).__name__} {name}": (kind, metric)
    for kind in (Classes(4), Binary(), Multilabel(3), Scores())
    for name, metric in kind.metrics().items()
}
EXACT = [name for name in METRICS if not name.endswith("spearman")]


def labels(kind, *, rows=60, seed=0):
    random = np.random.default_rng(seed)
    if isinstance(kind, Scores):
        gold = random.normal(size=rows).round(1)
        return gold + random.normal(size=rows).round(1), gold
    if isinstance(kind, Multilabel):
        gold = random.integers(0, 2, (rows, kind.outputs)).astype(float)
    else:
        gold = random.integers(0, max(2, kind.outputs), rows).astype(float)
    other = gold[random.permutation(rows)]
    return np.where(random.random(gold.shape) < 0.7, gold, other), gold


def by_hand(metric, predicted, gold):
    rows = np.arange(len(gold))
    left_out = [metric.value(predicted[rows != row], gold[rows != row]) for row in rows]
    return (len(gold) - 1) * (np.mean(left_out) - left_out)


@pytest.mark.parametrize("name", EXACT)
def test_influences_are_those_of_leaving_each_row_out(name):
    kind, metric = METRICS[name]
    predicted, gold = labels(kind)
    found = metric.over_rows(predicted, gold)
    assert found.value == metric.value(predicted, gold)
    assert found.rows == 60
    assert_allclose(found.influence, by_hand(metric, predicted, gold), atol=1e-10)


def test_classes_are_left_out_in_blocks_to_the_same_end(monkeypatch):
    metric = Classes(4).metrics()["macro-f1"]
    whole = metric.over_rows(*labels(Classes(4))).influence
    monkeypatch.setattr(influence, "BLOCK", 5)
    assert_allclose(metric.over_rows(*labels(Classes(4))).influence, whole)


@pytest.mark.parametrize("ties", [1, 3])
def test_the_influence_on_spearman_nears_the_jackknife_with_many_rows(ties):
    metric = Scores().metrics()["spearman"]
    random = np.random.default_rng(1)
    gold = random.normal(size=600).round(ties)
    predicted = (gold + 0.5 * random.normal(size=600)).round(ties)
    found, expected = metric.over_rows(predicted, gold).influence, by_hand(metric, predicted, gold)
    assert np.corrcoef(found, expected)[0, 1] > 0.9999
    assert standard_error(found) == pytest.approx(standard_error(expected), rel=0.01)


def test_a_metric_without_its_own_way_is_judged_by_groups_of_rows():
    random = np.random.default_rng(2)
    gold = random.normal(size=1_050)
    predicted = gold + random.normal(size=1_050)
    own = Scores().metrics()["pearson"].over_rows(predicted, gold)
    grouped = Metric("mine", pearson, is_correlation=True).over_rows(predicted, gold)
    assert grouped.rows == influence.GROUPS
    assert interval(grouped) == pytest.approx(interval(own), abs=0.01)


def test_groups_keep_the_units_of_a_row_together():
    counts = np.array([2, 0, 3, 1, 2])
    gold = np.arange(8.0)
    kept = []
    jackknife_groups(lambda _, rest: kept.append(set(rest)) or 0.0, gold, gold, counts)
    left_out = [set(gold) - rest for rest in kept]
    assert sorted(map(sorted, left_out)) == [[], [0, 1], [2, 3, 4], [5], [6, 7]]


def test_words_of_a_sentence_count_together():
    kind = Tags(("a", "b"), scheme="plain")
    random = np.random.default_rng(3)
    right_R = random.random(50) < 0.8
    counts = random.integers(1, 12, 50)
    target = np.zeros(counts.sum())
    output = np.where(np.repeat(right_R, counts)[:, None], [1.0, 0.0], [0.0, 1.0])
    found = kind.over_rows(output, target, counts=counts)
    assert found.value == kind.scores(output, target, counts=counts).score
    assert found.rows == 50
    words = ACCURACY.over_rows(np.repeat(right_R, counts), np.ones(counts.sum()))
    assert np.ptp(interval(found)) > 2 * np.ptp(interval(words))
    # The share of words as a ratio of two sums over sentences, each sentence left out in turn.
    hits, words = np.where(right_R, counts, 0), counts
    left_out = (hits.sum() - hits) / (words.sum() - words)
    expected = 49 * (left_out.mean() - left_out)
    assert standard_error(found.influence) == pytest.approx(standard_error(expected), rel=0.05)


def test_units_add_up_to_their_row():
    influence_6 = np.array([1.0, 2, 3, -1, -2, -3])
    assert by_rows(influence_6, np.array([2, 0, 4])).tolist() == [3 * 0.5, 0, -3 * 0.5]
    assert by_rows(influence_6, None) is influence_6


def test_masked_words_count_where_they_were_asked():
    evidence = np.array([[0.5, 1, 7], [np.nan] * 3, [1.5, 0, 3], [0.1, 1, 2]], np.float32)
    found = MaskedWords().over_rows(evidence, np.zeros(0))
    assert found.value == pytest.approx(2 / 3)
    assert found.rows == 3


@pytest.mark.parametrize("name", METRICS)
def test_a_network_that_diverged_has_no_influences(name):
    kind, metric = METRICS[name]
    predicted, gold = labels(kind)
    predicted[3] = np.nan
    found = metric.over_rows(predicted, gold)
    assert np.isnan(found.value)
    assert np.isnan(interval(found)).all()


@pytest.mark.parametrize("name", METRICS)
def test_a_perfect_score_still_has_an_interval(name):
    kind, metric = METRICS[name]
    _, gold = labels(kind)
    low, high = interval(metric.over_rows(gold, gold))
    assert 0.8 < low < 1
    assert high == pytest.approx(1)


def test_wilson_equals_scipys():
    for hits, rows in [(0, 7), (7, 7), (3, 20), (567, 1_101)]:
        expected = stats.binomtest(hits, rows).proportion_ci(0.9, method="wilson")
        assert wilson(hits / rows, rows, confidence=0.9) == pytest.approx(tuple(expected))
    assert wilson(0, 0) == (0, 1)


def test_a_perfect_correlation_has_an_interval_of_the_confidence_asked_for():
    values = np.arange(20.0)
    perfect = Scores().metrics()["pearson"].over_rows(values, values)
    (narrow, _), (wide, _) = (interval(perfect, confidence=share) for share in (0.9, 0.95))
    assert wide < narrow < 1
    assert narrow == pytest.approx(2 * wilson(1.0, 20, confidence=0.9)[0] - 1)


@pytest.mark.parametrize("rows", [4, 5, 8, 40])
@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_the_interval_of_a_correlation_is_inside_its_range(name, rows):
    metric, random = Scores().metrics()[name], np.random.default_rng(rows)
    for _ in range(50):
        gold = random.integers(0, 3, rows).astype(float)
        found = metric.over_rows(gold + random.standard_cauchy(rows), gold)
        low, high = interval(found)
        assert np.isnan(low) or -1 <= low <= found.value <= high <= 1


def test_one_row_that_lowers_a_correlation_widens_its_interval_downwards():
    random = np.random.default_rng(0)
    gold = random.normal(size=200)
    predicted = gold + 0.1 * random.normal(size=200)
    predicted[0] = gold[0] + 3
    found = Scores().metrics()["pearson"].over_rows(predicted, gold)
    low, high = np.arctanh(interval(found)) - np.arctanh(found.value)
    assert -low > 1.5 * high


@pytest.mark.parametrize("rows", [8, 14, 20, 33, 50, 100])
def test_no_end_is_more_than_1_7_times_as_far_as_without_skewness(rows):
    """That is 4.0 standard errors in Fisher's z with 8 rows, 3.5 with 33 and 3.4 with 100."""
    random = np.random.default_rng(rows)
    farthest = 1.7 * t_quantile(0.95, rows - 1)
    for _ in range(300):
        gold = random.normal(size=rows)
        found = Scores().metrics()["pearson"].over_rows(gold + random.standard_cauchy(rows), gold)
        error = max(standard_error(found.influence), least_error(found.value, rows))
        middle, reach = np.arctanh(found.value), farthest * error / (1 - found.value**2)
        low, high = interval(found)
        assert np.tanh(middle - reach) - 1e-9 <= low <= high <= np.tanh(middle + reach) + 1e-9


@pytest.mark.parametrize(("odd", "least"), [(0.5, 0.98), (1.0, 0.9)])
def test_one_odd_row_of_33_leaves_a_nearly_perfect_correlation_a_short_interval(odd, least):
    """The correlations are 0.997 and 0.992; a bootstrap goes down to 0.994 and 0.978."""
    gold = np.linspace(0, 5, 33)
    predicted = gold - 0.1 * (-1.0) ** np.arange(33)
    predicted[16] += odd
    low, high = interval(Scores().metrics()["pearson"].over_rows(predicted, gold))
    assert least < low < high < 1


@pytest.mark.parametrize("quantile", [1.65, 2.0, 3.2, 12.7])
def test_more_skewness_never_moves_an_end_back(quantile):
    for sign in (-1, 1):
        ends = [
            around(0.5, 0.05, scale="correlation", quantile=quantile, skewness=sign * skewness)
            for skewness in np.linspace(0, 1, 101)
        ]
        lows, highs = np.transpose(ends)
        assert (np.diff(lows) <= 1e-12).all()
        assert (np.diff(highs) >= -1e-12).all()
