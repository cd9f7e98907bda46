"""How many parameters a module has, by arithmetic alone."""

from collections.abc import Sequence

from cotrunk.model.encoder.shape import LinearMap, Shape, linear_maps


def low_rank_size(shape: Shape, rank: int, on: Sequence[LinearMap]) -> int:
    """Of the adapters of one layer: ``rank x (in + out)`` for each map."""
    return sum(rank * sum(linear_maps(shape)[name]) for name in on)
