"""How often intervals hold the truth and tests reject, over many simulated networks."""

import numpy as np
import pytest

from cotrunk.kinds.intervals import interval
from cotrunk.study.statistics.difference import mean_over_seeds, paired, seeds_and_rows
from cotrunk.study.statistics.variance import of_seeds
from study.simulated import CORRELATIONS, SCORED, World

TRIALS = 1000
NAMED = ["accuracy", "f1", "pearson"]
pytestmark = pytest.mark.slow


def share(happens, world, *, trials=TRIALS):
    """How often ``happens(ones, others)``."""
    random = np.random.default_rng(1)
    return np.mean([happens(*world.drawn(random)) for _ in range(trials)])


def holds(found, truth):
    return found.low <= truth <= found.high


def held_and_rejected(world):
    """How often the interval of a network holds the truth, and two equal ones differ."""
    truth, random = world.truth(), np.random.default_rng(1)
    held, rejected = [], []
    for _ in range(TRIALS):
        (one,), (other,) = world.drawn(random)
        low, high = interval(one)
        held.append(low <= truth <= high)
        rejected.append(paired(one, other).p < 0.05)
    return np.mean(held), np.mean(rejected)


@pytest.mark.parametrize("metric", SCORED)
def test_intervals_hold_the_truth_and_equal_networks_seldom_differ(metric):
    held, rejected = held_and_rejected(World(metric, seeds=1))
    assert 0.93 <= held <= 0.97
    assert 0.03 <= rejected <= 0.07


@pytest.mark.parametrize(("rows", "tails"), [(100, 0.25), (100, 0.4), (863, 0.4)])
@pytest.mark.parametrize("metric", CORRELATIONS)
def test_correlations_are_held_on_few_rows_and_with_heavy_tails(metric, rows, tails):
    held, rejected = held_and_rejected(World(metric, rows=rows, seeds=1, tails=tails))
    assert 0.93 <= held <= 0.97
    assert rejected <= 0.07
    assert rejected >= 0.03 or rows == 100  # with few rows the test is cautious


@pytest.mark.parametrize("metric", NAMED)
def test_the_interval_of_a_difference_holds_it(metric):
    world = World(metric, seeds=1, skills=(1.3, 1.0))
    truth = world.truth(1.3) - world.truth(1.0)
    assert 0.93 <= share(lambda a, b: holds(paired(a[0], b[0]), truth), world) <= 0.97


@pytest.mark.parametrize("seed_noise", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("metric", NAMED)
def test_equal_plans_seldom_differ_whatever_the_noise_of_seeds(metric, seed_noise):
    """A standard deviation between seeds of 0.4, 2 and 8 points of accuracy."""
    world = World(metric, seed_noise=seed_noise)
    assert 0.03 <= share(lambda a, b: seeds_and_rows(a, b).p < 0.05, world) <= 0.07


@pytest.mark.parametrize("seed_noise", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("metric", NAMED)
def test_two_seeds_of_equal_plans_seldom_differ_from_two_or_from_one(metric, seed_noise):
    world = World(metric, seeds=2, seed_noise=seed_noise)
    two = share(lambda a, b: seeds_and_rows(a, b).p < 0.05, world, trials=2 * TRIALS)
    one = share(lambda a, b: seeds_and_rows(a, b[:1]).p < 0.05, world, trials=2 * TRIALS)
    assert 0.03 <= two <= 0.07
    assert 0.03 <= one <= 0.08


@pytest.mark.parametrize("metric", ["macro-f1", "mcc", "entity-f1"])
def test_other_metrics_of_equal_plans_seldom_differ(metric):
    world = World(metric, seed_noise=0.1)
    assert 0.03 <= share(lambda a, b: seeds_and_rows(a, b).p < 0.05, world) <= 0.07


def test_rows_alone_take_the_luck_of_a_seed_for_a_difference():
    """Which is why plans are judged by several seeds."""
    world = World("accuracy", seed_noise=0.2)
    assert share(lambda a, b: paired(a[0], b[0]).p < 0.05, world, trials=500) > 0.15


def test_seeds_alone_take_the_luck_of_the_rows_for_a_difference():
    """Welch's test of the scores, as if each had been measured on all rows there are."""

    def rejects(ones, others):
        seeds = of_seeds(*([run.value for run in side] for side in (ones, others)))
        return seeds.p(mean_over_seeds(ones).mean - mean_over_seeds(others).mean) < 0.05

    assert share(rejects, World("accuracy", seed_noise=0.01), trials=500) > 0.1


@pytest.mark.parametrize("metric", NAMED)
def test_the_mean_over_seeds_is_held_by_its_interval(metric):
    world = World(metric, seed_noise=0.05)
    truth = np.mean([world.truth(skill) for skill in (0.95, 1.05)])
    assert 0.93 <= share(lambda a, _: holds(mean_over_seeds(a), truth), world) <= 0.97


def score_of_plan(world):
    """The score on all rows there are, on average over all seeds there are."""
    skills, weights = np.polynomial.hermite_e.hermegauss(5)
    truths = [world.truth(1 + world.seed_noise * skill) for skill in skills]
    return np.average(truths, weights=weights)


@pytest.mark.parametrize("seed_noise", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("metric", NAMED)
def test_the_mean_over_few_seeds_is_held_whatever_their_noise(metric, seeds, seed_noise):
    """Two seeds that differ a lot tell so little that the interval is at times too short."""
    world = World(metric, seeds=seeds, seed_noise=seed_noise)
    truth = score_of_plan(world)
    held = share(lambda a, _: holds(mean_over_seeds(a), truth), world, trials=2 * TRIALS)
    assert (0.91 if seeds == 2 else 0.93) <= held <= 0.975


def test_the_mean_over_seeds_of_a_heavy_tailed_correlation_is_held_too():
    world = World("pearson", seed_noise=0.05, tails=0.4)
    truth = np.mean([world.truth(skill) for skill in (0.95, 1.05)])
    assert 0.93 <= share(lambda a, _: holds(mean_over_seeds(a), truth), world) <= 0.97


@pytest.mark.parametrize("metric", NAMED)
def test_a_clear_difference_is_found(metric):
    """1,000 rows; accuracies of .79 and .88."""
    world = World(metric, rows=1000, seed_noise=0.05, skills=(1.5, 1.0))
    assert share(lambda a, b: seeds_and_rows(a, b).p < 0.05, world, trials=200) > 0.9
    assert share(lambda a, b: paired(a[0], b[0]).p < 0.05, world, trials=200) > 0.9
