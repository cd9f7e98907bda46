"""Losses per row or site. Shapes: N rows or sites, O outputs. Needs torch: imported lazily."""

import torch
import torch.nn.functional as F
from torch import Tensor


def cross_entropy(
    output_NO: Tensor,
    target_N: Tensor,
    *,
    smoothing: float = 0.0,
    weight: tuple[float, ...] | None = None,
) -> Tensor:
    return F.cross_entropy(
        output_NO,
        target_N.long(),
        weight=None if weight is None else output_NO.new_tensor(weight),
        reduction="none",
        label_smoothing=smoothing,
    )


def binary_cross_entropy(
    output_NO: Tensor,
    target_N: Tensor,
    *,
    smoothing: float = 0.0,
    weight: tuple[float, ...] | None = None,
) -> Tensor:
    """Equals ``cross_entropy`` with the two logits (0, output)."""
    smooth_N = target_N * (1 - smoothing) + smoothing / 2
    if weight is None:
        return F.binary_cross_entropy_with_logits(output_NO[:, 0], smooth_N, reduction="none")
    no, yes = weight
    log_yes_N, log_no_N = F.logsigmoid(output_NO[:, 0]), F.logsigmoid(-output_NO[:, 0])
    return -(yes * smooth_N * log_yes_N + no * (1 - smooth_N) * log_no_N)


def probability_mse(
    output_NO: Tensor, target_N: Tensor, *, weight: tuple[float, ...] | None = None
) -> Tensor:
    """Squared error of the probability, which is not rounded: rounding has no gradient."""
    loss_N = (torch.sigmoid(output_NO[:, 0]) - target_N).square()
    return loss_N if weight is None else loss_N * loss_N.new_tensor(weight)[target_N.long()]


def mse(output_NO: Tensor, target_N: Tensor, *, unit: float = 1.0) -> Tensor:
    """The square of the error, measured in ``unit``."""
    return ((output_NO[:, 0] - target_N) / unit).square()


def binary_cross_entropies(output_NO: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """The mean of the binary cross-entropies of all classes."""
    smooth_NO = target.view_as(output_NO) * (1 - smoothing) + smoothing / 2
    return F.binary_cross_entropy_with_logits(output_NO, smooth_NO, reduction="none").mean(1)


def symmetric_divergence(a_NO: Tensor, b_NO: Tensor) -> Tensor:
    """``KL(a|b) + KL(b|a)``, which is ``sum (p - q)(log p - log q)``, so never below 0."""
    log_p_NO, log_q_NO = a_NO.log_softmax(1), b_NO.log_softmax(1)
    return ((log_p_NO.exp() - log_q_NO.exp()) * (log_p_NO - log_q_NO)).sum(1)
