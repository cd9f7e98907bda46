"""Multi-head self-attention on packed tokens, padded internally and only within a bucket.

Shapes: T tokens, Q output tokens (all, or the first of each sequence), S sequences, N rows of a
bucket, L its longest sequence, H heads, E width of a head, D width.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from cotrunk.data.batches.packing import Packed
from cotrunk.model.encoder.deltas import Deltas, added
from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.encoder.linear import Linear
from cotrunk.model.encoder.padded import PaddedLayout
from cotrunk.model.encoder.shape import LinearMap, Shape

QKV: tuple[LinearMap, ...] = ("query", "key", "value")


def attend(
    x_TD: Tensor,
    qkv: nn.Linear,
    text: Packed,
    masks: DropoutStream,
    *,
    heads: int,
    dropout: float,
    first_only: bool,
    deltas: Deltas | None = None,
) -> Tensor:
    """Every token, or with ``first_only`` the first of each sequence, attends to its sequence.

    ``qkv`` computes queries, keys and values, stacked in that order.
    """
    if first_only:
        weight = qkv.weight
        if deltas is not None:
            x_TD, weight = deltas.fold(QKV, x_TD, weight, masks)
        return _attend_first(x_TD, weight, qkv.bias, text, masks, heads, dropout)
    qkv_TD = added(deltas, QKV, x_TD, qkv(x_TD), masks)
    if masks.disabled and not torch.is_grad_enabled():
        return _attend_once(qkv_TD, text, heads)
    out: Tensor = _Attend.apply(qkv_TD, text, masks, heads, dropout)  # type: ignore[no-untyped-call]
    return out


def _attend_first(
    x_TD: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    text: Packed,
    masks: DropoutStream,
    heads: int,
    dropout: float,
) -> Tensor:
    """One query per sequence, without computing keys and values.

    ``q . (W_k x) = (W_k' q) . x`` and ``sum_t p_t W_v x_t = W_v sum_t p_t x_t``, and the right
    sides need far fewer operations. The bias of the keys adds the same number to all scores of a
    sequence, so softmax cancels it.
    """
    weight = weight.view(3, heads, -1, x_TD.shape[1])
    first_SD = x_TD.index_select(0, text.first_S)
    biases = None if bias is None else bias.chunk(3)
    q_SD = F.linear(first_SD, weight[0].flatten(0, 1), biases[0] if biases else None)
    ask_HSD = torch.bmm(q_SD.view(len(q_SD), heads, -1).transpose(0, 1), weight[1])
    ask_SHD = ask_HSD.transpose(0, 1) / math.sqrt(weight.shape[2])
    attended, weighed = [], []
    layout = PaddedLayout.of(text)
    # split, because its backward concatenates; slices would each fill a whole gradient.
    tokens = layout.split(layout.spread(x_TD)[0])
    asks = ask_SHD.split([bucket.rows for bucket in text.buckets])
    for bucket, x_NLD, ask_NHD in zip(text.buckets, tokens, asks, strict=True):
        score_NHL = torch.bmm(ask_NHD, x_NLD.mT)
        if bucket.padding_NL is not None:
            score_NHL = score_NHL + bucket.padding_NL[:, None]
        probs_NHL = masks.drop(score_NHL.softmax(-1), dropout)
        attended.append(torch.bmm(probs_NHL, x_NLD))
        weighed.append(probs_NHL.sum(-1))
    out_HSE = torch.bmm(torch.cat(attended).transpose(0, 1), weight[2].mT)
    if biases is not None:  # with dropout, probabilities need not sum to 1
        out_HSE = out_HSE + torch.cat(weighed).T[:, :, None] * biases[2].view(heads, 1, -1)
    return out_HSE.transpose(0, 1).flatten(1)


def _attend_once(qkv_TD: Tensor, text: Packed, heads: int) -> Tensor:
    """For inference: torch's kernel, which stores no probabilities for a backward pass."""
    attended, layout = [], PaddedLayout.of(text)
    for bucket, x_NLD in zip(text.buckets, layout.split(layout.spread(qkv_TD)[0]), strict=True):
        q, k, v = x_NLD.unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        padding = bucket.padding_NL
        mask = None if padding is None else padding[:, None, None].to(q.dtype)
        attended_NHLE = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        attended.append(attended_NHLE.transpose(1, 2).reshape(bucket.cells, -1))
    return layout.collect(torch.cat(attended)[None])


class _Attend(torch.autograd.Function):
    """Attention bucket by bucket, with a hand-written backward.

    Autograd would allocate a gradient of the whole batch for every bucket. Saved for backward:
    queries, keys and values by head; the probabilities before and after dropout.
    """

    @staticmethod
    def forward(
        ctx: Any, qkv_TD: Tensor, text: Packed, masks: DropoutStream, heads: int, dropout: float
    ) -> Tensor:
        layout = PaddedLayout.of(text, heads=heads)
        qkv = layout.spread(qkv_TD, parts=3)
        q, k, v = (layout.split(part) for part in qkv)
        probs = _probs(q, k, layout)
        attended = masks.drop(probs, dropout).to(qkv.dtype)
        out = torch.empty_like(qkv[:1])
        for bucket in zip(layout.split_scores(attended), v, layout.split(out[0]), strict=True):
            torch.bmm(bucket[0], bucket[1], out=bucket[2])
        ctx.save_for_backward(qkv, probs, attended)
        ctx.layout = layout
        return layout.collect(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_TD: Tensor) -> tuple[Tensor | None, ...]:
        (qkv, probs, attended), layout = ctx.saved_tensors, ctx.layout
        out, scale = torch.empty_like(qkv), 1 / math.sqrt(qkv.shape[2])
        of_cell = [layout.spread_over_zeros(grad_TD), *qkv, *out]
        for (grad, q, k, v, to_q, to_k, to_v), (probs_b, attended_b) in zip(
            zip(*(layout.split(x) for x in of_cell), strict=True),
            zip(*(layout.split_scores(x) for x in (probs, attended)), strict=True),
            strict=True,
        ):
            torch.bmm(attended_b.mT, grad, out=to_v)
            # A dropped probability is 0 in attended_b, so the mask itself is not needed.
            slope = torch.bmm(grad, v.mT).to(probs.dtype).mul_(attended_b)
            slope = slope.addcmul_(probs_b, slope.sum(-1, keepdim=True), value=-1).to(q.dtype)
            torch.baddbmm(to_k, slope.mT, q, beta=0, alpha=scale, out=to_k)
            torch.baddbmm(to_q, slope, k, beta=0, alpha=scale, out=to_q)
        return layout.collect(out), None, None, None, None


def _probs(q: list[Tensor], k: list[Tensor], layout: PaddedLayout) -> Tensor:
    """Attention probabilities, as [scores]."""
    dtype = torch.promote_types(q[0].dtype, torch.float32)
    out = q[0].new_empty(layout.scores, dtype=dtype)
    scale = 1 / math.sqrt(q[0].shape[2])
    for bucket, q_b, k_b, out_b in zip(layout.buckets, q, k, layout.split_scores(out), strict=True):
        score = q_b.new_empty(out_b.shape)
        if bucket.padding_NL is None:
            torch.baddbmm(score, q_b, k_b.mT, beta=0, alpha=scale, out=score)
        else:
            score.view(bucket.rows, -1, bucket.longest).copy_(bucket.padding_NL[:, None])
            score.baddbmm_(q_b, k_b.mT, alpha=scale)
        torch.softmax(score, -1, dtype=dtype, out=out_b)
    return out


class Attention(nn.Module):
    """Self-attention with its output projection, residual and norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.qkv = Linear(shape.width, 3 * shape.width)
        self.out = Linear(shape.width, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.norm_eps)
        self.heads = shape.heads
        self.dropout = shape.dropout
        self.attention_dropout = shape.attention_dropout

    def forward(
        self,
        x_TD: Tensor,
        text: Packed,
        masks: DropoutStream,
        *,
        first_only: bool,
        deltas: Deltas | None = None,
    ) -> Tensor:
        attended_QD = attend(
            x_TD,
            self.qkv,
            text,
            masks,
            heads=self.heads,
            dropout=self.attention_dropout,
            first_only=first_only,
            deltas=deltas,
        )
        residual_QD = x_TD.index_select(0, text.first_S) if first_only else x_TD
        out_QD = added(deltas, ("out",), attended_QD, self.out(attended_QD), masks)
        return self.norm(masks.add(residual_QD, out_QD, self.dropout))
