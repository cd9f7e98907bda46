"""Two variants of AdamW, parameter groups, learning-rate schedules, and saved optimizer state."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

from cotrunk.errors import UserError
from cotrunk.learn.sparse import DenseRows, coalesced, entries

ParameterGroup = dict[str, Any]


def parameter_groups(
    named: Iterable[tuple[str, Tensor]],
    *,
    lr: float,
    decay: float,
    factors: Mapping[str, float],
) -> list[ParameterGroup]:
    """Trainable parameters by learning rate and decay; vectors (bias, norm) never decay.

    ``factors[name]`` multiplies the learning rate of one parameter (default 1).
    """
    groups: dict[tuple[float, float], ParameterGroup] = {}
    unknown = set(factors)
    for name, parameter in named:
        unknown.discard(name)
        if not parameter.requires_grad:
            continue
        factor, own_decay = factors.get(name, 1.0), decay if parameter.ndim > 1 else 0.0
        fresh = {"params": [], "lr": lr * factor, "factor": factor, "weight_decay": own_decay}
        groups.setdefault((factor, own_decay), fresh)["params"].append(parameter)
    if unknown:
        raise ValueError(f"learning-rate factors for unknown parameters: {sorted(unknown)}")
    return list(groups.values())


class Optimizer(ABC):
    """Parameter groups, and the state of every parameter. Accepts row-sparse gradients.

    Not torch's class of that name, whose constructor and step import torch's compiler: two seconds
    of CPU at the start of every training.
    """

    def __init__(
        self, groups: Iterable[ParameterGroup], *, betas: tuple[float, float], eps: float
    ) -> None:
        usual: ParameterGroup = {"betas": betas, "eps": eps, "weight_decay": 0.0}
        self.param_groups = [usual | group for group in groups]
        self.state: dict[Tensor, dict[str, Tensor]] = {}
        self.dense = DenseRows()

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            self.dense.fill(group["params"])
            self._update(group, [p for p in group["params"] if p.grad is not None])

    @abstractmethod
    def _update(self, group: ParameterGroup, parameters: list[Tensor]) -> None: ...

    def _states(self, parameters: Iterable[Tensor]) -> list[dict[str, Tensor]]:
        """The states of ``parameters``; new ones start at zero."""
        for parameter in parameters:
            if parameter not in self.state:
                moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
                count = torch.zeros((), device=self.device_of_step(parameter))
                self.state[parameter] = {"step": count, **moments}
        return [self.state[parameter] for parameter in parameters]

    def device_of_step(self, parameter: Tensor) -> torch.device:
        """The device of the step count: fused updates need it on that of the parameter."""
        return parameter.device


class AdamW(Optimizer):
    """torch's AdamW, fused (7 times faster on a CPU)."""

    def __init__(
        self,
        groups: list[ParameterGroup],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(groups, betas=betas, eps=eps)

    def _update(self, group: ParameterGroup, parameters: list[Tensor]) -> None:
        states, (first, second) = self._states(parameters), group["betas"]
        adam(
            parameters,
            [p.grad for p in parameters if p.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            decoupled_weight_decay=True,
            amsgrad=False,
            beta1=first,
            beta2=second,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )


class CourseAdamW(Optimizer):
    """The course's AdamW: bias correction folded into the rate, decay after the step.

    ``a = lr sqrt(1 - b2^t) / (1 - b1^t); p -= a m / (sqrt(v) + eps); p -= lr decay p``. In float32
    the last line changes nothing when ``lr * decay`` is below about 3e-8.
    """

    def __init__(
        self,
        groups: list[ParameterGroup],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
    ) -> None:
        super().__init__(groups, betas=betas, eps=eps)

    def device_of_step(self, parameter: Tensor) -> torch.device:  # noqa: ARG002
        return torch.device("cpu")

    def _update(self, group: ParameterGroup, parameters: list[Tensor]) -> None:
        for parameter, state in zip(parameters, self._states(parameters), strict=True):
            _course_step(parameter, state, group)


def _course_step(parameter: Tensor, state: dict[str, Tensor], group: ParameterGroup) -> None:
    gradient = parameter.grad
    assert gradient is not None
    first, second = group["betas"]
    state["step"] += 1
    count = state["step"].item()
    state["exp_avg"].mul_(first).add_(gradient, alpha=1 - first)
    state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
    rate = group["lr"] * math.sqrt(1 - second**count) / (1 - first**count)
    parameter.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-rate)
    if group["weight_decay"] > 0:
        parameter.add_(parameter, alpha=-group["lr"] * group["weight_decay"])


def set_learning_rate(optimizer: Optimizer, lr: float) -> None:
    """``lr`` for every group, times the factor of the group."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group["factor"]


OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "adamw": AdamW,
    "course": CourseAdamW,
}


def clip(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale the gradient down to norm ``max_norm``; returns its norm before."""
    grads = []
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad = coalesced(parameter.grad)
            grads.append(entries(parameter.grad))
    norm = torch.nn.utils.get_total_norm(grads)
    if norm > max_norm:
        torch._foreach_mul_(grads, max_norm / (norm + 1e-6))
    return norm


MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def optimizer_state(optimizer: Optimizer, named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of either AdamW as flat tensors: ``<parameter>.exp_avg`` and so on.

    Learning rate and decay are not included: they follow from the settings and the step.
    """
    return {
        f"{name}.{moment}": optimizer.state[parameter][moment]
        for name, parameter in named.items()
        if optimizer.state.get(parameter)
        for moment in MOMENTS
    }


def load_optimizer_state(
    optimizer: Optimizer, named: Mapping[str, Tensor], state: Mapping[str, Tensor]
) -> None:
    """The inverse of ``optimizer_state``: copies, so that the next step is bit-identical."""
    unknown = set(state) - {f"{name}.{moment}" for name in named for moment in MOMENTS}
    if unknown:
        raise ValueError(f"optimizer state of unknown parameters, such as {min(unknown)}")
    for name, parameter in named.items():
        found = {moment: state[key] for moment in MOMENTS if (key := f"{name}.{moment}") in state}
        if not found:
            optimizer.state.pop(parameter, None)
            continue
        shapes = {"exp_avg": parameter.shape, "exp_avg_sq": parameter.shape, "step": torch.Size()}
        if {moment: value.shape for moment, value in found.items()} != shapes:
            raise ValueError(f"optimizer state of {name} does not fit {list(parameter.shape)}")
        place = optimizer.device_of_step(parameter)
        optimizer.state[parameter] = {
            moment: value.to(place if moment == "step" else parameter.device, copy=True)
            for moment, value in found.items()
        }


def start_average(named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A moving average of the weights, starting at their current values."""
    return {name: parameter.detach().clone() for name, parameter in named.items()}


@torch.no_grad()
def update_average(
    average: Mapping[str, Tensor], named: Mapping[str, Tensor], *, decay: float
) -> None:
    """``average = decay average + (1 - decay) weights``, in place."""
    for name, parameter in named.items():
        average[name].lerp_(parameter, 1 - decay)


def none(step: int, *, steps: int, warmup: float = 0.0) -> float:
    """Linear warm-up, then constant."""
    return min(1.0, step / rise) if (rise := _rise(steps, warmup)) else 1.0


def linear(step: int, *, steps: int, warmup: float = 0.0) -> float:
    """Linear warm-up, then linear to 0 at the end."""
    rise = _rise(steps, warmup)
    return step / rise if step < rise else (steps - step) / max(steps - rise, 1)


def cosine(step: int, *, steps: int, warmup: float = 0.0) -> float:
    """Linear warm-up, then half a cosine to 0 at the end."""
    rise = _rise(steps, warmup)
    return step / rise if step < rise else _half_cosine((step - rise) / max(steps - rise, 1))


def one_cycle(step: int, *, steps: int, warmup: float = 0.3) -> float:
    """As torch's OneCycleLR with cosines: 1/25 up to 1, then down to 1/250,000; betas fixed."""
    low, end, top, last = 1 / 25, 1 / 250_000, warmup * steps - 1, steps - 1
    if step <= top:
        return low + (1 - low) * (1 - _half_cosine(step / top if top else 1.0))
    return end + (1 - end) * _half_cosine((step - top) / (last - top))


SCHEDULES: dict[str, Callable[..., float]] = {
    "none": none,
    "linear": linear,
    "cosine": cosine,
    "one-cycle": one_cycle,
}


def schedule(name: str, *, steps: int, warmup: float | None = None) -> Callable[[int], float]:
    """Step (from 0) -> factor of the learning rate.

    ``warmup`` is a share of ``steps``; None means the default: 0.3 for one-cycle, else 0.
    """
    if name not in SCHEDULES:
        raise UserError(f"schedule: {name!r} is not one of {', '.join(SCHEDULES)}")
    if warmup is not None and not 0.0 <= warmup <= 1.0:
        raise UserError(f"schedule: warmup = {warmup} is not in [0, 1]")
    if steps < 1:
        raise UserError(f"schedule: steps = {steps} must be 1 or more")
    factor, own = SCHEDULES[name], {} if warmup is None else {"warmup": warmup}
    return lambda step: factor(step, steps=steps, **own)


def _rise(steps: int, warmup: float) -> int:
    return math.ceil(round(warmup * steps, 9))


def _half_cosine(progress: float) -> float:
    return (1 + math.cos(math.pi * progress)) / 2
