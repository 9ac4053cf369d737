"""Many elements become one: sums, products, extremes, norms, the place of the largest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import BOOL, F32, I64, DType, Kind
from pydispatch.frontends.graph.sizes import Expr, Shape, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops.reals import Scalar, UnsupportedTypeError
from pydispatch.frontends.ops.scalars import Scalars, scalars_of
from pydispatch.frontends.ops.shapes import axes_of, reshape, scalar_parts

Combine = Callable[[Scalars, Sequence[Scalar], Sequence[Scalar]], Sequence[Scalar]]
"""combine(s, running values, elements) -> running values."""


def reduce_with(
    b: Builder, tensors: Sequence[Tensor], starts: Sequence[Tensor], axes: Sequence[int] | None, combine: Combine
) -> list[Tensor]:
    """Reduce tensors of one shape together along axes, which are removed. starts: the first running values, rank 0, one
    for each result; their types are those of the results.
    """
    shape = tensors[0].shape
    axes = axes_of(b, axes, len(shape))
    kept = [d for d in range(len(shape)) if d not in axes]
    out_shape: Shape = tuple(shape[d] for d in kept)
    rank = len(shape)
    identity = AffineMap.identity(rank)
    to_result = AffineMap(rank, 0, tuple(AffineExpr.dimension(d) for d in kept))
    inputs = [(part, identity) for t in tensors for part in b.parts(t)]
    outputs = [(b.splat(value, out_shape), to_result) for t in starts for value in scalar_parts(b, t)]

    def body(block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        found = scalars_of([*(t.dtype for t in tensors), *(t.dtype for t in starts)], args)
        try:
            results = combine(Scalars(block), found[len(tensors) :], found[: len(tensors)])
        except UnsupportedTypeError as error:
            raise b.fail(str(error)) from None
        return [part for r in results for part in r.parts]

    values = iter(b.generic(inputs, outputs, [d in kept for d in range(rank)], body))
    return [b.wrap(t.dtype, out_shape, *(next(values) for _ in range(2 if t.dtype.is_complex else 1))) for t in starts]


def least(dtype: DType) -> float | int:
    """Return the lower bound of a type's numbers; -inf for floats."""
    if dtype.is_float:
        return -math.inf
    return -(1 << (dtype.bits - 1)) if dtype.kind is Kind.INT else 0


def largest(dtype: DType) -> float | int:
    """Return the upper bound of a type's numbers; inf for floats."""
    if dtype.is_float:
        return math.inf
    return (1 << (dtype.bits - (dtype.kind is Kind.INT))) - 1


_STARTS: dict[str, Callable[[DType], float | int]] = {
    "add": lambda _: 0, "mul": lambda _: 1, "max": least, "min": largest, "or": lambda _: 0, "and": lambda _: -1,
    "xor": lambda _: 0,
}  # fmt: skip


def reduce(b: Builder, name: str, x: Tensor, axes: Sequence[int] | None = None, keep: bool = False) -> Tensor:
    """x reduced along axes (all for None) by add, mul, max, min, and, or, xor. keep: axes stay, with size 1."""
    gone = axes_of(b, axes, x.rank)
    if (folded := _folded(b, name, x, gone, keep)) is not None:
        return folded
    start = b.constant(_STARTS[name](x.dtype), x.dtype)

    def combine(s: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        return [s.binary(name, running[0], elements[0])]

    (made,) = reduce_with(b, [x], [start], gone, combine) if gone else (x,)
    return kept_axes(b, made, x, gone) if keep else made


def kept_axes(b: Builder, reduced: Tensor, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Reshape a reduction of x so that the reduced axes have size 1."""
    return reshape(b, reduced, [1 if d in axes else n for d, n in enumerate(x.shape)])


def _folded(b: Builder, name: str, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor | None:
    import numpy as np

    if x.known is None or x.known.size > ew.FOLDED or not (x.dtype.is_integer or x.dtype.is_bool):
        return None
    functions: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    if name not in functions or x.dtype.is_bool or (x.is_symbolic and name in ("max", "min")) or 0 in x.known.shape:
        return None
    made = functions[name].reduce(x.known, axis=tuple(axes), keepdims=keep)
    return b.constant(np.asarray(made), x.dtype)


def count(x: Tensor, axes: Sequence[int]) -> int | Expr:
    """Return how many elements a reduction along axes combines."""
    return product(x.shape[d] for d in axes)


def size_as(b: Builder, n: int | Expr, dtype: DType) -> Tensor:
    """Return a size as a tensor of rank 0."""
    known = b.constant(n, I64)
    return b.constant(n, dtype) if not isinstance(n, Expr) else ew.convert(b, known, dtype)


def mean(b: Builder, x: Tensor, axes: Sequence[int] | None = None, keep: bool = False) -> Tensor:
    """Return the mean of the elements along axes."""
    gone = axes_of(b, axes, x.rank)
    total = reduce(b, "add", x, gone, keep)
    return ew.binary(b, "div", total, size_as(b, count(x, gone), x.dtype))


def variance(b: Builder, x: Tensor, axes: Sequence[int] | None = None, keep: bool = False, less: int = 0) -> Tensor:
    """Return the sum of squared distances to the mean, divided by the number of elements minus `less`."""
    gone = axes_of(b, axes, x.rank)
    apart = ew.binary(b, "sub", x, mean(b, x, gone, True))
    total = reduce(b, "add", ew.binary(b, "mul", apart, apart), gone, keep)
    return ew.binary(b, "div", total, size_as(b, count(x, gone) - less, x.dtype))


def argument(b: Builder, name: str, x: Tensor, axis: int, keep: bool = False, dtype: DType = I64,
             last: bool = False) -> Tensor:  # fmt: skip
    """Return the place of the "max" or "min" along an axis: the first of equal ones, or the last. NaN is beyond all."""
    (axis,) = axes_of(b, [axis], x.rank)
    narrow = ew.convert(b, x, F32) if x.dtype.is_bool else x
    start = [b.constant(least(narrow.dtype) if name == "max" else largest(narrow.dtype), narrow.dtype),
             b.constant(-1, dtype)]  # fmt: skip

    def combine(s: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        (best, place), (value,) = running, elements
        here = s.position(axis, dtype)
        order = {"max": "gt", "min": "lt"}[name]
        better = s.compare(order, value, best)
        tied = s.compare("eq", value, best)
        first = s.compare("lt", place, s.const(0, dtype))
        replace = s.binary("or", better, s.binary("and", tied, first if not last else s.const(True, BOOL)))
        if value.dtype.is_float:
            is_nan, was_nan = s.unary("is_nan", value), s.unary("is_nan", best)
            new_nan = is_nan if last else s.binary("and", is_nan, s.unary("not", was_nan))
            replace = s.binary("or", new_nan, s.binary("and", replace, s.unary("not", was_nan)))
        return [s.select(replace, value, best), s.select(replace, here, place)]

    _, found = reduce_with(b, [narrow], start, [axis], combine)
    return kept_axes(b, found, x, [axis]) if keep else found
