"""Consistency regularizers: R-Drop (two dropout masks) and SMART (perturbed embeddings).

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
    """Runs the same rows again; each ``repeat`` has another dropout mask."""

    def __call__(self, repeat: int = 0, perturb: Perturb = identity) -> Tensor: ...


Average = Callable[[Tensor], Tensor]
"""One number per row or site -> their mean, weighted as in the loss."""
Regularizer = Callable[[Task, Again, Criterion, torch.Generator, Average], Tensor]
"""-> the loss of a batch, including the regularization term."""


def regularizer(name: str, options: Mapping[str, float] = MappingProxyType({})) -> Regularizer:
    """The method ``name``; its generator draws the start of the adversarial perturbation."""
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
    """No regularization."""
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
    """The mean loss of two passes with different dropout masks, and their divergence (R-Drop).

    Wu et al. (2021) use the sum of both losses + alpha x the mean of both KL divergences, or for
    scores the squared difference. This is half of that: ``strength`` is half their alpha.
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
    """The loss, and the divergence under an adversarial perturbation (SMART, Jiang et al. 2020).

    ``strength`` is the paper's lambda, for every kind of task. The perturbation of the embeddings
    is found by one step of ascent, with no entry above ``radius``. All passes have the same dropout
    mask, so that only the perturbation makes a difference. The paper's radius of 1e-5 changes a
    MiniLM's outputs by 1e-9; 1e-2 changes them about as much as dropout does.
    """
    clean_RO = again()
    perturbation = worst_perturbation(task, again, clean_RO.detach(), random, radius=radius)
    apart_R = task.labels.divergence(clean_RO, again(0, perturbation))
    return criterion(clean_RO) + strength * average(apart_R)


class RandomPerturbation:
    """Adds a fixed random tensor to the embeddings, drawn at the first call."""

    def __init__(self, random: torch.Generator, *, spread: float) -> None:
        self.random, self.spread = random, spread
        self.by_TD: Tensor | None = None

    def __call__(self, x_TD: Tensor) -> Tensor:
        if self.by_TD is None:
            drawn_TD = torch.randn(x_TD.shape, generator=self.random, dtype=torch.float32)
            self.by_TD = (self.spread * drawn_TD).to(x_TD).requires_grad_()
        return x_TD + self.by_TD


def worst_perturbation(
    task: Task, again: Again, clean_RO: Tensor, random: torch.Generator, *, radius: float
) -> Perturb:
    """From a small random perturbation, one step of gradient ascent, clipped to the ball.

    The step is 100 radii long, as in the paper, so mostly only the sign of the gradient counts.
    It starts at random because the gradient at zero perturbation is zero.
    """
    perturbation = RandomPerturbation(random, spread=radius)
    apart = task.labels.divergence(again(0, perturbation), clean_RO).sum()
    assert perturbation.by_TD is not None, "the forward pass did not apply the perturbation"
    (slope_TD,) = torch.autograd.grad(apart, perturbation.by_TD)
    steepest_T1 = slope_TD.abs().amax(1, keepdim=True).clamp(min=torch.finfo(slope_TD.dtype).tiny)
    moved_TD = perturbation.by_TD.detach() + 100 * radius * slope_TD / steepest_T1
    by_TD = moved_TD.clamp(-radius, radius)
    return lambda x_TD: x_TD + by_TD


REGULARIZERS: dict[str, Callable[..., Tensor]] = {
    "none": plain,
    "r-drop": r_drop,
    "smart": smart,
}
