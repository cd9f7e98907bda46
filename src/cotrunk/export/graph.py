"""Nodes and constants of an ONNX graph, collected one operation at a time.

Shapes: B sequences, L longest sequence, D width.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

OPSET, IR_VERSION = 20, 9
"""Gelu is an operation since opset 20, which onnxruntime reads since 1.17."""
Attributes = Mapping[str, int | float | Sequence[int]]
NO_ATTRIBUTES: Attributes = {}


class Graph:
    """Values are known by name. Names of inner values contain a slash, so that none is a task's."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def add(self, operation: str, *inputs: str, attributes: Attributes = NO_ATTRIBUTES) -> str:
        """One operation with one output, whose name is returned."""
        (output,) = self.split(operation, *inputs, outputs=1, attributes=attributes)
        return output

    def split(
        self,
        operation: str,
        *inputs: str,
        outputs: int,
        attributes: Attributes = NO_ATTRIBUTES,
    ) -> list[str]:
        from onnx import helper

        names = [f"/{len(self.nodes)}/{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(operation, inputs, names, **attributes))
        return names

    def name(self, value: str, output: str) -> None:
        """Make a value an output of the graph."""
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [value], [output]))

    def parameter(self, name: str, tensor: Tensor) -> str:
        """A parameter of the network, stored once whoever uses it."""
        if name not in self.constants:
            self.constants[name] = np.ascontiguousarray(tensor.detach().cpu().float().numpy())
        return name

    def numbers(self, *values: int) -> str:
        return self._constant(np.array(values, np.int64))

    def number(self, value: float) -> str:
        return self._constant(np.array(value, np.float32))

    def _constant(self, array: np.ndarray) -> str:
        name = f"/{array.dtype}/{array.tolist()}"
        self.constants[name] = array
        return name

    def linear(self, x: str, linear: nn.Module, name: str) -> str:
        """``x W' + b``; the weight is stored transposed, as MatMul reads it."""
        assert isinstance(linear, nn.Linear)
        weight = self.parameter(f"{name}.weight.T", linear.weight.T)
        out = self.add("MatMul", x, weight)
        if linear.bias is None:
            return out
        return self.add("Add", out, self.parameter(f"{name}.bias", linear.bias))

    def norm(self, x: str, norm: nn.Module, name: str) -> str:
        assert isinstance(norm, nn.LayerNorm)
        weight = self.parameter(f"{name}.weight", norm.weight)
        bias = self.parameter(f"{name}.bias", norm.bias)
        settings: Attributes = {"axis": -1, "epsilon": norm.eps}
        return self.add("LayerNormalization", x, weight, bias, attributes=settings)

    def slice(self, x: str, start: str, end: str, *, axis: int) -> str:
        return self.add("Slice", x, start, end, self.numbers(axis))

    def model(self, inputs: Sequence[str], outputs: Mapping[str, Sequence[int | str]]) -> Any:
        """A ``ModelProto``.

        ``inputs`` are whole numbers of shape [B, L], ``outputs`` floats of the given shapes.
        """
        from onnx import TensorProto, helper, numpy_helper

        read = [helper.make_tensor_value_info(i, TensorProto.INT64, ["B", "L"]) for i in inputs]
        made = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in outputs.items()
        ]
        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "cotrunk", read, made, constants)
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(
            graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="cotrunk"
        )
