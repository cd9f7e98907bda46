"""One encoder layer on packed tokens.

Shapes: T tokens, Q output tokens (all, or the first of each sequence), D width, F inner width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cotrunk.data.batches.packing import Packed
from cotrunk.model.encoder.attention import Attention
from cotrunk.model.encoder.deltas import Deltas, added
from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.encoder.linear import Linear
from cotrunk.model.encoder.shape import Shape


def gelu(x: Tensor) -> Tensor:
    """In place if no backward pass needs the input."""
    if torch.is_grad_enabled():
        return F.gelu(x)
    done: Tensor = torch.ops.aten.gelu_(x)
    return done


class Layer(nn.Module):
    """Attention and feed-forward, each with a residual and a norm after it (Devlin et al. 2019)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention = Attention(shape)
        self.up = Linear(shape.width, shape.inner)
        self.down = Linear(shape.inner, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.norm_eps)
        self.dropout = shape.dropout

    def forward(
        self,
        x_TD: Tensor,
        text: Packed,
        masks: DropoutStream,
        *,
        first_only: bool = False,
        adapter_QD: Tensor | None = None,
        deltas: Deltas | None = None,
    ) -> Tensor:
        """``first_only``: compute only the first token of every sequence.

        ``adapter_QD`` is the output of a projected attention layer, added before the last norm;
        ``deltas`` are the low-rank adapters of the linear maps.
        """
        h_QD = self.attention(x_TD, text, masks, first_only=first_only, deltas=deltas)
        inner_QF = gelu(added(deltas, ("up",), h_QD, self.up(h_QD), masks))
        down_QD = added(deltas, ("down",), inner_QF, self.down(inner_QF), masks)
        out_QD = masks.add(h_QD, down_QD, self.dropout)
        return self.norm(out_QD if adapter_QD is None else out_QD + adapter_QD)
