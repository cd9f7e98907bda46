"""Verdicts on claims whose truth is known, because the runs are made up."""

import pytest
from made_up import made_up_run, seeds_of
from numpy.testing import assert_allclose
from scipy.stats import ttest_ind

from cotrunk.kinds.intervals import t_quantile
from cotrunk.study.claims import judge, sentence
from cotrunk.study.contrasts import Contrast, estimate
from cotrunk.study.definition import Claim
from cotrunk.study.selection import differing, ranked_values

GROUPS = {
    "good": seeds_of(0.90, parameters=50, seconds=10),
    "bad": seeds_of(0.70, parameters=100, seconds=40),
    "as good": seeds_of(0.902, parameters=100),
    "middle": seeds_of(0.80),
    "one seed": seeds_of(0.95, count=1),
    "noisy": seeds_of(0.80, spread=0.1),
    "steady": seeds_of(0.8, history=(0.5, 0.8, 0.8, 0.8, 0.8, 0.8)),
    "jumpy": [
        made_up_run({"a": 0.8, "b": 0.8}, seed, history=(0.5, 0.5, 0.8 + seed / 100, 0.4, 0.9, 0.3))
        for seed in range(3)
    ],
    "one task": [made_up_run({"a": 0.9}, seed) for seed in range(3)],
}


def verdict_of(test, one, other=(), **more):
    claim = Claim(id="x", claim="x", test=test, one=one, other=other, **{"on": "a", **more})
    return judge(claim, GROUPS, {"small": 50, "large": 100})


@pytest.mark.parametrize(
    ("test", "one", "other", "more", "verdict"),
    [
        ("better", "good", "bad", {}, "confirmed"),
        ("better", "bad", "good", {}, "refuted"),
        ("better", "good", "as good", {}, "undecided"),
        ("better", "good", "bad", {"margin": 0.3}, "refuted"),
        ("better", "good", ["bad", "middle"], {}, "confirmed"),
        ("better", ["good", "bad"], "middle", {}, "refuted"),
        ("better", ["good", "bad"], "middle", {"combine": "mean"}, "undecided"),
        ("better", "good", "noisy", {"on": ["a", "b"]}, "undecided"),
        ("equivalent", "good", "as good", {"margin": 0.05}, "confirmed"),
        ("equivalent", "good", "as good", {"margin": 0.001}, "undecided"),
        ("equivalent", "good", "bad", {"margin": 0.05}, "refuted"),
        ("not-worse", "good", "as good", {"margin": 0.05}, "confirmed"),
        ("not-worse", "bad", "good", {"margin": 0.05}, "refuted"),
        ("better", "good", "bad", {"on": "official"}, "confirmed"),
        ("better", "good", "bad", {"on": "parameters"}, "confirmed"),
        ("better", "bad", "good", {"on": "memory"}, "refuted"),
        ("ratio", "good", "bad", {"on": "parameters", "between": (0.45, 0.55)}, "confirmed"),
        ("ratio", "good", "bad", {"on": "parameters", "between": (0.7, 0.9)}, "refuted"),
        ("ratio", "small", "large", {"on": "parameters", "between": (0.45, 0.55)}, "confirmed"),
        ("better", "steady", "jumpy", {"on": "spread"}, "confirmed"),
        ("better", "steady", "steady", {"on": "steps-to-converge:a"}, "undecided"),
        ("order", ["good", "middle", "bad"], [], {}, "confirmed"),
        ("order", ["good", "bad", "middle"], [], {}, "refuted"),
        ("trend", ["bad", "middle", "good"], [], {}, "confirmed"),
        ("trend", ["good", "middle", "bad"], [], {}, "refuted"),
        ("effect", "good", "bad", {"than": ["middle", "bad"]}, "confirmed"),
        ("effect", "middle", "bad", {"than": ["good", "bad"]}, "refuted"),
        ("count", ["good", "middle", "noisy"], "bad", {"least": 2}, "confirmed"),
        ("count", ["good", "bad", "middle"], "as good", {"least": 2}, "refuted"),
    ],
)
def test_a_claim_gets_the_verdict_that_is_true(test, one, other, more, verdict):
    judged = verdict_of(test, one, other, **more)
    assert judged.verdict == verdict, sentence(judged)


def test_one_seed_a_side_settles_no_score():
    groups = {"one": GROUPS["one seed"], "other": seeds_of(0.5, count=1)}
    judged = judge(
        Claim(id="x", claim="x", test="better", one="one", other="other", on="a"), groups
    )
    assert judged.verdict == "undecided"
    assert "one seed" in judged.why


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        ({"test": "none", "why": "never described"}, "never described"),
        ({"test": "better", "one": "good", "other": "one task", "on": "b"}, "score for b"),
        ({"test": "better", "one": "good", "other": "one task", "on": "mean"}, "different tasks"),
        ({"test": "better", "one": "good", "other": "skipped", "on": "a"}, "no such file"),
    ],
)
def test_what_cannot_be_tested_says_why(claim, why):
    judged = judge(Claim(id="x", claim="x", **claim), GROUPS, skipped={"skipped": "no such file"})
    assert judged.verdict == "not testable here"
    assert why in judged.why


