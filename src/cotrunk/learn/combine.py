"""Gradient combination methods: Gramian (k x k) -> one weight per task (k).

``gramian[i, j]`` is the inner product of the gradients of tasks i and j, so every method below
works on k x k numbers; the gradients themselves are read once, in ``weights @ gradients``.
Weights are float64 on the CPU. Gradients must be finite: the caller checks.
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
    """The weight of each task's gradient, and the method's state for the next step."""

    weights: Tensor
    state: State


Combiner = Callable[[Tensor, torch.Generator, State], Combined]


def combiner(name: str, options: Mapping[str, Option] = MappingProxyType({})) -> Combiner:
    """The method ``name`` as ``combine(gramian, generator, state)``; the first state is ``{}``.

    A state is valid for one list of tasks in one order. The generator sets the random order of
    pcgrad and gradvac. The gradient of a single task is left unchanged.
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

    # A trial call, so that a missing package is an error now and not at the first step.
    try:
        combine(torch.eye(2), torch.Generator(), {})
    except ImportError as missing:
        raise UserError(
            f'gradients: {name} needs extra packages: pip install "cotrunk[gradients]"'
        ) from missing
    return combine


def total(gramian: Tensor) -> Tensor:
    """The sum, as ``backward`` of the summed losses gives it."""
    return torch.ones_like(gramian[0])


def mean(gramian: Tensor) -> Tensor:
    """The mean."""
    return torch.full_like(gramian[0], 1.0 / len(gramian))


def pcgrad(gramian: Tensor, generator: torch.Generator, *, reduction: Reduction = "sum") -> Tensor:
    """Project conflicting components out of each gradient (Yu et al. 2020, algorithm 1).

    Row i of ``parts`` holds the coefficients of task i's projected gradient, which is projected
    against the original gradients of the other tasks, in random order. A zero gradient never
    conflicts, so the division is safe.
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
    """Raise each pair's cosine to its moving average (Wang et al. 2021, algorithm 1).

    ``target`` is the moving average of the cosines. A pair is left unchanged if one gradient is
    zero (no cosine), or the target is 1 (no finite step reaches it).
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
    """The mean of the gradients, each projected to conflict with none (Quinton and Rey 2024)."""
    return _torchjd(lambda torchjd: torchjd.UPGradWeighting(), _unit_trace(gramian))


def dualproj(gramian: Tensor) -> Tensor:
    """The mean gradient, projected to conflict with none (Lopez-Paz and Ranzato 2017)."""
    return _torchjd(lambda torchjd: torchjd.DualProjWeighting(), _unit_trace(gramian))


def mgda(gramian: Tensor) -> Tensor:
    """The shortest convex combination of the gradients (Desideri 2012; Sener and Koltun 2018)."""
    return _torchjd(lambda torchjd: torchjd.MGDAWeighting(), _unit_trace(gramian))


def cagrad(gramian: Tensor, *, radius: float = 0.5) -> Tensor:
    """Maximise the worst task's gain within ``radius`` x norm of the mean (Liu et al. 2021)."""
    return _torchjd(lambda torchjd: torchjd.CAGradWeighting(radius), _unit_trace(gramian))


def imtl_g(gramian: Tensor) -> Tensor:
    """The vector with equal projections on all gradients (Liu et al. 2021, impartial)."""
    return _torchjd(lambda torchjd: torchjd.IMTLGWeighting(), _unit_trace(gramian))


def aligned_mtl(gramian: Tensor) -> Tensor:
    """The mean after scaling the principal components to equal length (Senushkin et al. 2023)."""
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

    It is the minimum of a convex function, ``w @ gramian @ w / 2 - sum(log w)``, so Newton's
    method finds it from any start: no state between steps, and no silent fallback to equal weights
    as when the paper's convex programs fail. The combined gradient is clipped to ``max_norm``.
    """
    weights = _where_moving(gramian, _bargain)
    norm = (weights @ gramian @ weights).clamp(min=0).sqrt()
    return weights if norm <= max_norm else weights * (max_norm / norm)


def _bargain(gramian: Tensor) -> Tensor:
    """Damped Newton on the cosine matrix, rescaled by the gradients' norms at the end.

    For opposite gradients the solution is at infinity: the ridge keeps it finite.
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
    """``solve`` for the tasks with a nonzero gradient; for the others it would diverge."""
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
    """torchjd's solvers treat a trace below 1e-4 as zero and would ignore small gradients."""
    trace = gramian.trace()
    return gramian / trace if trace > 0 else gramian


def _torchjd(weighting: Callable[[Any], Callable[[Tensor], Tensor]], gramian: Tensor) -> Tensor:
    from torchjd import aggregation  # imported late: takes a second

    return weighting(aggregation)(gramian)


Method = Callable[..., Combined]


def _pure(weigh: Callable[..., Tensor]) -> Method:
    """A method without randomness or state."""

    @wraps(weigh)
    def method(
        gramian: Tensor, _generator: torch.Generator, state: State, **options: Option
    ) -> Combined:
        return Combined(weigh(gramian, **options), state)

    return method


def _ordered(weigh: Callable[..., Tensor]) -> Method:
    """A method with randomness but without state."""

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


def compares_tasks(name: str) -> bool:
    """Whether a method compares the gradients of tasks; otherwise it weighs all equally."""
    return name not in ("sum", "mean")


RANGES: dict[str, tuple[float, float]] = {
    "beta": (0.0, 1.0),
    "radius": (0.0, 100.0),
    "fairness": (0.01, 100.0),
    "max_norm": (1e-6, inf),
}
