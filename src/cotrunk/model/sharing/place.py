"""One position of the network as data: owners, where it acts, initialisation, learning rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cotrunk.kinds.task import Task
from cotrunk.model.encoder.shape import Shape
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.partition import Group, Partition, group_name

if TYPE_CHECKING:  # counting parameters needs no torch
    from torch import nn

Acts = Literal["embed", "layer", "beside", "inside", "tokens", "pool", "vectors", "head"]
ABOVE_POOLING = ("vectors", "head")


@dataclass(frozen=True, kw_only=True)
class Place:
    """One position of the network: each group of the partition owns a copy of its module.

    ``acts`` says when its module is called, and with what:

    - ``embed``, ``layer``, ``pool``, ``head``: the encoder's modules and a task's head;
    - ``beside``: ``(x_TD, text, masks, *, depth, first_only)``, added before the layer's last norm;
    - ``inside``: `Deltas`, added to the linear maps of its layer;
    - ``tokens``: ``(x_TD, text, masks) -> x_TD``, after the layer at its depth;
    - ``vectors``: ``x_SD -> x_SD``, after pooling.
    """

    name: str
    """Prefix of its parameters: ``layers.3``, ``heads.sst``."""
    part: str
    """Row of the parameter table, and its name in ``train.freeze`` and ``train.rates``."""
    partition: Partition
    make: Callable[[Group], nn.Module]
    size: int
    """Parameters of one copy."""
    acts: Acts
    depth: int | None = None
    """Its layer, or its position in the neck; counted from 0."""
    depths: tuple[int, ...] = ()
    """The layers beside which one module acts."""
    pretrained: bool = False
    """Published weights include it, and ``freeze = "encoder"`` freezes it."""
    rate: Literal["encoder", "head"] = "encoder"
    """``train.lr``, with ``train.layer_decay`` by depth, or ``train.head_lr``."""
    draw: Literal["normal", "linear"] = "normal"
    """Fresh weights: normal with deviation 0.02, or uniform as torch's ``nn.Linear``."""
    weights: str | None = None
    """Its name in published weights, if different."""
    tied: bool = False
    """A head whose output layer is the word table; it reads the encoder's tokens directly, not
    through ``vectors`` places.
    """
    merged_at_save: bool = False
    """Merged into the weights of its layer when saved; only for adapters ``inside``."""
    zeros: tuple[str, ...] = ()
    """Parameters that start at zero although they are not biases."""
    options: Mapping[str, object] | None = None
    """What its output depends on besides its parameters and the encoder's shape.

    None: unknown, so vectors computed with it are never cached on disk.
    """

    @property
    def total(self) -> int:
        return self.size * len(self.partition)

    @property
    def layers(self) -> tuple[int, ...]:
        """The depths it acts at."""
        return self.depths if self.depth is None else (self.depth,)

    @property
    def encodes(self) -> bool:
        """The pooled vectors depend on it."""
        return self.acts not in ABOVE_POOLING

    @property
    def series(self) -> str:
        """``layers`` of ``layers.3``: the name without the depth."""
        return self.name.removesuffix(f".{self.depth}")

    def prefix(self, group: Group) -> str:
        """Prefix of the parameters of a group's copy; a head's name already names its owner."""
        return self.name if self.acts == "head" else f"{self.name}.{group_name(group)}"


@dataclass(frozen=True)
class PlanContext:
    """Argument of the functions that add places to a plan."""

    shape: Shape
    tasks: tuple[Task, ...]
    heads: Mapping[str, HeadPlan]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(task.name for task in self.tasks)


AddPlaces = Callable[[PlanContext], Sequence[Place]]
