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


POS = """
[encoder]
weights = "random:tiny"
max_tokens = 6

[tasks.pos]
kind = "tags"
scheme = "plain"
text = ["tokens"]
label = "tags"
train = "pos.jsonl"
dev = 0.5

[train]
max_steps = 1
"""


@pytest.fixture
def pos(tmp_path: Path) -> Path:
    rows = [{"tokens": WORDS[i:] + WORDS[:i], "tags": ["A", "B"] * 5 + ["A"]} for i in range(6)]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "pos.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "pos.toml").write_text(POS, encoding="utf-8")
    return tmp_path / "pos.toml"


def test_plain_tags_of_words_that_were_cut_are_missing_but_raise_no_alarm(pos, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", str(pos), "--out", str(run)]) == 0
    assert "not finite" not in capsys.readouterr().err
    assert main(["predict", str(run), str(tmp_path / "pos.jsonl"), "--json"]) == 0
    said = capsys.readouterr()
    tags = [row["pos"]["prediction"] for row in json.loads(said.out)["rows"]]
    cut = sum(row.count(None) for row in tags)
    assert all(row[-1] is None for row in tags)
    assert f"note: pos: {cut} words beyond encoder.max_tokens have no tag" in said.err


def test_tags_in_a_csv_are_refused_with_the_file_and_what_to_use(pos, tmp_path, capsys):
    (tmp_path / "pos.csv").write_text("tokens,tags\ngood tea,A B\n" * 2, encoding="utf-8")
    run, change = tmp_path / "run", "tasks.pos.train=pos.csv"
    assert main(["train", str(pos), "--out", str(run), "--set", change]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "pos.csv (tags): tags must be a list, one per word; found 'A B'; "
        "CSV and TSV cannot hold lists: use JSONL, Parquet or CoNLL"
    )


WRONG_TAGS = [
    (["O"], "each word needs a label; found 1 for 2 words; correct the cell or set skip"),
    (["O", "I-X"], "found 'I-X' after 'O'; correct the cell or set scheme = \"iob1\", or set skip"),
]


@pytest.mark.parametrize(("tags", "told"), WRONG_TAGS)
def test_a_wrong_row_of_tags_has_a_fix_of_its_own(pos, tmp_path, capsys, tags, told):
    good = {"tokens": ["good", "tea"], "tags": ["O", "B-X"]}
    rows = [good, good | {"tags": tags}]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "pos.jsonl").write_text(lines, encoding="utf-8")
    changes = ["--set", "tasks.pos.scheme=bio"]
    assert main(["train", str(pos), "--out", str(tmp_path / "run"), *changes]) == 2
    assert told in capsys.readouterr().err


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
