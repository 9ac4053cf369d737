"""Gather, scatter and slices at computed places against their definitions, written out in NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """Axes of a gather: of the operand, of the indices (`vector` is where coordinates lie), and of the result."""

    shape: tuple[int, ...]
    indices: tuple[int, ...]
    sizes: tuple[int, ...]
    offset: tuple[int, ...]
    collapsed: tuple[int, ...]
    indexed: tuple[int, ...]
    vector: int
    batching: tuple[int, ...] = ()
    index_batching: tuple[int, ...] = ()


CASES = {
    "rows": Case((5, 6), (3, 1), (1, 6), (1,), (0,), (0,), 1),
    "elements": Case((5, 6), (4, 2), (1, 1), (), (0, 1), (1, 0), 1),
    "windows": Case((5, 6, 7), (2, 3, 2), (2, 6, 3), (1, 3, 4), (), (0, 2), 2),
    "vector first": Case((5, 6), (2, 4), (2, 3), (0, 2), (), (0, 1), 0),
    "without vector": Case((5, 6), (4,), (1, 4), (1,), (0,), (0,), 1),
    "one place": Case((5, 6), (2,), (2, 3), (0, 1), (), (0, 1), 0),
    "no coordinates": Case((5, 6), (0,), (5, 6), (0, 1), (), (), 0),
    "part without coordinates": Case((5, 6), (0,), (2, 6), (0, 1), (), (), 0),
    "wholes without coordinates": Case((5, 6), (4, 0), (5, 6), (1, 2), (), (), 1),
    "windows without coordinates": Case((5, 6), (4, 0), (2, 3), (1, 2), (), (), 1),
    "batches": Case((3, 5, 6), (3, 4, 1), (1, 2, 6), (2, 3), (), (1,), 2, (0,), (0,)),
    "batches in another order": Case((4, 5, 3), (3, 1, 4), (1, 1, 1), (), (1,), (1,), 1, (2, 0), (0, 2)),
}


def numbers(kind: str, case: Case) -> str:
    names = {"gather": ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
                        "start_index_map"),
             "scatter": ("update_window_dims", "inserted_window_dims", "input_batching_dims",
                         "scatter_indices_batching_dims", "scatter_dims_to_operand_dims")}[kind]  # fmt: skip
    lists = (case.offset, case.collapsed, case.batching, case.index_batching, case.indexed)
    fields = [f"{name} = {list(values)}" for name, values in zip(names, lists, strict=True) if values]
    return f"#stablehlo.{kind}<{', '.join([*fields, f'index_vector_dim = {case.vector}'])}>"


def tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def batch_axes(case: Case) -> list[int]:
    """The axes of the result that count slices."""
    count = len(case.indices) - (case.vector < len(case.indices)) + len(case.offset)
    return [d for d in range(count) if d not in case.offset]


def result_shape(case: Case) -> tuple[int, ...]:
    lead = iter(n for d, n in enumerate(case.indices) if d != case.vector)
    kept = iter(n for d, n in enumerate(case.sizes) if d not in (*case.collapsed, *case.batching))
    rank = len(batch_axes(case)) + len(case.offset)
    return tuple(next(kept) if d in case.offset else next(lead) for d in range(rank))


def place(case: Case, indices: Array, at: tuple[int, ...], clamp: bool) -> tuple[int, ...]:
    """Where in the operand an element of the result comes from, as the specification defines it."""
    batch = [at[d] for d in batch_axes(case)]
    where: list[Any] = list(batch)
    if case.vector < len(case.indices):
        where.insert(case.vector, slice(None))
    start = [0] * len(case.shape)
    for axis, coordinate in zip(case.indexed, np.atleast_1d(indices[tuple(where)]).tolist(), strict=True):
        last = case.shape[axis] - case.sizes[axis]
        start[axis] = min(max(coordinate, 0), last) if clamp else coordinate
    for axis, other in zip(case.batching, case.index_batching, strict=True):
        start[axis] = batch[other - (other > case.vector)]
    offsets = iter(at[d] for d in case.offset)
    inside = [0 if d in (*case.collapsed, *case.batching) else next(offsets) for d in range(len(case.shape))]
    return tuple(a + b for a, b in zip(start, inside, strict=True))


@pytest.mark.parametrize("element", ["i32", "ui8", "i64"])
@pytest.mark.parametrize("name", CASES)
def test_gather(run: Any, name: str, element: str) -> None:
    case = CASES[name]
    rng = np.random.default_rng(0)
    x = rng.normal(size=case.shape).astype(np.float32)
    low = 0 if element == "ui8" else -2
    indices = rng.integers(low, 8, case.indices).astype({"i32": np.int32, "ui8": np.uint8, "i64": np.int64}[element])
    shape = result_shape(case)
    types = f"({tensor(case.shape, 'f32')}, {tensor(case.indices, element)}) -> {tensor(shape, 'f32')}"
    text = f"""func.func @main(%x: {tensor(case.shape, "f32")}, %i: {tensor(case.indices, element)})
        -> {tensor(shape, "f32")} {{
      %0 = "stablehlo.gather"(%x, %i) <{{dimension_numbers = {numbers("gather", case)}, indices_are_sorted = false,
        slice_sizes = array<i64: {", ".join(map(str, case.sizes))}>}}> : {types}
      return %0 : {tensor(shape, "f32")}
    }}"""
    expected = np.empty(shape, np.float32)
    for at in np.ndindex(shape):
        expected[at] = x[place(case, indices, at, True)]
    np.testing.assert_array_equal(run(text, x, indices)[0], expected)


COMBINE = {"add": lambda a, b: a + b, "maximum": max, "subtract": lambda a, b: a - b}


@pytest.mark.parametrize("combine", COMBINE)
@pytest.mark.parametrize("name", CASES)
def test_scatter(run: Any, name: str, combine: str) -> None:
    """Elements that several updates meet are combined in their order; what lies outside is left out."""
    case = CASES[name]
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, case.shape).astype(np.int32)
    shape = result_shape(case)
    # Windows that lie partly outside are not defined everywhere: these lie inside, or altogether outside.
    last = [case.shape[d] - case.sizes[d] for d in case.indexed]
    lead = [n for d, n in enumerate(case.indices) if d != case.vector]
    indices = np.array([rng.integers(0, n + 1, lead) for n in last], int).reshape(len(last), *lead)
    outside = rng.random(indices.shape[1:]) < 0.2
    indices[:, outside] = 99
    indices = np.moveaxis(indices, 0, case.vector) if case.vector < len(case.indices) else indices[0]
    indices = np.ascontiguousarray(indices, np.int32)
    updates = rng.integers(-9, 9, shape).astype(np.int32)
    t, i, u = tensor(case.shape, "i32"), tensor(case.indices, "i32"), tensor(shape, "i32")
    text = f"""func.func @main(%x: {t}, %i: {i}, %u: {u}) -> {t} {{
      %0 = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = {numbers("scatter", case)},
        indices_are_sorted = false, unique_indices = false}}> ({{
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %1 = stablehlo.{combine} %a, %b : tensor<i32>
        stablehlo.return %1 : tensor<i32>
      }}) : ({t}, {i}, {u}) -> {t}
      return %0 : {t}
    }}"""
    expected = x.copy()
    for at in np.ndindex(shape):
        where = place(case, indices, at, False)
        if all(0 <= p < n for p, n in zip(where, case.shape, strict=True)):
            expected[where] = COMBINE[combine](expected[where], updates[at])
    np.testing.assert_array_equal(run(text, x, indices, updates)[0], expected)


@pytest.mark.parametrize("starts", [(0, 0), (1, 2), (9, -9), (3, 3)])
def test_slices_at_computed_places(run: Any, starts: tuple[int, int]) -> None:
    text = """func.func @main(%x: tensor<4x6xf32>, %u: tensor<2x3xf32>, %i: tensor<i32>, %j: tensor<i32>)
        -> (tensor<2x3xf32>, tensor<4x6xf32>) {
      %0 = stablehlo.dynamic_slice %x, %i, %j, sizes = [2, 3]
        : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
      %1 = stablehlo.dynamic_update_slice %x, %u, %i, %j
        : (tensor<4x6xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
      return %0, %1 : tensor<2x3xf32>, tensor<4x6xf32>
    }"""
    x, u = np.arange(24, dtype=np.float32).reshape(4, 6), np.full((2, 3), -1, np.float32)
    taken, updated = run(text, x, u, *(np.array(s, np.int32) for s in starts))
    i, j = (min(max(s, 0), last) for s, last in zip(starts, (2, 3), strict=True))
    np.testing.assert_array_equal(taken, x[i : i + 2, j : j + 3])
    expected = x.copy()
    expected[i : i + 2, j : j + 3] = u
    np.testing.assert_array_equal(updated, expected)
