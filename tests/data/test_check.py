import dataclasses
import json

import pytest

from cotrunk.data.reading.check import check
from cotrunk.data.reading.examples import Source
from cotrunk.data.reading.splits import HeldOut, Part, fingerprint
from cotrunk.errors import UserError
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task

STARS = Task("stars", 1, Classes(("0", "1", "2")))
CLOSE = Task("close", 2, Scores(range=(0, 5)))


def one(folder, name, rows, *, label="label", **options):
    path = folder / f"{name}.tsv"
    path.write_text("id\ttext\tlabel\n" + "".join(f"{row}\n" for row in rows))
    return Source(path, ("text",), label, **options)


def two(folder, name, rows):
    path = folder / f"{name}.tsv"
    path.write_text("a\tb\tlabel\n" + "".join(f"{row}\n" for row in rows))
    return Source(path, ("a", "b"), "label")


def test_rows_labels_and_losses_are_counted(tmp_path):
    rows = ["1\tx\t0", "2\ty\t2", "3\tz\t2", "4\tw\t9", "5\tv\t"]
    source = one(tmp_path, "train", rows, skip_bad_rows=True, sparse_labels=True)
    report = check(STARS, {"train": source}).splits["train"]
    assert (report.rows, report.dropped, report.unlabelled) == (3, 1, 1)
    assert report.dropped_messages[0].startswith(f"{source.path}:5:3 (label)")
    assert report.labels == {"0": 1, "1": 0, "2": 2}
    assert (report.mean, report.sd) == (None, None)


def test_rows_that_belong_to_no_split_of_a_divided_file_are_counted_once(tmp_path):
    rows = ["1\tx\t0", "2\ty\t2", "3\tz\t9", "4\tw\t"]
    whole = one(tmp_path, "train", rows, skip_bad_rows=True, sparse_labels=True)
    held = HeldOut(dev=frozenset([fingerprint("y")]))
    parts = {s: dataclasses.replace(whole, part=Part(s, held)) for s in ("train", "dev")}
    splits = check(STARS, parts).splits
    assert [(s.rows, s.dropped, s.unlabelled) for s in splits.values()] == [(1, 1, 1), (1, 0, 0)]
    assert splits["dev"].dropped_messages == ()


def test_scores_have_ten_bins_mean_and_sd(tmp_path):
    source = two(tmp_path, "train", ["a\tb\t0", "c\td\t0.5", "e\tf\t5", "g\th\t4.5"])
    report = check(CLOSE, {"train": source}).splits["train"]
    assert list(report.labels.values()) == [1, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    assert list(report.labels)[:2] == ["0..0.5", "0.5..1"]
    assert report.mean == 2.5
    assert report.sd == pytest.approx(2.2638, abs=1e-4)


def test_duplicates_ignore_case_blanks_and_the_order_of_a_pair(tmp_path):
    rows = ["A  dog\ta cat\t1", "A CAT\ta dog\t2", "a dog\ta cat\t1", "a dog a\tcat\t1"]
    report = check(CLOSE, {"train": two(tmp_path, "train", rows)}).splits["train"]
    assert (report.duplicate_rows, report.conflicting_texts) == (2, 1)


def test_duplicates_with_one_label_do_not_conflict(tmp_path):
    rows = ["1\tx\t0", "2\tx\t0", "2\ty\t1"]
    report = check(STARS, {"train": one(tmp_path, "train", rows)}).splits["train"]
    assert (report.duplicate_rows, report.conflicting_texts, report.duplicate_ids) == (1, 0, 1)


def test_any_two_different_labels_of_a_text_conflict(tmp_path):
    rows = ["1\tx\t-1", "2\tx\t-2", "3\ty\t0", "4\ty\t-0"]  # hash(-1) == hash(-2) in Python
    mood = Task("mood", 1, Scores(range=(-2, 2)))
    report = check(mood, {"train": one(tmp_path, "train", rows)}).splits["train"]
    assert report.conflicting_texts == 1


def test_rows_of_other_splits_that_occur_in_train_are_counted_and_three_quoted(tmp_path):
    train = one(tmp_path, "train", [f"{n}\ttext {n}\t0" for n in range(3000)])
    dev = one(tmp_path, "dev", [f"{n}\tTEXT {n}\t0" for n in range(2990, 5000)])
    test = one(tmp_path, "test", ["1\tnew\t"], label=None)
    splits = check(STARS, {"dev": dev, "train": train, "test": test}).splits
    assert list(splits) == ["dev", "train", "test"]
    assert splits["dev"].rows_in_train == 10
    assert splits["dev"].seen_in_train == ("'TEXT 2990'", "'TEXT 2991'", "'TEXT 2992'")
    assert (splits["test"].rows_in_train, splits["test"].seen_in_train) == (0, ())
    assert splits["train"].rows_in_train is None


def test_without_train_nothing_is_compared(tmp_path):
    assert (
        check(STARS, {"dev": one(tmp_path, "dev", ["1\tx\t0"])}).splits["dev"].rows_in_train is None
    )


def test_a_split_without_labels_has_no_histogram(tmp_path):
    source = one(tmp_path, "test", ["1\tx\t", "2\tx\t"], label=None)
    report = check(STARS, {"test": source}).splits["test"]
    assert (report.labels, report.duplicate_rows, report.conflicting_texts) == ({}, 1, 0)


def test_lengths_are_asked_in_batches_and_are_lengths_that_occur(tmp_path):
    batches = []

    def lengths(texts):
        batches.append(len(texts))
        return [int(text) for (text,) in texts]

    source = one(tmp_path, "train", [f"{n}\t{n}\t0" for n in range(1, 2001)])
    report = check(STARS, {"train": source}, lengths).splits["train"]
    assert report.lengths == {"p50": 1000, "p90": 1800, "p99": 1980, "max": 2000}
    assert sum(batches) == 2000
    assert 1 < len(batches) < 20


def test_lengths_are_words_by_default(tmp_path):
    source = two(tmp_path, "train", ["one two\tthree\t0"])
    assert check(CLOSE, {"train": source}).splits["train"].lengths["max"] == 3


def test_bad_rows_of_all_splits_are_told_together(tmp_path):
    splits = {name: one(tmp_path, name, ["1\tx\t9"]) for name in ("train", "dev")}
    with pytest.raises(UserError) as caught:
        check(STARS, splits)
    assert [line.split(":")[0] for line in caught.value.lines] == [
        f"{tmp_path}/train.tsv",
        f"{tmp_path}/dev.tsv",
    ]


def test_a_report_goes_through_json_unchanged(tmp_path):
    report = check(STARS, {"train": one(tmp_path, "train", ["1\tx\t0"])})
    written = json.loads(json.dumps(dataclasses.asdict(report)))
    assert written["splits"]["train"]["labels"] == {"0": 1, "1": 0, "2": 0}
