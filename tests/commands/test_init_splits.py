"""``cotrunk init`` with files of several splits, or pairs that are hard to split."""

import json
import tomllib

import numpy as np
import pytest
from shapes import TINY, sentence, write_csv


@pytest.fixture
def made(cotrunk, tmp_path):
    """Makes a config of files, trains it, and returns the one task and the text of the config."""

    def of(*names):
        said = cotrunk("init", *names, "-o", "run.toml")
        assert said.code == 0, said.err
        trained = cotrunk("train", "run.toml", "--out", "out", *TINY)
        assert trained.code == 0, trained.err
        text = (tmp_path / "run.toml").read_text()
        (task,) = tomllib.loads(text)["tasks"].values()
        return task, text

    return of


def table(folder, name, labels, rows=60, encoding="utf-8"):
    lines = [[f"{sentence()} {n}", labels[n % len(labels)]] for n in range(rows)]
    file = write_csv(folder / name, ["text", "label"], lines)
    file.write_bytes(file.read_text().encode(encoding))
    return name


def test_classes_of_all_splits_are_in_the_config_and_the_new_ones_are_named(made, tmp_path):
    train = table(tmp_path, "train.csv", "abc")
    other = table(tmp_path, "valid.csv", "abd")
    task, text = made(train, other, table(tmp_path, "test.csv", "abe"))
    assert task["classes"] == ["a", "b", "c", "d", "e"]
    assert "# d only in valid.csv" in text
    assert "# e only in test.csv" in text


def test_the_range_of_a_score_is_that_of_all_splits(made, tmp_path):
    train = table(tmp_path, "train.csv", [0.5, 1.5, 4.2, 3.1])
    task, text = made(train, table(tmp_path, "dev.csv", [0.5, 8.5, 4.2]))
    assert task["range"] == [0, 10]
    assert "# numbers from 0.5 to 8.5 in dev.csv" in text


def test_a_split_without_numbers_is_left_out_of_a_score(made, tmp_path):
    scores = [1.5 + n / 60 * 5 for n in range(60)]
    files = [table(tmp_path, "train.csv", scores), table(tmp_path, "dev.csv", ["low", "high"])]
    task, text = made(*files, table(tmp_path, "test.csv", [2.5, 7.5]))
    assert (task["kind"], task["dev"]) == ("score", 0.1)
    assert "# dev.csv has labels that are not numbers, such as 'low': left out" in text
    assert "# numbers from 2.5 to 7.5 in test.csv" in text


def test_gaps_in_any_split_are_expected(made, tmp_path):
    task, text = made(
        table(tmp_path, "train.csv", "ab"), table(tmp_path, "dev.csv", ["a", "", "b"])
    )
    assert task["sparse_labels"] is True
    assert "20 rows without a label: left out" in text


def test_bad_cells_in_any_split_are_skipped(made, tmp_path):
    task, _ = made(table(tmp_path, "train.csv", "ab"), table(tmp_path, "dev.csv", ["a", "NA", "b"]))
    assert (task["classes"], task["skip_bad_rows"]) == (["a", "b"], True)


@pytest.mark.parametrize("hidden", [["-1"], [""], ["", "-1"]])
def test_a_split_with_hidden_labels_is_left_out(made, tmp_path, hidden):
    labels = ["0", "1", "2", ""]
    files = [table(tmp_path, f"{split}.csv", labels) for split in ("train", "dev")]
    task, text = made(*files, table(tmp_path, "test.csv", hidden))
    assert task["classes"] == 3
    assert "test" not in task
    assert "test.csv has no such labels: left out" in text


def test_ids_that_start_again_in_each_split_are_still_ids(made, tmp_path):
    for split in ("train", "dev"):
        rows = [[n, f"{sentence()} {n}", "ab"[n % 2]] for n in range(40)]
        write_csv(tmp_path / f"{split}.csv", ["nr", "text", "label"], rows)
    task, _ = made("train.csv", "dev.csv")
    assert task["id"] == "nr"


def test_tags_that_only_dev_has_are_in_the_config(made, tmp_path):
    for split, tag in (("train", "B-LOC"), ("dev", "B-PER")):
        row = [f"{sentence()} {n}".split() for n in range(40)]
        lines = [{"tokens": t, "ner": [tag, *["O"] * (len(t) - 1)]} for t in row]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    task, _ = made("train.jsonl", "dev.jsonl")
    assert task["classes"] == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]


