"""Scores of any size: heads learn them in units, and the network outputs labels."""

import json
from pathlib import Path

import numpy as np
import pytest

import cotrunk
from cotrunk.kinds import KINDS
from cotrunk.kinds.score import Scores
from toy import contents, cut, prepared, train, write_rows

PRICES = np.array([80_000.0, 120_000.0, 520_000.0])


def test_the_unit_of_a_score_without_a_range_is_that_of_its_train_labels():
    kind = Scores().scaled_to(PRICES)
    assert kind.output_unit == pytest.approx((PRICES.mean(), PRICES.std()))
    assert kind.scaled_to(PRICES + 1).output_unit == kind.output_unit  # as a saved run recorded it
    assert Scores().output_unit == (0.0, 1.0)  # of a run that recorded none


@pytest.mark.parametrize(
    ("span", "unit"), [((0.0, 5.0), 1.0), ((0.0, 1.0), 1.0), ((1.0, 11.0), 2.0), ((-9e5, 1e5), 2e5)]
)
def test_a_wide_range_is_learned_in_fifths(span, unit):
    assert Scores(range=span).output_unit == (0.0, 1.0)  # of a run that recorded none
    kind = Scores(range=span).with_unit_of(None).scaled_to(PRICES)
    assert kind.output_unit == (0.0, unit)
    assert kind.initial_bias() * unit == pytest.approx(sum(span) / 2)


@pytest.mark.parametrize("span", [None, (0.0, 5.0), (0.0, 1000.0)])
@pytest.mark.parametrize("source", [Scores(), Scores(label_unit=(7.0, 3.0)), Scores(range=(0, 9))])
def test_a_head_that_starts_from_a_trained_one_keeps_its_unit(span, source):
    found = Scores(range=span).with_unit_of(source).scaled_to(PRICES)
    assert found.output_unit == source.output_unit


def test_other_kinds_output_what_their_heads_do():
    assert {KINDS[name]().output_unit for name in ("binary", "mlm")} == {(0.0, 1.0)}


@pytest.fixture
def prices(toy: Path) -> Path:
    """The labels of the task ``alike`` as prices: 100,000 and more."""
    for split in ("train", "dev"):
        path = toy.parent / f"pair-{split}.csv"
        header, *rows = path.read_text(encoding="utf-8").splitlines()
        cells = [row.split(",") for row in rows]
        write_rows(path, header.split(","), [[*c[:4], 100_000 + 50_000 * int(c[4])] for c in cells])
    return toy


def without_range(config: Path) -> Path:
    config.write_text(config.read_text(encoding="utf-8").replace("range = [0, 5]\n", ""), "utf-8")
    return config


def scores_of(run: Path) -> np.ndarray:
    found = cotrunk.load(run).predict("alike", [("the red dog", "a cat"), ("sun", "the moon")])
    return np.array([answer.prediction for answer in found])


@pytest.mark.slow
def test_labels_in_another_unit_are_learned_as_well(toy, tmp_path, request):
    assert train(without_range(toy), tmp_path / "plain") == 0
    assert train(request.getfixturevalue("prices"), tmp_path / "prices") == 0
    as_prices = 100_000 + 50_000 * scores_of(tmp_path / "plain")
    np.testing.assert_allclose(scores_of(tmp_path / "prices"), as_prices, rtol=1e-4)
    saved = json.loads((tmp_path / "prices" / "best" / "settings.json").read_text())
    mean, deviation = saved["tasks"]["alike"]["label_unit"]
    assert 200_000 < mean < 250_000
    assert 50_000 < deviation < 100_000


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["joined", "cosine"])
def test_scores_of_a_wide_range_start_inside_it(toy, tmp_path, pair):
    changes = ["tasks.alike.range=[0, 1000]", f"tasks.alike.pair={pair}", "train.max_steps=1"]
    assert train(toy, tmp_path / "run", "--set", *changes) == 0
    found = scores_of(tmp_path / "run")
    assert (found > 300).all()
    assert (found <= 1000).all()


@pytest.mark.slow
def test_a_resumed_run_keeps_its_unit(prices, tmp_path):
    config, changes = without_range(prices), ["train.checkpoint=2"]
    assert train(config, tmp_path / "whole", "--set", *changes) == 0
    cut(config, tmp_path / "cut", changes, after=5)
    assert train(config, tmp_path / "cut", "--resume", "--set", *changes) == 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_a_run_that_starts_from_another_keeps_its_unit(prices, tmp_path):
    config = without_range(prices)
    assert train(config, tmp_path / "run", "--set", "train.max_steps=1") == 0
    path = prices.parent / "pair-train.csv"
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([header, *rows[:20]]) + "\n", encoding="utf-8")
    run = prepared(config, f"train.init_from={tmp_path / 'run'}")
    assert any("match the source run" in note for note in run.notes)
    saved = cotrunk.load(tmp_path / "run").model.network.tasks["alike"].labels
    assert run.network.tasks["alike"].labels.label_unit == saved.label_unit


@pytest.mark.parametrize("unit", [[1.0], [0.0, 0.0], [0.0, -1.0]])
def test_a_wrong_unit_is_refused_with_the_rule(unit):
    with pytest.raises(ValueError, match="label_unit: give a label"):
        Scores(label_unit=tuple(unit))
