import hashlib
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from cotrunk.data.batches.samplers import ALL_TASKS_PER_STEP, DRAWN, SAMPLERS, Sampler
from cotrunk.data.batches.sampling import (
    BatchSpec,
    dry_run,
    epoch_batches,
    probabilities,
    rows_of,
)
from cotrunk.errors import UserError

COURSE = {"sst": 8544, "para": 141506, "sts": 6040}
TOY = {"a": 10, "b": 33, "c": 7}
ONE_TASK_PER_STEP = sorted(set(SAMPLERS) - ALL_TASKS_PER_STEP)


def specs(sampler, sizes=TOY, *, batch=4, seed=0, epoch=0, epochs=3):
    return epoch_batches(sampler, sizes, batch=batch, seed=seed, epoch=epoch, epochs=epochs)


def counts(steps):
    return Counter(spec.task for step in steps for spec in step)


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (Sampler("proportional"), (0.0547, 0.9066, 0.0387)),
        (Sampler("sqrt"), (0.169, 0.689, 0.142)),
        (Sampler("power", alpha=0.2), (0.271, 0.476, 0.253)),
        (Sampler("power", alpha=0.0), (1 / 3, 1 / 3, 1 / 3)),
        (Sampler("temperature", temperature=5.0), (0.271, 0.476, 0.253)),
        (Sampler("temperature", cap=8544), (0.3697, 0.3697, 0.2613)),
    ],
)
def test_probabilities_of_the_course_sizes(sampler, expected):
    found = probabilities(sampler, COURSE, epoch=0, epochs=10)
    assert list(found) == list(COURSE)
    assert list(found.values()) == pytest.approx(expected, abs=5e-4)


def test_annealed_goes_from_proportional_to_the_power_of_a_fifth():
    alphas = [1, 0.9111, 0.8222, 0.7333, 0.6444, 0.5556, 0.4667, 0.3778, 0.2889, 0.2]
    for epoch, alpha in enumerate(alphas):
        found = probabilities(Sampler("annealed"), COURSE, epoch=epoch, epochs=10)
        same = probabilities(Sampler("power", alpha=alpha), COURSE, epoch=0, epochs=1)
        assert found == pytest.approx(same, abs=1e-4)


def test_annealed_with_one_epoch_is_proportional():
    found = probabilities(Sampler("annealed"), COURSE, epoch=0, epochs=1)
    assert found == probabilities(Sampler("proportional"), COURSE, epoch=0, epochs=1)


@pytest.mark.parametrize("name", SAMPLERS)
def test_probabilities_sum_to_one(name):
    assert sum(probabilities(Sampler(name), COURSE, epoch=1, epochs=3).values()) == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(DRAWN))
def test_drawn_counts_are_within_three_sigma_over_100_000_draws(name):
    sampler = Sampler(name, steps_per_epoch=100_000)
    drawn = counts(specs(sampler, COURSE, batch=32, seed=11711, epoch=1))
    for task, p in probabilities(sampler, COURSE, epoch=1, epochs=3).items():
        assert abs(drawn[task] - 100_000 * p) < 3 * np.sqrt(100_000 * p * (1 - p))


def test_scaled_has_the_batches_and_factors_of_method_1():
    steps = specs(Sampler("scaled"), COURSE, batch=32)
    assert len(steps) == 4423
    assert [spec.rows for spec in steps[0]] == [2, 32, 2]
    assert [spec.factor for spec in steps[0]] == [17, 0.125, 17]


def test_scaled_leaves_the_loss_of_a_single_task_alone():
    steps = specs(Sampler("scaled"), {"a": 10}, batch=4)
    assert {spec.factor for step in steps for spec in step} == {1.0}


def test_largest_and_smallest_end_with_their_task():
    assert len(specs(Sampler("largest"), COURSE, batch=32)) == 4423
    assert len(specs(Sampler("smallest"), COURSE, batch=32)) == 189


