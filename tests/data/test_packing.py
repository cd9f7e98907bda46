"""Packing: nothing is lost, every sequence is in one bucket, buckets cost the least."""

from itertools import combinations

import numpy as np
import pytest
import torch

from cotrunk.data.batches.packing import bucket_ends, pack


def packed(lengths: list[int]):
    random = np.random.default_rng(len(lengths))
    rows = [random.integers(1, 99, size=length) for length in lengths]
    return rows, pack(rows, [row % 2 for row in rows])


def cost(lengths: np.ndarray, ends: list[int]) -> int:
    begins = [0, *ends[:-1]]
    return sum(
        (end - begin) * int(lengths[end - 1]) ** 2 for begin, end in zip(begins, ends, strict=True)
    )


def least_cost(lengths: np.ndarray, most: int) -> int:
    inside = range(1, len(lengths))
    return min(
        cost(lengths, [*chosen, len(lengths)])
        for count in range(min(most, len(lengths)))
        for chosen in combinations(inside, count)
    )


@pytest.mark.parametrize("most", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(12))
def test_no_other_cuts_cost_less(seed, most):
    random = np.random.default_rng(seed)
    lengths = np.sort(random.integers(1, 12, size=random.integers(1, 10)))
    ends = bucket_ends(lengths, most)
    assert len(ends) <= most
    assert ends[-1] == len(lengths)
    assert cost(lengths, ends) == least_cost(lengths, most)


LENGTHS = [[1], [7], [1, 1, 1], [5, 1, 9, 5, 2], [3] * 6, list(range(40, 0, -1))]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_every_sequence_is_found_again(lengths):
    rows, text = packed(lengths)
    assert text.sequences == len(lengths)
    assert sorted(text.place_S.tolist()) == list(range(len(lengths)))
    for row, place in zip(rows, text.place_S.tolist(), strict=True):
        first = int(text.first_S[place])
        mine = slice(first, first + int(text.length_S[place]))
        assert text.token_T[mine].tolist() == row.tolist()
        assert text.segment_T[mine].tolist() == (row % 2).tolist()
        assert text.position_T[mine].tolist() == list(range(len(row)))


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_buckets_hold_every_row_once_and_in_order(lengths):
    _, text = packed(lengths)
    row = cell = 0
    for bucket in text.buckets:
        mine = slice(row, row + bucket.rows)
        assert bucket.longest == int(text.length_S[mine].max())
        begin = text.begin_T[text.first_S[mine]]
        assert begin.tolist() == [cell + at * bucket.longest for at in range(bucket.rows)]
        assert (text.longest_T[text.first_S[mine]] == bucket.longest).all()
        row, cell = row + bucket.rows, cell + bucket.cells
    assert row == len(lengths)


def test_padding_is_where_no_token_lies():
    _, text = packed([4, 4, 3, 3, 2, 2, *range(5, 25)])
    holds = torch.zeros(sum(bucket.cells for bucket in text.buckets), dtype=torch.bool)
    holds[text.begin_T + text.position_T] = True
    assert int(holds.sum()) == len(text.token_T) < len(holds)
    parts = holds.split([bucket.cells for bucket in text.buckets])
    for bucket, real in zip(text.buckets, parts, strict=True):
        padding = torch.zeros(bucket.rows, bucket.longest)
        if bucket.padding_NL is not None:
            padding = bucket.padding_NL
        assert torch.equal(padding.flatten() == 0, real)
        assert torch.equal(padding.flatten() == -torch.inf, ~real)