@pytest.mark.parametrize("split", ["train", "dev"])
def test_splits_in_different_encodings_are_refused_with_the_command_that_converts_one(
    cotrunk, tmp_path, split
):
    other = {"train": "dev", "dev": "train"}[split]
    table(tmp_path, f"{split}.csv", ["grün", "rot"], encoding="latin-1")
    table(tmp_path, f"{other}.csv", ["grün", "rot"])
    said = cotrunk("init", "train.csv", "dev.csv", "-o", "run.toml")
    assert said.code == 2
    (line,) = said.err.splitlines()
    assert f"iconv -f latin-1 -t utf-8 {split}.csv" in line


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_split_in_plain_ascii_fits_any_encoding(made, tmp_path, split):
    labels = {"train": ["rot", "blau"], "dev": ["rot", "blau"], split: ["rot", "blau", "grün"]}
    for name, cells in labels.items():
        table(tmp_path, f"{name}.csv", cells, encoding="latin-1")
    task, _ = made("train.csv", "dev.csv")
    assert task["encoding"] == "latin-1"


def test_a_split_without_the_text_is_refused(cotrunk, tmp_path):
    table(tmp_path, "train.csv", "ab")
    write_csv(tmp_path / "dev.csv", ["body", "label"], [[sentence(), "a"], [sentence(), "b"]])
    said = cotrunk("init", "train.csv", "dev.csv", "-o", "run.toml")
    assert said.code == 2
    assert "dev.csv: no column 'text', which" in said.err


def test_pairs_of_few_questions_train_and_the_config_says_what_is_left_out(made, cotrunk, tmp_path):
    drawn = np.random.default_rng(0)
    questions = [f"{sentence()} {n}" for n in range(200)]
    rows = [[*drawn.choice(questions, 2, replace=False), n % 2] for n in range(600)]
    write_csv(tmp_path / "pairs.csv", ["a", "b", "same"], rows)
    task, text = made("pairs.csv")
    assert task["dev"] == 0.1
    assert "the pairs are connected by shared texts" in text
    found = cotrunk("data", "check", "run.toml", "--json").document["tasks"]["same"]
    assert found["dev"]["rows"] == pytest.approx(60, abs=5)
    assert found["dev"]["rows_in_train"] == 0
    left = 600 - found["dev"]["rows"] - found["train"]["rows"]
    for _ in range(2):  # the second time from the cache
        said = cotrunk("train", "run.toml", "--dry-run").err
        assert f"{left} rows left out of all splits" in said
    assert found["train"]["rows"] > 300


@pytest.fixture
def hub(tmp_path):
    """Pairs that are connected by a text that nearly all of them have."""
    shared = [f"it is said that the river is slow {n}" for n in range(2)]
    rows = [[f"{sentence()} {n}", shared[n > 0], n % 2] for n in range(12)]
    rows[0][0] = rows[1][0]
    return write_csv(tmp_path / "pairs.csv", ["a", "b", "same"], rows)


def test_pairs_that_cannot_be_split_are_refused_by_init(cotrunk, hub):
    said = cotrunk("init", hub.name, "-o", "run.toml")
    assert said.code == 2
    assert "pairs.csv: 12 of 12 rows are connected by shared texts" in said.err
    assert "name a file of dev rows" in said.err


def test_a_test_share_of_pairs_that_cannot_be_split_is_refused(cotrunk, hub, tmp_path):
    write_csv(tmp_path / "dev.csv", ["a", "b", "same"], [["one of", "the others", 0]] * 2)
    (tmp_path / "run.toml").write_text(
        '[tasks.same]\nkind = "binary"\ntext = ["a", "b"]\nlabel = "same"\n'
        f'train = "{hub.name}"\ndev = "dev.csv"\ntest = 0.2\n'
    )
    said = cotrunk("train", "run.toml", "--dry-run")
    assert said.code == 2
    assert "tasks.same.test = 0.2: 12 of 12 rows are connected by shared texts" in said.err
    assert "name a file of test rows" in said.err
