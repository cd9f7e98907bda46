"""Cells: where tokens lie, apart for each head, and the way back."""

import numpy as np
import pytest
import torch

from cotrunk.data.batches.packing import pack
from cotrunk.model.encoder.padded import PaddedLayout

LENGTHS = [[1], [3, 3, 3], [4, 4, 3, 3, 2, 2, *range(5, 25)], [7, 1, 7, 2]]


def packed(lengths):
    rows = [np.arange(length) for length in lengths]
    return pack(rows, rows)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize(("heads", "parts"), [(1, 1), (2, 1), (3, 3)])
def test_what_is_spread_is_collected_again(lengths, heads, parts):
    text = packed(lengths)
    layout = PaddedLayout.of(text, heads=heads)
    x = torch.arange(len(text.token_T) * parts * heads * 5.0).view(-1, parts * heads * 5)
    assert torch.equal(layout.collect(layout.spread(x, parts=parts)), x)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_a_bucket_has_its_sequences_row_by_row_and_head_by_head(lengths):
    text, heads = packed(lengths), 3
    x = torch.randn(len(text.token_T), 2 * heads * 4)
    parts = PaddedLayout.of(text, heads=heads)
    by_part = [parts.split(part) for part in parts.spread(x, parts=2)]
    row = 0
    for number, bucket in enumerate(text.buckets):
        for at in range(bucket.rows):
            first, length = int(text.first_S[row]), int(text.length_S[row])
            mine = x[first : first + length].view(length, 2, heads, 4)
            for part in range(2):
                for head in range(heads):
                    found = by_part[part][number][at * heads + head, :length]
                    assert torch.equal(found, mine[:, part, head])
            row += 1


def test_padding_can_be_zeros():
    text = packed([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    layout = PaddedLayout.of(text, heads=2)
    x = torch.rand(len(text.token_T), 6) + 1
    spread = layout.spread_over_zeros(x)
    assert torch.equal(layout.collect(spread[None]), x)
    assert int((spread == 0).sum()) == spread.numel() - x.numel() > 0


def test_looks_are_split_into_a_square_for_each_row_and_head():
    text = packed([2, 3, 3, 5, 5, 5])
    layout = PaddedLayout.of(text, heads=2)
    shapes = [tuple(part.shape) for part in layout.split_scores(torch.zeros(layout.scores))]
    assert shapes == [(2 * b.rows, b.longest, b.longest) for b in text.buckets]
