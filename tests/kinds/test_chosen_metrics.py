"""Metrics, class weights and free ranges, against scikit-learn, scipy and torch."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from sklearn import metrics as reference
from sklearn.utils.class_weight import compute_class_weight
from torch.testing import assert_close

from cotrunk.build.load import load_model
from cotrunk.cli.main import main
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.intervals import FEWEST, interval
from cotrunk.kinds.score import Scores
from toy import train

REFERENCES = {
    "accuracy": reference.accuracy_score,
    "macro-f1": lambda gold, said: reference.f1_score(gold, said, average="macro"),
    "f1": reference.f1_score,
    "mcc": reference.matthews_corrcoef,
    "pearson": lambda gold, said: stats.pearsonr(gold, said).statistic,
    "spearman": lambda gold, said: stats.spearmanr(gold, said).statistic,
}


def labelled(kind, *, rows=80, seed=0):
    random = np.random.default_rng(seed)
    output = random.normal(size=(rows, kind.outputs))
    if kind.metric in ("pearson", "spearman"):
        return output, np.round(output[:, 0] + random.normal(size=rows), 1)
    return output, random.integers(0, max(2, kind.outputs - 1), rows).astype(float)  # one is rare


@pytest.mark.parametrize("kind", [Classes(5), Classes(2), Binary(), Scores()], ids=str)
def test_every_metric_equals_its_reference(kind):
    for name, metric in kind.metrics().items():
        output, gold = labelled(kind)
        predicted = kind.predict_labels(output)
        assert metric.value(predicted, gold) == pytest.approx(REFERENCES[name](gold, predicted))
        chosen = type(kind)(**{**vars(kind), "metric": name})
        found = chosen.scores(output, gold)
        assert found.metric == name
        assert found.score == found.more[name] == metric.value(predicted, gold)
        assert found.low < found.score < found.high
        assert set(found.more) == set(kind.metrics())
        correlates = name in ("mcc", "pearson", "spearman")
        assert found.unit == pytest.approx((found.score + 1) / 2 if correlates else found.score)


@pytest.mark.parametrize("name", ["macro-f1", "mcc"])
def test_answers_that_are_all_the_same_are_scored_as_scikit_learn_does(name):
    gold, said = np.array([0.0, 1, 2, 1]), np.ones(4)
    with np.errstate(all="raise"):
        assert Classes(4).metrics()[name].value(said, gold) == pytest.approx(
            REFERENCES[name](gold, said)
        )


def test_per_class_f1_equals_scikit_learns():
    kind = Classes(("a", "b", "c"))
    output, gold = labelled(kind)
    found = kind.scores(output, gold).per_class
    expected = reference.f1_score(gold, kind.predict_labels(output), labels=range(3), average=None)
    assert list(found) == ["a", "b", "c"]
    assert list(found.values()) == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Classes(3), Binary(), Scores()], ids=str)
def test_every_interval_is_close_to_that_of_resampled_rows(kind):
    output, gold = labelled(kind, rows=400)
    predicted = kind.predict_labels(output)
    rows = np.random.default_rng(1).integers(0, 400, (4000, 400))
    for metric in kind.metrics().values():
        drawn = metric.statistic(predicted[rows], gold[rows])
        found = interval(metric.over_rows(predicted, gold))
        assert found == pytest.approx(np.percentile(drawn, [2.5, 97.5]), abs=0.012)


@pytest.mark.parametrize("name", ["macro-f1", "mcc", "pearson"])
def test_few_rows_have_no_interval(name):
    few = np.arange(FEWEST - 1, dtype=float)
    metric = (Classes(3) if name != "pearson" else Scores()).metrics()[name]
    assert np.isnan(interval(metric.over_rows(few, few))).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_class_weights_equal_torchs(smoothing):
    random = torch.Generator().manual_seed(0)
    output = torch.randn(20, 3, generator=random, dtype=torch.float64)
    target = torch.arange(20.0, dtype=torch.float64) % 3
    kind = Classes(3, class_weights={"2": 4.0, "0": 1.0, "1": 0.5})
    assert kind.class_weights == (1.0, 0.5, 4.0)
    mean = kind.loss(smoothing=smoothing)(output, target).sum() / kind.unit_weights(target).sum()
    weight = torch.tensor([1.0, 0.5, 4.0], dtype=torch.float64)
    expected = F.cross_entropy(output, target.long(), weight=weight, label_smoothing=smoothing)
    assert_close(mean, expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_weights_of_yes_and_no_equal_those_of_two_classes(smoothing):
    random = torch.Generator().manual_seed(0)
    output = torch.randn(20, 1, generator=random, dtype=torch.float64)
    target = torch.arange(20.0, dtype=torch.float64) % 2
    two = torch.cat([torch.zeros_like(output), output], dim=1)
    one, other = Binary(class_weights=(0.5, 3.0)), Classes(2, class_weights=(0.5, 3.0))
    assert_close(
        one.loss(smoothing=smoothing)(output, target), other.loss(smoothing=smoothing)(two, target)
    )
    assert_close(one.unit_weights(target), other.unit_weights(target))


def test_balanced_weights_equal_scikit_learns():
    raw = ["0"] * 7 + ["1"] * 2 + [2] + ["broken"]
    found = Classes(3, class_weights="balanced").fitted(raw)
    gold = [0] * 7 + [1] * 2 + [2]
    expected = compute_class_weight("balanced", classes=np.arange(3), y=gold)
    assert found.class_weights == pytest.approx(tuple(expected))
    assert not found.needs_fitting


@pytest.mark.parametrize(
    ("kind", "options", "rule"),
    [
        (Classes, {"classes": 3, "class_weights": (1.0, 2.0)}, "give 3 weights above 0"),
        (Classes, {"classes": 3, "class_weights": (1.0, 2.0, 0.0)}, "give 3 weights above 0"),
        (Binary, {"class_weights": {"yes": 1.0}}, "a weight for each of 0, 1; found yes"),
    ],
)
def test_weights_must_fit_the_classes(kind, options, rule):
    with pytest.raises(ValueError, match=f"class_weights: .*{rule}"):
        kind(**options)


@pytest.mark.slow
def test_the_chosen_metric_is_kept_and_reported(toy, tmp_path, capsys):
    changes = ["tasks.mood.metric=macro-f1", "tasks.same.metric=mcc", "tasks.alike.metric=spearman"]
    assert train(toy, tmp_path / "run", "--set", *changes, "tasks.mood.class_weights=balanced") == 0
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), "--json"]) == 0
    tasks = json.loads(capsys.readouterr().out)["tasks"]
    assert [tasks[t]["metric"] for t in ("mood", "same", "alike")] == [
        "macro-f1",
        "mcc",
        "spearman",
    ]
    assert set(tasks["same"]["more"]) == {"accuracy", "macro-f1", "mcc", "f1"}
    model = load_model(tmp_path / "run")
    assert model.network.tasks["mood"].labels.class_weights == pytest.approx(
        (20 / 21, 40 / 39, 40 / 39)
    )


@pytest.mark.slow
def test_a_score_needs_no_range(toy, tmp_path):
    text = toy.read_text().replace("range = [0, 5]\n", "")
    toy.write_text(text)
    assert train(toy, tmp_path / "run") == 0
    kind = Scores()
    assert kind.read("-17.5") == (-17.5,)
    assert kind.initial_bias() is None
    assert kind.unreachable(0.0, 1.0) is None
    assert sum(kind.histogram(np.array([-1.0, 3.0, 9.0])).values()) == 3
    assert train(toy, tmp_path / "other", "--set", "tasks.alike.pair=cosine") == 2


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (
            "tasks.mood.metric=f1",
            "must be one of accuracy, macro-f1, mcc",
        ),
        ("tasks.mood.range=[0, 1]", "tasks.mood.range: kind classes has no range; score has"),
        ("tasks.mood.clases=4", "tasks.mood.clases is not a setting; did you mean 'classes'?"),
        ("tasks.mood.class_weights=heavy", "tasks.mood.class_weights = 'heavy': must be"),
        ("tasks.mood.classes=1", "tasks.mood.classes = 1: must be between 2 and 10,000"),
    ],
)
def test_wrong_keys_of_a_kind_are_named(toy, tmp_path, capsys, change, rule):
    assert train(toy, tmp_path / "run", "--set", change) == 2
    assert rule in capsys.readouterr().err
