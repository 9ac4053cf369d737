"""Kernels of the benchmark: models of bench/models, with the operations and bytes of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from catalog import Model, f32, integers, normal
from jax import lax

Tree = dict[str, Any]
"""Weights by name."""
Numpy = Callable[..., Any]
"""Function of arrays in the order of `Model.arguments`: weights in the order of their names, then inputs."""


@dataclass(frozen=True)
class Work:
    """A kernel.

    model: a function of (weights, *inputs) under the kernel's name; contenders that keep weights may lay them out once.
    operations: multiplications and additions of a call. bytes: what a call has to read and write at least.
    numpy: the same computation in NumPy; None if NumPy has no function for it. text: MLIR that pydispatch and IREE
    compile in place of the model's StableHLO, for features that JAX lacks, such as dynamic sizes; None: the model's.
    """

    model: Model
    operations: float
    bytes: float
    numpy: Numpy | None = None
    text: str | None = None

    @property
    def name(self) -> str:
        return self.model.name


def work(
    name: str, function: Callable[..., Any], weights: Tree, *inputs: np.ndarray, numpy: Numpy | None = None,
    tolerance: float = 1e-4, moved: float | None = None, text: str | None = None,
) -> Work:  # fmt: skip
    """Return a kernel whose operations XLA counts.

    Args:
        name, function, weights, inputs, tolerance: The attributes of its `Model`; `function` takes the weights first.
        numpy, text: As in `Work`.
        moved: Bytes that a call reads and writes at least; None: those of all arguments and results.
    """
    model = Model(name, function, weights, inputs, tolerance)
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
    lowered = jax.jit(function, keep_unused=True).lower(weights, *specs)
    counted = lowered.cost_analysis() or {}
    if moved is None:
        arrays = jax.tree.leaves((weights, specs, jax.eval_shape(function, weights, *specs)))
        moved = float(sum(int(np.prod(a.shape)) * a.dtype.itemsize for a in arrays))
    return Work(model, float(counted.get("flops", 0.0)), moved, numpy, text)


def product(name: str, m: int, k: int, n: int, transposed: bool = False) -> Work:
    """Return [m, k] times weights [k, n].

    transposed: weights are stored as [n, k], as in linear layers of PyTorch and in tied embeddings.
    """
    weights = {"w": f32(n, k) if transposed else f32(k, n)}

    def multiply(x: Any, w: Any) -> Any:
        """Return the product of arrays of JAX or NumPy."""
        return x @ (w.T if transposed else w)

    return work(
        f"{name} {m}x{k}x{n}{'t' if transposed else ''}", lambda p, x: multiply(x, p["w"]), weights, normal(m, k),
        numpy=lambda w, x: multiply(x, w),
    )  # fmt: skip


def convolution(
    name: str, size: tuple[int, ...], inputs: int, outputs: int, window: int, stride: int = 1, *,
    channels_first: bool = False, groups: int = 1, dilation: int = 1,
) -> Work:  # fmt: skip
    """Return a convolution of one image or signal, padded so that a stride of 1 keeps its size.

    Args:
        name: Start of the kernel's name.
        size: Height and width of the input image, or length of a signal.
        inputs, outputs: Channels.
        window, stride, dilation: The same in each spatial dimension.
        channels_first: Whether channels are before spatial dimensions, as in PyTorch.
        groups: Of channels; as many as channels for a depthwise convolution.
    """
    spatial = "HW" if len(size) == 2 else "W"
    image, kernel = ("NC" + spatial, "OI" + spatial) if channels_first else (f"N{spatial}C", f"{spatial}IO")
    filters, windows = (outputs, inputs // groups), (window,) * len(size)
    weights = {"w": f32(*filters, *windows) if channels_first else f32(*windows, *filters[::-1])}
    x = normal(1, inputs, *size) if channels_first else normal(1, *size, inputs)

    def run(p: Tree, x: jax.Array) -> jax.Array:
        """Convolve `x` with the filters p["w"], padded so that a stride of 1 keeps its size."""
        return lax.conv_general_dilated(
            x, p["w"], (stride,) * len(size), "SAME", rhs_dilation=(dilation,) * len(size), feature_group_count=groups,
            dimension_numbers=(image, kernel, image),
        )  # fmt: skip

    # The name has only what is not the default. The layout of a signal N W C is called
    # nhc, as in the names of earlier reports.
    window_text = f"{'x'.join([str(window)] * len(size))}" + (f"/{stride}" if stride > 1 else "")
    if dilation > 1:
        window_text += f" dilated {dilation}"
    if 1 < groups < inputs:  # as many groups as inputs: a depthwise convolution, which its name says
        window_text += f" groups {groups}"
    if len(size) == 1:
        layout = "ncw" if channels_first else "nhc"
    else:
        layout = "nchw" if channels_first else "nhwc"
    shape = "x".join(map(str, size))
    return work(f"{name} {window_text} {shape}x{inputs} to {outputs} {layout}", run, weights, x)


def transposed_convolution(name: str, size: int, inputs: int, outputs: int, window: int, stride: int) -> Work:
    """Return a transposed convolution, channels last, of an image of size x size to stride times that size."""

    def run(p: Tree, x: jax.Array) -> jax.Array:
        """Apply the transposed convolution with the filters p["w"]."""
        return lax.conv_transpose(x, p["w"], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    weights = {"w": f32(window, window, inputs, outputs)}
    return work(f"{name} {window}x{window}*{stride} {size}x{size}x{inputs} to {outputs}", run, weights,
                normal(1, size, size, inputs))  # fmt: skip


def pooling(name: str, kind: str, size: int, channels: int, window: int, stride: int) -> Work:
    """Return pooling of a square image of size x size, channels last. kind: "max", padded, or "mean", not padded."""
    shape, steps = (1, window, window, 1), (1, stride, stride, 1)

    def run(_: Tree, x: jax.Array) -> jax.Array:
        """Compute the maxima of padded windows, or the means of the windows inside the image."""
        if kind == "max":
            return lax.reduce_window(x, -jnp.inf, lax.max, shape, steps, "SAME")
        return lax.reduce_window(x, 0.0, lax.add, shape, steps, "VALID") / window**2

    return work(f"{name} {kind} pooling {window}x{window}/{stride} {size}x{size}x{channels}", run, {},
                normal(1, size, size, channels))  # fmt: skip


def reduction(name: str, sizes: tuple[int, ...], axes: tuple[int, ...], kind: str = "sum") -> Work:
    """Return the reduction of a tensor over `axes`, in ascending order. kind: "sum" or "max", a function of NumPy."""
    if len(axes) == len(sizes):
        summed = "whole"
    elif axes == (len(sizes) - 1,):
        summed = "rows"  # elements that are neighbours in memory
    else:
        summed = "columns"
    shape = "x".join(map(str, sizes))
    return work(f"{name} {kind} of {summed} {shape}", lambda _, x: getattr(jnp, kind)(x, axis=axes), {}, normal(*sizes),
                numpy=lambda x: getattr(np, kind)(x, axis=axes), tolerance=1e-3)  # fmt: skip


def attention(name: str, queries: int, keys: int, heads: int, width: int, causal: bool = False) -> Work:
    """Return scaled dot-product attention of one sequence. width: features of a head."""

    def run(_: Tree, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        """Return the attention of queries, keys and values, which JAX computes; the weights are empty."""
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal)

    kv = normal(1, keys, heads, width)
    return work(f"{name} {queries}x{keys} {heads}x{width}{' causal' * causal}", run, {},
                normal(1, queries, heads, width), kv, kv[:, ::-1].copy())  # fmt: skip


def gather(name: str, rows: int, width: int, count: int) -> Work:
    """Return the copy of `count` rows of a table [rows, width] by their indices."""
    # Each row is read and written, and its index read: 4 bytes an element. The rest of the table is not touched.
    moved = float(2 * count * width * 4 + count * 4)
    return work(f"{name} gather {count} of {rows}x{width}", lambda p, i: jnp.take(p["table"], i, axis=0, mode="clip"),
                {"table": f32(rows, width)}, integers(rows, count), numpy=lambda t, i: t[i], moved=moved)  # fmt: skip


def softmax(rows: int, width: int) -> Work:
    """Return the softmax of each row."""

    def numpy(x: np.ndarray) -> np.ndarray:
        """Compute the softmax of each row; subtracting the maximum keeps `exp` from overflowing."""
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return work(f"softmax {rows}x{width}", lambda _, x: jax.nn.softmax(x), {}, normal(rows, width), numpy=numpy)


def layer_norm(rows: int, width: int, silu: bool = False) -> Work:
    """Return the layer normalization of each row, with scale and bias. silu: apply SiLU to the result."""

    def run(p: Tree, x: jax.Array) -> jax.Array:
        """Normalize each row with JAX."""
        mean = x.mean(-1, keepdims=True)
        y = (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * p["scale"] + p["bias"]
        return jax.nn.silu(y) if silu else y

    def numpy(bias: np.ndarray, scale: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Normalize each row with NumPy. The weights are the first parameters, in the order of their names."""
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias
        return y / (1 + np.exp(-y)) if silu else y

    return work(f"layer norm{' silu' * silu} {rows}x{width}", run, {"scale": f32(width), "bias": f32(width)},
                normal(rows, width), numpy=numpy)  # fmt: skip


