"""Multi-head self-attention on packed tokens, padded only inside and only within a bucket.

Shapes: T tokens, Q tokens that are read on, N rows of a bucket, L its longest sequence, H heads,
E width of a head, D width. Two letters on one axis (``NH``): one after the other.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from cotrunk.data.packing import Bucket, Packed
from cotrunk.model.noise import Noise
from cotrunk.model.shape import Shape


def attend(
    qkv_TD: Tensor, text: Packed, noise: Noise, *, heads: int, dropout: float, first_only: bool
) -> Tensor:
    """Every token, or with ``first_only`` the first of each sequence, looks at its sequence."""
    out: Tensor = _Attend.apply(qkv_TD, text, noise, heads, dropout, first_only)  # type: ignore[no-untyped-call]
    return out


class _Attend(torch.autograd.Function):
    """Attention bucket by bucket, with its derivative by hand.

    Autograd would fill a gradient as long as the whole batch for every bucket. Kept for the way
    back: queries, keys and values by head; the chances before dropout and after it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        qkv_TD: Tensor,
        text: Packed,
        noise: Noise,
        heads: int,
        dropout: float,
        first_only: bool,
    ) -> Tensor:
        width = qkv_TD.shape[1] // 3
        out_QD = qkv_TD.new_empty(text.sequences if first_only else len(qkv_TD), width)
        kept = []
        for bucket in text.buckets:
            qkv = _by_head(_padded(bucket.part_of(qkv_TD), bucket), bucket, parts=3, heads=heads)
            q, k, v = qkv
            chance = _chances(q[:, :1] if first_only else q, k, bucket)
            seen = noise.drop(chance, dropout).to(v.dtype)
            _by_token(torch.bmm(seen, v), bucket, bucket.part_of(out_QD, first_only))
            kept += [qkv, chance, seen]
        ctx.save_for_backward(*kept)
        ctx.text, ctx.first_only, ctx.heads = text, first_only, heads
        return out_QD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_QD: Tensor) -> tuple[Tensor | None, ...]:
        kept, text, first_only = ctx.saved_tensors, ctx.text, ctx.first_only
        grad_TD = grad_QD.new_empty(len(text.token_T), 3 * grad_QD.shape[1])
        for at, bucket in enumerate(text.buckets):
            qkv, chance, seen = kept[3 * at : 3 * at + 3]
            grad = bucket.part_of(grad_QD, first_only)
            if not first_only:
                grad = _padded(grad, bucket, zeros=True)
            grad_seen = _by_head(grad, bucket, parts=1, heads=ctx.heads)[0]
            _by_token(_backward(grad_seen, qkv, chance, seen), bucket, bucket.part_of(grad_TD))
        return grad_TD, None, None, None, None, None


def _chances(q: Tensor, k: Tensor, bucket: Bucket) -> Tensor:
    """Where each query looks, as [NH, queries, L]."""
    score = q.new_empty(len(q), q.shape[1], k.shape[1])
    scale = 1 / math.sqrt(q.shape[2])
    if bucket.padding_NL is None:
        torch.baddbmm(score, q, k.mT, beta=0, alpha=scale, out=score)
    else:
        score.view(bucket.rows, -1, bucket.longest).copy_(bucket.padding_NL[:, None])
        score.baddbmm_(q, k.mT, alpha=scale)
    return score.softmax(-1, dtype=torch.promote_types(q.dtype, torch.float32))


def _backward(grad: Tensor, qkv: Tensor, chance: Tensor, seen: Tensor) -> Tensor:
    """The gradient of queries, keys and values from that of what was seen."""
    q, k, v = qkv
    queries = grad.shape[1]
    out = qkv.new_empty(qkv.shape)
    torch.bmm(seen.mT, grad, out=out[2])
    # A dropped chance has seen = 0, so the mask itself is not needed again.
    slope = torch.bmm(grad, v.mT).to(chance.dtype).mul_(seen)
    slope = slope.addcmul_(chance, slope.sum(-1, keepdim=True), value=-1).to(q.dtype)
    scale = 1 / math.sqrt(q.shape[2])
    torch.baddbmm(out[1], slope.mT, q[:, :queries], beta=0, alpha=scale, out=out[1])
    if queries == k.shape[1]:
        torch.baddbmm(out[0], slope, k, beta=0, alpha=scale, out=out[0])
    else:
        out[0].zero_()
        out[0, :, :queries] = torch.bmm(slope, k).mul_(scale)
    return out


def _padded(x_TD: Tensor, bucket: Bucket, *, zeros: bool = False) -> Tensor:
    """The tokens of a bucket as [NL, D]; a padding cell repeats the first token or holds zeros."""
    if bucket.spread is None or bucket.collect is None:
        return x_TD
    if not zeros:
        return x_TD.index_select(0, bucket.spread)
    cells = x_TD.new_zeros(bucket.rows * bucket.longest, x_TD.shape[1])
    return cells.index_copy_(0, bucket.collect, x_TD)


def _by_head(x: Tensor, bucket: Bucket, *, parts: int, heads: int) -> Tensor:
    """[NL, parts x D] -> [parts, NH, L, E]."""
    cells = x.view(bucket.rows, -1, parts, heads, x.shape[1] // (parts * heads))
    return cells.permute(2, 0, 3, 1, 4).reshape(parts, bucket.rows * heads, -1, cells.shape[-1])


def _by_token(x: Tensor, bucket: Bucket, out: Tensor) -> None:
    """The way back of `_padded` and `_by_head`, into ``out``."""
    parts = x.shape[0] if x.ndim == 4 else 1
    cells = x.view(parts, bucket.rows, -1, *x.shape[-2:]).permute(1, 3, 0, 2, 4)
    if bucket.collect is None or len(out) == bucket.rows:
        out.view(cells.shape).copy_(cells)
    else:
        torch.index_select(cells.reshape(-1, out.shape[1]), 0, bucket.collect, out=out)


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
        return self.norm(noise.add(residual_QD, self.out(seen_QD), self.dropout))
