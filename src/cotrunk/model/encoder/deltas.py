"""The interface of adapters that add to a layer's linear maps.

Shapes: T tokens, D input width, O output width.
"""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.encoder.shape import LinearMap


class Deltas(Protocol):
    """Several ``maps`` in one call read the same tokens; their outputs are concatenated."""

    def add(
        self, maps: Sequence[LinearMap], x_TD: Tensor, out_TO: Tensor, masks: DropoutStream
    ) -> Tensor:
        """``out_TO``, the output of the linear maps for ``x_TD``, plus the adapters' output."""

    def fold(
        self, maps: Sequence[LinearMap], x_TD: Tensor, weight_OD: Tensor, masks: DropoutStream
    ) -> tuple[Tensor, Tensor]:
        """Tokens and a weight whose product equals ``add`` on ``x_TD`` and ``weight_OD``.

        For attention that uses the weight itself. Both may be wider than D, by the same columns.
        """


def added(
    deltas: Deltas | None,
    maps: Sequence[LinearMap],
    x_TD: Tensor,
    out_TO: Tensor,
    masks: DropoutStream,
) -> Tensor:
    return out_TO if deltas is None else deltas.add(maps, x_TD, out_TO, masks)
