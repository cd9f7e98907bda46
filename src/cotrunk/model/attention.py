"""Multi-head self-attention on packed tokens, padded only inside and only within a bucket.

Shapes: T tokens, Q tokens that are read on, N rows of a bucket, L its longest sequence, H heads,
E width of a head, D width. Two letters on one axis (``NH``): one after the other.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from cotrunk.data.packing import Bucket, Packed
from cotrunk.model.noise import Noise
from cotrunk.model.shape import Shape


def attend(
    x_TD: Tensor,
    qkv: nn.Linear,
    text: Packed,
    noise: Noise,
    *,
    heads: int,
    dropout: float,
    first_only: bool,
) -> Tensor:
    """Every token, or with ``first_only`` the first of each sequence, looks at its sequence.

    ``qkv`` makes queries, keys and values of a token, one after the other.
    """
    if first_only:
        return _attend_first(x_TD, qkv, text, noise, heads, dropout)
    if noise.silent and not torch.is_grad_enabled():
        return _attend_once(qkv(x_TD), text, heads)
    out: Tensor = _Attend.apply(qkv(x_TD), text, noise, heads, dropout)  # type: ignore[no-untyped-call]
    return out


def _attend_first(
    x_TD: Tensor, qkv: nn.Linear, text: Packed, noise: Noise, heads: int, dropout: float
) -> Tensor:
    """One query a sequence: keys and values are never formed.

    ``q . (W_k x) = (W_k' q) . x`` and ``sum_t p_t W_v x_t = W_v sum_t p_t x_t``, and the right
    sides need far fewer operations. What the bias of the keys adds is the same for all tokens of
    a sequence, so softmax does not see it.
    """
    weight = qkv.weight.view(3, heads, -1, x_TD.shape[1])
    first_SD = x_TD.index_select(0, text.first_S)
    bias = None if qkv.bias is None else qkv.bias.chunk(3)
    q_SD = F.linear(first_SD, weight[0].flatten(0, 1), bias[0] if bias else None)
    ask_HSD = torch.bmm(q_SD.view(len(q_SD), heads, -1).transpose(0, 1), weight[1])
    ask_SHD = ask_HSD.transpose(0, 1) / math.sqrt(weight.shape[2])
    seen, weighed = [], []
    # Split, unlike slices, goes back in one piece.
    tokens = x_TD.split([bucket.tokens for bucket in text.buckets])
    asks = ask_SHD.split([bucket.rows for bucket in text.buckets])
    for bucket, x, ask_NHD in zip(text.buckets, tokens, asks, strict=True):
        x_NLD = _padded(x, bucket).view(bucket.rows, bucket.longest, -1)
        score_NHL = torch.bmm(ask_NHD, x_NLD.mT)
        if bucket.padding_NL is not None:
            score_NHL = score_NHL + bucket.padding_NL[:, None]
        chance_NHL = noise.drop(score_NHL.softmax(-1), dropout)
        seen.append(torch.bmm(chance_NHL, x_NLD))
        weighed.append(chance_NHL.sum(-1))
    out_HSE = torch.bmm(torch.cat(seen).transpose(0, 1), weight[2].mT)
    if bias is not None:  # dropout: the chances need not sum to 1
        out_HSE = out_HSE + torch.cat(weighed).T[:, :, None] * bias[2].view(heads, 1, -1)
    return out_HSE.transpose(0, 1).flatten(1)


def _attend_once(qkv_TD: Tensor, text: Packed, heads: int) -> Tensor:
    """For answers alone: torch's own kernel, which keeps no chances for a way back."""
    seen = []
    for bucket in text.buckets:
        cells = _padded(bucket.part_of(qkv_TD), bucket).view(bucket.rows, bucket.longest, 3, -1)
        q, k, v = cells.unflatten(3, (heads, -1)).permute(2, 0, 3, 1, 4)
        padding = bucket.padding_NL
        mask = None if padding is None else padding[:, None, None].to(q.dtype)
        seen_NHLE = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        seen_ND = seen_NHLE.transpose(1, 2).reshape(len(cells) * bucket.longest, -1)
        seen.append(seen_ND if bucket.collect is None else seen_ND[bucket.collect])
    return torch.cat(seen)


class _Attend(torch.autograd.Function):
    """Attention bucket by bucket, with its derivative by hand.

    Autograd would fill a gradient as long as the whole batch for every bucket. Kept for the way
    back: queries, keys and values by head; the chances before dropout and after it.
    """

    @staticmethod
    def forward(
        ctx: Any, qkv_TD: Tensor, text: Packed, noise: Noise, heads: int, dropout: float
    ) -> Tensor:
        out_TD = qkv_TD.new_empty(len(qkv_TD), qkv_TD.shape[1] // 3)
        kept = []
        for bucket in text.buckets:
            qkv = _by_head(_padded(bucket.part_of(qkv_TD), bucket), bucket, parts=3, heads=heads)
            q, k, v = qkv
            chance = _chances(q, k, bucket)
            seen = noise.drop(chance, dropout).to(v.dtype)
            _by_token(torch.bmm(seen, v), bucket, bucket.part_of(out_TD))
            kept += [qkv, chance, seen]
        ctx.save_for_backward(*kept)
        ctx.text, ctx.heads = text, heads
        return out_TD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_TD: Tensor) -> tuple[Tensor | None, ...]:
        kept, text = ctx.saved_tensors, ctx.text
        out_TD = grad_TD.new_empty(len(grad_TD), 3 * grad_TD.shape[1])
        for at, bucket in enumerate(text.buckets):
            qkv, chance, seen = kept[3 * at : 3 * at + 3]
            grad = _padded(bucket.part_of(grad_TD), bucket, zeros=True)
            grad_seen = _by_head(grad, bucket, parts=1, heads=ctx.heads)[0]
            _by_token(_backward(grad_seen, qkv, chance, seen), bucket, bucket.part_of(out_TD))
        return out_TD, None, None, None, None


def _chances(q: Tensor, k: Tensor, bucket: Bucket) -> Tensor:
    """Where each query looks, as [NH, L, L]."""
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
    out = qkv.new_empty(qkv.shape)
    torch.bmm(seen.mT, grad, out=out[2])
    # A dropped chance has seen = 0, so the mask itself is not needed again.
    slope = torch.bmm(grad, v.mT).to(chance.dtype).mul_(seen)
    slope = slope.addcmul_(chance, slope.sum(-1, keepdim=True), value=-1).to(q.dtype)
    scale = 1 / math.sqrt(q.shape[2])
    torch.baddbmm(out[1], slope.mT, q, beta=0, alpha=scale, out=out[1])
    torch.baddbmm(out[0], slope, k, beta=0, alpha=scale, out=out[0])
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
    if bucket.collect is None:
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
            x_TD,
            self.qkv,
            text,
            noise,
            heads=self.heads,
            dropout=self.attention_dropout,
            first_only=first_only,
        )
        residual_QD = x_TD.index_select(0, text.first_S) if first_only else x_TD
        return self.norm(noise.add(residual_QD, self.out(seen_QD), self.dropout))
