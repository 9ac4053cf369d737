"""Tensor programs of the benchmark, each in three forms: MLIR, a function of NumPy and nodes of an ONNX model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Node = tuple[str, list[str], list[str], dict[str, Any]]
"""A node of ONNX: operator, names of inputs, names of outputs, attributes."""


@dataclass
class Work:
    """A tensor program of the benchmark with its inputs, in three forms: MLIR, NumPy and ONNX.

    Attributes:
        name: Name of the program in tables.
        text: MLIR with the function @f.
        inputs: Arguments of @f.
        numpy: Function that computes the result of @f with NumPy.
        onnx: Nodes over inputs x0, x1, ... and constants, with y as their result; empty if onnxruntime is left out.
        constants: Initializers of the nodes, by name.
        result_shape: Shape of the result.
        flops: Number of floating-point operations of a call, 0 where memory is the limit.
        bytes: Number of bytes that a call reads and writes at least, 0 where computing is the limit.
    """

    name: str
    text: str
    inputs: list[Array]
    numpy: Callable[..., Array]
    onnx: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    result_shape: tuple[int, ...] = ()
    flops: float = 0.0
    bytes: float = 0.0


def random(*shape: int) -> Array:
    """Return random f32, the same in each call."""
    return np.random.default_rng(7).standard_normal(shape, dtype=np.float32)


def matmul(m: int, k: int, n: int) -> Work:
    """Build a product of [m, k] and [k, n]."""
    text = f"""
func.func @f(%a: tensor<{m}x{k}xf32>, %b: tensor<{k}x{n}xf32>) -> tensor<{m}x{n}xf32> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{m}x{n}xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %c = linalg.matmul ins(%a, %b : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>)
      outs(%z : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  return %c : tensor<{m}x{n}xf32>
}}
"""
    name = f"matmul {m}" if m == k == n else f"matmul {m}x{k}x{n}"
    return Work(name, text, inputs=[random(m, k), random(k, n)], numpy=np.matmul,
                onnx=[("MatMul", ["x0", "x1"], ["y"], {})], result_shape=(m, n), flops=2.0 * m * k * n)  # fmt: skip


def chain(elements: int) -> Work:
    """Build five operations on elements, (max(2x + 1, 0) / 2) - 1, which can be fused."""
    t = f"tensor<{elements}xf32>"
    text = f"""
func.func @f(%x: {t}) -> {t} {{
  %two = arith.constant dense<2.0> : {t}
  %one = arith.constant dense<1.0> : {t}
  %zero = arith.constant dense<0.0> : {t}
  %half = arith.constant dense<0.5> : {t}
  %0 = arith.mulf %x, %two : {t}
  %1 = arith.addf %0, %one : {t}
  %2 = arith.maximumf %1, %zero : {t}
  %3 = arith.mulf %2, %half : {t}
  %4 = arith.subf %3, %one : {t}
  return %4 : {t}
}}
"""

    def by_numpy(x: Array) -> Array:
        """Compute the five operations one after another."""
        return np.maximum(x * np.float32(2) + np.float32(1), np.float32(0)) * np.float32(0.5) - np.float32(1)

    constants = {"two": 2.0, "one": 1.0, "zero": 0.0, "half": 0.5}
    nodes: list[Node] = [
        ("Mul", ["x0", "two"], ["a"], {}), ("Add", ["a", "one"], ["b"], {}), ("Max", ["b", "zero"], ["c"], {}),
        ("Mul", ["c", "half"], ["d"], {}), ("Sub", ["d", "one"], ["y"], {}),
    ]  # fmt: skip
    arrays = {name: np.array(value, np.float32) for name, value in constants.items()}
    moved = 4.0 * 2 * elements  # f32 read and written
    return Work(f"chain {elements >> 20} M", text, inputs=[random(elements)], numpy=by_numpy, onnx=nodes,
                constants=arrays, result_shape=(elements,), bytes=moved)  # fmt: skip


def softmax(rows: int, columns: int) -> Work:
    """Build the softmax of each row."""
    t = f"tensor<{rows}x{columns}xf32>"
    text = f"""
