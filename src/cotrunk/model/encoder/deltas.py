"""What adapters inside a layer add to its linear maps.

Shapes: T tokens, D width of what goes in, O of what comes out.
"""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.encoder.shape import LinearMap


class Deltas(Protocol):
    """Several ``maps`` in one call read the same tokens, and their outputs lie side by side."""

    def add(
        self, maps: Sequence[LinearMap], x_TD: Tensor, out_TO: Tensor, masks: DropoutStream
    ) -> Tensor:
        """``out_TO``, the linear maps of ``x_TD``, and what is added to it."""

    def fold(
        self, maps: Sequence[LinearMap], x_TD: Tensor, weight_OD: Tensor, masks: DropoutStream
    ) -> tuple[Tensor, Tensor]:
        """Tokens and a weight whose product is what ``add`` makes of ``x_TD`` and ``weight_OD``.

        For attention that takes the weight apart. Both may be wider than D, by the same columns.
        """


def added(
    deltas: Deltas | None,
    maps: Sequence[LinearMap],
    x_TD: Tensor,
    out_TO: Tensor,
    masks: DropoutStream,
) -> Tensor:
    return out_TO if deltas is None else deltas.add(maps, x_TD, out_TO, masks)
