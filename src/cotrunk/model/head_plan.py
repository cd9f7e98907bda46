"""The heads as data: what each reads and its layer sizes. Does not import torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from cotrunk.kinds.task import Task

Pooling = Literal["pooler", "cls", "mean", "max", "sum", "tokens"]
"""``tokens``: no pooling; the head predicts for token positions."""
Pair = Literal["joined", "concat", "hadamard", "difference", "all", "sum", "cosine"]
Gradient = Literal["stop", "frozen", "flow"]


@dataclass(frozen=True)
class Read:
    """A head reads another task's output for the same text.

    ``gradient``: stop (no gradient), frozen (through the other head, whose own weights get none),
    flow, or a factor that scales the gradient.
    """

    task: str
    what: Literal["logits", "probabilities", "hidden"] = "logits"
    gradient: Gradient | float = "stop"

    @property
    def stops(self) -> bool:
        return self.gradient in ("stop", 0)


@dataclass(frozen=True)
class HeadPlan:
    """One task's head: from pooled vectors to outputs."""

    pooling: Pooling = "mean"
    pair: Pair = "joined"
    depth: int = 1
    width: int = 256
    activation: Literal["relu", "gelu", "tanh"] = "relu"
    activate_last: bool = False
    dropout: float = 0.1
    inner_dropout: float = 0.0
    output_dropout: float = 0.0
    cosine: Literal["shifted", "sigmoid", "relu"] = "shifted"
    projection: bool = False
    reads: tuple[Read, ...] = ()
    combine: Literal["concat", "attention"] = "concat"

    @property
    def separate(self) -> bool:
        """The two texts of a pair are encoded separately."""
        return self.pair != "joined"

    @property
    def attends(self) -> bool:
        """Attention mixes its own features and what it reads."""
        return self.combine == "attention" and bool(self.reads)


PAIR_PARTS = {
    "joined": 1,
    "concat": 2,
    "hadamard": 3,
    "difference": 3,
    "all": 4,
    "sum": 1,
    "cosine": 2,
}


def reading_order(plans: Mapping[str, HeadPlan]) -> list[str]:
    """The tasks in an order in which each comes after those it reads."""
    order: list[str] = []

    def visit(task: str, path: tuple[str, ...]) -> None:
        if task in path:
            cycle = " reads ".join((*path[path.index(task) :], task))
            raise ValueError(f"heads cannot read each other in a cycle: {cycle}")
        if task not in order:
            for read in plans[task].reads:
                visit(read.task, (*path, task))
            order.append(task)

    for task in plans:
        visit(task, ())
    return order


def input_widths(
    tasks: Mapping[str, Task], plans: Mapping[str, HeadPlan], width: int
) -> dict[str, tuple[int, ...]]:
    """Input widths of each head: its row's features, then what each of its reads adds."""
    inputs: dict[str, tuple[int, ...]] = {}
    for name in reading_order(plans):
        task, plan = tasks[name], plans[name]
        own = width * (PAIR_PARTS[plan.pair] if task.texts == 2 else 1)
        reads = []
        for read in plan.reads:
            source = tasks[read.task]
            sizes = layer_sizes(source, plans[read.task], inputs[read.task])
            # A one-text head runs on both texts of a pair that is encoded separately.
            twice = task.texts == 2 and plan.separate and source.texts == 1
            reads.append(sizes[-2 if read.what == "hidden" else -1] * (2 if twice else 1))
        inputs[name] = (own, *reads)
    return inputs


def layer_sizes(task: Task, plan: HeadPlan, inputs: Sequence[int]) -> list[int]:
    """Widths from a head's features to its outputs; a cosine has no layers, only its output."""
    if plan.pair == "cosine" and task.texts == 2:
        return [task.outputs]
    features = plan.width if plan.attends else sum(inputs)
    return [features, *[plan.width] * (plan.depth - 1), task.outputs]


def head_size(task: Task, plan: HeadPlan, width: int, inputs: Sequence[int]) -> int:
    """How many parameters a head has."""
    size = sum(_linear(a, b) for a, b in pairwise(layer_sizes(task, plan, inputs)))
    if plan.attends:
        size += sum(_linear(given, plan.width) for given in inputs) + plan.width
    return size + (_linear(width, width) if plan.projection else 0)


def _linear(wide_in: int, wide_out: int) -> int:
    return (wide_in + 1) * wide_out
