"""Token, position and segment vectors. Shapes: T tokens, D width."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from cotrunk.data.packing import Packed
from cotrunk.model.noise import Noise
from cotrunk.model.shape import Shape


class _LookUp(torch.autograd.Function):
    """Rows of a table, whose gradient is added to ``table.grad`` in place.

    A batch touches a few hundred of 30,000 rows. Returned to autograd, its gradient would be a
    whole table of zeros for every task, and adding it another pass over the table.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, row_T: Tensor) -> Tensor:
        ctx.table = table
        ctx.save_for_backward(row_T)
        return F.embedding(row_T, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_TD: Tensor) -> tuple[None, None]:
        (row_T,) = ctx.saved_tensors
        table = ctx.table
        if table.grad is None:
            table.grad = torch.zeros_like(table)
        table.grad.index_add_(0, row_T, grad_TD.to(table.dtype))
        return None, None


def look_up(table: Tensor, row_T: Tensor) -> Tensor:
    """Rows of a table. Only on the CPU does adding in place always happen in the same order."""
    if table.device.type != "cpu":
        return F.embedding(row_T, table)
    found: Tensor = _LookUp.apply(table, row_T)  # type: ignore[no-untyped-call]
    return found


class Embeddings(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.segments = nn.Embedding(shape.segments, shape.width) if shape.segments else None
        self.norm = nn.LayerNorm(shape.width, eps=shape.norm_eps)
        self.first_position = shape.first_position
        self.dropout = shape.dropout

    def forward(self, text: Packed, noise: Noise) -> Tensor:
        x_TD = look_up(self.words.weight, text.token_T)
        x_TD = x_TD + self.positions(text.position_T + self.first_position)
        if self.segments is not None:
            x_TD = x_TD + F.embedding(text.segment_T, self.segments.weight)
        return noise.drop(self.norm(x_TD), self.dropout)