def test_together_shows_about_as_many_rows_as_the_data_hold():
    steps = specs(Sampler("together"), COURSE, batch=32)
    assert len(steps) == -(-(267 + 4423 + 189) // 3)
    assert len(steps) * 96 == pytest.approx(sum(COURSE.values()), rel=0.001)


def test_sequential_is_one_pass_over_each_task_in_the_given_order():
    assert [spec.task for (spec,) in specs(Sampler("sequential"))] == ["a"] * 3 + ["b"] * 9 + [
        "c"
    ] * 2


def test_round_robin_advances_at_every_step_and_over_epochs():
    sampler = Sampler("round-robin", steps_per_epoch=4)
    order = [spec.task for epoch in range(3) for (spec,) in specs(sampler, epoch=epoch)]
    assert order == list("abc") * 4


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_step_has_all_tasks_or_one_as_the_law_says(name):
    expected = 3 if name in ALL_TASKS_PER_STEP else 1
    assert {len(step) for step in specs(Sampler(name))} == {expected}


@pytest.mark.parametrize("name", ONE_TASK_PER_STEP)
def test_an_epoch_of_one_task_per_step_is_the_number_of_batches(name):
    assert len(specs(Sampler(name))) == 3 + 9 + 2


@pytest.mark.parametrize("name", sorted(set(SAMPLERS) - {"sequential"}))
def test_steps_per_epoch_are_steps(name):
    assert len(specs(Sampler(name, steps_per_epoch=50))) == 50


@pytest.mark.parametrize("name", sorted({*ALL_TASKS_PER_STEP, "sequential", "round-robin"}))
def test_batches_per_epoch_are_batches_of_every_task(name):
    assert counts(specs(Sampler(name, batches_per_epoch=50))) == {"a": 50, "b": 50, "c": 50}


def test_batches_per_epoch_of_a_drawn_law_are_a_mean_over_the_tasks():
    assert len(specs(Sampler("sqrt", batches_per_epoch=50))) == 150


def test_half_of_the_data_is_half_of_the_epoch():
    sampler = Sampler("proportional", share_of_data=0.5)
    assert len(specs(sampler, COURSE, batch=40)) == 1952
    assert counts(specs(Sampler("sequential", share_of_data=0.5))) == {"a": 2, "b": 5, "c": 1}
    assert len(specs(Sampler("round-robin", share_of_data=0.07), {"a": 100}, batch=1)) == 7


@pytest.mark.parametrize("name", SAMPLERS)
def test_turns_are_a_function_of_seed_and_epoch(name):
    assert specs(Sampler(name), seed=3, epoch=1) == specs(Sampler(name), seed=3, epoch=1)


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_another_seed_or_epoch_draws_another_order(name):
    sampler = Sampler(name, steps_per_epoch=100)
    first = specs(sampler, seed=3, epoch=1)
    assert specs(sampler, seed=4, epoch=1) != first
    assert specs(sampler, seed=3, epoch=2) != first


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_batches_of_a_task_are_numbered_from_zero(name):
    for task in TOY:
        indexes = [t.index for step in specs(Sampler(name)) for t in step if t.task == task]
        assert indexes == list(range(len(indexes)))


@pytest.mark.parametrize("name", SAMPLERS)
def test_one_task_works(name):
    steps = specs(Sampler(name), {"only": 10})
    assert counts(steps) == {"only": 3}


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_pass_shows_every_row_once(name):
    sampler = Sampler(name) if name == "sequential" else Sampler(name, steps_per_epoch=60)
    for task, size in TOY.items():
        mine = [t for step in specs(sampler) for t in step if t.task == task]
        per_pass = -(-size // mine[0].rows)
        for start in range(0, len(mine) - per_pass + 1, per_pass):
            rows = [rows_of(t, size, seed=0, epoch=0) for t in mine[start : start + per_pass]]
            assert sorted(np.concatenate(rows)) == list(range(size))


def test_every_pass_epoch_task_and_seed_has_its_own_order():
    def order(*, task="a", passes=0, seed=0, epoch=0):
        return tuple(rows_of(BatchSpec(task, passes, 50), 50, seed=seed, epoch=epoch).tolist())

    orders = {order(), order(task="b"), order(passes=1), order(seed=1), order(epoch=1)}
    assert len(orders) == 5


def test_the_last_batch_of_a_pass_may_be_short_and_a_large_one_is_the_whole_task():
    assert len(rows_of(BatchSpec("a", 2, 4), 10, seed=0, epoch=0)) == 2
    assert len(rows_of(BatchSpec("a", 5, 64), 10, seed=0, epoch=0)) == 10
    assert rows_of(BatchSpec("a", 5, 64), 1, seed=0, epoch=0).tolist() == [0]


def test_changing_a_batch_does_not_change_the_order():
    spec = BatchSpec("a", 0, 4)
    rows = rows_of(spec, 10, seed=0, epoch=0)
    before = rows.tolist()
    rows[:] = 0
    assert rows_of(spec, 10, seed=0, epoch=0).tolist() == before


@pytest.mark.slow
def test_another_process_draws_the_same():
    script = (
        "from cotrunk.data.batches.sampling import *\n"
        "sampler, sizes = Sampler('sqrt'), {'a': 10, 'b': 33}\n"
        "steps = epoch_batches(sampler, sizes, batch=4, seed=1, epoch=0, epochs=1)\n"
        "print([(b.task, rows_of(b, 10, seed=1, epoch=0).tolist()) for (b,) in steps])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": salt, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for salt in ("1", "2")
    }
    assert len(found) == 1


def test_each_task_may_have_its_own_batch_size():
    steps = specs(Sampler("together"), batch={"a": 1, "b": 2, "c": 3})
    assert [spec.rows for spec in steps[0]] == [1, 2, 3]
    assert len(steps) == -(-(10 + 17 + 3) // 3)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_dry_run_counts_what_the_run_will_see(name):
    plans = dry_run(Sampler(name), TOY, batch=4, seed=5, epochs=3)
    assert [plan["epoch"] for plan in plans] == [0, 1, 2]
    for plan in plans:
        drawn = counts(specs(Sampler(name), seed=5, epoch=plan["epoch"]))
        assert plan["batches"] == {task: drawn[task] for task in TOY}
        assert list(plan["probabilities"]) == list(TOY)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_dry_run_says_the_rows_and_the_loss_factor_of_every_task(name):
    batch = {"a": 1, "b": 4, "c": 3}
    for plan in dry_run(Sampler(name), TOY, batch=batch, seed=5, epochs=2):
        assert list(plan["rows"]) == list(plan["factors"]) == list(TOY)
        for step in specs(Sampler(name), batch=batch, seed=5, epoch=plan["epoch"], epochs=2):
            for spec in step:
                assert spec.rows == plan["rows"][spec.task]
                assert spec.factor == plan["factors"][spec.task]


def test_a_dry_run_of_scaled_says_the_figures_of_method_1():
    (plan,) = dry_run(Sampler("scaled"), COURSE, batch=32, seed=0, epochs=1)
    assert plan["batches"] == dict.fromkeys(COURSE, 4423)
    assert plan["rows"] == {"sst": 2, "para": 32, "sts": 2}
    assert plan["factors"] == {"sst": 17, "para": 0.125, "sts": 17}


def test_an_unknown_law_lists_the_known_ones():
    with pytest.raises(UserError, match="'anealed' is not one of together, largest") as error:
        Sampler("anealed")
    assert all(name in str(error.value) for name in SAMPLERS)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "power", "alpha": 1.1}, r"alpha = 1.1: must be in \[0, 1\]"),
        ({"name": "power", "alpha": -0.1}, r"alpha = -0.1: must be in \[0, 1\]"),
        ({"name": "power", "alpha": float("nan")}, "alpha = nan"),
        (
            {"name": "sqrt", "alpha": 0.7},
            r'^alpha = 0.7: only used if sampling = "power", but sampling is "sqrt"',
        ),
        ({"name": "sqrt", "cap": 10}, '^cap = 10: only used if sampling = "temperature"'),
        ({"name": "temperature", "temperature": 0.5}, "temperature = 0.5: must be 1 or more"),
        ({"name": "temperature", "cap": 0}, "cap = 0: must be 1 or more"),
        ({"name": "together", "steps_per_epoch": 0}, "steps_per_epoch = 0"),
        ({"name": "together", "batches_per_epoch": -1}, "batches_per_epoch = -1"),
        ({"name": "together", "share_of_data": 0.0}, r"share_of_data = 0.0: must be in \(0, 1\]"),
        ({"name": "together", "share_of_data": 1.5}, r"share_of_data = 1.5: must be in \(0, 1\]"),
        ({"name": "sequential", "steps_per_epoch": 9}, "set batches_per_epoch"),
        ({"name": "sqrt", "steps_per_epoch": 9, "share_of_data": 0.5}, "keep only one"),
    ],
)
def test_a_wrong_law_is_refused(wrong, message):
    with pytest.raises(UserError, match=message):
        Sampler(**wrong)


