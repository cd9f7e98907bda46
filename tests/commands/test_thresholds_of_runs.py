"""A threshold that is chosen on dev is stored with the network and used by every command."""

import json

import numpy as np
import pytest
from sklearn.metrics import f1_score

import cotrunk as package
from cotrunk.kinds.threshold import best_for_f1
from cotrunk.runs.checkpoint import read_arrays
from toy import contents, cut, train

CHOSEN = 'tasks.same.threshold="dev-f1"'
RARE = "tasks.same.class_weights=[6.0, 1.0]"  # so that 0.5 is not the best
SETTINGS = [CHOSEN, RARE, "train.checkpoint=2"]


def saved_threshold(place):
    return json.loads((place / "settings.json").read_text())["tasks"]["same"]["threshold"]


@pytest.fixture
def run(toy, cotrunk):
    assert cotrunk("train", toy, "--out", "run", "--set", *SETTINGS).code == 0
    return toy.parent / "run"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_was_chosen_is_stored_and_used_everywhere(cotrunk, run, toy):
    dev = read_arrays(run / "best", "dev")
    output, gold = dev["same.output"], dev["same.target"]
    best = best_for_f1(output[:, 0], gold)
    assert best != 0.5
    assert saved_threshold(run / "best") == best
    assert (
        json.loads((run / "run.json").read_text())["settings"]["tasks"]["same"]["threshold"]
        == "dev-f1"
    )
    predicted = output[:, 0] > np.log(best / (1 - best))
    told = cotrunk("info", run, "--json").document["scores"]["same"]
    again = cotrunk("evaluate", run, "--json").document["tasks"]["same"]
    for found in (told, again):
        assert found["thresholds"] == {"1": best}
        assert found["more"]["f1"] == pytest.approx(f1_score(gold, predicted))
        assert found["more"]["accuracy"] == pytest.approx((predicted == gold).mean())
    for command in ("info", "evaluate"):
        assert f"same: 1 is given above a probability of {best:.3g}" in cotrunk(command, run).out
    rows = cotrunk("predict", run, toy.parent / "pair-dev.csv", "--task", "same", "--json").document
    assert [row["same"]["prediction"] for row in rows["rows"]] == predicted.tolist()
    lines = (toy.parent / "pair-dev.csv").read_text().splitlines()[1:]
    answers = package.load(run).predict("same", [tuple(line.split(",")[1:3]) for line in lines])
    assert [answer.prediction for answer in answers] == predicted.tolist()
    (compared,) = cotrunk("compare", run, "--json").document["groups"]
    assert compared["mean"]["same"] == pytest.approx(told["score"])


@pytest.mark.slow
def test_a_resumed_run_chooses_the_same_threshold(toy, tmp_path):
    settings = [*SETTINGS, "train.keep_each=true"]
    assert train(toy, tmp_path / "whole", "--set", *settings) == 0
    cut(toy, tmp_path / "cut", settings, after=5)
    assert train(toy, tmp_path / "cut", "--resume", "--set", *settings) == 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    for name in ("best", "final", "best-same"):
        one, other = (saved_threshold(tmp_path / run / name) for run in ("cut", "whole"))
        assert isinstance(one, float)
        assert one == other


@pytest.mark.slow
def test_a_finished_run_that_is_resumed_keeps_its_threshold(run, toy):
    before = saved_threshold(run / "final")
    assert isinstance(before, float)
    assert train(toy, run, "--resume", "--set", *SETTINGS) == 0
    assert saved_threshold(run / "final") == before


@pytest.mark.slow
def test_several_runs_decide_at_their_mean_threshold(cotrunk, run, toy):
    settings = ["tasks.same.threshold=0.3", RARE, "train.max_steps=2"]
    assert cotrunk("train", toy, "--out", "other", "--set", *settings).code == 0
    document = cotrunk("evaluate", run, "other", "--task", "same", "--json").document
    mean = (saved_threshold(run / "best") + 0.3) / 2
    assert document["tasks"]["same"]["thresholds"] == pytest.approx({"1": mean})


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        (["tasks.same.threshold=1.5"], "tasks.same.threshold = 1.5: must lie between 0 and 1"),
        (['tasks.same.threshold="dev"'], "tasks.same.threshold = 'dev'"),
        (["tasks.mood.threshold=0.4"], "tasks.mood.threshold: kind classes has no threshold"),
        (
            [CHOSEN, "train.evaluate=never"],
            "tasks.same.threshold = 'dev-f1' needs evaluations, but train.evaluate = \"never\"",
        ),
    ],
)
def test_a_threshold_that_cannot_be_is_refused(cotrunk, toy, changes, finding):
    said = cotrunk("train", toy, "--out", "run", "--set", *changes)
    assert (said.code, said.out) == (2, "")
    assert finding in said.err
    assert not (toy.parent / "run").exists()
