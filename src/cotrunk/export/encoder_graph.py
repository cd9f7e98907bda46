"""The encoder of a plan as an ONNX graph: the same routing as the network, on padded texts.

Shapes: B sequences, L longest sequence, D width, H heads.
"""

import math
from collections.abc import Sequence
from copy import deepcopy
from functools import partial

import torch
from torch import nn

from cotrunk.export.graph import Graph
from cotrunk.model.encoder.attention import QKV
from cotrunk.model.encoder.embeddings import Embeddings
from cotrunk.model.encoder.layer import Layer
from cotrunk.model.encoder.shape import LinearMap
from cotrunk.model.head_plan import Pooling
from cotrunk.model.sharing.low_rank import LowRank, LowRankPair
from cotrunk.model.sharing.merge import merge
from cotrunk.model.sharing.neck import NeckLayer
from cotrunk.model.sharing.network import FIRST_ONLY, Network
from cotrunk.model.sharing.partition import Group
from cotrunk.model.sharing.place import Place
from cotrunk.model.sharing.projected import ProjectedAttention

IDS, MASK, SEGMENTS = "input_ids", "attention_mask", "token_type_ids"
FLOAT, BOOL = 1, 9
"""Numbers of types in ONNX."""
HIDDEN = -1e30
"""Added to the scores of padding: its probability becomes exactly 0, and nothing overflows."""
Values = dict[Group, str]
"""Names of values, by the group of tasks that share them so far."""