def test_everything_wrong_with_a_law_is_said_at_once():
    with pytest.raises(UserError) as error:
        Sampler("power", alpha=2.0, share_of_data=3.0)
    assert len(error.value.lines) == 2


@pytest.mark.parametrize(
    ("sizes", "batch", "message"),
    [
        ({}, 4, "no tasks"),
        ({"a": 0}, 4, "task 'a' has 0 rows"),
        ({"a": 3}, 0, "task 'a' has batch = 0"),
        ({"a": 3, "b": 3}, {"a": 1}, "task 'b' has no batch size"),
    ],
)
def test_impossible_sizes_are_refused(sizes, batch, message):
    with pytest.raises(UserError, match=message):
        specs(Sampler("together"), sizes, batch=batch)


def test_an_epoch_past_the_last_is_refused():
    with pytest.raises(UserError, match=r"epoch 3 is not one of 0\.\.2"):
        specs(Sampler("annealed"), epoch=3, epochs=3)


@pytest.mark.parametrize("name", SAMPLERS)
def test_turns_can_be_asked_for_one_by_one_from_either_end(name):
    steps = specs(Sampler(name))
    listed = list(steps)
    assert [steps[at] for at in range(-len(listed), len(listed))] == listed * 2
    with pytest.raises(IndexError):
        steps[len(listed)]
    assert steps.counts() == counts(listed)


