"""Routing: one copy of a module per group of tasks."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from torch import Tensor, nn

from cotrunk.model.sharing.partition import Group, group_name
from cotrunk.model.sharing.place import Place

States = dict[Group, Tensor]
"""Hidden states by the group of tasks that share them so far."""
State = TypeVar("State")
"""A tensor, or the name of one in a graph."""


class Owned(dict[str, nn.Module]):
    """The copies of a place's module, by the name of the group that owns each."""

    def __init__(self, place: Place) -> None:
        super().__init__({group_name(group): place.make(group) for group in place.partition})
        self.owners = {group_name(group): group for group in place.partition}

    def copy_of(self, task: str) -> nn.Module:
        return next(self[name] for name, group in self.owners.items() if task in group)

    def route(
        self, states: Mapping[Group, State], call: Callable[[nn.Module, State, Group], State]
    ) -> dict[Group, State]:
        """Run every state through the copies that its tasks own; a shared copy runs once."""
        return {
            mine: call(self[name], x, mine)
            for tasks, x in states.items()
            for name, group in self.owners.items()
            if (mine := tasks & group)
        }
