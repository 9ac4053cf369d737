"""Graphs of quantized ONNX models, as onnxruntime's quantizer writes them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
Case = tuple[str, bytes, Array]
"""(name, model, its input)."""


class Graph:
    """A graph that is written node by node; methods take and return names of values.

    Attributes:
        x: Value of the graph's only input, whose name is "x".
        nodes: Nodes so far, in order.
        weights: Initializers so far; a constant is the last one when it is added.
    """

    def __init__(self, x: Array) -> None:
        """Begin a graph with the input `x`; weights are drawn with the same seed in each graph."""
        self.x, self.nodes, self.weights = x, list[Any](), list[Any]()
        self.rng = np.random.default_rng(3)

    def constant(self, value: Any) -> str:
        """Add an initializer, and return its name."""
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> str:
        """Append a node, and return the name of its first result, vN_0; others are vN_1, vN_2 and so on."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names[0]

    def model(self, result: str, type_: int = TensorProto.FLOAT) -> bytes:
        """Return the model that computes `result`, of an ONNX element type, with all shapes inferred, as bytes."""
        kinds = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.uint8): TensorProto.UINT8,
                 np.dtype(np.int8): TensorProto.INT8}  # fmt: skip
        x = helper.make_tensor_value_info("x", kinds[self.x.dtype], self.x.shape)
        y = helper.make_tensor_value_info(result, type_, None)
        graph = helper.make_graph(self.nodes, "g", [x], [y], self.weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())

    def weight(self, *shape: int) -> Array:
        """Return random weights of i8, of which none is -128: they are symmetric, with a zero point of 0."""
        return self.rng.integers(-127, 128, shape, np.int8)

    def scales(self, count: int) -> Array:
        """Return random scales of weights."""
        return self.rng.uniform(0.01, 0.02, count).astype(np.float32)

    def pair(self, value: str, scale: float, zero: Any) -> str:
        """Add QuantizeLinear and DequantizeLinear after a value, and return their result."""
        s, z = self.constant(np.float32(scale)), self.constant(zero)
        return self.node("DequantizeLinear", self.node("QuantizeLinear", value, s, z), s, z)

    def dequantized(self, w: Array, axis: int, per_channel: bool) -> str:
        """Add weights and their DequantizeLinear. per_channel: with a scale for each index of `axis`, else one for all.

        Constants are the weights, their scales and their zero points, in this order.
        """
        count = w.shape[axis]
        scale = self.scales(count) if per_channel else np.float32(0.015)
        zero = np.zeros(count if per_channel else (), np.int8)
        names = [self.constant(v) for v in (w, scale, zero)]
        return self.node("DequantizeLinear", *names, axis=axis)


def floats(*shape: int) -> Array:
    """Return random f32, the same in each call."""
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def levels(*shape: int) -> Array:
    """Return random quantized activations, of u8."""
    return np.random.default_rng(1).integers(0, 256, shape, np.uint8)


def operations(model: bytes) -> float:
    """Return the multiplications and additions of the products and convolutions of a model.

    Every shape must be inferred in the model, but for results of MatMulNBits.
    """
    graph = onnx.load_from_string(model).graph
    values = [*graph.input, *graph.output, *graph.value_info]
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
    shapes |= {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    total = 0
    for node in graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type in ("Conv", "QLinearConv"):
            weight = shapes[node.input[1 if node.op_type == "Conv" else 3]]  # [filters, channels of a group, *window]
            total += 2 * math.prod(shapes[node.output[0]]) * math.prod(weight[1:])
        elif node.op_type in ("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul"):
            total += 2 * math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]
        elif node.op_type == "MatMulNBits":
            total += 2 * math.prod(shapes[node.input[0]]) * attributes["N"]  # the result has no inferred shape
    return float(total)
