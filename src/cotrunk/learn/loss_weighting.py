"""Loss weights of the tasks: fixed by the user, or learned from losses and gradients.

A method gives the weights of a step, then observes its losses and gradient norms. No autograd
needed: the methods learn a few numbers with known derivatives.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import torch
from torch import Tensor

from cotrunk.errors import UserError
from cotrunk.kinds.task import Task
from cotrunk.learn.options import wrong_options

Numbers = Mapping[str, float]
LEAST_WEIGHT = 1e-3


class LossWeighting(Protocol):
    """Weights of the losses. ``needs_norms``: ``observe`` needs the gradient norms."""

    needs_norms: bool

    def weights(self, epoch: int, /) -> Numbers:
        """Weights of the next step, which is in ``epoch`` (from 0)."""

    def observe(self, losses: Numbers, norms: Numbers | None, epoch: int, /) -> None:
        """Update from the unweighted mean losses of a step's tasks, and their gradient norms.

        A norm is that of the task's weighted gradient in the last block that all tasks share.
        """

    def state(self) -> dict[str, Tensor]: ...

    def load(self, state: Mapping[str, Tensor]) -> None: ...


def loss_weighting(
    name: str,
    tasks: Sequence[Task],
    initial: Numbers,
    options: Mapping[str, float] = MappingProxyType({}),
) -> LossWeighting:
    """The method ``name``, starting from the ``initial`` weights."""
    if name not in LOSS_WEIGHTINGS:
        raise UserError(f"loss_weighting: {name!r} is not one of {', '.join(LOSS_WEIGHTINGS)}")
    method = LOSS_WEIGHTINGS[name]
    key = "loss_weighting_options"
    wrong = wrong_options(key, name, method, options, ranges={}, words={})
    names = [task.name for task in tasks]
    if sorted(names) != sorted(initial):
        listed = ", ".join(initial) or "nothing"
        wrong.append(
            f"loss_weighting: weights are for {listed}, but the tasks are {', '.join(names)}"
        )
    wrong += [
        f"loss_weighting: {name} needs initial weights above 0; {task} has {weight:g}"
        for task, weight in initial.items()
        if name != "fixed" and not 0 < weight < math.inf
    ]
    if wrong:
        raise UserError(*wrong)
    return method(tasks, initial, **options)


class Fixed:
    """The given weights, unchanged."""

    needs_norms = False

    def __init__(self, tasks: Sequence[Task], initial: Numbers) -> None:
        self.given = {task.name: initial[task.name] for task in tasks}

    def weights(self, _epoch: int, /) -> Numbers:
        return self.given

    def observe(self, _losses: Numbers, _norms: Numbers | None, _epoch: int, /) -> None:
        pass

    def state(self) -> dict[str, Tensor]:
        return {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        _check_shapes(state, {})


class Uncertainty:
    """Weights from learned task noise (Kendall et al. 2018).

    With s = log sigma^2 a task adds ``a exp(-s) L + s / 2`` to the objective, a = 1/2 for scores
    and 1 for classes (their equations 7 and 10). The gradient for s is ``1 / 2 - a exp(-s) L``, and
    s follows it by plain gradient descent; for a constant L it converges to ``s = log(2 a L)``,
    a weight of ``1 / (2 L)``.
    """

    needs_norms = False

    def __init__(self, tasks: Sequence[Task], initial: Numbers, *, rate: float = 0.025) -> None:
        self.rate = rate
        self.noise_factor = {task.name: task.labels.noise_factor for task in tasks}
        self.log_variance = {
            task: math.log(factor / initial[task]) for task, factor in self.noise_factor.items()
        }

    def weights(self, _epoch: int, /) -> Numbers:
        return {task: self._weight(task) for task in self.noise_factor}

    def observe(self, losses: Numbers, _norms: Numbers | None, _epoch: int, /) -> None:
        for task, loss in losses.items():
            self.log_variance[task] -= self.rate * (0.5 - self._weight(task) * loss)

    def _weight(self, task: str) -> float:
        return self.noise_factor[task] * math.exp(-self.log_variance[task])

    def state(self) -> dict[str, Tensor]:
        return {"log_variance": _tensor(self.log_variance)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        _check_shapes(state, self.state())
        self.log_variance = _numbers(self.noise_factor, state["log_variance"])


class DynamicWeightAverage:
    """The slower a task's loss falls from epoch to epoch, the more it weighs (Liu et al. 2019).

    ``weight = K softmax(ratio / temperature)`` for K tasks, where ratio is the mean loss of the
    last epoch over that of the one before it, or 1 in the first two epochs. The weights sum to K
    and multiply the initial ones.
    """

    needs_norms = False

    def __init__(
        self, tasks: Sequence[Task], initial: Numbers, *, temperature: float = 2.0
    ) -> None:
        self.temperature = temperature
        self.initial = {task.name: initial[task.name] for task in tasks}
        self.total: list[dict[str, float]] = []
        self.count: list[dict[str, float]] = []

    def weights(self, epoch: int, /) -> Numbers:
        ratios = {task: self._ratio(task, epoch) for task in self.initial}
        highest = max(ratios.values())
        powers = {t: math.exp((ratio - highest) / self.temperature) for t, ratio in ratios.items()}
        scale = len(powers) / sum(powers.values())
        return {task: self.initial[task] * power * scale for task, power in powers.items()}

    def observe(self, losses: Numbers, _norms: Numbers | None, epoch: int, /) -> None:
        while len(self.total) <= epoch:
            self.total.append(dict.fromkeys(self.initial, 0.0))
            self.count.append(dict.fromkeys(self.initial, 0.0))
        for task, loss in losses.items():
            self.total[epoch][task] += loss
            self.count[epoch][task] += 1

    def _ratio(self, task: str, epoch: int) -> float:
        last, before = self._mean(task, epoch - 1), self._mean(task, epoch - 2)
        return last / before if last is not None and before else 1.0

    def _mean(self, task: str, epoch: int) -> float | None:
        if not 0 <= epoch < len(self.count) or not self.count[epoch][task]:
            return None
        return self.total[epoch][task] / self.count[epoch][task]

    def state(self) -> dict[str, Tensor]:
        return {"total": self._table(self.total), "count": self._table(self.count)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        epochs = len(state.get("total", ()))
        expected = torch.zeros(epochs, len(self.initial))
        _check_shapes(state, {"total": expected, "count": expected})
        self.total = [_numbers(self.initial, row) for row in state["total"]]
        self.count = [_numbers(self.initial, row) for row in state["count"]]

    def _table(self, rows: list[dict[str, float]]) -> Tensor:
        values = [list(row.values()) for row in rows]
        return torch.tensor(values, dtype=torch.float64).reshape(-1, len(self.initial))


class GradNorm:
    """Tasks that learn more slowly than the others get longer gradients (Chen et al. 2018).

    G is the norm of a task's weighted gradient, r its loss relative to its first loss, divided by
    the mean of these over the tasks. The weights minimise ``sum |G - mean(G) r^alpha|`` with the
    second term held constant: the gradient for a weight is
    ``sign(G - mean(G) r^alpha) G / weight``. Then the weights are scaled to sum to the number of
    tasks. None falls below ``LEAST_WEIGHT``: a negative weight would increase its loss. A step
    with a single task changes nothing.
    """

    needs_norms = True

    def __init__(
        self, tasks: Sequence[Task], initial: Numbers, *, alpha: float = 1.5, rate: float = 0.025
    ) -> None:
        self.alpha, self.rate = alpha, rate
        self.current = _scaled({task.name: initial[task.name] for task in tasks})
        self.first = dict.fromkeys(self.current, math.nan)

    def weights(self, _epoch: int, /) -> Numbers:
        return self.current

    def observe(self, losses: Numbers, norms: Numbers | None, _epoch: int, /) -> None:
        assert norms is not None, "GradNorm needs gradient norms"
        for task, loss in losses.items():
            if math.isnan(self.first[task]) and loss > 0:
                self.first[task] = loss
        seen = [task for task in norms if not math.isnan(self.first[task])]
        if len(seen) < 2:
            return
        left = {task: losses[task] / self.first[task] for task in seen}
        mean_left, mean_norm = _mean(left), _mean({task: norms[task] for task in seen})
        moved = dict(self.current)
        for task in seen:
            wanted = mean_norm * (left[task] / mean_left) ** self.alpha if mean_left else mean_norm
            slope = _sign(norms[task] - wanted) * norms[task] / self.current[task]
            moved[task] = max(moved[task] - self.rate * slope, LEAST_WEIGHT)
        self.current = _scaled(moved)

    def state(self) -> dict[str, Tensor]:
        return {"weight": _tensor(self.current), "first_loss": _tensor(self.first)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        _check_shapes(state, self.state())
        self.first = _numbers(self.current, state["first_loss"])
        self.current = _numbers(self.current, state["weight"])


LOSS_WEIGHTINGS: dict[str, Callable[..., LossWeighting]] = {
    "fixed": Fixed,
    "uncertainty": Uncertainty,
    "dwa": DynamicWeightAverage,
    "gradnorm": GradNorm,
}


def _scaled(weights: Numbers) -> dict[str, float]:
    scale = len(weights) / sum(weights.values())
    return {task: weight * scale for task, weight in weights.items()}


def _mean(values: Numbers) -> float:
    return sum(values.values()) / len(values)


def _sign(value: float) -> float:
    return math.copysign(1.0, value) if value else 0.0


def _tensor(values: Numbers) -> Tensor:
    return torch.tensor(list(values.values()), dtype=torch.float64)


def _numbers(tasks: Mapping[str, object], values: Tensor) -> dict[str, float]:
    return dict(zip(tasks, values.double().tolist(), strict=True))


def _check_shapes(state: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    found = {name: list(value.shape) for name, value in state.items()}
    wanted = {name: list(value.shape) for name, value in expected.items()}
    if found != wanted:
        raise ValueError(f"loss weighting state: expected {wanted}, found {found}")
