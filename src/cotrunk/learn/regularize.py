"""Losses that also ask for steady outputs: under other dropout, or when embeddings are nudged.

Shapes: R rows, O outputs, T tokens, D width.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Protocol

import torch
from torch import Tensor

from cotrunk.errors import UserError
from cotrunk.kinds.task import Task
from cotrunk.learn.options import wrong_options
from cotrunk.model.sharing.network import Perturb, identity

Criterion = Callable[[Tensor], Tensor]
"""Outputs of a batch -> its mean loss."""


class Again(Protocol):
    """Runs the same rows as often as it is asked: each ``repeat`` drops other units."""

    def __call__(self, repeat: int = 0, perturb: Perturb = identity) -> Tensor: ...


Average = Callable[[Tensor], Tensor]
"""One number for each row or site -> their mean, as the loss weighs them."""
Regularizer = Callable[[Task, Again, Criterion, torch.Generator, Average], Tensor]
"""-> the loss of a batch, what smooths it included."""


def regularizer(name: str, options: Mapping[str, float] = MappingProxyType({})) -> Regularizer:
    """The method ``name``; its generator decides where the search for a worst nudge begins."""
    if name not in REGULARIZERS:
        raise UserError(f"regularize: {name!r} is not one of {', '.join(REGULARIZERS)}")
    method = REGULARIZERS[name]
    wrong = wrong_options("regularize_options", name, method, options, ranges={}, words={})
    if wrong:
        raise UserError(*wrong)
    return partial(method, **options)


def plain(
    _task: Task,
    again: Again,
    criterion: Criterion,
    _random: torch.Generator,
    _average: Average = torch.mean,
) -> Tensor:
    """The loss and nothing else."""
    return criterion(again())


def r_drop(
    task: Task,
    again: Again,
    criterion: Criterion,
    _random: torch.Generator,
    average: Average = torch.mean,
    *,
    strength: float = 1.0,
) -> Tensor:
    """The mean loss of two passes that drop other units, and how far they disagree.

    Wu et al. (2021) take the sum of both losses + alpha x the mean of both KL divergences, or for
    scores the squared difference. This is half of it: ``strength`` is half their alpha.
    """
    a_RO, b_RO = again(0), again(1)
    apart_R = task.labels.divergence(a_RO, b_RO)
    # The mean of both directions, not their sum.
    return (criterion(a_RO) + criterion(b_RO)) / 2 + strength * average(
        apart_R / task.labels.divergence_ways
    )


def smart(
    task: Task,
    again: Again,
    criterion: Criterion,
    random: torch.Generator,
    average: Average = torch.mean,
    *,
    strength: float = 1.0,
    radius: float = 1e-2,
) -> Tensor:
    """The loss, and how far the answers move when the embeddings do (Jiang et al. 2020).

    ``strength`` is the paper's lambda, for every kind of task.
    The nudge is the worst that one step of ascent finds among those that change no number by more
    than ``radius``. All passes drop the same units, so that only the nudge makes a difference.
    The paper's radius of 1e-5 moves a MiniLM's answers by 1e-9; 1e-2 moves them by about as much as
    dropout does.
    """
    clean_RO = again()
    nudge = worst_nudge(task, again, clean_RO.detach(), random, radius=radius)
    apart_R = task.labels.divergence(clean_RO, again(0, nudge))
    return criterion(clean_RO) + strength * average(apart_R)


class Nudge:
    """Adds one tensor to the embeddings; it is drawn when their shape is first seen."""

    def __init__(self, random: torch.Generator, *, spread: float) -> None:
        self.random, self.spread = random, spread
        self.by_TD: Tensor | None = None

    def __call__(self, x_TD: Tensor) -> Tensor:
        if self.by_TD is None:
            drawn_TD = torch.randn(x_TD.shape, generator=self.random, dtype=torch.float32)
            self.by_TD = (self.spread * drawn_TD).to(x_TD).requires_grad_()
        return x_TD + self.by_TD


def worst_nudge(
    task: Task, again: Again, clean_RO: Tensor, random: torch.Generator, *, radius: float
) -> Perturb:
    """From a small random nudge, one step up the divergence to the edge of the ball.

    The step is so long (100 radii, as in the paper) that it ends outside: only the sign of the
    slope counts, except where the slope is next to nothing. At no nudge at all there is no slope.
    """
    nudge = Nudge(random, spread=radius)
    apart = task.labels.divergence(again(0, nudge), clean_RO).sum()
    assert nudge.by_TD is not None, "the embeddings were not shown to the nudge"
    (slope_TD,) = torch.autograd.grad(apart, nudge.by_TD)
    steepest_T1 = slope_TD.abs().amax(1, keepdim=True).clamp(min=torch.finfo(slope_TD.dtype).tiny)
    moved_TD = nudge.by_TD.detach() + 100 * radius * slope_TD / steepest_T1
    by_TD = moved_TD.clamp(-radius, radius)
    return lambda x_TD: x_TD + by_TD


REGULARIZERS: dict[str, Callable[..., Tensor]] = {
    "none": plain,
    "r-drop": r_drop,
    "smart": smart,
}
