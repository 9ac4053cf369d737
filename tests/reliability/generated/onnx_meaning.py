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


def _space_to_depth(x: Array, blocksize: int) -> Array:
    n, c, h, w = x.shape
    split = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize).transpose(0, 3, 5, 1, 2, 4)
    return split.reshape(n, c * blocksize**2, h // blocksize, w // blocksize)


def _gather_nd(x: Array, places: Array, batch_dims: int) -> Array:
    lead = np.indices(places.shape[:-1])[:batch_dims]
    return x[(*lead, *np.moveaxis(places, -1, 0))]


def _scatter_elements(x: Array, places: Array, updates: Array, axis: int, reduction: str) -> Array:
    made, at = x.copy(), list(np.indices(places.shape))
    at[axis] = places
    if reduction == "none":
        made[tuple(at)] = updates
    else:
        {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction].at(
            made, tuple(at), updates
        )
    return made


def _one_hot(i: Array, depth: Array, values: Array, axis: int) -> Array:
    n = int(depth)
    lines = np.arange(n).reshape([-1 if d == axis % (i.ndim + 1) else 1 for d in range(i.ndim + 1)])
    return np.where(np.expand_dims(np.where(i < 0, i + n, i), axis) == lines, values[1], values[0])


def _transposed_conv(
    x: Array, w: Array, group: int, strides: list[int], pads: list[int], dilations: list[int]
) -> Array:
    n, _, height, width = x.shape
    per_group, kernel = w.shape[1], w.shape[2:]
    sizes = [
        (m - 1) * s + (k - 1) * d + 1 for m, s, k, d in zip((height, width), strides, kernel, dilations, strict=True)
    ]
    made = np.zeros((n, group, per_group, *sizes), x.dtype)
    taken = x.reshape(n, group, -1, height, width)
    filters = w.reshape(group, -1, per_group, *kernel)
    for i, j in np.ndindex(*kernel):
        at = [slice(k * d, k * d + (m - 1) * s + 1, s)
              for k, d, m, s in zip((i, j), dilations, (height, width), strides, strict=True)]  # fmt: skip
        made[(..., *at)] += np.einsum("ngchw,gcf->ngfhw", taken, filters[..., i, j])
    made = made.reshape(n, group * per_group, *sizes)
    return made[:, :, pads[0] : sizes[0] - pads[2], pads[1] : sizes[1] - pads[3]]


def _reversed(x: Array, lengths: Array) -> Array:
    """Reverse the first lengths[b] rows of each batch b: axis 0 is the time, axis 1 the batch."""
    made = x.copy()
    for b, n in enumerate(lengths):
        made[:n, b] = x[:n, b][::-1]
    return made


def _lp_normalized(x: Array, axis: int, p: int) -> Array:
    norm = np.abs(x).sum(axis, keepdims=True) if p == 1 else np.sqrt((x * x).sum(axis, keepdims=True))
    return x / norm


def _group_norm(x: Array, scale: Array, bias: Array, num_groups: int, epsilon: float) -> Array:
    split = x.reshape(len(x), num_groups, -1)
    made = (split - split.mean(-1, keepdims=True)) / np.sqrt(split.var(-1, keepdims=True) + epsilon)
    rest = (1,) * (x.ndim - 2)
    return made.reshape(x.shape) * scale.reshape(-1, *rest) + bias.reshape(-1, *rest)


def _nearest(x: Array, scales: Array) -> Array:
    for axis, n in enumerate(scales.astype(int)):
        x = np.repeat(x, n, axis)
    return x


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
    "Cast": lambda x, to: x.astype({1: x.dtype if x.dtype.kind == "f" else np.float32, 7: np.int64}[to]),
    "Exp": np.exp,
    "Log": np.log,
    "Sin": np.sin,
    "Cos": np.cos,
    "Atan": np.arctan,
    "Asinh": np.arcsinh,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
    "Reciprocal": np.reciprocal,
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "HardSigmoid": lambda x, alpha, beta: np.clip(x * alpha + beta, 0, 1),
    "Elu": lambda x, alpha: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x),
    "Celu": lambda x, alpha: np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(np.minimum(x, 0) / alpha)),
    "ThresholdedRelu": lambda x, alpha: np.where(x > alpha, x, np.zeros_like(x)),
    "Shrink": lambda x, lambd, bias: np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, np.zeros_like(x))),
    "Mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "PRelu": lambda x, slope: np.where(x < 0, x * slope, x),
    "Div": np.divide,
    "Pow": np.power,
    "Mod": lambda x, y, fmod=0: np.fmod(x, y) if fmod else np.mod(x, y),
    "Equal": np.equal,
    "GreaterOrEqual": np.greater_equal,
    "LessOrEqual": np.less_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Sum": lambda *x: sum(x[1:], x[0]),
    "Mean": lambda *x: sum(x[1:], x[0]) / len(x),
    "ConvTranspose": _transposed_conv,
    "GlobalMaxPool": lambda x: x.max(tuple(range(2, x.ndim)), keepdims=True),
    "LpPool": lambda x, p, **a: (np.abs(_windows(x, a, 0.0)[0]) ** p).sum((-2, -1)) ** (1 / p),
    "GatherElements": lambda x, i, axis: np.take_along_axis(x, i, axis),
    "GatherND": _gather_nd,
    "ScatterElements": _scatter_elements,
    "OneHot": _one_hot,
    "Trilu": lambda x, upper: np.triu(x) if upper else np.tril(x),
    "ReverseSequence": _reversed,
    "Resize": lambda x, roi, scales, mode, **a: _nearest(x, scales),
    "Einsum": lambda *x, equation: np.einsum(equation, *x),
    "GroupNormalization": _group_norm,
    "LpNormalization": _lp_normalized,
    "Hardmax": lambda x, axis: (np.argmax(x, axis)[..., None] == np.arange(x.shape[axis])).astype(x.dtype),
    "ArgMin": lambda x, axis, keepdims: np.argmin(x, axis, keepdims=bool(keepdims)),
    "SpaceToDepth": _space_to_depth,
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
