"""What a kernel of the table is: a model of bench/models, with what it computes and what it moves."""

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
Numpy = Callable[..., Any]


@dataclass(frozen=True)
class Work:
    """A kernel.

    model: a function of (weights, *inputs) under the kernel's name; contenders that keep weights may lay them out once.
    operations: multiplications and additions of a call. bytes: what a call has to read and write at least.
    numpy: the same in NumPy, of the same arguments in the order of `Model.arguments`; None where NumPy has no way.
    text: what pydispatch and IREE compile in place of the model's StableHLO, for what JAX cannot say.
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
    """A kernel whose operations XLA counts. It moves its arguments and results, or `moved` bytes where given."""
    model = Model(name, function, weights, inputs, tolerance)
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
    lowered = jax.jit(function, keep_unused=True).lower(weights, *specs)
    counted = lowered.cost_analysis() or {}
    if moved is None:
        arrays = jax.tree.leaves((weights, specs, jax.eval_shape(function, weights, *specs)))
        moved = float(sum(int(np.prod(a.shape)) * a.dtype.itemsize for a in arrays))
    return Work(model, float(counted.get("flops", 0.0)), moved, numpy, text)


def product(name: str, m: int, k: int, n: int, transposed: bool = False) -> Work:
    """Rows times a matrix, which lies transposed where a linear layer of PyTorch or tied embeddings are meant."""
    weights = {"w": f32(n, k) if transposed else f32(k, n)}
    turn = (lambda w: w.T) if transposed else (lambda w: w)
    return work(
        f"{name} {m}x{k}x{n}{'t' if transposed else ''}", lambda p, x: x @ turn(p["w"]), weights, normal(m, k),
        numpy=lambda w, x: x @ turn(w),
    )  # fmt: skip


def convolution(
    name: str, size: tuple[int, ...], inputs: int, outputs: int, window: int, stride: int = 1, *, first: bool = False,
    groups: int = 1, dilation: int = 1,
) -> Work:  # fmt: skip
    """size: of the image or the signal; first: channels before places, as PyTorch has them."""
    places = "HW"[: len(size)] if len(size) == 2 else "W"
    image, kernel = ("NC" + places, "OI" + places) if first else (f"N{places}C", f"{places}IO")
    filters, windows = (outputs, inputs // groups), (window,) * len(size)
    weights = {"w": f32(*filters, *windows) if first else f32(*windows, *filters[::-1])}
    x = normal(1, inputs, *size) if first else normal(1, *size, inputs)

    def run(p: Tree, x: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(
            x, p["w"], (stride,) * len(size), "SAME", rhs_dilation=(dilation,) * len(size), feature_group_count=groups,
            dimension_numbers=(image, kernel, image),
        )  # fmt: skip

    how = f"{'x'.join([str(window)] * len(size))}" + (f"/{stride}" if stride > 1 else "")
    how += f" dilated {dilation}" * (dilation > 1) + f" groups {groups}" * (1 < groups < inputs)
    layout = "nchw" if first else "nhwc"
    shape = "x".join(map(str, size))
    return work(f"{name} {how} {shape}x{inputs} to {outputs} {layout[:2] + layout[-1] if len(size) == 1 else layout}",
                run, weights, x)  # fmt: skip


def transposed_convolution(name: str, size: int, inputs: int, outputs: int, window: int, stride: int) -> Work:
    """Which makes images larger, channels last."""

    def run(p: Tree, x: jax.Array) -> jax.Array:
        return lax.conv_transpose(x, p["w"], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    weights = {"w": f32(window, window, inputs, outputs)}
    return work(f"{name} {window}x{window}*{stride} {size}x{size}x{inputs} to {outputs}", run, weights,
                normal(1, size, size, inputs))  # fmt: skip


def pooling(name: str, kind: str, size: int, channels: int, window: int, stride: int) -> Work:
    """kind: max or mean. Channels last."""
    shape, steps = (1, window, window, 1), (1, stride, stride, 1)

    def run(_: Tree, x: jax.Array) -> jax.Array:
        if kind == "max":
            return lax.reduce_window(x, -jnp.inf, lax.max, shape, steps, "SAME")
        return lax.reduce_window(x, 0.0, lax.add, shape, steps, "VALID") / window**2

    return work(f"{name} {kind} pooling {window}x{window}/{stride} {size}x{size}x{channels}", run, {},
                normal(1, size, size, channels))  # fmt: skip


def reduction(name: str, sizes: tuple[int, ...], axes: tuple[int, ...], kind: str = "sum") -> Work:
    """kind: sum, max."""
    which = "whole" if len(axes) == len(sizes) else "rows" if axes == (len(sizes) - 1,) else "columns"
    shape = "x".join(map(str, sizes))
    return work(f"{name} {kind} of {which} {shape}", lambda _, x: getattr(jnp, kind)(x, axis=axes), {}, normal(*sizes),
                numpy=lambda x: getattr(np, kind)(x, axis=axes), tolerance=1e-3)  # fmt: skip


def attention(name: str, queries: int, keys: int, heads: int, width: int, causal: bool = False) -> Work:
    def run(_: Tree, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal)

    kv = normal(1, keys, heads, width)
    return work(f"{name} {queries}x{keys} {heads}x{width}{' causal' * causal}", run, {},
                normal(1, queries, heads, width), kv, kv[:, ::-1].copy())  # fmt: skip


def gather(name: str, rows: int, width: int, count: int) -> Work:
    """Rows of a table."""
    moved = float(2 * count * width * 4 + count * 4)
    return work(f"{name} gather {count} of {rows}x{width}", lambda p, i: jnp.take(p["table"], i, axis=0, mode="clip"),
                {"table": f32(rows, width)}, integers(rows, count), numpy=lambda t, i: t[i], moved=moved)  # fmt: skip


def softmax(rows: int, width: int) -> Work:
    def numpy(x: np.ndarray) -> np.ndarray:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return work(f"softmax {rows}x{width}", lambda _, x: jax.nn.softmax(x), {}, normal(rows, width), numpy=numpy)


def layer_norm(rows: int, width: int, silu: bool = False) -> Work:
    def run(p: Tree, x: jax.Array) -> jax.Array:
        mean = x.mean(-1, keepdims=True)
        y = (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * p["scale"] + p["bias"]
        return jax.nn.silu(y) if silu else y

    def numpy(bias: np.ndarray, scale: np.ndarray, x: np.ndarray) -> np.ndarray:
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias
        return y / (1 + np.exp(-y)) if silu else y

    return work(f"layer norm{' silu' * silu} {rows}x{width}", run, {"scale": f32(width), "bias": f32(width)},
                normal(rows, width), numpy=numpy)  # fmt: skip


def group_norm(size: int, channels: int, groups: int) -> Work:
    """With SiLU, channels last."""

    def run(p: Tree, x: jax.Array) -> jax.Array:
        y = x.reshape(1, size, size, groups, channels // groups)
        mean = y.mean((1, 2, 4), keepdims=True)
        var = jnp.square(y).mean((1, 2, 4), keepdims=True) - jnp.square(mean)
        y = ((y - mean) * lax.rsqrt(var + 1e-5)).reshape(x.shape) * p["scale"] + p["bias"]
        return jax.nn.silu(y)

    return work(f"group norm silu {size}x{size}x{channels} groups {groups}", run,
                {"scale": f32(channels), "bias": f32(channels)}, normal(1, size, size, channels))  # fmt: skip


def lstm_cell(batch: int, inputs: int, width: int) -> Work:
    def run(p: Tree, x: jax.Array, h: jax.Array, cell: jax.Array) -> Any:
        i, f, g, o = jnp.split(x @ p["i"] + h @ p["h"] + p["b"], 4, -1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(cell), cell

    weights = {"i": f32(inputs, 4 * width), "h": f32(width, 4 * width), "b": f32(4 * width)}
    return work(f"lstm cell {batch}x{inputs} width {width}", run, weights, normal(batch, inputs), normal(batch, width),
                normal(batch, width))  # fmt: skip


def elementwise(name: str, function: Callable[..., Any], *sizes: int) -> Work:
    return work(f"{name} {'x'.join(map(str, sizes))}", lambda _, x, y: function(x, y), {}, normal(*sizes),
                normal(*sizes)[::-1].copy())  # fmt: skip


def dynamic_reduction(sizes: tuple[int, int], axes: tuple[int, ...]) -> Work:
    """With sizes that only calls know; the others compile for the sizes at hand."""
    plain = reduction("dynamic", sizes, axes)
    left = [d for d in (0, 1) if d not in axes]
    dims = "x".join("?" for _ in left)
    result = f"tensor<{dims}{'x' * bool(left)}f32>"
    asked = "".join(f"%c{d} = arith.constant {d} : index\n  %d{d} = tensor.dim %x, %c{d} : tensor<?x?xf32>\n  "
                    for d in left)  # fmt: skip
    text = f"""
func.func @main(%x: tensor<?x?xf32>) -> {result} {{
  %zero = arith.constant 0.0 : f32
  {asked}%e = tensor.empty({", ".join(f"%d{d}" for d in left)}) : {result}
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
