"""Shares of a file as dev and test rows: by content, stratified, a text on one side everywhere."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cotrunk.data.reading.splits import (
    Indivisible,
    Share,
    Splits,
    hold_out,
    split_arrays,
    splits_of,
)
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.multilabel import Multilabel
from cotrunk.kinds.score import Scores

THREE = Classes(classes=3)


def share_of(rows, *, task="t", dev=0.2, test=0.0, kind=THREE):
    return Share(task, dev, test, rows, kind.strata)


def counted(held, rows):
    return Counter((held.split_of(texts), target) for texts, target in rows)


def many(count, *, classes=3):
    return [((f"text {row}",), (float(row % classes),)) for row in range(count)]


def test_every_label_gets_its_share_of_each_split():
    rows = many(3000)
    found = counted(hold_out(share_of(rows, dev=0.1, test=0.2), seed=0), rows)
    for label in range(3):
        assert found["dev", (float(label),)] == pytest.approx(100, abs=1)
        assert found["test", (float(label),)] == pytest.approx(200, abs=1)


def test_the_choice_depends_on_content_and_seed_alone():
    rows = many(300)
    held = hold_out(share_of(rows), seed=1)
    shuffled = [rows[at] for at in np.random.default_rng(0).permutation(300)]
    assert hold_out(share_of(shuffled), seed=1) == held
    assert hold_out(share_of(rows), seed=2) != held


def test_case_and_blanks_do_not_make_another_text():
    held = hold_out(share_of(many(50), dev=0.9), seed=0)
    for row in range(50):
        assert held.split_of([f"text {row}"]) == held.split_of([f" TEXT\n {row} "])


@pytest.mark.slow
@given(
    pairs=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=60),
    singles=st.lists(st.integers(0, 30), min_size=1, max_size=60),
    seed=st.integers(0, 5),
)
def test_a_text_is_on_one_side_in_its_task_and_no_task_trains_on_what_another_holds_out(
    pairs, singles, seed
):
    two = [((f"q{a}", f"q{b}"), (float(a % 2),)) for a, b in pairs]
    one = [((f"q{a}",), (float(a % 3),)) for a in singles]
    shares = {
        "two": share_of(two, task="two", dev=0.3, test=0.2),
        "one": share_of(one, task="one", dev=0.3),
    }
    try:
        splits = Splits({task: hold_out(share, seed=seed) for task, share in shares.items()})
    except Indivisible:  # no part of the rows can be held out
        assume(False)
    held_texts = set()
    for task, share in shares.items():
        held, sides = splits.by_task[task], {}
        assert not held.dev & held.test
        for texts, _ in share.rows:
            for text in texts:
                side = held.split_of(texts) or held.split_of([text])  # None: across a cut
                sides.setdefault(text, set()).update((side, held.split_of([text])))
        assert all(len(found) == 1 for found in sides.values())
        held_texts |= {text for text, found in sides.items() if found != {"train"}}
    for task, share in shares.items():
        for texts, _ in share.rows:
            trains = splits.of(task, "train").split_of(texts) == "train"
            assert trains == held_texts.isdisjoint(texts)


def test_tasks_with_the_same_texts_hold_out_nearly_the_same_ones():
    rows = many(2000, classes=2)
    other = [(texts, (float(row // 700),)) for row, (texts, _) in enumerate(rows)]
    mine, others = (
        hold_out(share_of(each, task=task, dev=0.1), seed=0)
        for task, each in (("mine", rows), ("other", other))
    )
    assert len(mine.dev | others.dev) < 1.15 * len(mine.dev)


@pytest.mark.slow
def test_rare_labels_get_their_share_together():
    rows = [((f"text {row}",), (float(row // 4),)) for row in range(4000)]
    held = hold_out(share_of(rows, dev=0.1, kind=Classes(classes=1000)), seed=0)
    dev = sum(count for (split, _), count in counted(held, rows).items() if split == "dev")
    assert dev == pytest.approx(400, abs=60)


def test_scores_are_split_by_fifths_and_class_sets_by_their_rarest_class():
    values = [(float(value),) for value in range(100)]
    assert Counter(Scores(range=(0.0, 99.0)).strata(values)) == Counter(dict.fromkeys(range(5), 20))
    sets = [(1.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.0, 0.0)]
    assert list(Multilabel(classes=("a", "b")).strata(sets)) == [0, 1, 0, 2]


def test_what_was_held_out_can_be_saved():
    splits = Splits({"t": hold_out(share_of(many(40), dev=0.3, test=0.3), seed=0)})
    arrays = split_arrays(splits)
    assert all(array.dtype == np.int64 for array in arrays.values())
    assert splits_of(arrays) == splits
    assert splits_of(arrays).of("t", "dev").digest == splits.of("t", "dev").digest
    with pytest.raises(ValueError, match="dev and test"):
        splits_of({"t.dev": arrays["t.dev"]})
