"""StableHLO operations of computed places: gather, scatter, slices whose start is a value."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from graph_programs import Array
from stablehlo_form import Attributes, Form, Text, Types, dense, folding


def _type(shape: Sequence[int], element: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


# -- gather and scatter; indices are [count, axes], so that the last axis holds the place


def _places(x: Array, indices: Array, axes: Sequence[int]) -> list[list[int]]:
    """The start of each slice, as stated."""
    starts = []
    for row in indices:
        start = [0] * x.ndim
        for axis, n in zip(axes, row, strict=True):
            start[axis] = int(n)
        starts.append(start)
    return starts


def _gathered(x: Array, indices: Array, axes: Sequence[int], sizes: Sequence[int], collapsed: Sequence[int]) -> Array:
    taken = []
    for start in _places(x, indices, axes):
        clamped = [min(max(s, 0), n - k) for s, n, k in zip(start, x.shape, sizes, strict=True)]
        part = x[tuple(slice(s, s + k) for s, k in zip(clamped, sizes, strict=True))]
        taken.append(part.reshape([k for axis, k in enumerate(sizes) if axis not in collapsed]))
    return np.stack(taken)


def _scattered(
    x: Array, indices: Array, axes: Sequence[int], sizes: Sequence[int], collapsed: Sequence[int], updates: Array,
    fold: str,
) -> Array:  # fmt: skip
    made = x.copy()
    combine = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}[fold]
    for start, update in zip(_places(x, indices, axes), updates, strict=True):
        for offset in product(*map(range, sizes)):
            place = tuple(s + o for s, o in zip(start, offset, strict=True))
            if all(0 <= p < n for p, n in zip(place, x.shape, strict=True)):
                at = tuple(o for axis, o in enumerate(offset) if axis not in collapsed)
                made[place] = combine(made[place], update[at])
    return made


def _slices(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    x = given[0]
    if not x.ndim or 0 in x.shape:
        raise ValueError("no elements")
    axes = rng.sample(range(x.ndim), rng.randint(1, x.ndim))
    collapsed = sorted(rng.sample(axes, rng.randint(0, len(axes))))
    sizes = [1 if axis in collapsed else rng.randint(1, n) for axis, n in enumerate(x.shape)]
    count = rng.randint(1, 4)
    indices = [[rng.randint(-1, x.shape[axis]) for axis in axes] for _ in range(count)]
    return {"axes": axes, "collapsed": collapsed, "sizes": sizes, "indices": np.array(indices, np.int32)}


def _updates(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    a = _slices(rng, given, is_open)
    kept = [k for axis, k in enumerate(a["sizes"]) if axis not in a["collapsed"]]
    shape = (len(a["indices"]), *kept)
    updates = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 4 - 1
    return {**a, "updates": updates, "fold": rng.choice(["add", "maximum", "minimum"])}


def _indices(a: Attributes) -> tuple[str, str]:
    kind = _type(a["indices"].shape, "i32")
    return f"$_i = stablehlo.constant {dense(a['indices'])} : {kind}\n", kind


def _kept(a: Attributes) -> list[int]:
    """The axes of the result, or of the updates, that are those of a slice."""
    return list(range(1, 1 + len(a["sizes"]) - len(a["collapsed"])))


def _gather(names: Types, types: Types, result: str, a: Attributes) -> str:
    constant, kind = _indices(a)
    return (
        f'{constant}$ = "stablehlo.gather"({names[0]}, $_i) <{{dimension_numbers = #stablehlo.gather<offset_dims = '
        f"{_kept(a)}, collapsed_slice_dims = {a['collapsed']}, start_index_map = {a['axes']}, "
        f"index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: "
        f"{', '.join(map(str, a['sizes']))}>}}> : ({types[0]}, {kind}) -> {result}"
    )


def _scatter(names: Types, types: Types, result: str, a: Attributes) -> str:
    constant, kind = _indices(a)
    update = _type(a["updates"].shape, "f32")
    return (
        f"{constant}$_u = stablehlo.constant {dense(a['updates'])} : {update}\n"
        f'$ = "stablehlo.scatter"({names[0]}, $_i, $_u) <{{scatter_dimension_numbers = #stablehlo.scatter<'
        f"update_window_dims = {_kept(a)}, inserted_window_dims = {a['collapsed']}, "
        f"scatter_dims_to_operand_dims = {a['axes']}, index_vector_dim = 1>, indices_are_sorted = false, "
        f"unique_indices = false}}> ({folding(a['fold'])}) : ({types[0]}, {kind}, {update}) -> {result}"
    )


# -- rows at computed places: the indices are a value of the program, of any shape


def _rows(x: Array, places: Array, axis: int) -> Array:
    return np.take(x, np.clip(places, 0, x.shape[axis] - 1), axis)


def _row_axis(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    if not given[0].size or not given[0].ndim:
        raise ValueError("no elements")
    return {"axis": rng.randrange(given[0].ndim), "shape": given[0].shape}


def _take(names: Types, types: Types, result: str, a: Attributes) -> str:
    shape, axis = a["shape"], a["axis"]
    rank = len(shape)
    offsets = [d if d < axis else d + rank - 1 for d in range(rank) if d != axis]
    offsets = [*range(axis), *range(axis + rank, 2 * rank - 1)]
    sizes = [1 if d == axis else n for d, n in enumerate(shape)]
    return (
        f'$ = "stablehlo.gather"({", ".join(names)}) <{{dimension_numbers = #stablehlo.gather<offset_dims = {offsets}, '
        f"collapsed_slice_dims = [{axis}], start_index_map = [{axis}], index_vector_dim = {rank}>, indices_are_sorted "
        f"= false, slice_sizes = array<i64: {', '.join(map(str, sizes))}>}}> : ({', '.join(types)}) -> {result}"
    )


# -- slices that begin where the largest element says


def _start(x: Array) -> int:
    largest = x.max(initial=-np.inf)
    return int(np.clip(np.trunc(largest), -100, 100)) if np.isfinite(largest) else -100


def _moved(x: Array, sizes: Sequence[int]) -> Array:
    starts = [min(max(_start(x), 0), n - k) for n, k in zip(x.shape, sizes, strict=True)]
    return x[tuple(slice(s, s + k) for s, k in zip(starts, sizes, strict=True))]


def _replaced(x: Array, update: Array) -> Array:
    made = x.copy()
    starts = [min(max(_start(x), 0), n - k) for n, k in zip(x.shape, update.shape, strict=True)]
    made[tuple(slice(s, s + k) for s, k in zip(starts, update.shape, strict=True))] = update
    return made


def _sizes(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    x = given[0]
    if not x.ndim or not x.size or abs(x.max() - np.rint(x.max())) < 1e-3:
        raise ValueError("no start")
    return {"sizes": [rng.randint(1, n) for n in x.shape]}


def _update(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    shape = _sizes(rng, given, is_open)["sizes"]
    return {"update": np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 4}


def _largest(name: str, type_: str, rank: int) -> str:
    """Lines of `$_p`, the largest element as an i32 between -100 and 100."""
    axes = list(range(rank))
    return (
        "$_m = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
        f"$_r = stablehlo.reduce({name} init: $_m) applies stablehlo.maximum across dimensions = {axes} : "
        f"({type_}, tensor<f32>) -> tensor<f32>\n"
        "$_a = stablehlo.constant dense<-100.0> : tensor<f32>\n$_b = stablehlo.constant dense<100.0> : tensor<f32>\n"
        "$_k = stablehlo.clamp $_a, $_r, $_b : tensor<f32>\n"
        "$_p = stablehlo.convert $_k : (tensor<f32>) -> tensor<i32>\n"
    )


def _at_largest(build: Text, rank: Any) -> Text:
    return lambda names, types, result, a: _largest(names[0], types[0], rank(a)) + build(names, types, result, a)


def _dynamic_slice(names: Types, types: Types, result: str, a: Attributes) -> str:
    rank = len(a["sizes"])
    return (
        f"$ = stablehlo.dynamic_slice {names[0]}, {', '.join(['$_p'] * rank)}, sizes = {a['sizes']} : "
        f"({', '.join([types[0], *['tensor<i32>'] * rank])}) -> {result}"
    )


def _dynamic_update_slice(names: Types, types: Types, result: str, a: Attributes) -> str:
    update = a["update"]
    kind = _type(update.shape, "f32")
    given = ", ".join([types[0], kind, *["tensor<i32>"] * update.ndim])
    starts = ", ".join(["$_p"] * update.ndim)
    return (
        f"$_u = stablehlo.constant {dense(update)} : {kind}\n"
        f"$ = stablehlo.dynamic_update_slice {names[0]}, $_u, {starts} : ({given}) -> {result}"
    )


PLACES: dict[str, Form] = {
    "gather": Form("f", _gathered, _gather, _slices, True),
    "scatter": Form("f", _scattered, _scatter, _updates, True),
    "rows": Form("fi", lambda x, i, axis, shape: _rows(x, i, axis), _take, _row_axis, True),
    "dynamic_slice": Form("f", _moved, _at_largest(_dynamic_slice, lambda a: len(a["sizes"])), _sizes, True),
    "dynamic_update_slice": Form("f", _replaced, _at_largest(_dynamic_update_slice, lambda a: a["update"].ndim),
                                 _update, True),
}  # fmt: skip
