"""Guards of rows, files and sampling: a planted fault is named, a healthy case is silent."""

import numpy as np

from cotrunk.data.batches.samplers import Sampler
from cotrunk.data.batches.sampling import dry_run, epoch_batches, rows_of
from cotrunk.learn import guards


def test_dev_rows_that_are_in_train_are_counted():
    found = guards.train_dev_overlap("sts", shared=2, rows=4)
    assert found.name == "train-dev-overlap"
    assert "2 of 4 rows (50.0%)" in found.finding
    assert guards.train_dev_overlap("sts", shared=0, rows=4) is None


def test_a_task_without_a_batch_in_some_epoch_is_named():
    sizes = {"sst": 8_544, "para": 141_506, "sts": 6_040}
    plans = dry_run(Sampler("proportional", steps_per_epoch=10), sizes, batch=32, seed=1, epochs=4)
    found = {
        finding.finding.split()[1]: finding
        for finding in guards.uneven_sampling(plans)
        if "no batch" in finding.finding
    }
    empty = {task for task in sizes if any(plan["batches"][task] == 0 for plan in plans)}
    assert set(found) == empty
    assert "sts" in empty
    assert all(finding.name == "starved-task" for finding in found.values())
    for task, finding in found.items():
        assert finding.fatal == all(plan["batches"][task] == 0 for plan in plans)


def test_a_sampler_that_serves_all_tasks_starves_none():
    sizes = {"sst": 8_544, "para": 141_506, "sts": 6_040}
    for sampler in ("proportional", "annealed", "sequential"):
        plans = dry_run(Sampler(sampler), sizes, batch=32, seed=1, epochs=2)
        assert guards.uneven_sampling(plans) == []
    assert guards.uneven_sampling([]) == []


def test_passes_count_how_often_an_epoch_sees_each_row():
    sizes = {"small": 70, "large": 640}
    sampler = Sampler("together", steps_per_epoch=30)
    (plan,) = dry_run(sampler, sizes, batch=32, seed=1, epochs=1)
    seen = {task: np.zeros(size) for task, size in sizes.items()}
    for step in epoch_batches(sampler, sizes, batch=32, seed=1, epoch=0, epochs=1):
        for spec in step:
            seen[spec.task][rows_of(spec, sizes[spec.task], seed=1, epoch=0)] += 1
    assert {task: count.mean() for task, count in seen.items()} == plan["passes"]


def test_a_task_that_is_repeated_or_hardly_seen_is_named_with_the_setting():
    sizes = {"small": 100, "large": 100_000}
    plans = dry_run(Sampler("together"), sizes, batch=32, seed=1, epochs=1)
    (often,) = guards.uneven_sampling(plans)
    assert (often.name, often.place, often.fatal) == ("repeated-task", "train.sampling", False)
    assert "task small" in often.finding
    assert "tasks.small.batch" in often.fix
    short = dry_run(Sampler("together", steps_per_epoch=400), sizes, batch=32, seed=1, epochs=2)
    starved = {finding.name: finding for finding in guards.uneven_sampling(short)}["starved-task"]
    assert "task large: an epoch sees 13% of its rows, the whole run 24%" in starved.finding
    assert not starved.fatal


def test_many_short_epochs_that_see_all_rows_are_fine():
    sizes = {"all": 3200}
    for epochs, finds in ((1, True), (5, True), (20, False)):
        sampler = Sampler("together", steps_per_epoch=30)
        plans = dry_run(sampler, sizes, batch=32, seed=1, epochs=epochs)
        assert bool(guards.uneven_sampling(plans)) is finds


def test_a_task_without_a_batch_before_training_stops_is_named():
    sizes = {"sst": 64, "para": 64}
    plans = dry_run(Sampler("together"), sizes, batch=32, seed=1, epochs=1)
    found = guards.cut_short([*sizes, "sts"], plans, ended=sizes, steps=2, whole=400)
    assert [finding.name for finding in found] == ["starved-task"]
    assert "task sts has no batch in the first 2 of 400 steps" in str(found[0])
    assert not found[0].fatal
    assert guards.cut_short(sizes, plans, ended=sizes, steps=2, whole=400) == []


def test_selection_by_test_rows_is_an_error_and_by_train_rows_a_warning():
    assert guards.selected_by_test("sst", {"train": "a", "dev": "b", "test": "c"}) == []
    assert guards.selected_by_test("sst", {"train": "a"}) == []
    (same,) = guards.selected_by_test("sst", {"train": "a", "dev": "c", "test": "c"})
    assert (same.name, same.place, same.fatal) == ("test-for-selection", "tasks.sst.test", True)
    (heart,) = guards.selected_by_test("sst", {"train": "a", "dev": "a", "test": "c"})
    assert (heart.place, heart.fatal) == ("tasks.sst.dev", False)
