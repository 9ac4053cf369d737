"""What ONNX operators of random graphs mean, written with NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from graph_programs import Array


def _windows(x: Array, a: Mapping[str, Any], fill: float) -> tuple[Array, Array]:
    """The elements of each window, [n, c, oh, ow, kh, kw], and whether they are elements of the image or padding that
    counts with `count_include_pad`."""
    (kh, kw), (sh, sw), (dh, dw) = a["kernel_shape"], a["strides"], a["dilations"]
    pads, ceil = a["pads"], a.get("ceil_mode", 0)
    sizes = []
    for n, k, s, d, low, high in zip(x.shape[2:], (kh, kw), (sh, sw), (dh, dw), pads[:2], pads[2:], strict=True):
        room = n + low + high - (k - 1) * d - 1
        out = (-(-room // s) if ceil else room // s) + 1
        sizes.append(out - 1 if ceil and (out - 1) * s >= n + low else out)
    beyond = [(0, 0), (0, 0), *((low, high + 8) for low, high in zip(pads[:2], pads[2:], strict=True))]
    padded = np.pad(x, beyond, constant_values=fill)
    inside = np.zeros((1, 1, *padded.shape[2:]), bool)
    if a.get("count_include_pad"):
        inside[:, :, : pads[0] + x.shape[2] + pads[2], : pads[1] + x.shape[3] + pads[3]] = True
    else:
        inside[:, :, pads[0] : pads[0] + x.shape[2], pads[1] : pads[1] + x.shape[3]] = True
    rows = np.arange(sizes[0])[:, None] * sh + np.arange(kh) * dh
    columns = np.arange(sizes[1])[:, None] * sw + np.arange(kw) * dw
    at = (slice(None), slice(None), rows[:, None, :, None], columns[None, :, None, :])
    return padded[at], inside[at]


def _conv(x: Array, w: Array, *bias: Array, **a: Any) -> Array:
    group = a["group"]
    taken = _windows(x, {**a, "kernel_shape": w.shape[2:]}, 0.0)[0]
    n, _, oh, ow = taken.shape[:4]
    taken = taken.reshape(n, group, -1, oh, ow, *w.shape[2:])
    filters = w.reshape(group, -1, *w.shape[1:])
    made = np.einsum("ngchwij,gfcij->ngfhw", taken, filters).reshape(n, w.shape[0], oh, ow)
    return made + bias[0].reshape(-1, 1, 1) if bias else made


def _average(x: Array, **a: Any) -> Array:
    taken, counts = _windows(x, a, 0.0)
    return taken.sum((-2, -1)) / counts.sum((-2, -1))


def _norm(x: Array, axes: tuple[int, ...], scale: Array, bias: Array, epsilon: float) -> Array:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * scale + bias


def _softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def _slice(x: Array, starts: Array, ends: Array, axes: Array, steps: Array) -> Array:
    at: list[slice] = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        n = x.shape[axis]
        begin = start + n if start < 0 else start
        limit = end + n if end < 0 else end
        begin = min(max(begin, 0), n if step > 0 else n - 1)
        limit = min(max(limit, 0), n) if step > 0 else min(max(limit, -1), n - 1)
        at[axis] = slice(begin, None if limit < 0 else limit, step)
    return x[tuple(at)]


def _reduce(name: str) -> Callable[..., Array]:
    functions: dict[str, Callable[..., Array]] = {
        "Sum": np.sum,
        "Mean": np.mean,
        "Max": np.max,
        "Min": np.min,
        "Prod": np.prod,
        "L1": lambda x, **k: np.abs(x).sum(**k),
        "L2": lambda x, **k: np.sqrt((x * x).sum(**k)),
        "SumSquare": lambda x, **k: (x * x).sum(**k),
        "LogSumExp": lambda x, **k: np.log(np.exp(x).sum(**k)),
    }

    def reduce(x: Array, axes: Array | None = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Array:
        given = tuple(axes.tolist()) if axes is not None else None
        which = given if given else () if noop_with_empty_axes else tuple(range(x.ndim))
        return np.asarray(functions[name](x, axis=which, keepdims=bool(keepdims)))

    return reduce


def _top_k(x: Array, k: Array, axis: int, largest: int) -> tuple[Array, Array]:
    order = np.argsort(-x if largest else x, axis, kind="stable").take(range(int(k[0])), axis)
    return np.take_along_axis(x, order, axis), order


def _pad(x: Array, pads: Array, mode: str) -> Array:
    widths = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    return np.pad(x, widths, mode=mode)  # type: ignore[call-overload]


def _reshape(x: Array, shape: Array) -> Array:
    return x.reshape([x.shape[d] if n == 0 else n for d, n in enumerate(shape.tolist())])


def _depth_to_space(x: Array, blocksize: int) -> Array:
    n, c, h, w = x.shape
    split = x.reshape(n, blocksize, blocksize, c // blocksize**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    return split.reshape(n, c // blocksize**2, h * blocksize, w * blocksize)


MEANING: dict[str, Callable[..., Any]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "Neg": np.negative,
    "Abs": np.abs,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "Erf": lambda x: np.vectorize(math.erf, otypes=[x.dtype])(x) if x.size else x,
    "Sign": np.sign,
    "LeakyRelu": lambda x, alpha: np.where(x < 0, x * alpha, x),
    "Sqrt": np.sqrt,
    "Identity": lambda x: x,
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
    "Greater": np.greater,
    "Less": np.less,
    "Not": np.logical_not,
    "Where": np.where,
    "Clip": lambda x, low, high: np.clip(x, low, high),
    "Cast": lambda x, to: x.astype({1: np.float32, 7: np.int64}[to]),
    "Conv": _conv,
    "MaxPool": lambda x, **a: _windows(x, a, -np.inf)[0].max((-2, -1)),
    "AveragePool": _average,
    "GlobalAveragePool": lambda x: x.mean(tuple(range(2, x.ndim)), keepdims=True),
    "Gather": lambda x, i, axis: np.take(x, i, axis),
    "Slice": _slice,
    "Concat": lambda *x, axis: np.concatenate(x, axis),
    "Split": lambda x, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis),
    "Transpose": lambda x, perm: np.transpose(x, perm),
    "Reshape": _reshape,
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes.tolist())),
    "Squeeze": lambda x, axes: np.squeeze(x, tuple(axes.tolist())),
    "Flatten": lambda x, axis: x.reshape(math.prod(x.shape[:axis]), -1),
    "Pad": _pad,
    "Tile": lambda x, repeats: np.tile(x, repeats),
    "Expand": lambda x, shape: x * np.ones(shape.tolist(), x.dtype),
    "MatMul": np.matmul,
    "Gemm": lambda x, w, c, **a: x @ (w.T if a["transB"] else w) + c,
    "LayerNormalization": lambda x, s, c, axis, epsilon: _norm(x, (axis,), s, c, epsilon),
    "InstanceNormalization": lambda x, s, c, epsilon: _norm(x, (2, 3), s[:, None, None], c[:, None, None], epsilon),
    "BatchNormalization": lambda x, s, c, m, v, epsilon: (
        (x - m[:, None, None]) / np.sqrt(v + epsilon)[:, None, None] * s[:, None, None] + c[:, None, None]
    ),
    "Softmax": _softmax,
    "LogSoftmax": lambda x, axis: np.log(_softmax(x, axis)),
    "CumSum": lambda x, axis, reverse: (
        np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)
    ),
    "TopK": _top_k,
    "ArgMax": lambda x, axis, keepdims: np.argmax(x, axis, keepdims=bool(keepdims)),
    "DepthToSpace": _depth_to_space,
    **{
        f"Reduce{name}": _reduce(name)
        for name in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp")
    },
}
