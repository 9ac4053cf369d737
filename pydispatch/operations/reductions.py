"""Reductions: sums, products, extremes, means, and the index of an extreme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, I32, I64, U32, U64, DType
from pydispatch.graph.sizes import Expr, Shape, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import formula
from pydispatch.operations.reals import Scalar, UnsupportedTypeError
from pydispatch.operations.scalars import Scalars, scalars_of
from pydispatch.operations.shapes import axes_of, broadcast_to, reshape, scalar_parts

Combine = Callable[[Scalars, Sequence[Scalar], Sequence[Scalar]], Sequence[Scalar]]
"""Function combine(scalars, running values, elements) -> new running values."""


def reduce_with(
    builder: Builder, tensors: Sequence[Tensor], starts: Sequence[Tensor], axes: Sequence[int] | None, combine: Combine
) -> list[Tensor]:
    """Reduce tensors of one shape together along axes (all for None), which are removed. Return a tensor per result.

    Example: the tensors x and y, the start 0, and a `combine` that adds the product of both elements to the running
    value give one result, the sums of x * y.

    Args:
        builder: The builder.
        tensors: The operands.
        starts: Initial running values of rank 0, one per result, with the types of the results.
        axes: The axes.
        combine: Function of the running values and of one element of each operand; returns the new running values.
    """
    shape = tensors[0].shape
    axes = axes_of(builder, axes, len(shape))
    kept = [d for d in range(len(shape)) if d not in axes]  # the axes of the results
    out_shape: Shape = tuple(shape[d] for d in kept)
    rank = len(shape)
    identity = AffineMap.identity(rank)
    to_result = AffineMap(rank, 0, tuple(AffineExpr.dimension(d) for d in kept))
    inputs = [(part, identity) for t in tensors for part in builder.parts(t)]
    outputs = [(builder.splat(value, out_shape), to_result) for t in starts for value in scalar_parts(builder, t)]

    def body(block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        """Combine an element of each tensor with the running values, and return the parts of the new running values.

        args: the elements, then the running values; a complex number is two arguments.
        """
        elements = scalars_of([*(t.dtype for t in tensors), *(t.dtype for t in starts)], args)
        try:
            results = combine(Scalars(block), elements[len(tensors) :], elements[: len(tensors)])
        except UnsupportedTypeError as error:
            raise builder.fail(str(error)) from None
        return [part for r in results for part in r.parts]

    # The operation has a result for each part; a complex tensor has two.
    values = iter(builder.generic(inputs, outputs, parallel=[d in kept for d in range(rank)], body=body))
    return [
        builder.wrap(t.dtype, out_shape, *(next(values) for _ in range(2 if t.dtype.is_complex else 1))) for t in starts
    ]


def least(dtype: DType) -> float | int:
    """Return the smallest number of a type; of a type with infinities -inf."""
    return dtype.limits[0]


def largest(dtype: DType) -> float | int:
    """Return the largest number of a type; of a type with infinities inf."""
    return dtype.limits[1]


_STARTS: dict[str, Callable[[DType], float | int]] = {
    "add": lambda _: 0, "mul": lambda _: 1, "max": least, "min": largest, "or": lambda _: 0, "and": lambda _: -1,
    "xor": lambda _: 0,
}  # fmt: skip
"""Neutral element of each reduction for a type: the running value before the first element."""


def reduce(builder: Builder, name: str, x: Tensor, axes: Sequence[int] | None = None, keep: bool = False) -> Tensor:
    """Reduce x along axes (all for None) by `name`: add, mul, max, min, and, or, xor. With `keep`, reduced axes have
    size 1.
    """
    reduced_axes = axes_of(builder, axes, x.rank)
    folded = _folded(builder, name, x, reduced_axes, keep)
    if folded is not None:
        return folded
    start = builder.constant(_STARTS[name](x.dtype), x.dtype)

    def combine(scalars: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        """Combine the running value with an element by the function `name`."""
        return [scalars.binary(name, running[0], elements[0])]

    (result,) = reduce_with(builder, [x], [start], reduced_axes, combine) if reduced_axes else (x,)
    return kept_axes(builder, result, x, reduced_axes) if keep else result


def kept_axes(builder: Builder, reduced: Tensor, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Reshape a reduction of x so that the reduced axes have size 1."""
    return reshape(builder, reduced, [1 if d in axes else n for d, n in enumerate(x.shape)])


