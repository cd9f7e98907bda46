"""Tags beside three tasks about texts, on one trunk, from the config to the predictions."""

import json
from pathlib import Path

import numpy as np
import pytest

from cotrunk.cli.main import main
from toy import WORDS, contents, train_until

NER = """
[tasks.ner]
kind = "tags"
classes = "from-train"
text = ["tokens"]
label = "tags"
train = "ner-train.conll"
dev = "ner-dev.conll"

"""
TAGS = {"tea": "B-DRINK", "river": "B-PLACE"}


def tagged(random: np.random.Generator) -> str:
    return "".join(f"{word}\t{TAGS.get(word, 'O')}\n" for word in random.choice(WORDS, size=6))


@pytest.fixture
def ner(toy: Path) -> Path:
    random = np.random.default_rng(2)
    for split, count in (("train", 40), ("dev", 24)):
        sentences = [tagged(random) for _ in range(count)]
        (toy.parent / f"ner-{split}.conll").write_text("\n".join(sentences), encoding="utf-8")
    toy.write_text(toy.read_text().replace("[train]", f"{NER}[train]"))
    return toy


@pytest.mark.slow
def test_tags_beside_other_tasks_resume_to_the_same_last_bit(ner, tmp_path):
    changes = ["train.checkpoint=2"]
    train_until(ner, tmp_path / "whole", *changes)
    train_until(ner, tmp_path / "cut", *changes, stop=5)
    train_until(ner, tmp_path / "cut", *changes)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_tags_are_learned_evaluated_and_predicted_beside_other_tasks(ner, tmp_path, capsys):
    run, out = tmp_path / "run", tmp_path / "out.jsonl"
    long = ["train.epochs=12", "train.lr=5e-3", "train.evaluate=60", "sharing.encoder=S2"]
    (evaluated,) = train_until(ner, run, *long)
    assert evaluated.scores["ner"].score > 0.9
    assert {"mood", "same", "alike", "ner"} == set(evaluated.scores)
    assert main(["evaluate", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["tasks"]["ner"]
    assert (found["metric"], set(found["per_class"])) == ("entity-f1", {"DRINK", "PLACE"})
    new = tmp_path / "new.jsonl"
    new.write_text('{"id": "7", "tokens": ["good", "river", "dull", "tea"]}\n')
    assert main(["predict", str(run), str(new), "--task", "ner", "-o", str(out)]) == 0
    assert json.loads(out.read_text()) == {
        "id": "7",
        "ner": {
            "prediction": ["O", "B-PLACE", "O", "B-DRINK"],
            "spans": [[1, 2, "PLACE"], [3, 4, "DRINK"]],
        },
    }
