"""Operations with regions: reductions, windows, orders, scatters, control flow."""

from __future__ import annotations

from typing import Any

import numpy as np

from every_operation.elements import Array, Element
from every_operation.rows import Row, by

T = "tensor<$E>"


def pair(op: str) -> str:
    """A region that combines two elements by an operation."""
    return f"{{ ^bb0(%p: {T}, %q: {T}):\n    %s = stablehlo.{op} %p, %q : {T}\n    stablehlo.return %s : {T}\n  }}"


BEFORE = (
    "{ ^bb0(%p: tensor<$E>, %q: tensor<$E>, %i: tensor<i32>, %j: tensor<i32>):\n"
    "    %s = stablehlo.compare LT, %p, %q : (tensor<$E>, tensor<$E>) -> tensor<i1>\n"
    "    stablehlo.return %s : tensor<i1>\n  }"
)
LARGEST = """{ ^bb0(%p: tensor<$E>, %i: tensor<i32>, %q: tensor<$E>, %j: tensor<i32>):
    %g = stablehlo.compare GE, %p, %q : (tensor<$E>, tensor<$E>) -> tensor<i1>
    %v = stablehlo.select %g, %p, %q : tensor<i1>, tensor<$E>
    %n = stablehlo.select %g, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %v, %n : tensor<$E>, tensor<i32>
  }"""
GREATER = (
    "{ ^bb0(%p: tensor<$E>, %q: tensor<$E>):\n"
    "    %s = stablehlo.compare GE, %p, %q : (tensor<$E>, tensor<$E>) -> tensor<i1>\n"
    "    stablehlo.return %s : tensor<i1>\n  }"
)
X, ONES, ZERO = "small:4x6", "ones:4x3", "ones e:"
PLACES = np.arange(24, dtype=np.int32).reshape(4, 6)
NONE = np.array(-1, np.int32)


def greatest(e: Element, x: Array, places: Array, first: Array, none: Array) -> tuple[Array, Array]:
    """The largest number with its place: the last of equal ones along the rows, as `first` is the running one."""
    best = np.array([_largest_of(e, [first[()], *row]) for row in x], x.dtype)
    at = [
        next((int(p) for v, p in zip(row, where, strict=True) if v == b and first[()] != b), -1)
        for row, where, b in zip(x, places, best, strict=True)
    ]
    return best, np.array(at, object)


def _largest_of(e: Element, values: list[Any]) -> Any:
    return max(values, key=lambda v: (v.real, v.imag) if e.kind == "complex" else v)


def windowed(e: Element, x: Array, first: Array) -> Array:
    made = [
        [_largest_of(e, [first[()], *x[i : i + 2, j : j + 3].reshape(-1)]) for j in range(0, 4, 3)] for i in range(3)
    ]
    return np.array(made, x.dtype)


def picked(e: Element, x: Array, source: Array, first: Array) -> Array:
    """Each number of the source is added where the largest of its 2 by 3 block of x is."""
    made = np.full(x.shape, first[()], x.dtype)
    for i in range(2):
        for j in range(2):
            block = [(r, c) for r in (2 * i, 2 * i + 1) for c in range(3 * j, 3 * j + 3)]
            best = block[0]
            for place in block[1:]:
                if not _at_least(e, x[best], x[place]):
                    best = place
            made[best] = made[best] + source[i, j]
    return made


def _at_least(e: Element, a: Any, b: Any) -> bool:
    return (a.real, a.imag) >= (b.real, b.imag) if e.kind == "complex" else a >= b


def ordered(e: Element, x: Array, places: Array) -> tuple[Array, Array]:
    keys = [[(v.real, v.imag) if e.kind == "complex" else v for v in row] for row in x]
    order = np.array([sorted(range(len(row)), key=row.__getitem__) for row in keys])
    return np.take_along_axis(x, order, 1), np.take_along_axis(places, order, 1).astype(object)


def scattered(e: Element, x: Array, starts: Array, updates: Array) -> Array:
    made = x.copy()
    for n, start in enumerate(starts[:, 0]):
        if 0 <= start < 4:
            made[start] = e.wide(e.narrow(made[start] + updates[n]))
    return made


def replaced(e: Element, x: Array, starts: Array, updates: Array) -> Array:
    made = x.copy()
    made[2], made[0] = updates[0], updates[1]
    return made


