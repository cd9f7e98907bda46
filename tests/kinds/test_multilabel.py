"""Any number of classes per text."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import f1_score
from torch.testing import assert_close

from cotrunk.build.sources import sources_of
from cotrunk.build.tasks import tasks_of
from cotrunk.cli.main import main
from cotrunk.config.check import check_settings
from cotrunk.data.reading.examples import Rows, Source
from cotrunk.errors import UserError
from cotrunk.kinds.multilabel import Multilabel
from cotrunk.kinds.task import Task
from toy import contents, cut, sentence, train, write_rows

TOPICS = Multilabel(("a", "b", "c"))


@pytest.mark.parametrize(
    ("raw", "target"),
    [
        ("a|c", (1, 0, 1)),
        ("c | a", (1, 0, 1)),
        ("b", (0, 1, 0)),
        ("", (0, 0, 0)),
        ("  ", (0, 0, 0)),
        ([], (0, 0, 0)),
        (["b", "c"], (0, 1, 1)),
        ('["b"]', (0, 1, 0)),
    ],
)
def test_classes_are_joined_or_listed(raw, target):
    assert TOPICS.read(raw) == target


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        ("a|d", "one of 'a', 'b', 'c'; found 'd'"),
        ("a||b", "found ''"),
        ("a|a", "listed twice; found 'a' again"),
        (["a", 3], "found 3"),
        (True, "a list, or a string joined by '|'; found True"),
        ('["a"', "must be valid JSON"),
    ],
)
def test_labels_that_mean_nothing_are_refused(raw, rule):
    with pytest.raises(ValueError, match=rule.replace("|", r"\|").replace("(", r"\(")):
        TOPICS.read(raw)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"classes": ("a", "b|c")}, "classes: a name must not be empty, contain '|'"),
        ({"classes": ("a", "b"), "separator": ""}, "separator: must not be empty"),
        ({"classes": ("a",)}, "classes: give two or more"),
        ({}, "classes is missing"),
    ],
)
def test_classes_and_their_separator_must_fit(options, rule):
    with pytest.raises(ValueError, match=rule.replace("|", r"\|")):
        Multilabel(**options)


def test_a_missing_value_is_unlabelled_and_an_empty_one_is_no_class(tmp_path):
    rows = [
        {"text": "x", "topics": ""},
        {"text": "y", "topics": None},
        {"text": "z"},
        {"text": "w", "topics": ["b"]},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = Task("topics", 1, TOPICS)
    sparse = Rows(task, Source(tmp_path / "a.jsonl", ("text",), "topics", sparse_labels=True))
    assert [row.target for row in sparse] == [(0, 0, 0), (0, 1, 0)]
    assert sparse.unlabelled == 2
    with pytest.raises(UserError, match=r"a\.jsonl:2 \(topics\): the label is missing"):
        list(Rows(task, Source(tmp_path / "a.jsonl", ("text",), "topics")))


def test_rows_with_a_missing_value_are_left_out_unless_that_is_refused(tmp_path):
    raw = {
        "encoder": {"weights": "random:tiny"},
        "tasks": {
            "topics": {
                "kind": "multilabel",
                "classes": ["a", "b"],
                "text": ["text"],
                "label": "topics",
                "train": "a.jsonl",
            }
        },
    }
    for chosen, expected in ((None, True), (True, True), (False, False)):
        raw["tasks"]["topics"]["sparse_labels"] = chosen
        settings = check_settings(raw, place="my.toml")
        (source,) = sources_of(settings, tasks_of(settings), tmp_path)["train"]["topics"]
        assert source.sparse_labels is expected


@pytest.mark.parametrize("classes", [2, 5])
def test_f1_equals_scikit_learns(classes):
    random = np.random.default_rng(classes)
    kind = Multilabel(tuple(map(str, range(classes))))
    output, gold = random.normal(size=(60, classes)), (random.random((60, classes)) < 0.3) * 1.0
    said = output > 0
    found = kind.scores(output, gold.reshape(-1))
    assert found.metric == "micro-f1"
    assert found.score == pytest.approx(f1_score(gold, said, average="micro"))
    assert found.more["macro-f1"] == pytest.approx(f1_score(gold, said, average="macro"))
    assert list(found.per_class.values()) == pytest.approx(f1_score(gold, said, average=None))
    assert found.low < found.score < found.high
    assert found.unit == found.score


def test_the_loss_is_the_mean_cross_entropy_of_each_class():
    random = torch.Generator().manual_seed(0)
    output = torch.randn(7, 3, generator=random, dtype=torch.float64)
    target = (torch.rand(21, generator=random) > 0.5).double()
    found = TOPICS.loss()(output, target)
    assert found.shape == (7,)
    assert_close(found.mean(), F.binary_cross_entropy_with_logits(output, target.view(7, 3)))


@pytest.fixture
def topics(tmp_path):
    """Sentences, and which of three words they hold."""
    random = np.random.default_rng(2)
    for split, count in (("train", 200), ("dev", 24)):
        texts = [sentence(random) for _ in range(count)]
        named = ["|".join(n for n in ("tea", "river", "stone") if n in t.split()) for t in texts]
        rows = list(map(list, zip(texts, named, strict=True)))
        write_rows(tmp_path / f"topics-{split}.csv", ["sentence", "topics"], rows)
    config = tmp_path / "topics.toml"
    config.write_text(CONFIG)
    return config


CONFIG = """
[encoder]
weights = "random:tiny"

