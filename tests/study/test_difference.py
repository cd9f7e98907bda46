"""Tests between runs, against scipy, published examples and formulas worked by hand."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import optimize, stats

from cotrunk.kinds.influence import OverRows
from cotrunk.kinds.intervals import interval
from cotrunk.kinds.metrics import ACCURACY, F1, PEARSON
from cotrunk.study.statistics.difference import mean_over_seeds, paired, seeds_and_rows
from cotrunk.study.statistics.mcnemar import mcnemar, tango
from cotrunk.study.statistics.overall import overall_over_rows

random = np.random.default_rng(0)
GOLD = random.normal(size=300)
LABEL = (random.random(300) < 0.4).astype(float)


def correlated(noise, *, seed, side=0.0):
    """``side``: noise that the runs of a side have in common."""
    own = np.random.default_rng([1, seed]).normal(size=300)
    return PEARSON.over_rows(GOLD + noise * own + side, GOLD)


def decided(right, *, seed, metric=F1):
    kept = np.random.default_rng([1, seed]).random(300) < right
    return metric.over_rows(np.where(kept, LABEL, 1 - LABEL), LABEL)


def shown(difference):
    return [getattr(difference, name) for name in ("difference", "low", "high", "p")]


def test_mcnemar_and_tango_give_a_published_example():
    """Bentur et al. 2009, worked in Fagerland et al. 2014: 1 and 7 of 21 pairs differ."""
    assert mcnemar(1, 7) == pytest.approx(0.034, abs=5e-4)
    assert tango(1, 7, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)


def test_tango_inverts_the_score_test_of_the_most_likely_shares():
    one, other, rows = 12, 5, 80
    for limit in tango(one, other, rows):

        def against(share, limit=limit):
            shares = (share + limit, share, 1 - 2 * share - limit)
            counts = (one, other, rows - one - other)
            return -sum(n * math.log(p) for n, p in zip(counts, shares, strict=True))

        least = max(0, -limit)
        share = optimize.minimize_scalar(
            against, bounds=(least + 1e-9, (1 - limit) / 2 - 1e-9), options={"xatol": 1e-10}
        ).x
        variance = (2 * share + limit - limit**2) / rows
        z = ((one - other) / rows - limit) / math.sqrt(variance)
        assert abs(z) == pytest.approx(stats.norm.isf(0.025), rel=1e-4)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 200))
def test_the_interval_of_shares_excludes_zero_exactly_if_the_test_rejects(one, other, same):
    rows = one + other + same
    low, high = tango(one, other, rows)
    assert -1 <= low <= (one - other) / rows <= high <= 1
    p = mcnemar(one, other)
    if abs(p - 0.05) > 1e-6:
        assert (p < 0.05) == (low > 0 or high < 0)
    assert tango(other, one, rows) == pytest.approx((-high, -low), abs=1e-9)


def test_accuracies_are_compared_by_the_rows_that_only_one_side_has_right():
    one, other = (
        decided(right, seed=seed, metric=ACCURACY) for right, seed in ((0.8, 1), (0.7, 2))
    )
    hits, other_hits = (run.influence + run.value > 0.5 for run in (one, other))
    only_one, only_other = (hits & ~other_hits).sum(), (other_hits & ~hits).sum()
    table = stats.chi2.sf((only_one - only_other) ** 2 / (only_one + only_other), 1)
    found = paired(one, other)
    assert found.difference == pytest.approx(one.value - other.value)
    assert found.p == pytest.approx(table)
    assert (found.low, found.high) == tango(only_one, only_other, 300)


def left_out(metric, predicted, gold):
    rows = np.arange(len(gold))
    return np.array([metric.value(predicted[rows != r], gold[rows != r]) for r in rows])


def test_other_scores_are_compared_by_a_t_test_of_jackknife_values():
    noises = np.random.default_rng(1).normal(size=(2, 300))
    said = GOLD + 0.6 * noises[0], GOLD + 0.7 * noises[1]
    one, other = (PEARSON.over_rows(x, GOLD) for x in said)
    left_N = left_out(PEARSON, said[0], GOLD) - left_out(PEARSON, said[1], GOLD)
    value = one.value - other.value
    pseudo_N = value + 299 * (left_N.mean() - left_N)
    expected = stats.ttest_1samp(pseudo_N, 0)
    found = paired(one, other)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert (found.inner_low, found.inner_high) == pytest.approx(
        tuple(expected.confidence_interval(0.9))
    )


def williams(x, y, gold):
    """The t test of two correlations with one variable in common (Williams 1959), if normal."""
    a, b, c = np.corrcoef(x, gold)[0, 1], np.corrcoef(y, gold)[0, 1], np.corrcoef(x, y)[0, 1]
    rows = len(gold)
    determinant = 1 - a**2 - b**2 - c**2 + 2 * a * b * c
    mean = (a + b) / 2
    below = 2 * determinant * (rows - 1) / (rows - 3) + mean**2 * (1 - c) ** 3
    t = (a - b) * math.sqrt((rows - 1) * (1 + c) / below)
    return 2 * stats.t.sf(abs(t), rows - 3)


@pytest.mark.parametrize("seed", range(4))
def test_correlations_of_normal_outputs_are_compared_as_by_williams(seed):
    noise = np.random.default_rng(seed).normal(size=(3, 4000))
    gold = np.random.default_rng(99).normal(size=4000)
    said = [gold + noise[0] + 0.3 * own for own in noise[1:]]
    found = paired(*(PEARSON.over_rows(x, gold) for x in said))
    assert found.p == pytest.approx(williams(*said, gold), abs=0.02)


def by_pairs(ones, others):
    """Obuchowski and Rockette (1995): covariances of runs that rows cause, averaged over pairs."""
    rows = ones[0].rows

    def covariance(pairs):
        return np.mean([a.influence @ b.influence / (rows * (rows - 1)) for a, b in pairs])

    same = sum(covariance(itertools.combinations(side, 2)) for side in (ones, others))
    shared = same - 2 * covariance(itertools.product(ones, others))
    seeds = [np.var([run.value for run in side], ddof=1) / len(side) for side in (ones, others)]
    variance = sum(seeds) + shared
    freedom = variance**2 / (
        sum(v**2 / (len(side) - 1) for v, side in zip(seeds, (ones, others), strict=True))
        + shared**2 / (rows - 1)
    )
    return variance, freedom


def test_seeds_and_rows_is_the_test_of_several_readers_of_the_same_cases():
    one, other = 0.5 * np.random.default_rng(5).normal(size=(2, 300))
    ones = [correlated(noise, seed=s, side=one) for s, noise in enumerate((0.5, 0.6, 0.55))]
    others = [
        correlated(noise, seed=9 + s, side=other) for s, noise in enumerate((0.6, 0.7, 0.5, 0.6))
    ]
    variance, freedom = by_pairs(ones, others)
    value = np.mean([run.value for run in ones]) - np.mean([run.value for run in others])
    half = stats.t.isf(0.025, freedom) * math.sqrt(variance)
    p = 2 * stats.t.sf(abs(value) / math.sqrt(variance), freedom)
    expected = [value, value - half, value + half, p]
    assert_allclose(shown(seeds_and_rows(ones, others)), expected)


def test_without_row_noise_seeds_are_compared_by_welchs_test():
    sides = [0.71, 0.74, 0.69], [0.66, 0.67, 0.70, 0.64]
    runs = [[OverRows(v, np.zeros(1000), "unit", 1e9) for v in side] for side in sides]
    expected = stats.ttest_ind(*sides, equal_var=False)
    found = seeds_and_rows(*runs)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))


def test_a_side_with_one_run_borrows_the_seed_noise_of_the_other():
    one = [OverRows(0.7, np.zeros(1000), "unit", 1e9)]
    others = [OverRows(v, np.zeros(1000), "unit", 1e9) for v in (0.66, 0.67, 0.70)]
    error = np.std([0.66, 0.67, 0.70], ddof=1) * math.sqrt(1 + 1 / 3)
    t = (0.7 - np.mean([0.66, 0.67, 0.70])) / error
    assert seeds_and_rows(one, others).p == pytest.approx(2 * stats.t.sf(t, 2))
    assert seeds_and_rows(others, one).p == pytest.approx(2 * stats.t.sf(t, 2))


def test_one_run_a_side_is_compared_by_rows_alone():
    one, other = correlated(0.5, seed=1), correlated(0.6, seed=2)
    assert seeds_and_rows([one], [other]) == paired(one, other)


SIDES = {
    "accuracy": [
        [decided(right, seed=s, metric=ACCURACY) for s in range(i, i + 3)]
        for i, right in ((0, 0.8), (5, 0.7))
    ],
    "f1": [[decided(right, seed=s) for s in range(i, i + 3)] for i, right in ((0, 0.8), (5, 0.7))],
    "pearson": [[correlated(n, seed=s) for s in range(i, i + 3)] for i, n in ((0, 0.5), (5, 0.8))],
}


@pytest.mark.parametrize("name", SIDES)
def test_swapping_the_sides_swaps_the_sign(name):
    ones, others = SIDES[name]
    for there, back in (
        (paired(ones[0], others[0]), paired(others[0], ones[0])),
        (seeds_and_rows(ones, others), seeds_and_rows(others, ones)),
    ):
        assert there.p == pytest.approx(back.p)
        assert there.difference == pytest.approx(-back.difference)
        assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
        assert (there.inner_low, there.inner_high) == pytest.approx(
            (-back.inner_high, -back.inner_low)
        )


@pytest.mark.parametrize("name", SIDES)
def test_equal_runs_do_not_differ(name):
    ones, _ = SIDES[name]
    for found in (paired(ones[0], ones[0]), seeds_and_rows(ones, ones)):
        assert (found.difference, found.p) == (0, 1)
        assert found.low == pytest.approx(-found.high)


@pytest.mark.parametrize("name", ["accuracy", "f1"])
def test_networks_that_decide_alike_on_these_rows_may_differ_on_others(name):
    found = paired(SIDES[name][0][0], SIDES[name][0][0])
    assert found.low < 0 < found.high


@pytest.mark.parametrize("name", SIDES)
def test_the_interval_agrees_with_the_test_and_holds_the_inner_one(name):
    ones, others = SIDES[name]
    for one, other in itertools.combinations([*ones, *others], 2):
        found = paired(one, other)
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
        assert found.low < found.inner_low < found.difference < found.inner_high < found.high
    assert seeds_and_rows(ones, others).p < 0.05


def test_the_mean_over_seeds_has_their_spread_and_an_interval():
    ones, _ = SIDES["pearson"]
    values = [run.value for run in ones]
    found = mean_over_seeds(ones)
    assert (found.mean, found.sd) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert found.low < found.mean < found.high <= 1
    alone = mean_over_seeds(ones[:1])
    assert math.isnan(alone.sd)
    assert (alone.low, alone.high) == interval(ones[0])


def half_width(seeds, shared, *, freedom, rows=300):
    """Half of a 95 % interval from two variances: squared quantiles, weighted like variances."""
    normal, t, of_rows = (stats.t.isf(0.025, f) ** 2 for f in (math.inf, freedom, rows - 1))
    total = seeds + shared
    squared = normal * total**2 + seeds**2 * (t - normal) + shared**2 * (of_rows - normal)
    return math.sqrt(squared / total)


def test_the_mean_of_two_seeds_has_the_noise_of_seeds_and_rows():
    runs = [replace(run, has_outliers=False) for run in SIDES["pearson"][0][:2]]
    values = [run.value for run in runs]
    shared = runs[0].influence @ runs[1].influence / (300 * 299)
    half = half_width(np.var(values, ddof=1) / 2, shared, freedom=1)
    found = mean_over_seeds(runs)
    scale = 1 - found.mean**2
    assert math.atanh(found.high) - math.atanh(found.mean) == pytest.approx(half / scale)
    assert math.atanh(found.mean) - math.atanh(found.low) == pytest.approx(half / scale)


def test_a_single_run_is_taken_to_vary_as_the_seeds_of_the_other_side():
    ones, (other, *_) = SIDES["pearson"][0][:2], SIDES["pearson"][1]
    seeds = np.var([run.value for run in ones], ddof=1) * 1.5
    own = np.mean([run.influence @ run.influence for run in ones])
    same = ones[0].influence @ ones[1].influence
    across = np.mean([run.influence @ other.influence for run in ones])
    its_own = other.influence @ other.influence
    shared = (same + its_own - (own - same) - 2 * across) / (300 * 299)
    found = seeds_and_rows(ones, [other])
    half = half_width(seeds, shared, freedom=1)
    assert found.high - found.difference == pytest.approx(half)
    assert (found.p < 0.05) == (abs(found.difference) > half)


@pytest.mark.parametrize(("metric", "largest"), [(PEARSON, 2), (F1, 1)])
def test_an_interval_has_no_impossible_differences(metric, largest):
    drawn = np.random.default_rng(0)
    gold = (drawn.random(8) < 0.5).astype(float)
    sides = [
        [metric.over_rows((drawn.random(8) < 0.5).astype(float), gold) for _ in range(2)]
        for _ in range(40)
    ]
    for ones, others in itertools.pairwise(sides):
        for found in (seeds_and_rows(ones, others), paired(ones[0], others[0])):
            bounds = (found.low, found.inner_low, found.inner_high, found.high)
            assert not any(abs(bound) > largest for bound in bounds)


def test_a_run_without_a_score_is_compared_to_nothing():
    nothing = PEARSON.over_rows(np.zeros(300), GOLD)
    other = correlated(0.5, seed=0)
    assert np.isnan(shown(paired(nothing, other))).all()
    assert np.isnan(shown(seeds_and_rows([nothing, other], [other, other]))).all()
    assert math.isnan(mean_over_seeds([nothing, other]).mean)


def test_runs_on_other_rows_are_refused():
    with pytest.raises(ValueError, match="same dev rows; found 200 and 300 rows"):
        paired(correlated(0.5, seed=0), PEARSON.over_rows(GOLD[:200] * 2, GOLD[:200]))
    with pytest.raises(ValueError, match="a run on each side"):
        seeds_and_rows([], [correlated(0.5, seed=0)])


@pytest.mark.parametrize(("formula", "half"), [("official", 0.5), ("mean", 1.0)])
def test_the_overall_score_adds_the_variances_of_its_tasks(formula, half):
    tasks = {"para": SIDES["f1"][0][0], "sts": SIDES["pearson"][0][0]}
    found = overall_over_rows(tasks, formula)
    sts = (tasks["sts"].value + 1) / 2 if formula == "official" else tasks["sts"].value
    assert found.value == pytest.approx((tasks["para"].value + sts) / 2)
    variances = [np.sum(run.influence**2) / run.rows**2 for run in tasks.values()]
    assert np.sum(found.influence**2) / found.rows**2 == pytest.approx(
        (variances[0] + half**2 * variances[1]) / 4
    )


@pytest.mark.parametrize("formula", ["official", "mean"])
@pytest.mark.parametrize("rows", [4, 6, 20])
def test_means_over_seeds_and_overall_scores_are_inside_their_range(formula, rows):
    least = 0 if formula == "official" else -1
    for trial in range(40):
        drawn = np.random.default_rng([trial, rows])
        gold, label = drawn.normal(size=rows), (drawn.random(rows) < 0.5).astype(float)
        runs = []
        for _ in range(2):
            score = PEARSON.over_rows(gold + 0.2 * drawn.standard_cauchy(rows), gold)
            hits = ACCURACY.over_rows(np.where(drawn.random(rows) < 0.9, label, 1 - label), label)
            runs.append({"sts": score, "para": hits})
        overall = [overall_over_rows(run, formula) for run in runs]
        for side in (overall, overall[:1], [run["para"] for run in runs]):
            found = mean_over_seeds(side)
            assert least <= found.low <= found.mean + 1e-9
            assert found.mean - 1e-9 <= found.high <= 1


def test_the_interval_of_an_overall_score_allows_for_errors_that_perfect_tasks_did_not_make():
    perfect = OverRows(1.0, np.zeros(14), "share", 14)
    good = OverRows(0.99, np.linspace(-0.01, 0.01, 16), "correlation", 16, has_outliers=True)
    overall = overall_over_rows({"one": perfect, "other": perfect, "good": good})
    low, high = interval(overall)
    assert low < 1 - 2 / 3 / 14  # one more error in each of the perfect tasks
    assert overall.value < high <= 1
