"""How the gradients of several tasks become one: Gramian (k x k) -> weights (k).

``gramian[i, j]`` is the inner product of the gradients of tasks i and j, so every method below
touches only k x k numbers and the gradients themselves once, in ``weights @ gradients``.
Weights are float64 on the CPU. A gradient that is not finite must be stopped before it comes here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from math import inf
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor

from cotrunk.errors import UserError
from cotrunk.learn.options import Option, wrong_options

State = dict[str, Tensor]
Reduction = Literal["sum", "mean"]


@dataclass(frozen=True)
class Combined:
    """The weight of each task's gradient, and what the method remembers for the next step."""

    weights: Tensor
    state: State


Combiner = Callable[[Tensor, torch.Generator, State], Combined]


def combiner(name: str, options: Mapping[str, Option] = MappingProxyType({})) -> Combiner:
    """The method ``name`` as ``combine(gramian, generator, state)``; the first state is ``{}``.

    A state belongs to one list of tasks in one order. The generator decides the random order of
    pcgrad and gradvac; seed it alike on all ranks. One task alone keeps its gradient.
    """
    if name not in COMBINERS:
        raise UserError(f"gradients: {name!r} is not one of {', '.join(COMBINERS)}")
    method = COMBINERS[name]
    wrong = wrong_options(
        "gradient_options",
        name,
        method,
        options,
        ranges=RANGES,
        words={"reduction": ("sum", "mean")},
    )
    if wrong:
        raise UserError(*wrong)

    def combine(gramian: Tensor, generator: torch.Generator, state: State) -> Combined:
        if len(gramian) == 1:
            return Combined(torch.ones(1, dtype=torch.float64), state)
        return method(gramian.detach().to("cpu", torch.float64), generator, state, **options)

    # Tried once, so that a missing package is an error now and not at the first step.
    try:
        combine(torch.eye(2), torch.Generator(), {})
    except ImportError as missing:
        raise UserError(
            f'gradients: {name} needs packages that are not here: pip install "cotrunk[gradients]"'
        ) from missing
    return combine


def total(gramian: Tensor) -> Tensor:
    """The plain sum: what ``backward`` of the summed losses gives."""
    return torch.ones_like(gramian[0])


def mean(gramian: Tensor) -> Tensor:
    """The plain mean."""
    return torch.full_like(gramian[0], 1.0 / len(gramian))


def pcgrad(gramian: Tensor, generator: torch.Generator, *, reduction: Reduction = "sum") -> Tensor:
    """Each gradient loses what opposes the others, in random order (Yu et al. 2020, algorithm 1).

    A projection is a linear combination of the gradients: row i of ``parts`` says which. The
    others stay as they were. A zero gradient opposes nothing, so the division is safe.
    """
    parts = torch.eye(len(gramian)).to(gramian)
    for i, j in _random_pairs(len(gramian), generator):
        agreement = gramian[j] @ parts[i]
        if agreement < 0:
            parts[i, j] -= agreement / gramian[j, j]
    return _reduce(parts, reduction)


def gradvac(
    gramian: Tensor,
    generator: torch.Generator,
    state: State,
    *,
    beta: float = 0.01,
    reduction: Reduction = "sum",
) -> Combined:
    """Each gradient turns until its cosine with the others is what it used to be.

    Wang et al. 2021, algorithm 1: ``target`` is the moving average of the cosines. A zero gradient
    has no cosine, and a cosine of 1 is reached by no finite turn: both leave the pair as it is.
    """
    target = state["target"].clone() if state else torch.zeros_like(gramian)
    parts = torch.eye(len(gramian)).to(gramian)
    for i, j in _random_pairs(len(gramian), generator):
        own, other = (parts[i] @ gramian @ parts[i]).clamp(min=0).sqrt(), gramian[j, j].sqrt()
        if own * other == 0:
            continue
        cosine = (gramian[j] @ parts[i] / (own * other)).clamp(-1, 1)
        wanted = target[i, j].clone()
        if cosine < wanted < 1:
            sine, wanted_sine = (1 - cosine**2).sqrt(), (1 - wanted**2).sqrt()
            parts[i, j] += own * (wanted * sine - cosine * wanted_sine) / (other * wanted_sine)
        target[i, j] = (1 - beta) * wanted + beta * cosine
    return Combined(_reduce(parts, reduction), {"target": target})


def upgrad(gramian: Tensor) -> Tensor:
    """The mean of the gradients, each projected so that it opposes none (Quinton and Rey 2024)."""
    return _torchjd(lambda torchjd: torchjd.UPGradWeighting(), _unit_trace(gramian))


def dualproj(gramian: Tensor) -> Tensor:
    """The mean gradient, projected so that it opposes none (Lopez-Paz and Ranzato 2017)."""
    return _torchjd(lambda torchjd: torchjd.DualProjWeighting(), _unit_trace(gramian))


def mgda(gramian: Tensor) -> Tensor:
    """The shortest vector between the gradients (Desideri 2012; Sener and Koltun 2018)."""
    return _torchjd(lambda torchjd: torchjd.MGDAWeighting(), _unit_trace(gramian))


def cagrad(gramian: Tensor, *, radius: float = 0.5) -> Tensor:
    """The best worst task within ``radius`` of the mean, relative to its norm (Liu et al. 2021)."""
    return _torchjd(lambda torchjd: torchjd.CAGradWeighting(radius), _unit_trace(gramian))


