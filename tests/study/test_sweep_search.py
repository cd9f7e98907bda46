"""What is tried next and what is stopped: against Optuna and Ray Tune, and as pure functions."""

import math

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotrunk.study.sweep.asha import Asha, is_stopped, values_of
from cotrunk.study.sweep.axes import Interval, Listed, Point, Simplex, label_of
from cotrunk.study.sweep.search import Observed, random_points, tpe_point

optuna.logging.set_verbosity(optuna.logging.WARNING)
SHARE = st.floats(0, 1, exclude_max=True)


@given(SHARE, st.booleans())
def test_an_interval_finds_its_own_points_again(share, log):
    axis = Interval("train.lr", 1e-5, 1e-1, log=log)
    point = axis.at([share])
    assert 1e-5 <= point.choices["train.lr"] <= 1e-1
    assert axis.at(axis.coordinates(point.choices)).choices == point.choices


@given(st.lists(SHARE, min_size=1, max_size=4))
def test_a_simplex_finds_its_own_points_again(shares):
    axis = Simplex("w", tuple(f"tasks.t{n}.weight" for n in range(len(shares) + 1)), total=2.0)
    values = list(axis.at(shares).choices.values())
    assert min(values) >= 0
    assert sum(values) == pytest.approx(2.0)
    again = axis.at(axis.coordinates(axis.at(shares).choices)).choices.values()
    assert list(again) == pytest.approx(values, abs=1e-5)


def test_points_of_a_simplex_are_spread_evenly():
    """Each coordinate of a uniform simplex of three has mean 1/3 and variance 1/18."""
    axis = Simplex("w", ("a", "b", "c"))
    uniform = np.random.default_rng(0).random((4000, 2))
    values = np.array([list(axis.at(row).choices.values()) for row in uniform])
    np.testing.assert_allclose(values.mean(0), 1 / 3, atol=0.01)
    np.testing.assert_allclose(values.var(0), 1 / 18, atol=0.005)


@pytest.mark.slow
def test_log_uniform_numbers_are_uniform_in_their_logarithm():
    drawn = [p.choices["x"] for p in Interval("x", 1e-7, 1e-1, log=True, samples=3000).grid()]
    counts, _ = np.histogram(np.log10(drawn), bins=6, range=(-7, -1))
    assert counts.min() > 400


def listed(name, *values):
    points = [Point({name: value}, {name: value}, f"{name}={value}") for value in values]
    return Listed(name, (name,), tuple(points))


AXES = (Interval("lr", 1e-5, 1e-1, log=True), listed("plan", "S2", "I2", "S1 I1"))


def goodness(choices):
    return -abs(math.log10(choices["lr"]) + 3) - (choices["plan"] != "I2")


@pytest.mark.slow
def test_tpe_suggests_what_optuna_suggests_in_one_study():
    """The same results in one Optuna study with the same seed lead to the same point."""
    observed = [Observed(p.choices, goodness(p.choices)) for p in random_points(AXES, 15)]
    mine = tpe_point(AXES, 15, observed, ())
    assert mine is not None
    assert mine.choices == tpe_point(AXES, 15, observed, ()).choices

    def objective(trial):
        rate = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
        plan = trial.suggest_categorical("plan", ["S2", "I2", "S1 I1"])
        return goodness({"lr": rate, "plan": plan})

    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=0, n_startup_trials=10)
    )
    study.optimize(objective, n_trials=40)
    found: list[Observed] = []
    for number in range(40):
        point = tpe_point(AXES, number, found, ())
        found.append(Observed(point.choices, goodness(point.choices)))
    assert max(one.value for one in found) > study.best_value - 0.3


def test_tpe_does_not_repeat_points_and_ends_when_all_are_tried():
    """Points that are still running count as taken, too."""
    axes, observed, taken = (listed("a", 1, 2), listed("b", 1, 2, 3)), [], []
    for number in range(6):
        point = tpe_point(axes, number, observed, taken)
        assert point.choices not in taken
        taken.append(point.choices)
        observed = [Observed(one, None if n == 2 else float(n)) for n, one in enumerate(taken[:-1])]
    assert tpe_point(axes, 6, observed, taken) is None


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.floats(0, 1), min_size=8, max_size=8), min_size=1, max_size=12),
    st.integers(2, 4),
    st.integers(1, 2),
)
def test_trials_one_after_another_are_stopped_as_by_ray_tune(curves, reduction, grace):
    from ray.tune.schedulers.async_hyperband import _Bracket

    bracket = _Bracket(grace, 9, reduction, 0)
    asha, kept = Asha(grace, reduction), []
    for number, curve in enumerate(curves):
        for evaluations, value in enumerate(curve, start=1):
            theirs = _decision(bracket, str(number), evaluations, value)
            before = [c[evaluations - 1] for c in kept if len(c) >= evaluations]
            ours = asha.is_rung(evaluations) and is_stopped(value, before, reduction)
            assert theirs == ours
            if ours:
                kept.append(curve[:evaluations])
                break
        else:
            kept.append(curve)


def _decision(bracket, name, evaluations, value):
    class Trial:
        trial_id = name

    return bracket.on_result(Trial(), evaluations, value) == "STOP"


def test_an_undefined_score_is_the_worst():
    assert is_stopped(math.nan, [0.1], 3)
    assert not is_stopped(0.0, [math.nan, math.nan], 3)
    assert not is_stopped(math.nan, [], 3)


def test_the_objective_is_read_from_metrics_as_they_are_written():
    lines = [
        {"event": "step", "step": 1},
        {"event": "dev", "official": 0.5, "scores": {"mood": {"score": None}}},
        {"event": "dev", "official": None, "scores": {"mood": {"score": 0.25}}},
    ]
    assert values_of(lines, "official")[0] == 0.5
    assert math.isnan(values_of(lines, "official")[1])
    assert values_of(lines, "mood")[1] == 0.25


@pytest.mark.parametrize(
    "value", ["S3 (para+sts)2 I", 1e-5, -0.5, [1, "a b"], {"x": {"y": 2}}, "ä" * 90]
)
def test_labels_are_short_and_safe(value):
    label = label_of(value)
    assert 0 < len(label) <= 40
    assert label.isascii()
    assert not set(label) & set(" /\\:*?\"<>|()'")