class EncoderGraph:
    """Adds the encoder of some tasks to a graph; each shared module is added once."""

    def __init__(self, graph: Graph, network: Network) -> None:
        self.graph, self.network = graph, network
        self.inputs = [IDS, MASK, *([SEGMENTS] if network.shape.segments > 1 else [])]
        mask_BL = graph.add("Cast", MASK, attributes={"to": FLOAT})
        self.mask_BL1 = graph.add("Unsqueeze", mask_BL, graph.numbers(2))
        hidden = graph.add("Sub", graph.number(1.0), mask_BL)
        hidden = graph.add("Mul", hidden, graph.number(HIDDEN))
        self.padding_B11L = graph.add("Unsqueeze", hidden, graph.numbers(1, 2))

    def pooled(self, tasks: Sequence[str]) -> Values:
        """The input of each head, as in ``Network.encode``, then neck and norm."""
        network = self.network
        states: Values = {frozenset(tasks): IDS}
        for place in network.on_tokens:
            states = self._pass(place, states)
        pooled = self._pool(states)
        tied = network.tied_tasks
        unchanged = {mine: x for group, x in pooled.items() if (mine := group & tied)}
        for place in network.on_vectors:
            pooled = network.owned[place.name].route(pooled, partial(self._on_vectors, place))
        return {**pooled, **unchanged}

    def _pass(self, place: Place, states: Values) -> Values:
        owned = self.network.owned[place.name]
        if place.acts == "embed":
            return owned.route(
                states, lambda copy, _, mine: self._embed(copy, prefix_of(place, mine))
            )
        assert place.acts == "layer", f"{place.name} was not refused"
        return self._layer(place, states)

    def _embed(self, embeddings: nn.Module, prefix: str) -> str:
        assert isinstance(embeddings, Embeddings)
        g, first = self.graph, embeddings.first_position
        words = g.parameter(f"{prefix}.words.weight", embeddings.words.weight)
        positions = g.parameter(f"{prefix}.positions.weight", embeddings.positions.weight)
        shape = g.add("Shape", IDS, attributes={"start": 1})
        end = g.add("Add", shape, g.numbers(first))
        x = g.add(
            "Add", g.add("Gather", words, IDS), g.slice(positions, g.numbers(first), end, axis=0)
        )
        if embeddings.segments is not None:
            table = g.parameter(f"{prefix}.segments.weight", embeddings.segments.weight)
            only_one = len(embeddings.segments.weight) == 1
            x = g.add("Add", x, table if only_one else g.add("Gather", table, SEGMENTS))
        return g.norm(x, embeddings.norm, f"{prefix}.norm")

    def _layer(self, place: Place, states: Values) -> Values:
        """One layer, with its adapters inside and beside it, as ``Network._layer``."""
        network, depth = self.network, place.depth
        assert depth is not None
        beside, inside = network.plan.beside(depth), network.plan.inside(depth)
        adapters: Values = {}
        if beside is not None:
            adapters = network.owned[beside.name].route(
                states,
                lambda copy, x, mine: self._projected(copy, x, depth, prefix_of(beside, mine)),
            )
            states = {mine: value_of(states, mine) for mine in adapters}
        if inside is not None:
            states = network.owned[inside.name].route(states, lambda _, x, __: x)

        def call(layer: nn.Module, x: str, tasks: Group) -> str:
            assert isinstance(layer, Layer)
            prefix = prefix_of(place, tasks)
            beside_it = value_of(adapters, tasks) if adapters else None
            if inside is None:
                return self._run_layer(layer, x, prefix, beside_it)
            adapter = network.owned[inside.name].copy_of(min(tasks))
            assert isinstance(adapter, LowRank)
            if group_of(place, tasks) <= group_of(inside, tasks):  # the layer's only adapter
                layer = deepcopy(layer)
                merge(layer, adapter)
                return self._run_layer(layer, x, prefix, beside_it)
            delta = _Delta(self.graph, adapter, prefix_of(inside, tasks))
            return self._run_layer(layer, x, prefix, beside_it, delta)

        return network.owned[place.name].route(states, call)

    def _run_layer(
        self, layer: Layer, x: str, prefix: str, beside: str | None, delta: "_Delta | None" = None
    ) -> str:
        g, attention = self.graph, layer.attention

        def linear(x: str, module: nn.Module, name: str, maps: Sequence[LinearMap]) -> str:
            out = g.linear(x, module, f"{prefix}.{name}")
            return out if delta is None else delta.added(maps, x, out)

        qkv = linear(x, attention.qkv, "attention.qkv", QKV)
        attended = self._attend(qkv, heads=attention.heads, width=self.network.shape.width)
        out = linear(attended, attention.out, "attention.out", ("out",))
        h = g.norm(g.add("Add", x, out), attention.norm, f"{prefix}.attention.norm")
        inner = g.add("Gelu", linear(h, layer.up, "up", ("up",)))
        out = g.add("Add", h, linear(inner, layer.down, "down", ("down",)))
        if beside is not None:
            out = g.add("Add", out, beside)
        return g.norm(out, layer.norm, f"{prefix}.norm")

    def _projected(self, module: nn.Module, x: str, depth: int, prefix: str) -> str:
        assert isinstance(module, ProjectedAttention)
        g = self.graph
        entered = g.linear(x, module.enter, f"{prefix}.enter")
        qkv = g.linear(entered, module.qkv[str(depth)], f"{prefix}.qkv.{depth}")
        attended = self._attend(qkv, heads=module.heads, width=module.enter.out_features)
        out = g.linear(attended, module.leave, f"{prefix}.leave")
        return g.add("Gelu", out) if module.gelu else out

    def _attend(self, qkv: str, *, heads: int, width: int) -> str:
        g = self.graph
        parts = g.split("Split", qkv, outputs=3, attributes={"axis": -1, "num_outputs": 3})
        by_head = [g.add("Reshape", part, g.numbers(0, 0, heads, -1)) for part in parts]
        orders = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
        q, k, v = (
            g.add("Transpose", part, attributes={"perm": order})
            for part, order in zip(by_head, orders, strict=True)
        )
        scores = g.add("MatMul", g.add("Mul", q, g.number(math.sqrt(heads / width))), k)
        probs = g.add("Softmax", g.add("Add", scores, self.padding_B11L), attributes={"axis": -1})
        out = g.add("Transpose", g.add("MatMul", probs, v), attributes={"perm": (0, 2, 1, 3)})
        return g.add("Reshape", out, g.numbers(0, 0, -1))

    def _pool(self, states: Values) -> Values:
        heads = self.network.head_plans
        pooled: Values = {}
        for tasks, x in states.items():
            for how in dict.fromkeys(heads[task].pooling for task in self.network.plan.tasks):
                mine = frozenset(task for task in tasks if heads[task].pooling == how)
                if mine:
                    pooled |= self._pool_one(how, mine, x)
        return pooled

    def _pool_one(self, how: Pooling, tasks: Group, x: str) -> Values:
        g = self.graph
        if how in FIRST_ONLY:
            first = g.add("Squeeze", g.slice(x, g.numbers(0), g.numbers(1), axis=1), g.numbers(1))
            if how == "cls":
                return {tasks: first}
            (place,) = self.network.plan.acting("pool")
            return self.network.owned[place.name].route(
                {tasks: first},
                lambda copy, x, mine: g.add("Tanh", g.linear(x, copy, prefix_of(place, mine))),
            )
        if how == "tokens":
            return {tasks: x}
        if how == "max":
            shown = g.add("Cast", self.mask_BL1, attributes={"to": BOOL})
            x = g.add("Where", shown, x, g.number(-math.inf))
            return {tasks: g.add("ReduceMax", x, g.numbers(1), attributes={"keepdims": 0})}
        total = g.add("Mul", x, self.mask_BL1)
        total = g.add("ReduceSum", total, g.numbers(1), attributes={"keepdims": 0})
        if how == "sum":
            return {tasks: total}
        count = g.add("ReduceSum", self.mask_BL1, g.numbers(1), attributes={"keepdims": 0})
        return {tasks: g.add("Div", total, count)}

    def _on_vectors(self, place: Place, module: nn.Module, x: str, mine: Group) -> str:
        g, prefix = self.graph, prefix_of(place, mine)
        if isinstance(module, NeckLayer):
            return g.add("Relu", g.linear(x, module.dense, f"{prefix}.dense"))
        return g.norm(x, module, prefix)