func.func @f(%x: {t}) -> {t} {{
  %e = tensor.empty() : {t}
  %y = linalg.softmax dimension(1) ins(%x : {t}) outs(%e : {t}) -> {t}
  return %y : {t}
}}
"""

    def by_numpy(x: Array) -> Array:
        """Compute the softmax; subtracting the maximum keeps `exp` from overflowing."""
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    moved = 4.0 * 2 * rows * columns  # f32 read and written
    return Work(f"softmax {rows}x{columns}", text, inputs=[random(rows, columns)], numpy=by_numpy,
                onnx=[("Softmax", ["x0"], ["y"], {"axis": 1})], result_shape=(rows, columns), bytes=moved)  # fmt: skip


def layer_norm(rows: int, columns: int) -> Work:
    """Build the layer normalization of rows: a sum, a sum of squared differences, then the result."""
    t, r, c = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>", f"tensor<{columns}xf32>"
    text = f"""
#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
func.func @f(%x: {t}, %gamma: {c}, %beta: {c}) -> {t} {{
  %zero = arith.constant 0.0 : f32
  %n = arith.constant {float(columns)} : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : {r}
  %e = tensor.empty() : {t}
  %z = linalg.fill ins(%zero : f32) outs(%er : {r}) -> {r}
  %sum = linalg.generic {{indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}}
      ins(%x : {t}) outs(%z : {r}) {{
  ^bb0(%in: f32, %acc: f32):
    %s = arith.addf %acc, %in : f32
    linalg.yield %s : f32
  }} -> {r}
  %var = linalg.generic {{indexing_maps = [#full, #row, #row], iterator_types = ["parallel", "reduction"]}}
      ins(%x, %sum : {t}, {r}) outs(%z : {r}) {{
  ^bb0(%in: f32, %total: f32, %acc: f32):
    %mean = arith.divf %total, %n : f32
    %d = arith.subf %in, %mean : f32
    %q = arith.mulf %d, %d : f32
    %s = arith.addf %acc, %q : f32
    linalg.yield %s : f32
  }} -> {r}
  %y = linalg.generic {{indexing_maps = [#full, #row, #row, #column, #column, #full],
                        iterator_types = ["parallel", "parallel"]}}
      ins(%x, %sum, %var, %gamma, %beta : {t}, {r}, {r}, {c}, {c}) outs(%e : {t}) {{
  ^bb0(%in: f32, %total: f32, %v: f32, %g: f32, %b: f32, %out: f32):
    %mean = arith.divf %total, %n : f32
    %d = arith.subf %in, %mean : f32
    %variance = arith.divf %v, %n : f32
    %shifted = arith.addf %variance, %eps : f32
    %scale = math.rsqrt %shifted : f32
    %normal = arith.mulf %d, %scale : f32
    %scaled = arith.mulf %normal, %g : f32
    %r = arith.addf %scaled, %b : f32
    linalg.yield %r : f32
  }} -> {t}
  return %y : {t}
}}
"""

    def by_numpy(x: Array, gamma: Array, beta: Array) -> Array:
        """Normalize each row, then apply the scale `gamma` and the bias `beta`."""
        d = x - x.mean(axis=1, keepdims=True)
        return d / np.sqrt((d * d).mean(axis=1, keepdims=True) + np.float32(1e-5)) * gamma + beta

    inputs = [random(rows, columns), random(columns), random(columns)]
    node = ("LayerNormalization", ["x0", "x1", "x2"], ["y"], {"axis": 1, "epsilon": 1e-5})
    moved = 4.0 * 2 * rows * columns  # f32 read and written
    return Work(f"layer norm {rows}x{columns}", text, inputs, numpy=by_numpy, onnx=[node],
                result_shape=(rows, columns), bytes=moved)  # fmt: skip


def mlp(batch: int, sizes: Sequence[int] = (784, 512, 512, 10)) -> Work:
    """Build dense layers with relu between them; the weights are arguments for all contenders.

    sizes: Features of the input, then of each layer's result.
    """
    signature, body, nodes = [f"%x: tensor<{batch}x{sizes[0]}xf32>"], [], []
    inputs = [random(batch, sizes[0])]
    value, onnx_value = "%x", "x0"  # names of the current activations in MLIR and in ONNX
    for layer, (k, n) in enumerate(itertools.pairwise(sizes)):
        w, b, t = f"tensor<{k}x{n}xf32>", f"tensor<{n}xf32>", f"tensor<{batch}x{n}xf32>"
        a = f"tensor<{batch}x{k}xf32>"
        signature += [f"%w{layer}: {w}", f"%b{layer}: {b}"]
        inputs += [random(k, n) * np.float32(k**-0.5), random(n)]
        is_last = layer == len(sizes) - 2
        relu = "" if is_last else "    %r = arith.maximumf %s, %zero : f32\n"
        body.append(f"""
  %e{layer} = tensor.empty() : {t}
  %z{layer} = linalg.fill ins(%zero : f32) outs(%e{layer} : {t}) -> {t}
  %m{layer} = linalg.matmul ins({value}, %w{layer} : {a}, {w}) outs(%z{layer} : {t}) -> {t}
  %h{layer} = linalg.generic {{indexing_maps = [#full, #column, #full], iterator_types = ["parallel", "parallel"]}}
      ins(%m{layer}, %b{layer} : {t}, {b}) outs(%e{layer} : {t}) {{
  ^bb0(%p: f32, %q: f32, %out: f32):
    %s = arith.addf %p, %q : f32
{relu}    linalg.yield {"%s" if is_last else "%r"} : f32
  }} -> {t}""")
        nodes += [("MatMul", [onnx_value, f"x{2 * layer + 1}"], [f"m{layer}"], {}),
                  ("Add", [f"m{layer}", f"x{2 * layer + 2}"], ["y" if is_last else f"s{layer}"], {})]  # fmt: skip
        if not is_last:
            nodes.append(("Relu", [f"s{layer}"], [f"h{layer}"], {}))
        value, onnx_value = f"%h{layer}", f"h{layer}"
    t = f"tensor<{batch}x{sizes[-1]}xf32>"
    text = f"""
#full = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
func.func @f({", ".join(signature)}) -> {t} {{
  %zero = arith.constant 0.0 : f32
{"".join(body)}
  return {value} : {t}
}}
"""

    def by_numpy(x: Array, *weights: Array) -> Array:
        """Compute the layers. weights: the weights and the bias of each layer in turn."""
        for w, b in zip(weights[:-2:2], weights[1:-2:2], strict=True):
            x = np.maximum(x @ w + b, 0)
        return x @ weights[-2] + weights[-1]

    flops = sum(2.0 * batch * k * n for k, n in itertools.pairwise(sizes))
    return Work(f"MLP batch {batch}", text, inputs, numpy=by_numpy, onnx=nodes, result_shape=(batch, sizes[-1]),
                flops=flops)  # fmt: skip


def convolution(height: int, width: int, channels: int, filters: int) -> Work:
    """Build a convolution with windows of 3x3 and a result of height x width; the input has a border of one pixel."""
    x, k = f"tensor<1x{height + 2}x{width + 2}x{channels}xf32>", f"tensor<3x3x{channels}x{filters}xf32>"
    y = f"tensor<1x{height}x{width}x{filters}xf32>"
    text = f"""
func.func @f(%x: {x}, %k: {k}) -> {y} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {y}
  %z = linalg.fill ins(%zero : f32) outs(%e : {y}) -> {y}
  %c = linalg.conv_2d_nhwc_hwcf {{dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}}
      ins(%x, %k : {x}, {k}) outs(%z : {y}) -> {y}
  return %c : {y}
}}
"""

    def by_numpy(x: Array, k: Array) -> Array:
        """Add up nine products of matrices, one for each pixel of the window."""
        y = np.zeros((height * width, filters), np.float32)
        for i in range(3):
            for j in range(3):
                y += np.ascontiguousarray(x[0, i : i + height, j : j + width]).reshape(-1, channels) @ k[i, j]
        return y.reshape(1, height, width, filters)

    # onnxruntime is left out: its convolutions have channels first, and it would have to transpose images.
    inputs = [random(1, height + 2, width + 2, channels), random(3, 3, channels, filters)]
    return Work(f"conv 3x3 {height}x{width}x{channels} to {filters}", text, inputs, numpy=by_numpy,
                result_shape=(1, height, width, filters),
                flops=2.0 * height * width * channels * filters * 9)  # fmt: skip


def works() -> list[Work]:
    """Return the programs in the table of docs/benchmarks/tensors.md, in order."""
    return [
        matmul(256, 256, 256), matmul(512, 784, 512), matmul(1024, 1024, 1024), chain(4 << 20), softmax(512, 1024),
        layer_norm(512, 1024), mlp(1), mlp(32), mlp(1024), convolution(56, 56, channels=64, filters=64),
    ]  # fmt: skip