[tasks.topics]
kind = "multilabel"
classes = ["tea", "river", "stone"]
text = ["sentence"]
label = "topics"
train = "topics-train.csv"
dev = "topics-dev.csv"

[train]
epochs = 8
batch = 8
lr = 3e-3
threads = 1
evaluate = 100
"""


@pytest.mark.slow
def test_topics_train_evaluate_and_predict(topics, tmp_path, capsys):
    run = tmp_path / "run"
    assert train(topics, run) == 0
    capsys.readouterr()
    assert main(["evaluate", str(run), "--json", "--worst", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = document["tasks"]["topics"]
    assert found["metric"] == "micro-f1"
    assert set(found["more"]) == {"micro-f1", "macro-f1"}
    assert set(found["per_class"]) == {"tea", "river", "stone"}
    assert found["score"] > 0.9
    source = tmp_path / "new.csv"
    write_rows(source, ["sentence"], [["river tea"], ["good plot"]])
    assert main(["predict", str(run), str(source), "--task", "topics", "--format", "jsonl"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["topics"]["prediction"] == ["tea", "river"]
    assert len(first["topics"]["probabilities"]) == 3
    assert second["topics"]["prediction"] == []
    assert main(["predict", str(run), str(source), "--task", "topics"]) == 0
    header, one, other = capsys.readouterr().out.splitlines()
    assert header == "id,topics,topics_probability"
    assert one.startswith("1,tea|river,0.")
    assert other.startswith("2,,0.")
    assert main(["data", "check", str(topics), "--json"]) == 0
    labels = json.loads(capsys.readouterr().out)["tasks"]["topics"]["train"]["labels"]
    assert set(labels) == {"tea", "river", "stone", "(no class)"}


@pytest.mark.slow
def test_topics_resume_to_the_same_last_bit(topics, tmp_path):
    changes = ["train.checkpoint=2", "train.max_steps=10", "train.evaluate=4"]
    assert train(topics, tmp_path / "whole", "--set", *changes) == 0
    cut(topics, tmp_path / "cut", changes, after=5)
    assert train(topics, tmp_path / "cut", "--resume", "--set", *changes) == 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_an_unknown_topic_is_named_with_its_line(topics, capsys):
    with (topics.parent / "topics-train.csv").open("a") as file:
        file.write("good,tea|rivr\n")
    assert train(topics, topics.parent / "run") == 2
    error = capsys.readouterr().err
    assert "topics-train.csv:202:2 (topics): a class must be one of" in error
    assert "found 'rivr' (did you mean 'river'?); correct the cell" in error


def test_the_constant_answer_is_the_best_set_of_common_classes():
    kind = Multilabel(classes=("a", "b", "c"))
    gold = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]], float)
    every = [np.array(x, float) for x in np.ndindex(2, 2, 2)]
    best = max(kind.value(np.broadcast_to(one, gold.shape) * 1.0, gold) for one in every)
    assert kind.baseline(gold.reshape(-1)) == pytest.approx(best)
