"""A guard that looks at gradients during training: blocks that get none."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from cotrunk.errors import plural
from cotrunk.model.sharing.partition import Group
from cotrunk.model.sharing.place import Place
from cotrunk.runs.events import Finding

PATIENCE = 20
LOOK_EVERY = 50
QUOTED = 3


@dataclass
class _Watched:
    """A leaf module, the tasks that update it, and each one's steps with a zero gradient."""

    name: str
    place: Place
    group: Group
    parameters: list[nn.Parameter]
    zero_steps: Counter[str]
    suspect: bool = True
    reported: bool = False

    def has_zero_gradient(self) -> bool:
        return not any(p.grad is not None and p.grad.any() for p in self.parameters)

    def is_stuck(self, patience: int) -> bool:
        return all(self.zero_steps[task] >= patience for task in self.group)


class GradientWatch:
    """Finds trainable blocks whose gradient is exactly zero.

    A block is stuck once every task that updates it has given it a zero gradient ``patience`` times
    in a row. Blocks that had a gradient are checked only every ``LOOK_EVERY`` steps, so a healthy
    run pays only for its first steps. It has no state to save: a resumed run starts over.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        updated_by: Mapping[str, Group],
        places: Mapping[str, Place],
        *,
        patience: int = PATIENCE,
    ) -> None:
        self.patience, self.steps = patience, 0
        self.blocks: dict[str, _Watched] = {}
        for name, parameter in parameters.items():
            if parameter.requires_grad:
                block = name.rpartition(".")[0]
                fresh = _Watched(block, places[name], updated_by[name], [], Counter())
                self.blocks.setdefault(block, fresh).parameters.append(parameter)
        for watched in self.blocks.values():
            watched.parameters.sort(key=Tensor.numel)  # cheap checks first: biases before tables

    def look(self, tasks: Collection[str]) -> list[Finding]:
        """Called with a step's gradients set; ``tasks`` had a batch, and a loss weight above 0."""
        present = frozenset(tasks)
        everything = self.steps % LOOK_EVERY == 0
        self.steps += 1
        stuck: dict[Group, list[_Watched]] = {}
        for block in self.blocks.values():
            if not (block.group & present and (everything or block.suspect)):
                continue
            block.suspect = block.has_zero_gradient()
            if not block.suspect:
                block.zero_steps.clear()
                continue
            block.zero_steps.update(block.group & present)
            if not block.reported and block.is_stuck(self.patience):
                block.reported = True
                stuck.setdefault(block.group, []).append(block)
        return [
            _stuck(group, found, whole=self._heads_in(found), patience=self.patience)
            for group, found in stuck.items()
        ]

    def _heads_in(self, found: Sequence[_Watched]) -> list[str]:
        """The heads whose blocks are all in ``found``."""
        names = {block.name for block in found}
        whole: dict[str, bool] = {}
        for block in self.blocks.values():
            if block.place.acts == "head":
                head = block.place.name
                whole[head] = whole.get(head, True) and block.name in names
        return [head for head, is_whole in whole.items() if is_whole]


def _stuck(
    group: Group, found: Sequence[_Watched], *, whole: Sequence[str], patience: int
) -> Finding:
    when = f"in {patience} steps with {' and with '.join(sorted(group))}"
    names = [block.name for block in found]
    if whole:
        others = sum(block.place.name not in whole for block in found)
        more = f" or {plural(others, 'block')} below it" if others else ""
        return Finding(
            "rounded-output",
            ", ".join(whole),
            f"no gradient reached the head{more} {when}",
            "do not round, clip, compare or detach between its outputs and the loss",
        )
    more = f" and {len(names) - QUOTED} more" if len(names) > QUOTED else ""
    return Finding(
        "zero-gradient",
        ", ".join(names[:QUOTED]) + more,
        f"the gradient was exactly zero {when}",
        "look for a detach, dead units or a weight of 0; or freeze it on purpose",
    )
