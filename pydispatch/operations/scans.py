"""Cumulative operations and recurrences along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from xdsl.dialects import arith, builtin, tensor
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IntegerAttr, i32, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Region, SSAValue

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.values import Tensor, tensor_type
from pydispatch.ir.dialects.iree_linalg_ext.base import YieldOp
from pydispatch.ir.dialects.iree_linalg_ext.ordering import ScanOp
from pydispatch.ir.dialects.pyd.recurrence import RecurrenceOp
from pydispatch.operations.indexing import reverse
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars, elements_of, scalars_of
from pydispatch.operations.shapes import full, squeeze
from pydispatch.operations.slicing import slice_axis

Combine = Callable[[Scalars, Scalar, Scalar], Scalar]
"""Associative function combine(scalars, running value, element) -> new running value."""


def cumulative(
    builder: Builder, combine: str | Combine, x: Tensor, axis: int, exclusive: bool = False, backwards: bool = False
) -> Tensor:
    """Return each element combined with those before it along an axis; with `backwards`, with those after it.

    `axis` is not negative. `combine` is add, mul, max, min or a function; for a complex x it is add or mul. With
    `exclusive` the element itself is left out; the initial value is then 0, or 1 for mul.
    """
    if x.dtype.is_complex:
        return _cumulative_of_complex(builder, combine, x, axis, exclusive, backwards)
    # The body: the running value before and an element give the running value after it.
    x = reverse(builder, x, [axis]) if backwards else x
    block = Block(arg_types=[x.dtype.element, x.dtype.element])
    running, element = scalars_of([x.dtype, x.dtype], block.args)
    s = Scalars(block)
    after = s.binary(combine, running, element) if isinstance(combine, str) else combine(s, running, element)
    block.add_op(YieldOp.create(operands=[after.value]))
    # The scan, whose results are the running values, and the last one of each line along the axis (not used).
    carried_shape = tuple(n for d, n in enumerate(x.shape) if d != axis)
    # The initial value; an inclusive scan does not read it.
    carried = builder.splat(builder.scalar_constant(1 if combine == "mul" else 0, x.dtype), carried_shape)
    results = [tensor_type(x.dtype.element, x.shape), tensor_type(x.dtype.element, carried_shape)]
    op = ScanOp.create(
        operands=[builder.value(x), builder.empty(x.dtype.element, x.shape), carried],
        result_types=results,
        properties={
            "dimension": IntegerAttr(axis, i64),
            "inclusive": BoolAttr.from_bool(not exclusive),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 2]),
        },
        regions=[Region(block)],
    )
    result = builder.wrap(x.dtype, x.shape, builder.add(op).results[0])
    return reverse(builder, result, [axis]) if backwards else result


def _cumulative_of_complex(
    builder: Builder, combine: str | Combine, x: Tensor, axis: int, exclusive: bool, backwards: bool
) -> Tensor:
    """Return the result of `cumulative` for a complex x: a scan carries one number, a recurrence also a pair of them.

    Raise CompileError unless `combine` is add or mul.
    """
    if not isinstance(combine, str) or combine not in ("add", "mul"):
        raise builder.fail(f"running results of complex numbers are supported for sums and products only: {x}")
    if x.shape[axis] == 0:  # no step of a recurrence
        return x

    def step(s: Scalars, elements: list[Scalar], carried: list[Scalar]) -> Stepped:
        """Return the running value after an element, or the one before it for `exclusive`, and carry the one after."""
        after = s.binary(combine, carried[0], elements[0])
        return [carried[0] if exclusive else after], [after]

    carried_shape = [n for d, n in enumerate(x.shape) if d != axis]
    initial = full(builder, 1 if combine == "mul" else 0, carried_shape, x.dtype)
    (running,), _ = recurrence(builder, [x], [initial], axis, step, [x.dtype], backwards)
    return running


Stepped = tuple[list[Scalar], list[Scalar]]
"""One element of each result, and the carried values of the next step."""
Step = Callable[[Scalars, list[Scalar], list[Scalar]], Stepped]
"""Function step(scalars, elements, carried values) -> (one element of each result, the next carried values)."""


def recurrence(
    builder: Builder,
    tensors: Sequence[Tensor],
    first: Sequence[Tensor],
    axis: int,
    step: Step,
    results: Sequence[DType],
    backwards: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    """Return results whose elements along an axis are computed in order from elements and carried values.

    Rows along the axis are independent of each other.

    Args:
        builder: The builder.
        tensors: Operands of one shape, at least one. The axis must have at least one element.
        first: Initial carried values: tensors of this shape without the axis.
        axis: The axis, not negative.
        step: step(scalars, elements, carried values) returns one element of each result, and the next carried values.
        results: Types of the results.
        backwards: Whether to go from the last element to the first.

    Returns:
        The results, of the shape of the operands, and the final carried values, without the axis.
    """
    shape, carried = tensors[0].shape, [x.dtype for x in first]
    # Step n backwards reads element last - n; the results are reversed at the end.
    last = builder.index(shape[axis] - 1) if backwards else None

    initial_region = _initial_region(builder, first, rank=len(shape) - 1)
    # The region of a step, from the coordinates of an element and the carried values.
    step_block = Block(arg_types=[*[builtin.IndexType()] * len(shape), *elements_of(carried)])
    coordinates: list[SSAValue] = list(step_block.args[: len(shape)])
    s = Scalars(step_block)
    if last is not None:
        coordinates[axis] = s.add_op(arith.SubiOp(last, coordinates[axis]))
    inputs = [Scalar(x.dtype, tuple(_elements(builder, s, x, coordinates))) for x in tensors]
    step_results, following = step(s, inputs, scalars_of(carried, step_block.args[len(shape) :]))
    result_values = [part for element in step_results for part in element.parts]
    carried_values = [part for element in following for part in element.parts]
    # The carried values of the next step, then the elements of the results. The carried values are results too, whose
    # last elements along the axis are the final values.
    step_block.add_op(linalg.YieldOp.create(operands=[*carried_values, *result_values, *carried_values]))

    dtypes = [*results, *carried]
    op = builder.add(
        RecurrenceOp.create(
            operands=builder.indices(shape), properties={"dimension": IntegerAttr(axis, i64)},
            result_types=[tensor_type(element, shape) for element in elements_of(dtypes)],
            regions=[initial_region, Region(step_block)],
        )
    )  # fmt: skip
    values = iter(op.results)
    # A complex result takes two values of the operation, any other one.
    running = [builder.wrap(dtype, shape, *islice(values, len(elements_of([dtype])))) for dtype in dtypes]
    # Of the carried values after each step only those after the last one are returned.
    ends = [
        squeeze(builder, slice_axis(builder, x, axis, start=shape[axis] - 1, limit=shape[axis]), [axis])
        for x in running[len(results) :]
    ]
    return [reverse(builder, x, [axis]) if backwards else x for x in running[: len(results)]], ends


def _initial_region(builder: Builder, first: Sequence[Tensor], rank: int) -> Region:
    """Return the region that reads the initial carried values at a position of `rank` coordinates."""
    block = Block(arg_types=[builtin.IndexType()] * rank)
    scalars = Scalars(block)
    values = [v for x in first for v in _elements(builder, scalars, x, block.args)]
    block.add_op(linalg.YieldOp.create(operands=values))
    return Region(block)


def _elements(builder: Builder, scalars: Scalars, x: Tensor, positions: Sequence[SSAValue]) -> list[SSAValue]:
    """Return the SSA values of the element of x at a position, one value per axis: one, or real and imaginary part."""
    return [scalars.add_op(tensor.ExtractOp(part, list(positions), x.dtype.element)) for part in builder.parts(x)]