def test_a_claim_is_not_run_yet_until_every_side_has_a_finished_run():
    claim = Claim(id="x", claim="x", test="order", one=["good", "absent", "later"], on="a")
    judged = judge(claim, {**GROUPS, "later": []})
    assert judged.verdict == "not run yet"
    assert judged.why == "there is no finished run of absent, later"


def test_a_document_shows_a_comparison_as_the_sentence_does():
    judged = verdict_of("better", "good", "bad", on="train-cpu-seconds")
    (part,) = judged.document()["evidence"]["comparisons"]
    assert f"{part['comparison']} on {part['measure']}: {part['shown']}" in sentence(judged)
    assert part["measure"] == "train-cpu-seconds (reduction)"


def test_an_interval_that_covers_the_limit_decides_nothing_and_the_document_says_so():
    document = verdict_of("better", "good", "as good").document()
    assert list(document) == ["id", "claim", "test", "margin", "verdict", "evidence"]
    (comparison,) = document["evidence"]["comparisons"]
    assert comparison["low"] < 0 < comparison["high"]
    assert comparison["seeds"] == [3, 3]


def test_costs_are_compared_over_seeds():
    groups = {
        name: [made_up_run({"a": 0.8}, seed, seconds=base + seed / 10) for seed in range(3)]
        for name, base in (("fast", 10.0), ("slow", 50.0), ("slower", 55.0))
    }

    def verdict(test, one, other, **more):
        claim = Claim(
            id="x", claim="x", test=test, one=one, other=other, on="train-cpu-seconds", **more
        )
        return judge(claim, groups).verdict

    assert verdict("ratio", "slow", "fast", between=(4.5, 5.5)) == "confirmed"
    assert verdict("better", "slower", ["fast", "slow"], combine="sum") == "confirmed"
    assert verdict("better", "slower", ["fast", "slow"], combine="mean") == "refuted"


def test_one_of_several_comparisons_has_the_interval_of_a_stricter_t_test():
    seconds = {"fast": [10.0, 11.0, 13.0], "slow": [20.0, 24.0, 25.0]}
    groups = {
        name: [made_up_run({"a": 0.8}, seed, seconds=value) for seed, value in enumerate(values)]
        for name, values in seconds.items()
    }
    found = estimate(Contrast.of("slow", "fast"), "train-cpu-seconds", groups, {}).widened(7)
    test = ttest_ind(seconds["fast"], seconds["slow"], equal_var=False)
    expected = test.confidence_interval(1 - 0.05 / 7)
    assert_allclose((found.low, found.high), (expected.low, expected.high))


def test_a_score_is_widened_by_its_few_degrees_of_freedom():
    found = estimate(Contrast.of("good", "noisy"), "a", GROUPS, {})
    assert found.freedom < 10
    wider = found.widened(5)
    assert (wider.high - wider.low) / (found.high - found.low) > 1.5  # a normal one: 1.31


def test_an_interval_that_the_scale_limits_is_widened_as_if_it_were_not_limited():
    accuracies = {"low": [0.0, 0.25, 0.5], "high": [0.65, 0.7, 0.75]}
    groups = {
        name: [made_up_run({"a": value}, seed) for seed, value in enumerate(values)]
        for name, values in accuracies.items()
    }
    found = estimate(Contrast.of("low", "high"), "a", groups, {})
    assert found.low == -1
    assert found.value - (found.high - found.value) < -1
    wider = found.widened(2)
    stricter = t_quantile(0.975, found.freedom) / t_quantile(0.95, found.freedom)
    assert wider.low == -1
    assert wider.high == pytest.approx(found.value + stricter * (found.high - found.value))
    assert found.widened(10).high == 1


def test_seeds_that_do_not_differ_are_not_called_too_few():
    judged = verdict_of("better", "good", "bad", on="train-cpu-seconds")
    assert judged.verdict == "undecided"
    assert "do not differ" in judged.why


def test_a_ratio_of_numbers_that_are_not_positive_is_not_testable():
    groups = {"free": seeds_of(0.8, seconds=0), "dear": seeds_of(0.8, seconds=5)}
    for one, other in (("free", "dear"), ("dear", "free")):
        claim = Claim(
            id="x",
            claim="x",
            test="ratio",
            one=one,
            other=other,
            on="train-seconds",
            between=(0, 2),
        )
        judged = judge(claim, groups)
        assert judged.verdict == "not testable here"
        assert "not positive" in judged.why


def run_with(accuracy, rate, seed=0):
    settings = {"tasks": {"a": {}}, "train": {"seed": seed, "lr": rate}}
    return made_up_run({"a": accuracy}, seed, settings=settings)


def test_a_score_of_zero_is_a_score():
    assert ranked_values([run_with(0.0, 1e-3), run_with(0.5, 1e-4)], "train.lr", "a") == [
        1e-4,
        1e-3,
    ]


def test_runs_of_one_name_may_differ_in_their_seed_only():
    assert differing([run_with(0.5, 1e-3, seed) for seed in range(2)]) == []
    assert differing([run_with(0.5, 1e-3), run_with(0.5, 1e-4, 1)]) == ["train.lr"]