def group_norm(size: int, channels: int, groups: int) -> Work:
    """Return the group normalization, with scale, bias and SiLU, of an image of size x size, channels last."""

    def run(p: Tree, x: jax.Array) -> jax.Array:
        """Normalize each group of channels over all pixels; the variance is E[y * y] - E[y] * E[y]."""
        y = x.reshape(1, size, size, groups, channels // groups)
        mean = y.mean((1, 2, 4), keepdims=True)
        var = jnp.square(y).mean((1, 2, 4), keepdims=True) - jnp.square(mean)
        y = ((y - mean) * lax.rsqrt(var + 1e-5)).reshape(x.shape) * p["scale"] + p["bias"]
        return jax.nn.silu(y)

    return work(f"group norm silu {size}x{size}x{channels} groups {groups}", run,
                {"scale": f32(channels), "bias": f32(channels)}, normal(1, size, size, channels))  # fmt: skip


def lstm_cell(batch: int, inputs: int, width: int) -> Work:
    """Return one step of an LSTM. inputs: features of the input. width: features of the state."""

    def run(p: Tree, x: jax.Array, h: jax.Array, cell: jax.Array) -> Any:
        """Return the new hidden state and cell. p: weights of the input "i" and of the state "h", bias "b"."""
        i, f, g, o = jnp.split(x @ p["i"] + h @ p["h"] + p["b"], 4, -1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(cell), cell

    weights = {"i": f32(inputs, 4 * width), "h": f32(width, 4 * width), "b": f32(4 * width)}
    return work(f"lstm cell {batch}x{inputs} width {width}", run, weights, normal(batch, inputs), normal(batch, width),
                normal(batch, width))  # fmt: skip


def elementwise(name: str, function: Callable[..., Any], *sizes: int) -> Work:
    """Return a kernel that applies `function` to two arrays of these sizes."""
    return work(f"{name} {'x'.join(map(str, sizes))}", lambda _, x, y: function(x, y), {}, normal(*sizes),
                normal(*sizes)[::-1].copy())  # fmt: skip


def dynamic_reduction(sizes: tuple[int, int], axes: tuple[int, ...]) -> Work:
    """Return a sum over `axes` of a matrix whose sizes are dynamic in pydispatch and IREE.

    The other contenders compile for `sizes`, those of the measured calls.
    """
    plain = reduction("dynamic", sizes, axes)
    result_axes = [d for d in (0, 1) if d not in axes]
    result = f"tensor<{'?x' * len(result_axes)}f32>"
    size_queries = "".join(f"%c{d} = arith.constant {d} : index\n  %d{d} = tensor.dim %x, %c{d} : tensor<?x?xf32>\n  "
                           for d in result_axes)  # fmt: skip
    text = f"""
func.func @main(%x: tensor<?x?xf32>) -> {result} {{
  %zero = arith.constant 0.0 : f32
  {size_queries}%e = tensor.empty({", ".join(f"%d{d}" for d in result_axes)}) : {result}
  %z = linalg.fill ins(%zero : f32) outs(%e : {result}) -> {result}
  %r = linalg.reduce ins(%x : tensor<?x?xf32>) outs(%z : {result}) dimensions = [{", ".join(map(str, axes))}]
    (%a: f32, %b: f32) {{
      %s = arith.addf %a, %b : f32
      linalg.yield %s : f32
    }}
  return %r : {result}
}}
"""
    return Work(plain.model, plain.operations, plain.bytes, plain.numpy, text)
