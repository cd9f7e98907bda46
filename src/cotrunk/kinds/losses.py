"""What each task is trained to make small. Shapes: R rows, O outputs."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from cotrunk.errors import UserError
from cotrunk.kinds.task import Kind, Task

Loss = Callable[..., Tensor]
"""(outputs_RO, targets_R) -> the loss of each row."""


def cross_entropy(output_RO: Tensor, target_R: Tensor, *, smoothing: float = 0.0) -> Tensor:
    return F.cross_entropy(output_RO, target_R.long(), reduction="none", label_smoothing=smoothing)


def binary_cross_entropy(output_RO: Tensor, target_R: Tensor, *, smoothing: float = 0.0) -> Tensor:
    smooth_R = target_R * (1 - smoothing) + smoothing / 2
    return F.binary_cross_entropy_with_logits(output_RO[:, 0], smooth_R, reduction="none")


def probability_mse(output_RO: Tensor, target_R: Tensor) -> Tensor:
    """Squared error of the probability. It is never rounded: rounding has no gradient."""
    return (torch.sigmoid(output_RO[:, 0]) - target_R).square()


def mse(output_RO: Tensor, target_R: Tensor) -> Tensor:
    return (output_RO[:, 0] - target_R).square()


LOSSES: dict[str, tuple[Loss, tuple[Kind, ...]]] = {
    "cross-entropy": (cross_entropy, ("classes",)),
    "binary-cross-entropy": (binary_cross_entropy, ("binary",)),
    "probability-mse": (probability_mse, ("binary",)),
    "mse": (mse, ("score",)),
}
USUAL = {"classes": "cross-entropy", "binary": "binary-cross-entropy", "score": "mse"}


def loss_for(task: Task, name: str | None, *, smoothing: float = 0.0) -> Loss:
    """The loss a task asks for, or the usual one of its kind."""
    chosen = name or USUAL[task.kind]
    loss, kinds = LOSSES[chosen]
    place = f"tasks.{task.name}.loss"
    if task.kind not in kinds:
        fitting = [known for known, (_, fits) in LOSSES.items() if task.kind in fits]
        raise UserError(f"{place} = {chosen!r} does not fit kind {task.kind}; use {fitting}")
    if not smoothing:
        return loss
    if chosen not in ("cross-entropy", "binary-cross-entropy"):
        raise UserError(f"tasks.{task.name}.label_smoothing needs a cross-entropy, not {chosen}")
    return partial(loss, smoothing=smoothing)
