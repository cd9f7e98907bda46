"""Per-task gradients, combined within each group of tasks that share parameters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from cotrunk.learn.combine import Combiner, State
from cotrunk.learn.sparse import add, coalesced, dot
from cotrunk.model.sharing.partition import Group
from cotrunk.model.sharing.place import Place
from cotrunk.model.weights.initial import generator

Scope = Literal["group", "layer"]
Conflicts = dict[str, dict[str, float]]
"""place -> "a|b" -> cosine of the gradients of tasks a and b there."""


@dataclass(frozen=True)
class Block:
    """Parameters of one place that the same tasks update."""

    group: Group
    place: str
    parameters: tuple[nn.Parameter, ...]


def blocks_of(
    parameters: Iterable[tuple[str, nn.Parameter]],
    updated_by: Mapping[str, Group],
    places: Mapping[str, Place],
) -> list[Block]:
    """The parameters that two or more tasks update, grouped by those tasks and by place."""
    found: dict[tuple[Group, str], list[nn.Parameter]] = {}
    for name, parameter in parameters:
        group = updated_by[name]
        if parameter.requires_grad and len(group) > 1:
            found.setdefault((group, places[name].name), []).append(parameter)
    return [Block(group, place, tuple(found[group, place])) for group, place in found]


class Surgery:
    """Collects the tasks' gradients of a step, then combines them.

    Private parameters are left alone. Gradients are stashed microbatch by microbatch. ``norms``
    are the norms of the last step's gradients in the last block that all of its tasks update.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        tasks: Sequence[str],
        combiner: Combiner,
        *,
        seed: int,
        scope: Scope = "group",
    ) -> None:
        self.blocks, self.tasks, self.combiner = blocks, tasks, combiner
        self.seed, self.scope = seed, scope
        self.held: dict[str, dict[nn.Parameter, Tensor]] = {}
        self.state: dict[str, State] = {}
        self.norms: dict[str, float] = {}

    def stash(self, task: str) -> None:
        """Move one task's gradient out of the shared parameters, adding to what it has so far."""
        mine = self.held.setdefault(task, {})
        for parameter in (p for block in self.blocks for p in block.parameters):
            grad, parameter.grad = parameter.grad, None
            if grad is not None:
                whole = add(mine[parameter], grad) if parameter in mine else grad
                mine[parameter] = coalesced(whole)

    @torch.no_grad()
    def combine(self, step: int) -> Conflicts:
        """Set the combined gradients; returns the cosines between tasks."""
        conflicts: Conflicts = {}
        random = generator(self.seed, f"surgery {step}")
        gramians = {block: self._gramian(block) for block in self.blocks}
        self.norms = self._norms(gramians)
        for unit, blocks in self._units().items():
            tasks = [task for task in self._present(blocks[0]) if self._moves(task, blocks)]
            chosen = [self._present(blocks[0]).index(task) for task in tasks]
            if not tasks:
                continue
            gramian = torch.stack([gramians[b][chosen][:, chosen] for b in blocks]).sum(0)
            weights = self._weigh(f"{unit}/{'+'.join(tasks)}", gramian, random)
            for block in blocks:
                self._set_gradients(block, tasks, weights)
                if len(tasks) > 1:
                    cosines = _cosines(gramians[block][chosen][:, chosen], tasks)
                    conflicts.setdefault(block.place, {}).update(cosines)
        self.held = {}
        return conflicts

    def _weigh(self, key: str, gramian: Tensor, random: torch.Generator) -> Tensor:
        """Non-finite gradients are summed and left for the loop to find: solvers fail on them,
        and they would stay in a method's state for good.
        """
        if not gramian.isfinite().all():
            return torch.ones(len(gramian), dtype=torch.float64)
        out = self.combiner(gramian, random, self.state.get(key, {}))
        if out.state:
            self.state[key] = out.state
        return out.weights

    def _norms(self, gramians: Mapping[Block, Tensor]) -> dict[str, float]:
        for block in reversed(self.blocks):
            norm = gramians[block].diagonal().sqrt()
            if block.group >= set(self.held) and (norm > 0).all():
                return dict(zip(self._present(block), norm.tolist(), strict=True))
        return {}

    def _units(self) -> dict[str, list[Block]]:
        """Blocks that are combined together: all of a group, or each by itself."""
        units: dict[str, list[Block]] = {}
        for block in self.blocks:
            name = "+".join(task for task in self.tasks if task in block.group)
            units.setdefault(name if self.scope == "group" else f"{name}@{block.place}", []).append(
                block
            )
        return units

    def _present(self, block: Block) -> list[str]:
        return [task for task in self.tasks if task in block.group and task in self.held]

    def _moves(self, task: str, blocks: list[Block]) -> bool:
        return any(p in self.held[task] for block in blocks for p in block.parameters)

    def _gramian(self, block: Block) -> Tensor:
        tasks = self._present(block)
        gramian = torch.zeros(len(tasks), len(tasks), dtype=torch.float64)
        for parameter in block.parameters:
            grads = [self.held[task].get(parameter) for task in tasks]
            for i, left in enumerate(grads):
                for j, right in enumerate(grads[: i + 1]):
                    if left is not None and right is not None:
                        gramian[i, j] += dot(left, right).cpu().double()
        return gramian.tril() + gramian.tril(-1).T

    def _set_gradients(self, block: Block, tasks: list[str], weights: Tensor) -> None:
        for parameter in block.parameters:
            for task, weight in zip(tasks, weights.tolist(), strict=True):
                grad = self.held[task].pop(parameter, None)
                if grad is None:
                    continue
                if parameter.grad is None:
                    parameter.grad = grad if weight == 1 else grad.mul_(weight)
                else:
                    parameter.grad = add(parameter.grad, grad, weight=weight)


def _cosines(gramian: Tensor, tasks: Sequence[str]) -> dict[str, float]:
    length = gramian.diagonal().sqrt()
    return {
        f"{tasks[j]}|{tasks[i]}": float(gramian[i, j] / (length[i] * length[j]))
        for i in range(len(tasks))
        for j in range(i)
        if 0 < length[i] * length[j] < torch.inf
    }
