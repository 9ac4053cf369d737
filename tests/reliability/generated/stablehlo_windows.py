"""StableHLO operations of windows: reduce_window, convolution, select_and_scatter."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from graph_programs import Array
from stablehlo_form import Attributes, Form, Text, Types, dense, folding, region

FOLDS: dict[str, tuple[str, float, Any]] = {
    "add": ("0.0", 0.0, np.sum),
    "maximum": ("0xFF800000", -np.inf, np.max),
    "minimum": ("0x7F800000", np.inf, np.min),
}
"""Initial value as text and as a number, and the reduction."""


def _spread(x: Array, dilations: Sequence[int], pads: Sequence[tuple[int, int]], fill: float) -> Array:
    """Put fill between the elements of x and around them; a negative padding removes elements."""
    sizes = [(n - 1) * d + 1 if n else 0 for n, d in zip(x.shape, dilations, strict=True)]
    made = np.full(sizes, fill, x.dtype)
    made[tuple(slice(None, None, d) for d in dilations)] = x
    made = np.pad(made, [(max(low, 0), max(high, 0)) for low, high in pads], constant_values=fill)
    kept = tuple(slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in zip(made.shape, pads, strict=True))
    return made[kept]


def windows(sizes: Sequence[int], a: Attributes) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """The place of each result, and its window in an array of these sizes, as strided slices."""
    reach = [(k - 1) * d + 1 for k, d in zip(a["window"], a["dilations"], strict=True)]
    counts = [max(0, (n - r) // s + 1) for n, r, s in zip(sizes, reach, a["strides"], strict=True)]
    for place in product(*map(range, counts)):
        start = [p * s for p, s in zip(place, a["strides"], strict=True)]
        yield place, tuple(slice(b, b + r, d) for b, r, d in zip(start, reach, a["dilations"], strict=True))


def _over_windows(x: Array, fill: float, reduction: Any, **a: Any) -> Array:
    padded = _spread(x, a["base"], a["pads"], fill)
    found = {place: reduction(padded[window]) for place, window in windows(padded.shape, a)}
    if not found:
        raise ValueError("no window fits")
    made = np.zeros([n + 1 for n in max(found)], x.dtype)
    for place, value in found.items():
        made[place] = value
    return made


def _window(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    x = given[0]
    if not x.ndim or 0 in x.shape:
        raise ValueError("no elements")
    fixed = [is_open and axis == 0 for axis in range(x.ndim)]

    def each(options: Sequence[int], usual: int = 1) -> list[int]:
        return [usual if whole else rng.choice(options) for whole in fixed]

    return {
        "window": each([1, 2, 3]),
        "strides": each([1, 1, 2, 3]),
        "base": each([1, 1, 1, 2]),
        "dilations": each([1, 1, 2]),
        "pads": [(0, 0) if whole else (rng.randint(-1, 2), rng.randint(0, 2)) for whole in fixed],
    }


def _array(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>"


def _pads(pads: Sequence[tuple[int, int]]) -> str:
    return f"dense<{[list(each) for each in pads]}> : tensor<{len(pads)}x2xi64>"


def _window_text(fold: str) -> Text:
    def text(names: Types, types: Types, result: str, a: Attributes) -> str:
        return (
            f"$_c = stablehlo.constant dense<{FOLDS[fold][0]}> : tensor<f32>\n"
            f'$ = "stablehlo.reduce_window"({names[0]}, $_c) <{{window_dimensions = {_array(a["window"])}, '
            f"window_strides = {_array(a['strides'])}, base_dilations = {_array(a['base'])}, "
            f"window_dilations = {_array(a['dilations'])}, padding = {_pads(a['pads'])}}}> "
            f"({folding(fold)}) : ({types[0]}, tensor<f32>) -> {result}"
        )

    return text


def _windowed(fold: str) -> Form:
    _, fill, reduction = FOLDS[fold]
    return Form("f", lambda x, **a: _over_windows(x, fill, reduction, **a), _window_text(fold), _window)


def _scattered(x: Array, window: Sequence[int], strides: Sequence[int], source: Array) -> Array:
    """Add each element of source to where its window has its first largest element."""
    made = np.zeros_like(x)
    a = {"window": window, "strides": strides, "dilations": [1] * x.ndim}
    for place, at in windows(x.shape, a):
        offset = np.unravel_index(int(np.argmax(x[at])), window)
        made[tuple(s.start + o for s, o in zip(at, offset, strict=True))] += source[place]
    return made


def _selection(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    x = given[0]
    if not x.ndim or 0 in x.shape:
        raise ValueError("no elements")
    window = [rng.randint(1, min(3, n)) for n in x.shape]
    strides = [rng.choice([1, 2]) for _ in window]
    sizes = [(n - k) // s + 1 for n, k, s in zip(x.shape, window, strides, strict=True)]
    source = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes) / 4 - 1
    return {"window": window, "strides": strides, "source": source}


def _selected(names: Types, types: Types, result: str, a: Attributes) -> str:
    kind = f"tensor<{'x'.join(map(str, a['source'].shape))}xf32>"
    scalar = "tensor<f32>"
    compare = f"$_g = stablehlo.compare GE, $_a, $_b : ({scalar}, {scalar}) -> tensor<i1>"
    return (
        f"$_z = stablehlo.constant dense<0.0> : {scalar}\n$_s = stablehlo.constant {dense(a['source'])} : {kind}\n"
        f'$ = "stablehlo.select_and_scatter"({names[0]}, $_s, $_z) <{{window_dimensions = {_array(a["window"])}, '
        f"window_strides = {_array(a['strides'])}, padding = {_pads([(0, 0)] * a['source'].ndim)}}}> "
        f"({region([('$_a', scalar), ('$_b', scalar)], compare, '$_g', 'tensor<i1>')}, {folding('add')}) : "
        f"({types[0]}, {kind}, {scalar}) -> {result}"
    )


def _convolved(x: Array, weights: Array, groups: int, last: bool, **a: Any) -> Array:
    """Convolve x [b, c, ...], or [b, ..., c] where last is true, with weights [o, c / groups, ...]."""
    x = np.moveaxis(x, -1, 1) if last else x
    padded = _spread(x, [1, 1, *a["base"]], [(0, 0), (0, 0), *a["pads"]], 0.0)
    kernel = weights.shape[2:]
    per_group, outputs = weights.shape[1], weights.shape[0] // groups
    found = {}
    for place, at in windows(padded.shape[2:], {**a, "window": kernel}):
        taken = padded[(slice(None), slice(None), *at)].reshape(len(x), groups, per_group, -1)
        filters = weights.reshape(groups, outputs, per_group, -1)
        found[place] = np.einsum("bgck,gock->bgo", taken, filters).reshape(len(x), -1)
    if not found:
        raise ValueError("no window fits")
    made = np.zeros((len(x), len(weights), *(n + 1 for n in max(found))), x.dtype)
    for place, value in found.items():
        made[(slice(None), slice(None), *place)] = value
    return np.moveaxis(made, 1, -1) if last else made


def _filters(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    x = given[0]
    if x.ndim not in (3, 4) or 0 in x.shape:
        raise ValueError("no image")
    last = bool(rng.randrange(2))
    channels = x.shape[-1] if last else x.shape[1]
    groups = rng.choice([1, 1, channels])
    space = x.ndim - 2
    shape = (groups * rng.randint(1, 2), channels // groups, *(rng.randint(1, 3) for _ in range(space)))
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    return {
        "weights": (numbers.integers(-4, 5, shape) / 8).astype(np.float32),
        "groups": groups,
        "last": last,
        "strides": [rng.choice([1, 1, 2]) for _ in range(space)],
        "base": [rng.choice([1, 1, 1, 2]) for _ in range(space)],
        "dilations": [rng.choice([1, 1, 2]) for _ in range(space)],
        "pads": [(rng.randint(-1, 2), rng.randint(0, 2)) for _ in range(space)],
    }


def _convolution(names: Types, types: Types, result: str, a: Attributes) -> str:
    weights = a["weights"]
    space = [str(n) for n in range(weights.ndim - 2)]
    image = ", ".join(["b", *space, "f"] if a["last"] else ["b", "f", *space])
    kind = f"tensor<{'x'.join(map(str, weights.shape))}xf32>"
    pads = [list(each) for each in a["pads"]]
    return (
        f"$_w = stablehlo.constant {dense(weights)} : {kind}\n"
        f"$ = stablehlo.convolution({names[0]}, $_w) dim_numbers = [{image}]x[o, i, {', '.join(space)}]->[{image}], "
        f"window = {{stride = {a['strides']}, pad = {pads}, lhs_dilate = {a['base']}, rhs_dilate = {a['dilations']}}} "
        f"{{batch_group_count = 1 : i64, feature_group_count = {a['groups']} : i64}} : ({types[0]}, {kind}) -> {result}"
    )


WINDOWS: dict[str, Form] = {
    **{f"reduce_window_{fold}": _windowed(fold) for fold in FOLDS},
    "select_and_scatter": Form("f", _scattered, _selected, _selection, True),
    "convolution": Form("f", _convolved, _convolution, _filters),
}
