"""The whole network: embeddings, owned layers, pooling, neck, heads.

Shapes: T tokens, S sequences, R rows, D width.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy as shallow_copy
from functools import partial

import torch
from torch import Tensor, nn

from cotrunk.data.batches.packing import Packed, RowIndex
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.encoder.embeddings import Embeddings
from cotrunk.model.encoder.shape import Shape
from cotrunk.model.head_plan import HeadPlan, Pooling, Read, reading_order
from cotrunk.model.heads import HeadOutput, in_label_units
from cotrunk.model.sharing.owned import Owned, States
from cotrunk.model.sharing.partition import Group
from cotrunk.model.sharing.place import Place
from cotrunk.model.sharing.plan import Plan
from cotrunk.model.sharing.pooling import at_sites, pool_tokens, vectors_of

Perturb = Callable[[Tensor], Tensor]
"""Embeddings [tokens, width] -> the input of the layers."""
FIRST_ONLY: tuple[Pooling, ...] = ("pooler", "cls")
HeadOutputs = dict[tuple[str, bool], list[HeadOutput]]
"""By task, and whether its head's weights were frozen: for a row, or for each text of a pair."""


def identity(x_TD: Tensor) -> Tensor:
    return x_TD


class Network(nn.Module):
    """The modules of a plan's places; only the plan decides which tasks share a copy.

    ``owned[name]`` has the copies of a place. Parameters are named by place and owners, as in
    ``layers.3.sst+sts.up.weight``.
    """

    def __init__(
        self, shape: Shape, plan: Plan, tasks: Sequence[Task], heads: Mapping[str, HeadPlan]
    ) -> None:
        super().__init__()
        self.shape, self.plan = shape, plan
        self.tasks = {task.name: task for task in tasks}
        self.head_plans = dict(heads)
        self.owned = {place.name: Owned(place) for place in plan.places}
        for place, owned in self.places():
            for name, copy in owned.items():
                _attach(self, place.prefix(owned.owners[name]), copy)
        self.on_tokens = plan.acting("embed", "layer", "tokens")
        self.on_vectors = plan.acting("vectors")
        self.tied_tasks = plan.tied
        self.head_of = {
            task: owned.copy_of(task)
            for place, owned in self.places()
            for task in plan.tasks
            if place.acts == "head" and task in owned.owners
        }

    def forward(
        self,
        text: Packed,
        index: RowIndex,
        tasks: Sequence[str],
        masks: DropoutStream,
        perturb: Perturb = identity,
    ) -> dict[str, Tensor]:
        """The outputs of ``tasks`` for every row or site, as [rows, outputs]."""
        return self.answer(self.encode(text, tasks, masks, perturb), index, tasks, masks)

    def encode(
        self, text: Packed, tasks: Sequence[str], masks: DropoutStream, perturb: Perturb = identity
    ) -> States:
        """One vector per sequence, for the tasks and those that they read."""
        states: States = {frozenset(self.needed_by(tasks)): text.token_T}
        for place in self.on_tokens:
            states = self._pass(place, states, text, masks, perturb)
        return self._pool(states, text)

    def answer(
        self, pooled: States, index: RowIndex, tasks: Sequence[str], masks: DropoutStream
    ) -> dict[str, Tensor]:
        """Neck and heads on pooled vectors; a head runs after those it reads."""
        pooled = at_sites(pooled, index, self.head_plans)
        unchanged = {mine: x for group, x in pooled.items() if (mine := group & self.tied_tasks)}
        for place in self.on_vectors:
            pooled = self.owned[place.name].route(pooled, lambda copy, x_SD, _: copy(x_SD))
        pooled = {**pooled, **unchanged}
        if not index.swapped:
            return self._answers(pooled, index.places, tasks, masks)
        one, other = (self._answers(pooled, (place,), tasks, masks) for place in index.places)
        return {task: (one[task] + other[task]) / 2 for task in tasks}

    def needed_by(self, tasks: Sequence[str]) -> list[str]:
        """The tasks and all that they read, directly or indirectly, in reading order."""
        plans, needed = self.head_plans, set(tasks)
        order = reading_order(plans)
        for task in reversed(order):
            if task in needed:
                needed |= {read.task for read in plans[task].reads}
        return [task for task in order if task in needed]

    def places(self) -> Iterator[tuple[Place, Owned]]:
        """Every place with its copies, from the embeddings up."""
        return ((place, self.owned[place.name]) for place in self.plan.places)

    def places_of(self) -> dict[str, Place]:
        """The place of each parameter."""
        return {name: place for name, place, _ in self._parameters_of_places()}

    def owners(self) -> dict[str, Group]:
        """Which tasks own each parameter."""
        return {name: group for name, _, group in self._parameters_of_places()}

    def updated_by(self) -> dict[str, Group]:
        """The tasks that update each parameter: its owners, and those that read their heads."""
        pooled = {task for task, plan in self.head_plans.items() if plan.pooling == "pooler"}
        updated = {
            name: group & pooled if place.acts == "pool" else group
            for name, place, group in self._parameters_of_places()
        }
        for reader in reading_order(self.head_plans):
            for read in self.head_plans[reader].reads:
                if read.stops:
                    continue
                kept = self._kept_by(read)
                for name, group in updated.items():
                    if read.task in group and not name.startswith(kept):
                        updated[name] = group | {reader}
        return updated

    def reads_first(self, place: Place, tasks: Collection[str]) -> bool:
        """Whether only the first token of every sequence is used above this place."""
        top = place is self.on_tokens[-1] and place.acts == "layer"
        return top and all(self.head_plans[task].pooling in FIRST_ONLY for task in tasks)

    def _parameters_of_places(self) -> Iterator[tuple[str, Place, Group]]:
        for place, owned in self.places():
            for name, copy in owned.items():
                prefix = place.prefix(owned.owners[name])
                for parameter, _ in copy.named_parameters():
                    yield f"{prefix}.{parameter}", place, owned.owners[name]

    def _kept_by(self, read: Read) -> tuple[str, ...]:
        """Prefixes of the parameters of the read head that the reader's loss does not reach."""
        head = f"heads.{read.task}."
        if read.gradient == "frozen":
            return (head,)
        if read.what == "hidden":  # the input of the last layer, not its output
            return (f"{head}layers.{self.head_plans[read.task].depth - 1}.",)
        return ()

    def _pass(
        self, place: Place, states: States, text: Packed, masks: DropoutStream, perturb: Perturb
    ) -> States:
        owned = self.owned[place.name]
        if place.acts == "embed":
            return owned.route(states, lambda copy, _, __: perturb(copy(text, masks)))
        if place.acts == "tokens":
            return owned.route(states, lambda copy, x_TD, _: copy(x_TD, text, masks))
        return self._layer(place, states, text, masks)

    def _layer(self, place: Place, states: States, text: Packed, masks: DropoutStream) -> States:
        """One layer, with its adapters inside and beside it."""
        layer, depth = self.owned[place.name], place.depth
        assert depth is not None
        beside, inside = self.plan.beside(depth), self.plan.inside(depth)
        adapters: States = {}
        if beside is not None:
            adapters = self.owned[beside.name].route(
                states,
                lambda copy, x, t: copy(
                    x, text, masks, depth=depth, first_only=self.reads_first(place, t)
                ),
            )
            states = {mine: _of(states, mine) for mine in adapters}
        if inside is not None:  # split tasks with different deltas
            states = self.owned[inside.name].route(states, lambda _, x, __: x)

        def call(copy: nn.Module, x: Tensor, tasks: Group) -> Tensor:
            # The layer must output as many tokens as the adapter beside it.
            beside_them = _group(adapters, tasks) if adapters else tasks
            out: Tensor = copy(
                x,
                text,
                masks,
                first_only=self.reads_first(place, beside_them),
                adapter_QD=adapters.get(beside_them),
                deltas=self.owned[inside.name].copy_of(min(tasks)) if inside else None,
            )
            return out

        return layer.route(states, call)

    def _pool(self, states: States, text: Packed) -> States:
        pooled: States = {}
        for tasks, x in states.items():
            for how in dict.fromkeys(self.head_plans[task].pooling for task in self.plan.tasks):
                mine = frozenset(t for t in tasks if self.head_plans[t].pooling == how)
                if mine:
                    pooled |= self._pool_one(how, mine, x, text)
        return pooled

    def _pool_one(self, how: Pooling, tasks: Group, x: Tensor, text: Packed) -> States:
        if how not in FIRST_ONLY:
            return {tasks: pool_tokens(how, x, text)}
        first_SD = x if len(x) == text.sequences else x.index_select(0, text.first_S)
        if how == "cls":
            return {tasks: first_SD}
        (pooler,) = self.plan.acting("pool")
        return self.owned[pooler.name].route(
            {tasks: first_SD}, lambda copy, x_SD, _: torch.tanh(copy(x_SD))
        )

    def _answers(
        self, pooled: States, places: tuple[Tensor, ...], tasks: Sequence[str], masks: DropoutStream
    ) -> dict[str, Tensor]:
        needed, answers = self.needed_by(tasks), HeadOutputs()
        for name in needed:
            vectors = vectors_of(_of(pooled, frozenset([name])), places, self.head_plans[name])
            # A one-text head that a pair's head reads runs on each of the two texts.
            per_text = self.tasks[name].texts == 1 and len(vectors) == 2
            inputs = [[vector] for vector in vectors] if per_text else [vectors]
            for frozen in self._ways(name, needed, tasks):
                head = self.head_of[name]
                call: Callable[..., HeadOutput] = _frozen(head) if frozen else head
                if name in self.tied_tasks:
                    call = partial(self._tied, name)
                answers[name, frozen] = [
                    call(given, self._reads(name, answers, side if per_text else None), masks)
                    for side, given in enumerate(inputs)
                ]
        return {
            task: in_label_units(self.tasks[task], _joined(answers[task, False]).logit_RO)
            for task in tasks
        }

    def _tied(
        self, name: str, vectors: Sequence[Tensor], _: Sequence[Tensor], __: DropoutStream
    ) -> HeadOutput:
        """The answer of a head whose output layer is the word table of its task's embeddings."""
        (place,), (x_ND,) = self.plan.acting("embed"), vectors
        embeddings = self.owned[place.name].copy_of(name)
        assert isinstance(embeddings, Embeddings)
        return HeadOutput(self.head_of[name](x_ND, embeddings.words.weight), x_ND)

    def _ways(self, name: str, needed: Sequence[str], tasks: Sequence[str]) -> list[bool]:
        """Whether a head runs with its weights frozen, or not, or both."""
        reads = [read for task in needed for read in self.head_plans[task].reads]
        frozen = {read.gradient == "frozen" for read in reads if read.task == name}
        return sorted(frozen | {False} if name in tasks else frozen)

    def _reads(self, name: str, answers: HeadOutputs, side: int | None) -> list[Tensor]:
        """What a head reads, for one text of a separate pair or for the whole row."""
        reads = self.head_plans[name].reads
        found = [answers[read.task, read.gradient == "frozen"] for read in reads]
        return [
            self._read(read, _joined(each) if side is None else each[side])
            for read, each in zip(reads, found, strict=True)
        ]

    def _read(self, read: Read, answer: HeadOutput) -> Tensor:
        x = answer.hidden_RF if read.what == "hidden" else answer.logit_RO
        if read.what == "probabilities":
            task = self.tasks[read.task]
            parts = x.split(task.outputs, dim=1)
            x = torch.cat([task.labels.probabilities(part) for part in parts], dim=1)
        if read.stops:
            return x.detach()
        if not isinstance(read.gradient, str):
            return x.detach() + (x - x.detach()) * read.gradient
        return x


