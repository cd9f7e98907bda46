"""Multi-head self-attention on packed tokens, padded only inside and only within a bucket.

Shapes: T tokens, Q tokens that are read on, N rows of a bucket, L its longest sequence, H heads,
E width of a head, D width.
"""

import math

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from cotrunk.data.packing import Bucket, Packed
from cotrunk.model.noise import Noise
from cotrunk.model.shape import Shape


class _Spread(torch.autograd.Function):
    """Tokens of a bucket into its cells: each fills just one, so the way back is a look-up."""

    @staticmethod
    def forward(ctx: FunctionCtx, x_TD: Tensor, spread: Tensor, collect: Tensor) -> Tensor:
        ctx.save_for_backward(collect)
        return x_TD.index_select(0, spread)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None, None]:
        (collect,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad.index_select(0, collect), None, None


class _Collect(torch.autograd.Function):
    """The cells that hold tokens; the gradient of a padding cell is zero."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, collect: Tensor) -> Tensor:
        ctx.save_for_backward(collect)
        ctx.cells = len(x)  # type: ignore[attr-defined]
        return x.index_select(0, collect)

    @staticmethod
    def backward(ctx: FunctionCtx, grad_TD: Tensor) -> tuple[Tensor, None]:
        (collect,) = ctx.saved_tensors  # type: ignore[attr-defined]
        grad = grad_TD.new_zeros(ctx.cells, grad_TD.shape[1])  # type: ignore[attr-defined]
        return grad.index_copy_(0, collect, grad_TD), None


def attend(
    qkv_TD: Tensor, text: Packed, noise: Noise, *, heads: int, dropout: float, first_only: bool
) -> Tensor:
    """Every token, or with ``first_only`` the first of each sequence, looks at its sequence."""
    out = []
    for bucket in text.buckets:
        mine = qkv_TD.narrow(0, bucket.first_token, bucket.tokens)
        if bucket.spread is not None and bucket.collect is not None:
            mine = _Spread.apply(mine, bucket.spread, bucket.collect)  # type: ignore[no-untyped-call]
        out_D = _attend_bucket(mine, bucket, noise, heads, dropout, first_only)
        if bucket.collect is not None and not first_only:
            out_D = _Collect.apply(out_D, bucket.collect)  # type: ignore[no-untyped-call]
        out.append(out_D)
    return torch.cat(out) if len(out) > 1 else out[0]


def _attend_bucket(
    qkv: Tensor, bucket: Bucket, noise: Noise, heads: int, dropout: float, first_only: bool
) -> Tensor:
    rows, longest = bucket.rows, bucket.longest
    width = qkv.shape[1] // 3
    qkv_3NHLE = qkv.view(rows, longest, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    q, k, v = qkv_3NHLE.unbind(0)
    if first_only:
        q = q[:, :, :1]
    score = q @ k.transpose(-1, -2) * (1 / math.sqrt(width // heads))
    if bucket.padding_NL is not None:
        score = score + bucket.padding_NL[:, None, None, :]
    chance = noise.drop(score.softmax(-1), dropout)
    return (chance @ v).transpose(1, 2).reshape(-1, width)


class Attention(nn.Module):
    """Self-attention with its output projection, residual and norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.norm_eps)
        self.heads = shape.heads
        self.dropout = shape.dropout
        self.attention_dropout = shape.attention_dropout

    def forward(self, x_TD: Tensor, text: Packed, noise: Noise, *, first_only: bool) -> Tensor:
        seen_QD = attend(
            self.qkv(x_TD),
            text,
            noise,
            heads=self.heads,
            dropout=self.attention_dropout,
            first_only=first_only,
        )
        residual_QD = x_TD.index_select(0, text.first_S) if first_only else x_TD
        return self.norm(residual_QD + noise.drop(self.out(seen_QD), self.dropout))