class _Delta:
    """Low-rank adapters of one owner, kept apart from a layer that several owners share."""

    def __init__(self, graph: Graph, adapter: LowRank, prefix: str) -> None:
        self.graph, self.adapter, self.prefix = graph, adapter, prefix

    def added(self, maps: Sequence[LinearMap], x: str, out: str) -> str:
        pairs = {name: self.adapter[name] for name in maps if name in self.adapter}
        if not pairs:
            return out
        g, name = self.graph, f"{self.prefix}.{'+'.join(pairs)}"
        a_RD = torch.cat([_pair(pair).A for pair in pairs.values()])
        b_OR = torch.block_diag(
            *(
                _pair(pairs[one]).B
                if one in pairs
                else a_RD.new_zeros(self.adapter.width_out[one], 0)
                for one in maps
            )
        )
        code = g.add("MatMul", x, g.parameter(f"{name}.A.T", a_RD.T))
        product = g.add("MatMul", code, g.parameter(f"{name}.B.T", self.adapter.scale * b_OR.T))
        return g.add("Add", out, product)


def _pair(module: nn.Module) -> LowRankPair:
    assert isinstance(module, LowRankPair)
    return module


def has_operation(module: nn.Module) -> bool:
    """Whether a module between pooling and heads is one that ``EncoderGraph`` knows."""
    return isinstance(module, NeckLayer | nn.LayerNorm)


def group_of(place: Place, tasks: Group) -> Group:
    """The owners of the copy that some tasks use."""
    return next(group for group in place.partition if tasks <= group)


def prefix_of(place: Place, tasks: Group) -> str:
    return place.prefix(group_of(place, tasks))


def value_of(values: Values, tasks: Group) -> str:
    return next(value for owners, value in values.items() if tasks <= owners)
