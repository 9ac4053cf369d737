"""Sorting by any comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr, i32, i64
from xdsl.ir import Block, Region

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64, DType
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects.iree_linalg_ext.base import YieldOp
from pydispatch.ir.dialects.iree_linalg_ext.ordering import SortOp, TopkV2Op
from pydispatch.operations.float_bits import total_order
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars, elements_of, scalars_of
from pydispatch.operations.shapes import iota

Before = Callable[[Scalars, Sequence[Scalar], Sequence[Scalar]], Scalar]
"""Function before(scalars, elements of a, elements of b) -> whether a is sorted before b."""
Order = Callable[[Scalars, Scalar, Scalar], Scalar]
"""Function order(scalars, a, b) -> whether a is sorted before b."""


def sort(builder: Builder, tensors: Sequence[Tensor], axis: int, before: Before) -> list[Tensor]:
    """Sort tensors of one shape together along an axis, and return them. The sort is stable.

    `axis` is not negative. before(scalars, elements, other elements) returns whether the elements, one of each tensor,
    come before the others.
    """
    parts = [part for x in tensors for part in builder.parts(x)]  # complex tensors have two: real and imaginary
    dtypes = [x.dtype for x in tensors]
    block = Block(arg_types=[element for element in elements_of(dtypes) for _ in range(2)])
    # The arguments of the body alternate: a part of one element, and the same part of the other element.
    is_before = before(Scalars(block), scalars_of(dtypes, block.args[::2]), scalars_of(dtypes, block.args[1::2]))
    block.add_op(YieldOp.create(operands=[is_before.value]))
    op = SortOp.create(
        operands=parts, result_types=[part.type for part in parts],  # all are sorted in place: no other operands
        properties={"dimension": IntegerAttr(axis, i64),
                    "operandSegmentSizes": DenseArrayBase.from_list(i32, [0, len(parts)])},
        regions=[Region(block)],
    )  # fmt: skip
    results = iter(builder.add(op).results)
    return [builder.wrap(x.dtype, x.shape, *(next(results) for _ in builder.parts(x))) for x in tensors]


def less(scalars: Scalars, a: Scalar, other: Scalar) -> Scalar:
    """Return whether a is less than other. NaN is greater than all numbers."""
    smaller = scalars.compare("lt", a, other)
    if not a.dtype.is_float:
        return smaller
    other_is_nan, a_is_number = scalars.unary("is_nan", other), scalars.unary("not", scalars.unary("is_nan", a))
    return scalars.binary("or", smaller, scalars.binary("and", other_is_nan, a_is_number))


def less_in_total_order(scalars: Scalars, a: Scalar, other: Scalar) -> Scalar:
    """Return whether a is less than other in IEEE 754's total order: -NaN, ..., -0, 0, ..., NaN."""
    return scalars.compare("lt", *(total_order(scalars, v) if v.dtype.is_float else v for v in (a, other)))


def sort_with_indices(
    builder: Builder, x: Tensor, axis: int, *, descending: bool = False, dtype: DType = I64, order: Order = less
) -> tuple[Tensor, Tensor]:
    """Return the sorted elements along an axis, and their indices in x as `dtype`. The sort is stable.

    `order` is the ascending order; `descending` reverses it, but not the order of equal elements.
    """

    def before(scalars: Scalars, a: Sequence[Scalar], other: Sequence[Scalar]) -> Scalar:
        """Return whether element a is sorted before `other`; the second scalars, which are indices, are not
        compared.
        """
        return order(scalars, other[0], a[0]) if descending else order(scalars, a[0], other[0])

    values, positions = sort(builder, [x, iota(builder, x.shape, axis, dtype)], axis, before)
    return values, positions


def top_k(
    builder: Builder,
    x: Tensor,
    count: Size,
    axis: int,
    *,
    largest: bool = True,
    dtype: DType = I64,
    order: Order = less,
) -> tuple[Tensor, Tensor]:
    """Return the `count` largest elements along an axis in descending order, and their indices in x as `dtype`.

    If not `largest`, they are the smallest elements in ascending order. Of equal elements the first are chosen. x is
    not complex; `order` is the ascending order. Example: [5, 9, 7, 9] and the count 3 give [9, 9, 7] and [1, 3, 2].
    """
    # The body returns whether its first argument (a) precedes the second (other). A complex element would have two
    # parts, each with an argument for both elements: arguments of one element are every second one.
    block = Block(arg_types=[element for element in elements_of([x.dtype]) for _ in range(2)])
    scalars = Scalars(block)
    (a,), (other,) = (scalars_of([x.dtype], block.args[side::2]) for side in range(2))
    is_before = order(scalars, other, a) if largest else order(scalars, a, other)
    block.add_op(YieldOp.create(operands=[is_before.value]))
    shape = [count if d == axis else size for d, size in enumerate(x.shape)]
    outs = [builder.empty(element, shape) for element in elements_of([x.dtype, dtype])]
    op = TopkV2Op.create(
        operands=[*builder.parts(x), *outs], result_types=[out.type for out in outs],
        properties={"dimension": IntegerAttr(axis, i64), "is_sorted": UnitAttr(),
                    "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 2])},  # values; the two results
        regions=[Region(block)],
    )  # fmt: skip
    values, positions = builder.add(op).results
    return builder.wrap(x.dtype, shape, values), builder.wrap(dtype, shape, positions)
