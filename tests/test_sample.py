import csv
from collections import Counter

import pytest

from cotrunk.data.sample import folder
from tools.sample.generate import COLUMNS, COUNTS, generate

FILES = [f"{task}-{split}.csv" for task in COLUMNS for split in COUNTS]


def rows_of(name):
    with (folder() / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def texts_of(name):
    """The texts of each row, ignoring case and the order of a pair."""
    return [
        tuple(sorted(row[column].lower() for column in row if column.startswith("sentence")))
        for row in rows_of(name)
    ]


def labels_of(name):
    return [row[COLUMNS[name.split("-")[0]][-1]] for row in rows_of(name)]


@pytest.mark.slow
def test_the_files_are_what_the_generator_writes(tmp_path):
    generate(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (folder() / name).read_bytes(), name


@pytest.mark.parametrize("task", COLUMNS)
def test_every_task_has_1200_train_and_300_dev_rows(task):
    assert len(rows_of(f"{task}-train.csv")) == 1200
    assert len(rows_of(f"{task}-dev.csv")) == 300


@pytest.mark.parametrize("task", COLUMNS)
def test_train_and_dev_share_no_row(task):
    assert not set(texts_of(f"{task}-train.csv")) & set(texts_of(f"{task}-dev.csv"))


@pytest.mark.parametrize("name", FILES)
def test_no_row_is_repeated_and_no_pair_repeats_itself(name):
    texts = texts_of(name)
    assert len(set(texts)) == len(texts)
    assert all(len(set(row)) == len(row) for row in texts)


@pytest.mark.parametrize("name", FILES)
def test_every_row_is_complete_and_has_its_own_id(name):
    rows = rows_of(name)
    assert all(value.strip() == value != "" for row in rows for value in row.values())
    assert len({row["id"] for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("task", "classes"), [("sentiment", ["0", "1", "2", "3", "4"]), ("paraphrase", ["0", "1"])]
)
@pytest.mark.parametrize("split", COUNTS)
def test_every_class_has_a_tenth_of_the_rows(task, classes, split):
    counts = Counter(labels_of(f"{task}-{split}.csv"))
    assert sorted(counts) == classes
    assert min(counts.values()) >= COUNTS[split] / 10


@pytest.mark.parametrize("split", COUNTS)
def test_similarities_cover_the_whole_range_with_one_decimal(split):
    labels = labels_of(f"similarity-{split}.csv")
    assert all(label == f"{float(label):.1f}" for label in labels)
    assert min(map(float, labels)) == 0.0
    assert max(map(float, labels)) == 5.0
    # Every score rounds into one of five bands, and none of the bands is thin.
    bands = Counter(min(int(float(label)), 4) for label in labels)
    assert sorted(bands) == [0, 1, 2, 3, 4]
    assert min(bands.values()) >= COUNTS[split] / 10


def test_all_files_together_stay_below_one_megabyte():
    assert sum((folder() / name).stat().st_size for name in FILES) < 1_000_000