def _folded(builder: Builder, name: str, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor | None:
    """Return the reduction of a small constant of integers, computed at compile time.

    Return None for other operands, for functions that are not folded, and for constants without elements.
    """
    import numpy as np

    if x.known is None or x.known.size > ew.MOST_FOLDED_ELEMENTS or not x.dtype.is_integer:
        return None
    functions: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    is_unordered = x.is_symbolic and name in ("max", "min")  # expressions over sizes do not compare
    if name not in functions or is_unordered or 0 in x.known.shape:
        return None
    result = functions[name].reduce(x.known, axis=tuple(axes), keepdims=keep)
    return builder.constant(np.asarray(result), x.dtype)


def count(x: Tensor, axes: Sequence[int]) -> int | Expr:
    """Return the number of elements that a reduction along axes combines into one."""
    return product(x.shape[d] for d in axes)


def size_as(builder: Builder, n: int | Expr, dtype: DType) -> Tensor:
    """Return a size as a tensor of rank 0 and the type `dtype`."""
    known = builder.constant(n, I64)
    return builder.constant(n, dtype) if not isinstance(n, Expr) else ew.convert(builder, known, dtype)


def mean(builder: Builder, x: Tensor, axes: Sequence[int] | None = None, keep: bool = False) -> Tensor:
    """Return the mean of the elements along axes, all for None. With `keep`, these have size 1."""
    reduced_axes = axes_of(builder, axes, x.rank)
    total = reduce(builder, "add", x, reduced_axes, keep)
    return ew.binary(builder, "div", total, size_as(builder, count(x, reduced_axes), x.dtype))


def variance(
    builder: Builder, x: Tensor, axes: Sequence[int] | None = None, keep: bool = False, less: float = 0
) -> Tensor:
    """Return the sum of squared distances to the mean, divided by the number of elements minus `less`, at least 0.

    The sums are over `axes`, all for None; with `keep`, these have size 1. `less` is 1 for a sample's unbiased
    variance. The result is real for complex x, too. [1, 3] has the variance 1, and with `less` 1 it is 2.
    """
    reduced_axes = axes_of(builder, axes, x.rank)
    deviations = ew.binary(builder, "sub", x, mean(builder, x, reduced_axes, keep=True))
    if x.dtype.is_complex:
        squares = formula(builder, lambda d: d.real * d.real + d.imag * d.imag, deviations)
    else:
        squares = ew.binary(builder, "mul", deviations, deviations)
    total = reduce(builder, "add", squares, reduced_axes, keep)
    # The number of elements, which may be a dynamic size, minus `less`.
    size, dtype = count(x, reduced_axes), total.dtype
    if not isinstance(size, Expr):
        divisor = builder.constant(max(size - less, 0), dtype)
    else:
        divisor = size_as(builder, size, dtype)
        if less:
            divisor = ew.binary(builder, "sub", divisor, builder.constant(less, dtype))
            divisor = ew.binary(builder, "max", divisor, builder.constant(0, dtype))
    return ew.binary(builder, "div", total, divisor)


def arg_reduce(builder: Builder, name: str, x: Tensor, axis: int, keep: bool = False, dtype: DType = I64,
               last: bool = False) -> Tensor:  # fmt: skip
    """Return the index of the "max" or "min" along an axis; -1 if it has no elements.

    Of equal elements it is the first, or with `last` the last. NaN counts as beyond all numbers. The elements are
    reduced to the extreme first, and then the indices of those that equal it: both loops are vectorized on CPUs, unlike
    one over pairs of an element and an index.

    Args:
        builder: The builder.
        name: "max" or "min".
        x: The operand.
        axis: The axis.
        keep: Whether the result has the axis, with size 1.
        dtype: Type of the indices.
        last: Whether the last of equal elements is chosen.
    """
    (axis,) = axes_of(builder, [axis], x.rank)
    size = x.shape[axis]
    signed, unsigned = (I32, U32) if isinstance(size, int) and size < 1 << 31 else (I64, U64)
    index_type = signed if last else unsigned
    # The running index before the first element is below all indices with `last`, else above all. In both cases its
    # bits are those of -1, which is the result if there are no elements.
    no_index = -1 if last else largest(index_type)
    values = ew.convert(builder, x, F32) if x.dtype.is_bool else x
    extremes = broadcast_to(builder, reduce(builder, name, values, [axis], keep=True), x.shape)

    def combine(scalars: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        """Return the smaller (with `last`, the larger) of the running index and the index of an element.

        elements: an element, and the extreme along the axis. The index of an element is its position along `axis`, but
        `no_index` for an element that is not the extreme: this never replaces the running index.
        """
        value, extreme = elements
        is_extreme = scalars.compare("eq", value, extreme)
        if value.dtype.is_float:  # NaN equals nothing, and is the extreme wherever it occurs
            is_extreme = scalars.binary("or", is_extreme, scalars.unary("is_nan", value))
        index = scalars.select(is_extreme, scalars.position(axis, index_type), scalars.const(no_index, index_type))
        return [scalars.binary("max" if last else "min", running[0], index)]

    (result,) = reduce_with(builder, [values, extremes], [builder.constant(no_index, index_type)], [axis], combine)
    # First to the signed type of the same width, which turns the largest unsigned index, `no_index`, into -1.
    result = ew.convert(builder, ew.convert(builder, result, signed), dtype)
    return kept_axes(builder, result, x, [axis]) if keep else result
