"""evaluate with several runs: the union of their tasks, averaged where several have one."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from cotrunk.runs.checkpoint import read_arrays


@pytest.fixture(autouse=True)
def cached(several_runs, monkeypatch):
    monkeypatch.setenv("COTRUNK_CACHE", str(several_runs.parent / "cache"))


def test_runs_with_a_task_in_common_answer_with_their_mean(cotrunk, several_runs):
    runs = [several_runs / "shared" / seed for seed in "12"]
    document = cotrunk("evaluate", *runs, "--json").document
    assert document["runs"] == [str(run) for run in runs]
    devs = [read_arrays(run / "best", "dev") for run in runs]

    def mean(task, probability):
        return np.mean([probability(dev[f"{task}.output"].astype(float)) for dev in devs], axis=0)

    mood = (mean("mood", lambda x: softmax(x, axis=1)).argmax(1) == devs[0]["mood.target"]).mean()
    same = ((mean("same", expit)[:, 0] > 0.5) == devs[0]["same.target"]).mean()
    alike = np.corrcoef(mean("alike", lambda x: x)[:, 0], devs[0]["alike.target"])[0, 1]
    found = {task: score["score"] for task, score in document["tasks"].items()}
    assert found == pytest.approx({"mood": mood, "same": same, "alike": alike}, abs=1e-5)
    assert {score["averaged"] for score in document["tasks"].values()} == {2}
    assert document["overall"]["mean"] == pytest.approx((mood + same + alike) / 3, abs=1e-5)


@pytest.mark.slow
def test_a_task_that_one_run_has_is_answered_by_that_run(cotrunk, several_runs):
    apart, pairs = (several_runs / name for name in ("apart", "pairs"))
    document = cotrunk("evaluate", pairs, apart, "--json").document
    assert list(document["tasks"]) == ["same", "alike", "mood"]
    averaged = {task: score["averaged"] for task, score in document["tasks"].items()}
    assert averaged == {"same": 2, "alike": 2, "mood": 1}
    alone = cotrunk("evaluate", apart, "--json").document["tasks"]["mood"]
    assert document["tasks"]["mood"] == alone | {"averaged": 1}
    shown = cotrunk("evaluate", pairs, apart, "--worst", "1", "--task", "same").out
    assert "predictions: the mean of 2 runs\n" in shown
    assert "same: largest errors" in shown
    assert (
        "predictions: the mean of 2 runs, except mood (1 run)\n"
        in cotrunk("evaluate", pairs, apart).out
    )


def test_the_same_run_twice_is_one_run(cotrunk, several_runs):
    run = several_runs / "apart"
    twice = cotrunk("evaluate", run, run, "--json").document
    assert twice == cotrunk("evaluate", run, "--json").document


def test_runs_that_do_not_fit_together_are_refused_in_a_line(cotrunk, several_runs):
    said = cotrunk("evaluate", several_runs / "apart", several_runs / "other", "--json")
    assert (said.code, said.out) == (2, "")
    (line,) = said.err.splitlines()
    assert "cannot be combined for mood" in line
    assert "classes = 0, 1, 2 against 0, 1, 2, 3" in line
    assert "--task" in line
    pairs = cotrunk("evaluate", several_runs / "apart", several_runs / "other", "--task", "same")
    assert pairs.code == 0


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        (["--task", "moood"], "--task moood: must be one of mood, same, alike"),
        (["--int8"], "--int8 compares a run with its own 8-bit layers"),
        (["--split", "test"], "tasks.mood.test, tasks.same.test, tasks.alike.test: not set"),
    ],
)
def test_evaluate_refuses_for_several(cotrunk, several_runs, options, finding):
    said = cotrunk("evaluate", several_runs / "apart", several_runs / "pairs", *options)
    assert (said.code, said.out) == (2, "")
    assert finding in said.err
