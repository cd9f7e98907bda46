"""Words for differences: corrected for their number, equivalent within a margin."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cotrunk.kinds.metrics import PEARSON
from cotrunk.study.statistics.difference import Difference, paired
from cotrunk.study.statistics.stability import stability
from cotrunk.study.statistics.transfer import negative_transfer
from cotrunk.study.statistics.verdict import equivalent, holm, verdict, verdicts


def difference(value, error, *, freedom=1e6):
    half, inner = (stats.t.isf(tail, freedom) * error for tail in (0.025, 0.05))
    p = 2 * stats.t.sf(abs(value) / error, freedom)
    return Difference(value, value - half, value + half, p, value - inner, value + inner)


def test_holm_gives_an_example_worked_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_its_steps_reject(ps):
    """Holm's procedure itself: from the smallest p, stop at the first above 5 % / rest."""
    rejected = set()
    for done, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        if ps[index] * (len(ps) - done) >= 0.05:
            break
        rejected.add(index)
    assert {index for index, p in enumerate(holm(ps)) if p < 0.05} == rejected


def test_a_comparison_without_p_is_not_counted():
    found = holm([math.nan, 0.02, 0.03])
    assert math.isnan(found[0])
    assert found[1:] == pytest.approx([0.04, 0.04])


@pytest.mark.parametrize("value", [-0.01, 0.0, 0.004, 0.0036, 0.02])
def test_equivalence_is_two_one_sided_tests(value):
    error, margin = 0.004, 0.01
    above = stats.norm.sf((value + margin) / error)
    below = stats.norm.cdf((value - margin) / error)
    assert equivalent(difference(value, error), margin) == (max(above, below) < 0.05)


def test_noise_alone_is_never_equivalent():
    assert verdict(difference(0.0, 0.02), margin=0.01) == "undecided"
    assert verdict(difference(0.0, 0.002), margin=0.01) == "equivalent"
    assert verdict(difference(0.0, 0.002)) == "undecided"


def test_a_difference_has_the_word_of_its_sign():
    assert verdict(difference(0.05, 0.01), margin=0.01) == "better"
    assert verdict(difference(-0.05, 0.01), margin=0.01) == "worse"
    assert verdict(difference(0.015, 0.01), margin=0.01) == "undecided"


def test_a_difference_too_small_to_matter_is_equivalent_even_if_it_is_certain():
    assert verdict(difference(0.003, 0.001)) == "better"
    assert verdict(difference(0.003, 0.001), margin=0.01) == "equivalent"


def test_many_comparisons_need_more_evidence():
    found = difference(0.022, 0.01)
    assert [word for _, word in verdicts([found])] == ["better"]
    assert [word for _, word in verdicts([found] * 5)] == ["undecided"] * 5


def test_without_a_score_nothing_is_decided():
    assert verdict(Difference(*[math.nan] * 6), margin=0.01) == "undecided"


def runs(noise, seeds, gold):
    noises = [np.random.default_rng([1, seed]).normal(size=len(gold)) for seed in seeds]
    return [PEARSON.over_rows(gold + noise * own, gold) for own in noises]


def test_transfer_is_negative_where_a_task_does_better_alone():
    gold = np.random.default_rng(0).normal(size=2000)
    together = {"a": runs(0.9, range(3), gold), "b": runs(0.4, range(3), gold)}
    alone = {"a": runs(0.5, range(5, 8), gold), "b": runs(0.6, range(5, 8), gold)}
    found = negative_transfer(together | {"c": together["a"]}, alone, margin=0.01)
    assert {task: transfer.word for task, transfer in found.items()} == {
        "a": "negative",
        "b": "positive",
    }
    assert found["a"].difference.difference < 0
    same = negative_transfer(together, together, margin=0.05)
    assert {transfer.word for transfer in same.values()} == {"none"}


def test_transfer_of_one_run_each_is_judged_by_rows():
    gold = np.random.default_rng(0).normal(size=2000)
    one, other = runs(0.5, [0], gold), runs(0.6, [1], gold)
    found = negative_transfer({"a": one}, {"a": other})["a"]
    assert found.difference == paired(one[0], other[0])


def history(*scores, task="sst"):
    dev = [
        {"event": "dev", "step": 10 * number, "scores": {task: {"score": score}}}
        for number, score in enumerate(scores, 1)
    ]
    return [{"event": "step", "step": 1, "loss": 2.0}, *dev]


def test_stability_is_the_spread_of_the_last_scores_and_the_step_near_the_best():
    found = stability(history(0.2, 0.5, 0.695, 0.68, 0.70, 0.69, 0.70), "sst")
    assert found.spread == pytest.approx(np.std([0.695, 0.68, 0.70, 0.69, 0.70], ddof=1))
    assert found.steps_to_converge == 30


def test_scores_that_are_missing_do_not_count():
    found = stability(history(None, 0.5, None, 0.7), "sst")
    assert found.spread == pytest.approx(np.std([0.5, 0.7], ddof=1))
    assert found.steps_to_converge == 40
    assert stability(history(0.5), "sts").steps_to_converge is None
    assert math.isnan(stability(history(0.5), "sst").spread)
    assert stability(history(0.5), "sst").steps_to_converge == 10