def test_the_order_of_rows_is_that_of_a_permutation():
    key = int.from_bytes(hashlib.blake2b(b"rows of a", digest_size=8).digest(), "big")
    expected = np.random.default_rng([key, 3, 1, 2]).permutation(1000)
    found = rows_of(BatchSpec("a", 2, 1000), 1000, seed=3, epoch=1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_a_task_with_a_share_gets_it_and_the_others_divide_the_rest(name):
    plain = probabilities(Sampler(name), TOY, epoch=1, epochs=3)
    found = probabilities(Sampler(name, shares=(("b", 0.1),)), TOY, epoch=1, epochs=3)
    assert list(found) == list(TOY)
    assert found["b"] == pytest.approx(0.1)
    assert found["a"] + found["c"] == pytest.approx(0.9)
    assert found["a"] / found["c"] == pytest.approx(plain["a"] / plain["c"])


def test_shares_of_all_tasks_are_the_probabilities():
    shares = {"a": 0.2, "b": 0.3, "c": 0.5}
    found = probabilities(Sampler("sqrt", shares=tuple(shares.items())), TOY, epoch=0, epochs=1)
    assert found == pytest.approx(shares)


def test_batches_are_drawn_with_the_share_of_their_task():
    sampler = Sampler("proportional", steps_per_epoch=20_000, shares=(("c", 0.4),))
    assert counts(specs(sampler))["c"] == pytest.approx(8000, abs=300)
