"""The only place that routes: one copy of a module per group of tasks."""

from collections.abc import Callable

from torch import Tensor, nn

from cotrunk.model.sharing.plan import Group, Partition, group_name

States = dict[Group, Tensor]
"""What a text has become so far, by the tasks that still see the same thing."""


class Owned(nn.ModuleDict):
    """Copies of one module, keyed by the tasks that own them."""

    def __init__(self, make: Callable[[], nn.Module], partition: Partition) -> None:
        super().__init__()
        for group in partition:  # not add_module: a task may be called "type" or "values"
            self._modules[group_name(group)] = make()
        self.owners = {group_name(group): group for group in partition}

    def copy_of(self, task: str) -> nn.Module:
        return next(self[name] for name, group in self.owners.items() if task in group)

    def route(self, states: States, call: Callable[[nn.Module, Tensor, Group], Tensor]) -> States:
        """Run every state through the copies its tasks own: a shared copy runs once."""
        return {
            mine: call(self[name], x, mine)
            for tasks, x in states.items()
            for name, group in self.owners.items()
            if (mine := tasks & group)
        }