def _frozen(module: nn.Module) -> nn.Module:
    """A copy of a module with detached weights: gradients flow only to its inputs.

    The module itself stays unchanged, because other threads may be using it.
    """
    twin = shallow_copy(module)
    twin.__dict__["_parameters"] = {
        name: p if p is None else p.detach() for name, p in module._parameters.items()
    }
    twin.__dict__["_modules"] = {
        name: m if m is None else _frozen(m) for name, m in module._modules.items()
    }
    return twin


def _attach(root: nn.Module, path: str, module: nn.Module) -> None:
    """Register a module with torch under its path, for parameters, devices and state_dict."""
    *above, last = path.split(".")
    inner = root
    for part in above:
        if part not in inner._modules:
            if hasattr(inner, part) and inner is root:
                raise ValueError(f"{path}: {part!r} is already an attribute of Network")
            inner._modules[part] = nn.ModuleDict()
        below = inner._modules[part]
        assert below is not None
        inner = below
    inner._modules[last] = module  # not add_module: a task may be called "type" or "values"


def _group(states: States, tasks: Group) -> Group:
    return next(owners for owners in states if tasks <= owners)


def _of(states: States, tasks: Group) -> Tensor:
    return states[_group(states, tasks)]


def _joined(answers: list[HeadOutput]) -> HeadOutput:
    if len(answers) == 1:
        return answers[0]
    return HeadOutput(
        torch.cat([a.logit_RO for a in answers], dim=1),
        torch.cat([a.hidden_RF for a in answers], dim=1),
    )