SCATTER = (
    "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
    "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
)
REPLACE = f"{{ ^bb0(%p: {T}, %q: {T}):\n    stablehlo.return %q : {T}\n  }}"
STARTS = np.array([[2], [0], [7], [-3]], np.int32)
COUNT = """{ ^bb0(%i: tensor<i32>, %v: tensor<3x$E>):
    %n = stablehlo.constant dense<2> : tensor<i32>
    %s = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %s : tensor<i1>
  }, { ^bb0(%i: tensor<i32>, %v: tensor<3x$E>):
    %n = stablehlo.constant dense<1> : tensor<i32>
    %s = stablehlo.add %i, %n : tensor<i32>
    %w = stablehlo.reverse %v, dims = [0] : tensor<3x$E>
    %u = stablehlo.maximum %w, $2 : tensor<3x$E>
    stablehlo.return %s, %u : tensor<i32>, tensor<3x$E>
  }"""
BRANCH = "{{ stablehlo.return ${} : tensor<3x$E> }}".format


def looped(e: Element, start: Array, x: Array, low: Array) -> tuple[Array, Array]:
    for _ in range(2):
        x = np.array([_largest_of(e, [a, b]) for a, b in zip(x[::-1], low, strict=True)], x.dtype)
    return np.array(2, object), x


def summed(x: Array, first: Array) -> Array:
    """Along the rows."""
    total = np.full(x.shape[0], first[()], x.dtype)
    for column in x.T:
        total = total + column
    return total


ROWS = [
    Row(
        "reduce",
        f'"stablehlo.reduce"($0, $1) <{{dimensions = array<i64: 1>}}> ({pair("add")})',
        (ONES, ZERO),
        ("4x$E",),
        by(summed),
    ),
    Row(
        "reduce",
        f'"stablehlo.reduce"($0, $1, $2, $3) <{{dimensions = array<i64: 1>}}> ({LARGEST})',
        (X, PLACES, "small d:", NONE),
        ("4x$E", "4xi32"),
        greatest,
        "sint uint float complex",
    ),
    Row(
        "reduce_window",
        f'"stablehlo.reduce_window"($0, $1) <{{window_dimensions = array<i64: 2, 3>, '
        f"window_strides = array<i64: 1, 3>}}> ({pair('maximum')})",
        (X, "small c:"),
        ("3x2x$E",),
        windowed,
    ),
    Row(
        "select_and_scatter",
        '"stablehlo.select_and_scatter"($0, $1, $2) <{window_dimensions = array<i64: 2, 3>, '
        "window_strides = array<i64: 2, 3>}> "
        f"({GREATER}, {pair('add')})",
        (X, "ones:2x2", ZERO),
        ("4x6x$E",),
        picked,
    ),
    Row(
        "sort",
        f'"stablehlo.sort"($0, $1) <{{dimension = 1 : i64, is_stable = true}}> ({BEFORE})',
        (X, PLACES),
        ("4x6x$E", "4x6xi32"),
        ordered,
    ),
    Row(
        "scatter",
        f'"stablehlo.scatter"($0, $1, $2) <{{{SCATTER}}}> ({pair("add")})',
        (ONES, STARTS, "ones c:4x3"),
        ("4x3x$E",),
        scattered,
    ),
    Row(
        "scatter",
        f'"stablehlo.scatter"($0, $1, $2) <{{{SCATTER}}}> ({REPLACE})',
        ("edges:4x5", STARTS, "edges c:4x5"),
        ("4x5x$E",),
        replaced,
    ),
    Row(
        "map",
        f'"stablehlo.map"($0, $1) <{{dimensions = array<i64: 0, 1>}}> ({pair("add")})',
        (ONES, "ones b:4x3"),
        ("4x3x$E",),
        by(np.add),
    ),
    Row(
        "while",
        f'"stablehlo.while"($0, $1) ({COUNT})',
        (np.array(0, np.int32), "small:3", "small d:3"),
        ("i32", "3x$E"),
        looped,
        passed=2,
    ),
    Row(
        "if",
        f'"stablehlo.if"($0) ({BRANCH(1)}, {BRANCH(2)})',
        ("truth:", "edges:3", "edges c:3"),
        ("3x$E",),
        by(np.where),
        passed=1,
    ),
    Row(
        "case",
        f'"stablehlo.case"($0) ({BRANCH(1)}, {BRANCH(2)})',
        (np.array(1, np.int32), "edges:3", "edges c:3"),
        ("3x$E",),
        by(lambda n, a, b: b),
        passed=1,
    ),
]
