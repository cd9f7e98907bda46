"""A score's squared error is divided by the variance of its train labels."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from cotrunk.cli.main import main
from cotrunk.config import presets
from cotrunk.kinds import KINDS
from cotrunk.kinds.score import Scores
from toy import contents, cut, prepared, stage_of, train

LABELS = np.array([0.0, 1.0, 1.0, 4.0, 5.0], dtype=np.float32)
CONSTANTS = [np.full(1000, 0.1, dtype=np.float32), np.array([7.0]), np.array([])]


def loss_of(kind: Scores, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return kind.loss()(output, target)


def test_the_loss_is_the_squared_error_over_the_variance_of_the_train_labels():
    kind = Scores(range=(0, 5.0)).scaled_to(LABELS)
    output_NO, target_N = torch.rand(9, 1, dtype=torch.float64), torch.rand(9, dtype=torch.float64)
    mean = sum(LABELS.tolist()) / 5
    variance = sum((label - mean) ** 2 for label in LABELS.tolist()) / 5
    assert kind.loss_scale == pytest.approx(variance)
    assert_close(loss_of(kind, output_NO, target_N), (output_NO[:, 0] - target_N) ** 2 / variance)


def test_the_mean_label_costs_1_whatever_the_unit():
    for factor, shift in ((1.0, 0.0), (1e-3, 5.0), (1e4, -2e3), (1e18, 0.0)):
        labels = LABELS.astype(np.float64) * factor + shift
        target_N = torch.from_numpy(labels).float()
        mean_NO = torch.full((5, 1), labels.mean())
        found = loss_of(Scores().scaled_to(labels), mean_NO, target_N).mean()
        assert_close(found, torch.tensor(1.0), rtol=1e-3, atol=0)


def test_labels_in_another_unit_have_the_same_loss_and_gradients_in_that_unit():
    output_NO, target_N = torch.rand(9, 1, dtype=torch.float64), torch.rand(9, dtype=torch.float64)
    slopes = []
    for factor in (1.0, 20.0):
        mine_NO = (factor * output_NO).requires_grad_()
        loss = loss_of(Scores().scaled_to(factor * LABELS), mine_NO, factor * target_N).mean()
        slopes.append((loss.detach(), torch.autograd.grad(loss, mine_NO)[0] * factor))
    assert_close(slopes[0], slopes[1])


def test_the_divergence_of_two_outputs_has_the_scale_of_the_loss():
    kind = Scores().scaled_to(LABELS)
    a_NO, b_NO = torch.rand(4, 1), torch.rand(4, 1)
    assert_close(kind.divergence(a_NO, b_NO), loss_of(kind, a_NO, b_NO[:, 0]))


@pytest.mark.parametrize("target", CONSTANTS, ids=["constant", "one", "none"])
def test_labels_without_variance_are_not_scaled(target):
    kind = Scores().scaled_to(target)
    assert kind.loss_scale == 1.0
    assert_close(loss_of(kind, torch.tensor([[3.0]]), torch.tensor([1.0])), torch.tensor([4.0]))


def test_none_and_a_number_do_not_depend_on_the_labels():
    for scale, divisor in (("none", 1.0), (4.0, 4.0)):
        kind = Scores(loss_scale=scale).scaled_to(LABELS)
        assert kind.loss_scale == scale
        found = loss_of(kind, torch.tensor([[3.0]]), torch.tensor([1.0]))
        assert_close(found, torch.tensor([4.0 / divisor]))


def test_the_scale_does_not_change_how_labels_are_read():
    assert Scores(loss_scale="none").reading_key() == Scores().scaled_to(LABELS).reading_key()


def test_other_kinds_have_no_scale():
    kind = KINDS["binary"]()
    assert kind.scaled_to(LABELS) is kind


@pytest.mark.slow
def test_a_run_scales_by_its_train_rows_alone_and_saves_the_scale(toy, tmp_path):
    run = tmp_path / "run"
    changes = ["tasks.alike.dev=0.3", "train.epochs=1"]
    assert train(toy, run, "--set", *changes) == 0
    target = prepared(toy, *changes).train["alike"].target
    assert len(target) < 40
    saved = json.loads((run / "best" / "settings.json").read_text())
    assert saved["tasks"]["alike"]["loss_scale"] == pytest.approx(target.astype(np.float64).var())
    assert main(["evaluate", str(run)]) == 0


def test_a_loss_in_a_run_is_scaled(toy):
    scaled, plain = stage_of(toy), stage_of(toy, "tasks.alike.loss_scale=none")
    output_NO, target_N = torch.rand(9, 1), torch.rand(9)
    variance = np.var([i % 6 for i in range(40)])
    assert_close(
        scaled.losses["alike"](output_NO, target_N) * variance,
        plain.losses["alike"](output_NO, target_N),
    )


@pytest.mark.slow
def test_a_resumed_run_keeps_its_scale(toy, tmp_path):
    changes = ["train.checkpoint=2", "tasks.alike.dev=0.3"]
    assert train(toy, tmp_path / "whole", "--set", *changes) == 0
    cut(toy, tmp_path / "cut", changes, after=5)
    assert train(toy, tmp_path / "cut", "--resume", "--set", *changes) == 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_labels_that_are_all_the_same_can_be_trained_on(toy, tmp_path):
    path = toy.parent / "pair-train.csv"
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *(row.rpartition(",")[0] + ",3" for row in rows)]) + "\n")
    assert train(toy, tmp_path / "run", "--set", "train.epochs=1") == 0


@pytest.mark.parametrize("name", [name for name in presets.names() if name != "headline"])
def test_presets_have_plain_squared_errors_as_the_reports_do(name):
    assert presets.settings(name, changes=[]).tasks["sts"].model_extra["loss_scale"] == "none"


@pytest.mark.parametrize(
    ("value", "said"),
    [("0", "above 0"), ("-1.5", "above 0"), ("deviation", "variance"), ("nan", "loss_scale")],
)
def test_a_wrong_scale_is_refused_with_the_rule(toy: Path, tmp_path: Path, capsys, value, said):
    assert train(toy, tmp_path / "run", "--set", f"tasks.alike.loss_scale={value}") == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
