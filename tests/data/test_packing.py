"""Packing: nothing is lost, every sequence is in one bucket, buckets cost the least."""

from itertools import combinations

import numpy as np
import pytest

from cotrunk.data.packing import cuts, pack


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
    ends = cuts(lengths, most)
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
def test_buckets_hold_every_row_and_token_once_and_in_order(lengths):
    _, text = packed(lengths)
    row = token = 0
    for bucket in text.buckets:
        assert bucket.first_token == token
        mine = text.length_S[row : row + bucket.rows]
        assert bucket.longest == int(mine.max())
        assert bucket.tokens == int(mine.sum())
        assert bucket.part_of(text.token_T).tolist() == (
            text.token_T[token : token + bucket.tokens].tolist()
        )
        row, token = row + bucket.rows, token + bucket.tokens
    assert (row, token) == (len(lengths), len(text.token_T))


def test_cells_of_a_bucket_lead_to_its_tokens_and_back():
    _, text = packed([4, 4, 3, 3, 2, 2, *range(5, 25)])
    uneven = [bucket for bucket in text.buckets if bucket.spread is not None]
    assert uneven
    for bucket in uneven:
        tokens = bucket.part_of(text.token_T)
        cells = tokens[bucket.spread]
        assert cells[bucket.collect].tolist() == tokens.tolist()
        padding = bucket.padding_NL.flatten()
        assert (padding[bucket.collect] == 0).all()
        assert int((padding == -np.inf).sum()) == len(cells) - len(tokens)
