"""The heads of a network as an ONNX graph, above the encoder's.

A task that encodes a pair's texts separately reads all first texts in the first half of the
batch, and all second ones in the other half; one that reads pairs in both orders likewise.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import nn

from cotrunk.export.encoder_graph import Values, value_of
from cotrunk.export.graph import Graph
from cotrunk.infer.model import Model
from cotrunk.model.head_plan import HeadPlan, Read
from cotrunk.model.heads import Head, SourceAttention

ACTIVATIONS = {"relu": "Relu", "gelu": "Gelu", "tanh": "Tanh"}
PROBABILITIES = {"softmax": "Softmax", "sigmoid": "Sigmoid"}
SMALLEST_NORM = 1e-8


class _HeadValues(NamedTuple):
    """Names of a head's outputs and of the input of its last layer."""

    outputs: str
    hidden: str


class HeadGraph:
    def __init__(self, graph: Graph, model: Model) -> None:
        self.graph, self.model, self.network = graph, model, model.network

    def answers(self, pooled: Values, tasks: Sequence[str]) -> dict[str, str]:
        """The outputs of some tasks; a head is added after those it reads."""
        found: dict[str, _HeadValues] = {}
        for task in self.network.needed_by(tasks):
            found[task] = self._head(task, value_of(pooled, frozenset([task])), found)
        return {
            task: self._in_label_units(task, self._in_both_orders(task, found[task].outputs))
            for task in tasks
        }

    def _in_label_units(self, task: str, outputs: str) -> str:
        zero, unit = self.network.tasks[task].labels.output_unit
        if (zero, unit) == (0.0, 1.0):
            return outputs
        g = self.graph
        return g.add("Add", g.add("Mul", outputs, g.number(unit)), g.number(zero))

    def _in_both_orders(self, task: str, outputs: str) -> str:
        form, g = self.model.pair_formats[task], self.graph
        if not (form.texts == 2 and form.joined and form.swapped):
            return outputs
        return g.add("Div", g.add("Add", *self._halves(outputs)), g.number(2.0))

    def _halves(self, x: str) -> list[str]:
        """Both halves of a batch; of an odd one, which has no pairs, the last row is left out."""
        g = self.graph
        rows = g.add("Shape", x, attributes={"start": 0, "end": 1})
        half = g.add("Div", rows, g.numbers(2))
        both = g.add("Mul", half, g.numbers(2))
        return [g.slice(x, g.numbers(0), half, axis=0), g.slice(x, half, both, axis=0)]

    def _is_separate(self, task: str) -> bool:
        form = self.model.pair_formats[task]
        return form.texts == 2 and not form.joined

    def _head(self, task: str, x: str, found: Mapping[str, _HeadValues]) -> _HeadValues:
        g, name = self.graph, f"heads.{task}"
        plan, head = self.network.head_plans[task], self.network.head_of[task]
        assert isinstance(head, Head)
        vectors = self._halves(x) if self._is_separate(task) else [x]
        if head.project is not None:
            vectors = [g.linear(vector, head.project, f"{name}.project") for vector in vectors]
        if not len(head.layers):
            return self._cosine(task, *vectors)
        sources = [self._features(plan, vectors)]
        sources += [self._read(task, read, found[read.task]) for read in plan.reads]
        if head.mix is not None:
            x = self._mixed(head.mix, sources, f"{name}.mix")
        else:
            x = sources[0] if len(sources) == 1 else self._joined(sources)
        last = len(head.layers) - 1
        for number, layer in enumerate(head.layers):
            hidden, x = x, g.linear(x, layer, f"{name}.layers.{number}")
            if number < last or plan.activate_last:
                x = g.add(ACTIVATIONS[plan.activation], x)
        return _HeadValues(x, hidden)

    def _joined(self, values: Sequence[str]) -> str:
        return self.graph.add("Concat", *values, attributes={"axis": -1})

    def _features(self, plan: HeadPlan, vectors: Sequence[str]) -> str:
        if len(vectors) == 1:
            return vectors[0]
        g = self.graph
        if plan.pair == "sum":
            return g.add("Add", *vectors)
        parts = list(vectors)
        if plan.pair in ("hadamard", "all"):
            parts.append(g.add("Mul", *vectors))
        if plan.pair in ("difference", "all"):
            parts.append(g.add("Abs", g.add("Sub", *vectors)))
        return self._joined(parts)

    def _read(self, task: str, read: Read, answer: _HeadValues) -> str:
        g, labels = self.graph, self.network.tasks[read.task].labels
        value = answer.hidden if read.what == "hidden" else answer.outputs
        if read.what == "probabilities" and labels.activation in PROBABILITIES:
            value = g.add(PROBABILITIES[labels.activation], value)
        twice = self._is_separate(task) and self.network.tasks[read.task].texts == 1
        return self._joined(self._halves(value)) if twice else value

    def _mixed(self, mix: nn.Module, sources: Sequence[str], name: str) -> str:
        assert isinstance(mix, SourceAttention)
        g, axis = self.graph, self.graph.numbers(-2)
        brought = [
            g.add("Unsqueeze", g.linear(source, bring, f"{name}.bring.{number}"), axis)
            for number, (source, bring) in enumerate(zip(sources, mix.bring, strict=True))
        ]
        stacked = g.add("Concat", *brought, attributes={"axis": -2})
        weight = g.linear(g.add("Tanh", stacked), mix.weigh, f"{name}.weigh")
        weight = g.add("Softmax", weight, attributes={"axis": -2})
        weighed = g.add("Mul", weight, stacked)
        return g.add("ReduceSum", weighed, axis, attributes={"keepdims": 0})

    def _cosine(self, task: str, u: str, v: str) -> _HeadValues:
        g, plan = self.graph, self.network.head_plans[task]
        span = self.network.tasks[task].labels.span
        assert span is not None
        last = g.numbers(1)

        def length(x: str) -> str:
            return g.add("Max", g.add("ReduceL2", x, last), g.number(SMALLEST_NORM))

        product = g.add("ReduceSum", g.add("Mul", u, v), last)
        cosine = g.add("Div", g.add("Div", product, length(u)), length(v))
        if plan.cosine == "shifted":
            unit = g.add("Mul", g.add("Add", cosine, g.number(1.0)), g.number(0.5))
        else:
            unit = g.add({"sigmoid": "Sigmoid", "relu": "Relu"}[plan.cosine], cosine)
        zero, label_unit = self.network.tasks[task].labels.output_unit
        low, high = ((edge - zero) / label_unit for edge in span)
        score = g.add("Add", g.add("Mul", unit, g.number(high - low)), g.number(low))
        return _HeadValues(score, self._joined([u, v]))
