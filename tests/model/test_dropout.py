"""Dropout masks: the rate in every lane, two values, the key decides."""

import math

import pytest
import torch

from cotrunk.model.encoder.dropout import NO_DROPOUT, DropoutStream

MANY = torch.Size((1000, 400))


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_every_lane_of_the_generator_is_dropped_at_the_rate(rate):
    dropped = DropoutStream(3, 1).mask(MANY, rate).flatten() == 0
    for lane in range(4):
        mine = dropped[lane::4].double()
        sigma = math.sqrt(rate * (1 - rate) / len(mine))
        assert abs(mine.mean().item() - rate) < 4 * sigma


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5])
def test_a_mask_has_two_values_and_keeps_the_mean(rate):
    values = DropoutStream(5).mask(MANY, rate).unique().tolist()
    threshold = round(rate * 2**16)
    assert values == pytest.approx([0, 2**16 / (2**16 - threshold)], rel=1e-6)


def test_neighbouring_masks_of_a_stream_differ_and_a_key_repeats_them():
    one, again, other = DropoutStream(1, 2), DropoutStream(1, 2), DropoutStream(1, 3)
    shape = torch.Size((7, 13))
    first, second = one.mask(shape, 0.5), one.mask(shape, 0.5)
    assert torch.equal(first, again.mask(shape, 0.5))
    assert torch.equal(second, again.mask(shape, 0.5))
    assert not torch.equal(first, second)
    assert not torch.equal(first, other.mask(shape, 0.5))


@pytest.mark.parametrize("count", [1, 3, 4, 5])
def test_any_number_of_units_is_served(count):
    assert DropoutStream(1).mask(torch.Size((count,)), 0.5).shape == (count,)


def test_silence_and_rate_zero_drop_nothing():
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    assert NO_DROPOUT.drop(x, 0.5) is x
    assert DropoutStream(1).drop(x, 0.0) is x
    assert torch.equal(NO_DROPOUT.add(x, y, 0.5), x + y)


def test_add_is_the_sum_with_what_drop_leaves():
    x, y = torch.randn(30, 40), torch.randn(30, 40)
    torch.testing.assert_close(DropoutStream(1).add(x, y, 0.3), x + DropoutStream(1).drop(y, 0.3))
