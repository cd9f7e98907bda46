"""Shares of rows that are all connected by shared texts."""

from collections import Counter

import numpy as np
import pytest

from cotrunk.data.reading.cuts import cut_off
from cotrunk.data.reading.splits import (
    HeldOut,
    Indivisible,
    Part,
    Share,
    Splits,
    hold_out,
    splits_of,
)
from cotrunk.data.reading.splits import split_arrays as arrays_of
from cotrunk.kinds.classes import Classes

KIND = Classes(classes=2)


def pairs(count, questions):
    """Pairs drawn from few questions: every row is connected with every other."""
    drawn = np.random.default_rng(0)
    chosen = [drawn.choice(questions, 2, replace=False) for _ in range(count)]
    return [((f"q{a}", f"q{b}"), (float(a % 2),)) for a, b in chosen]


def hold(rows, *, dev=0.1, test=0.0, task="t", seed=0):
    return hold_out(Share(task, dev, test, rows, KIND.strata), seed=seed)


def sides_of(held, rows):
    """By split, the texts of its rows."""
    found = {}
    for texts, _ in rows:
        found.setdefault(held.split_of(texts), set()).update(texts)
    return found


@pytest.mark.parametrize("test", [0.0, 0.1])
def test_connected_rows_are_cut_so_that_no_text_is_in_two_splits(test):
    rows = pairs(600, 200)
    held = hold(rows, test=test)
    counts = Counter(held.split_of(texts) for texts, _ in rows)
    assert counts["dev"] == pytest.approx(60, abs=4)
    assert counts["test"] == pytest.approx(600 * test, abs=4)
    assert counts["train"] > 300
    assert held.left_out == counts[None]
    sides = sides_of(held, rows)
    del sides[None]  # rows across the cut
    texts = [text for found in sides.values() for text in found]
    assert len(texts) == len(set(texts))


def test_a_run_trains_on_no_row_across_the_cut():
    rows = pairs(600, 200)
    splits = Splits({"t": hold(rows)})
    train, dev = (Part(split, splits.of("t", split)) for split in ("train", "dev"))
    kept = sum(train.has(texts) for texts, _ in rows)
    held = sum(dev.has(texts) for texts, _ in rows)
    assert kept + held < 600
    tested = {text for texts, _ in rows if dev.has(texts) for text in texts}
    assert all(tested.isdisjoint(texts) for texts, _ in rows if train.has(texts))


def test_a_cut_depends_on_content_and_seed_alone_and_can_be_saved():
    rows = pairs(600, 200)
    held = hold(rows)
    shuffled = [rows[at] for at in np.random.default_rng(1).permutation(600)]
    assert hold(shuffled) == held
    assert hold(rows, seed=1) != held
    again = splits_of(arrays_of(Splits({"t": held}))).by_task["t"]
    assert [again.split_of(texts) for texts, _ in rows] == [held.split_of(t) for t, _ in rows]


def test_few_rows_of_a_chain_cross_the_cut():
    cut = cut_off([(n, n + 1) for n in range(600)], needed=60, seed=0)
    assert cut.inside == 60
    assert cut.crossing <= 2


@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_few_loose_rows_do_not_replace_the_cut_of_connected_ones(split):
    loose = [((f"loose {n}", f"alone {n}"), (float(n % 2),)) for n in range(3)]
    rows = [*pairs(600, 200), *loose]
    held = hold(rows, **{"dev": 0.0, split: 0.1})
    counts = Counter(held.split_of(texts) for texts, _ in rows)
    assert counts[split] == pytest.approx(60, abs=6)
    assert counts["train"] > 300
    assert held.left_out == counts[None]
    assert {held.split_of(texts) for texts, _ in loose} == {split}
    sides = sides_of(held, rows)
    assert sides[split].isdisjoint(sides["train"])


def test_no_row_is_cut_off_if_whole_groups_give_half_of_a_share():
    loose = [((f"loose {n}", f"alone {n}"), (float(n % 2),)) for n in range(32)]
    rows = [*pairs(600, 200), *loose]
    held = hold(rows)
    assert held.left_out == 0
    assert sum(held.split_of(texts) == "dev" for texts, _ in rows) == 32


@pytest.mark.parametrize("split", ["dev", "test"])
def test_rows_that_all_have_one_text_are_refused_with_their_count(split):
    rows = [((f"q{n}", "always the same"), (float(n % 2),)) for n in range(50)]
    with pytest.raises(Indivisible, match="50 of 50 rows are connected by shared texts") as caught:
        hold(rows, **{"dev": 0.0, split: 0.1})
    assert caught.value.split == split


@pytest.mark.parametrize("seed", range(5))
def test_a_cut_skips_texts_that_bring_in_far_too_many_rows(seed):
    drawn = np.random.default_rng(seed)
    often = 1 / np.arange(1, 101) ** 1.2
    rows = [tuple(drawn.choice(100, 2, False, often / often.sum()).tolist()) for _ in range(200)]
    cut = cut_off(rows, needed=20, seed=0)
    assert 20 <= cut.inside <= 22
    assert 200 - cut.inside - cut.crossing > 80


def test_a_cut_may_have_too_many_rows_if_there_is_no_other():
    hub = [(text, side) for text in range(20) for side in (100, 101)]
    assert cut_off([*hub, *[(n, n + 1) for n in range(200, 300)]], needed=2, seed=0)
    single = [(1,)] * 30 + [(2,)] * 40
    assert cut_off(single, needed=10, seed=0).inside in (30, 40)


def test_a_text_that_a_task_has_in_test_is_in_no_dev_split():
    splits = Splits({"a": HeldOut(dev=frozenset([1, 2])), "b": HeldOut(test=frozenset([2, 3]))})
    assert splits.of("a", "dev").split_of_row([1]) == "dev"
    assert splits.of("a", "dev").split_of_row([1, 2]) != "dev"
    assert splits.of("b", "test").split_of_row([2]) == "test"


def test_splits_without_such_a_text_stay_as_they_are():
    splits = Splits({"a": HeldOut(dev=frozenset([1, 2])), "b": HeldOut(test=frozenset([3]))})
    assert splits.of("a", "dev") is splits.by_task["a"]
