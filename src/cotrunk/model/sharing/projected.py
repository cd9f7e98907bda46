"""Projected attention layers (Stickland & Murray 2019): a small attention beside every layer.

Shapes: T tokens, Q output tokens (all, or the first of each sequence), D width, P projected size.
"""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from cotrunk.data.batches.packing import Packed
from cotrunk.model.encoder.attention import attend
from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.encoder.shape import Shape


class ProjectedAttention(nn.Module):
    """``TS(h) = V_D g(V_E h)``: one owner's V_E and V_D for all depths, and a g for each.

    g is multi-head attention without an output matrix. V_D starts at zero, so that at first it adds
    nothing.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        size: int,
        heads: int,
        depths: Sequence[int],
        gelu: bool,
        bias: bool,
    ) -> None:
        super().__init__()
        self.enter = nn.Linear(shape.width, size, bias=bias)
        self.leave = nn.Linear(size, shape.width, bias=bias)
        self.qkv = nn.ModuleDict(
            {str(depth): nn.Linear(size, 3 * size, bias=bias) for depth in depths}
        )
        self.heads = heads
        self.gelu = gelu
        self.dropout = shape.attention_dropout

    def forward(
        self, x_TD: Tensor, text: Packed, masks: DropoutStream, *, depth: int, first_only: bool
    ) -> Tensor:
        qkv = self.qkv[str(depth)]
        assert isinstance(qkv, nn.Linear)
        attended_QP = attend(
            self.enter(x_TD),
            qkv,
            text,
            masks,
            heads=self.heads,
            dropout=self.dropout,
            first_only=first_only,
        )
        out_QD: Tensor = self.leave(attended_QP)
        return F.gelu(out_QD) if self.gelu else out_QD
