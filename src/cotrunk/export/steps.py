"""A task's part of the network as plain tensors: its encoder, and the linear steps above it.

What cannot be written that way is refused with a ``UserError`` that only states the reason.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

from torch import Tensor, nn

from cotrunk.errors import UserError
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.layer import Layer
from cotrunk.model.head_plan import Pooling
from cotrunk.model.heads import Head
from cotrunk.model.sharing.low_rank import LowRank
from cotrunk.model.sharing.merge import merge
from cotrunk.model.sharing.neck import NeckLayer
from cotrunk.model.sharing.network import Network

THROUGH_POOLER: tuple[Pooling, ...] = ("pooler",)


@dataclass(frozen=True, eq=False)
class Step:
    """``activation(x W' + b)``; an activation is ``relu``, ``gelu``, ``tanh`` or ``none``."""

    weight: Tensor
    bias: Tensor
    activation: str = "none"

    @property
    def width(self) -> int:
        return len(self.bias)


def encoder_tensors(network: Network, task: str, *, keep_lora: bool = False) -> dict[str, Tensor]:
    """The embeddings and layers that a task sees, with low-rank adapters merged or left out."""
    plan = network.plan
    if plan.acting("beside"):
        raise UserError("its layers have projected attention beside them (sharing.pal)")
    if plan.acting("tokens"):
        raise UserError(f"{plan.acting('tokens')[0].name} is not part of a published encoder")
    tensors: dict[str, Tensor] = {}
    for place in plan.acting("embed", "layer"):
        module = network.owned[place.name].copy_of(task)
        inside = None if place.depth is None else plan.inside(place.depth)
        if inside is not None and not keep_lora:
            module, adapter = deepcopy(module), network.owned[inside.name].copy_of(task)
            assert isinstance(module, Layer)
            assert isinstance(adapter, LowRank)
            merge(module, adapter)
        tensors |= {f"{place.name}.{name}": t for name, t in module.state_dict().items()}
    return {name: tensor.detach().cpu() for name, tensor in tensors.items()}


def vector_steps(network: Network, task: str) -> list[Step]:
    """From the first or the pooled token to the input of the head: the pooler, then the neck."""
    return list(_vector_steps(network, task))


def _vector_steps(network: Network, task: str) -> Iterator[Step]:
    if network.head_plans[task].pooling in THROUGH_POOLER:
        (place,) = network.plan.acting("pool")
        yield _step(network.owned[place.name].copy_of(task), "tanh")
    for place in network.on_vectors:
        module = network.owned[place.name].copy_of(task)
        if not isinstance(module, NeckLayer):
            raise UserError(f"it has a norm after pooling (sharing.{place.name})")
        yield _step(module.dense, "relu")


def head_steps(network: Network, task: str) -> list[Step]:
    """The layers of a head that reads one vector and nothing else."""
    plan, head = network.head_plans[task], network.head_of[task]
    if plan.reads:
        read = " and ".join(read.task for read in plan.reads)
        raise UserError(f"its head reads the outputs of {read} (tasks.{task}.reads)")
    assert isinstance(head, Head)
    steps = [] if head.project is None else [_step(head.project, "none")]
    last = len(head.layers) - 1
    for number, layer in enumerate(head.layers):
        activated = number < last or plan.activate_last
        steps.append(_step(layer, plan.activation if activated else "none"))
    return _in_label_units(steps, network.tasks[task])


def _in_label_units(steps: list[Step], task: Task) -> list[Step]:
    """The last step outputs labels, as the network does."""
    zero, unit = task.labels.output_unit
    if (zero, unit) == (0.0, 1.0) or not steps:
        return steps
    *others, last = steps
    if last.activation != "none":
        raise UserError("its labels have another unit than its activated outputs (activate_last)")
    return [*others, Step(last.weight * unit, last.bias * unit + zero)]


def projection_steps(network: Network, task: str) -> list[Step]:
    """The square layer between the vectors of a pair and their cosine, if there is one."""
    head = network.head_of[task]
    assert isinstance(head, Head)
    return [] if head.project is None else [_step(head.project, "none")]


def described(steps: list[Step]) -> str:
    """``tanh 384, 5``: activation and width of each layer."""
    return ", ".join(f"{step.activation} {step.width}".removeprefix("none ") for step in steps)


def _step(linear: nn.Module, activation: str) -> Step:
    assert isinstance(linear, nn.Linear)
    weight, bias = linear.weight.detach().cpu(), linear.bias.detach().cpu()
    return Step(weight, bias, activation)