def imtl_g(gramian: Tensor) -> Tensor:
    """The vector with equal projections on all gradients (Liu et al. 2021, impartial)."""
    return _torchjd(lambda torchjd: torchjd.IMTLGWeighting(), _unit_trace(gramian))


def aligned_mtl(gramian: Tensor) -> Tensor:
    """The mean after the principal components get equal length (Senushkin et al. 2023)."""
    return _torchjd(lambda torchjd: torchjd.AlignedMTLWeighting(), _unit_trace(gramian))


def fairgrad(gramian: Tensor, *, fairness: float = 1.0) -> Tensor:
    """The weights with ``gramian @ w = w ** (-1 / fairness)`` (Ban and Ji 2024)."""

    def solve(moving: Tensor) -> Tensor:
        scale = moving.trace() ** (-fairness / (1 + fairness))
        return scale * _torchjd(
            lambda torchjd: torchjd.FairGradWeighting(fairness), _unit_trace(moving)
        )

    return _where_moving(gramian, solve)


def nash_mtl(gramian: Tensor, *, max_norm: float = 1.0) -> Tensor:
    """The Nash bargaining solution, ``gramian @ w = 1 / w`` (Navon et al. 2022).

    It is the minimum of a convex function, ``w @ gramian @ w / 2 - sum(log w)``, so Newton steps
    find it from anywhere: no memory of the last step, and no silent fall-back to equal weights as
    when the paper's convex programs fail. The combined gradient is at most ``max_norm`` long.
    """
    weights = _where_moving(gramian, _bargain)
    norm = (weights @ gramian @ weights).clamp(min=0).sqrt()
    return weights if norm <= max_norm else weights * (max_norm / norm)


def _bargain(gramian: Tensor) -> Tensor:
    """Damped Newton on the cosines, where lengths do not matter; then back to the gradients.

    Opposite gradients have their solution at infinity: the ridge keeps it finite.
    """
    length = gramian.diagonal().sqrt()
    one = torch.ones_like(length)
    cosines = gramian / torch.outer(length, length) + 1e-6 * one.diag()
    weights = one
    for _ in range(200):
        slope = cosines @ weights - 1 / weights
        step = torch.linalg.solve(cosines + (weights**-2).diag(), slope)
        decrement = (slope @ step).clamp(min=0).sqrt()
        weights = weights - (step if decrement < 0.25 else step / (1 + decrement))
        if decrement < 1e-12:
            break
    return weights / length


def _where_moving(gramian: Tensor, solve: Callable[[Tensor], Tensor]) -> Tensor:
    """``solve`` among the tasks that have a gradient; a task without one would ask for infinity."""
    weights = torch.zeros_like(gramian[0])
    moving = gramian.diagonal() > 0
    if moving.any():
        weights[moving] = solve(gramian[moving][:, moving])
    return weights


def _random_pairs(tasks: int, generator: torch.Generator) -> list[tuple[int, int]]:
    """Every task with all others: the tasks in order, the others of each in random order."""
    orders = [torch.randperm(tasks, generator=generator).tolist() for _ in range(tasks)]
    return [(i, j) for i, order in enumerate(orders) for j in order if j != i]


def _reduce(parts: Tensor, reduction: Reduction) -> Tensor:
    return parts.sum(0) if reduction == "sum" else parts.mean(0)


def _unit_trace(gramian: Tensor) -> Tensor:
    """torchjd's solvers take a trace below 1e-4 for zero and would leave small gradients alone."""
    trace = gramian.trace()
    return gramian / trace if trace > 0 else gramian


def _torchjd(weighting: Callable[[Any], Callable[[Tensor], Tensor]], gramian: Tensor) -> Tensor:
    from torchjd import aggregation  # late: it takes a second

    return weighting(aggregation)(gramian)


Method = Callable[..., Combined]


def _pure(weigh: Callable[..., Tensor]) -> Method:
    """A method without chance or memory."""

    @wraps(weigh)
    def method(
        gramian: Tensor, _generator: torch.Generator, state: State, **options: Option
    ) -> Combined:
        return Combined(weigh(gramian, **options), state)

    return method


def _ordered(weigh: Callable[..., Tensor]) -> Method:
    """A method with chance but without memory."""

    @wraps(weigh)
    def method(
        gramian: Tensor, generator: torch.Generator, state: State, **options: Option
    ) -> Combined:
        return Combined(weigh(gramian, generator, **options), state)

    return method


COMBINERS: dict[str, Method] = {
    "sum": _pure(total),
    "mean": _pure(mean),
    "pcgrad": _ordered(pcgrad),
    "gradvac": gradvac,
    "upgrad": _pure(upgrad),
    "dualproj": _pure(dualproj),
    "mgda": _pure(mgda),
    "cagrad": _pure(cagrad),
    "nash-mtl": _pure(nash_mtl),
    "imtl-g": _pure(imtl_g),
    "aligned-mtl": _pure(aligned_mtl),
    "fairgrad": _pure(fairgrad),
}

RANGES: dict[str, tuple[float, float]] = {
    "beta": (0.0, 1.0),
    "radius": (0.0, 100.0),
    "fairness": (0.01, 100.0),
    "max_norm": (1e-6, inf),
}
