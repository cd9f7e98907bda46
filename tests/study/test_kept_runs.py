"""Runs that are kept without their dev rows give the same verdicts as their folders."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up import seeds_of

from cotrunk.kinds.influence import OverRows
from cotrunk.kinds.score import Scores
from cotrunk.study.contrasts import Contrast, estimate
from cotrunk.study.measures import NUMBERS, number_of, score_of
from cotrunk.study.records import RunRecord
from cotrunk.study.statistics.difference import seeds_and_rows
from tools.results.kept import kept_run, packed, record_of, united, unpacked
from tools.results.replicates import influence_of, replicates_of

OUT = Path("study")
DEV = "0123456789abcdef" * 4


def kept_again(*runs: RunRecord) -> list[RunRecord]:
    """Written as JSON, and read."""
    kept = packed([kept_run(run, {}, OUT) for run in runs])
    text = json.dumps(kept, allow_nan=False)
    return [record_of(each, OUT) for each in unpacked(json.loads(text))]


def runs_of(accuracy: float, name: str, seeds: int = 3) -> list[RunRecord]:
    found = seeds_of(accuracy, count=seeds, spread=0.004, history=(0.5, accuracy))
    return [replace(with_dev(run), path=OUT / name / f"seed={run.seed}") for run in found]


def with_dev(run: RunRecord) -> RunRecord:
    return replace(run, tasks={name: replace(task, dev=DEV) for name, task in run.tasks.items()})


def test_the_difference_of_kept_runs_has_the_interval_of_their_rows():
    ones, others = runs_of(0.80, "one"), runs_of(0.77, "other")
    for measure in ("a", "b", "official", "mean"):
        contrast = Contrast.of("one", "other")
        groups = {"one": ones, "other": others}
        exact = estimate(contrast, measure, groups, {})
        again = {"one": kept_again(*ones), "other": kept_again(*others)}
        found = estimate(contrast, measure, again, {})
        assert found.value == pytest.approx(exact.value)
        assert found.high - found.low == pytest.approx(exact.high - exact.low, rel=0.1)
        assert found.seeds == exact.seeds


def correlated(run: RunRecord) -> RunRecord:
    noise = np.random.default_rng([run.seed, 1]).normal(size=(2000, 1))
    target = np.random.default_rng(0).normal(size=2000)
    task = replace(run.tasks["a"], labels=Scores(), target=target, output=target[:, None] + noise)
    score = {"metric": "pearson", "score": float(np.corrcoef(task.output[:, 0], target)[0, 1])}
    return replace(run, tasks={"a": replace(task, score=score)})


def over_rows(runs: list[RunRecord]) -> list[OverRows]:
    tasks = [run.tasks["a"] for run in runs]
    return [task.labels.over_rows(task.output, task.target, counts=None) for task in tasks]


def test_correlations_are_kept_too():
    runs = [correlated(run) for run in runs_of(0.8, "one", seeds=5)]
    again = kept_again(*runs)
    for cut in (1, 2):
        exact = seeds_and_rows(over_rows(runs[:cut]), over_rows(runs[cut:]))
        found = seeds_and_rows(over_rows(again[:cut]), over_rows(again[cut:]))
        assert found.high - found.low == pytest.approx(exact.high - exact.low, rel=0.15)


@pytest.mark.parametrize("rows", [2, 50, 863, 3000])
def test_replicates_vary_as_the_score_does(rows):
    noise = np.random.default_rng(rows).normal(size=rows)
    score = OverRows(0.8, noise - noise.mean(), "unit", rows)
    exact = score.influence @ score.influence / (rows * (rows - 1))
    found = influence_of(replicates_of(score, DEV))
    assert found @ found / (len(found) * (len(found) - 1)) == pytest.approx(exact, rel=0.15)


def test_runs_that_err_on_the_same_rows_have_the_same_replicates():
    noise = np.random.default_rng(1).normal(size=500)
    score = OverRows(0.8, noise - noise.mean(), "unit", 500)
    again = OverRows(0.7, score.influence, "unit", 500)
    assert replicates_of(score, DEV) == replicates_of(again, DEV)
    kept = [
        OverRows(s.value, influence_of(replicates_of(s, DEV)), "unit", 500) for s in (score, again)
    ]
    assert seeds_and_rows(kept[:1], kept[1:]).p < 1e-6  # only rows, and they cause no difference


def test_other_rows_have_other_signs():
    score = OverRows(0.8, np.linspace(-1, 1, 400), "unit", 400)
    one, other = (influence_of(replicates_of(score, dev)) for dev in (DEV, DEV[1:] + "0"))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.15


def test_an_undefined_score_stays_undefined():
    (run,) = runs_of(0.8, "one", seeds=1)
    undefined = replace(run.tasks["a"], score={"metric": "accuracy", "score": None})
    (again,) = kept_again(replace(run, tasks=run.tasks | {"a": undefined}))
    assert np.isnan(score_of(again, "a").value)


def test_kept_runs_have_the_cost_and_the_curves_of_their_folders():
    runs = runs_of(0.8, "one")
    for run, again in zip(runs, kept_again(*runs), strict=True):
        for measure in NUMBERS:
            assert number_of(again, measure) == pytest.approx(number_of(run, measure), nan_ok=True)
        assert (again.path, again.seed, again.settings) == (run.path, run.seed, run.settings)


def test_what_is_kept_does_not_grow_with_the_dev_rows():
    few, many = (seeds_of(0.8, count=1, rows=rows)[0] for rows in (100, 4000))
    sizes = [len(json.dumps(kept_run(with_dev(run), {}, Path()))) for run in (few, many)]
    assert sizes[1] - sizes[0] < 100


def test_a_run_that_was_trained_again_counts_once():
    old = [kept_run(run, {}, OUT) for run in runs_of(0.70, "one")]
    new = [kept_run(run, {}, OUT) for run in runs_of(0.75, "one")[:1]]
    both = united(old, new)
    assert [kept["run"] for kept in both] == [kept["run"] for kept in old]
    assert [kept["overall"]["mean"] > 0.72 for kept in both] == [True, False, False]
