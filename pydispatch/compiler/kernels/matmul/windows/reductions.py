"""Reductions over sliding windows: the recognition of the reduction in a function, and unrolled steps of a window."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xdsl.dialects import arith, func
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.kernels.matmul.results import matching_dims
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import body_at, cannot_lower
from pydispatch.compiler.kernels.ops.minmax import MIN_VALUES, maximum_or_minimum, operand_of
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.ir.structured import Structured, is_reduction, structured


def reduction_in(source: func.FuncOp) -> Structured | None:
    """Return the only reduction of a dispatch function, if its result has the shape of all results of the function.

    Return None if there are several reductions, or one that cannot be lowered, or results whose elements have less than
    a byte.
    """
    reductions = [structured(op) for op in source.body.block.ops if is_reduction(op)]
    last = source.body.block.last_op
    if len(reductions) != 1 or last is None:
        return None
    (generic,) = reductions
    if cannot_lower(generic) or len(generic.op.results) != 1 or not generic.reduced_loops:
        return None
    result = generic.op.results[0]
    dims = list(range(tensor_type(result).get_num_dims()))
    # All returned tensors are computed from the reduction element by element, without a permutation, and no two of
    # their elements share a byte.
    fits = all(matching_dims(v, result) == dims and bits_of(tensor_type(v).element_type) >= 8 for v in last.operands)
    has_results = bool(last.operands)
    return generic if fits and has_results else None


def step_at(
    elements: Elements, build: Builder, generic: Structured, point: Sequence[Index], accumulator: SSAValue
) -> SSAValue:
    """Emit one step of a reduction at a point of its loops, and return the new accumulator.

    The step is the body of the generic, such as `acc + x * w`. A product and its addition get the flag `contract`, so
    that a fused multiply-add may compute both. All their other fast-math flags are removed. Without the flag for
    reassociation, the sums keep the order of the steps.

    Args:
        elements: Tensors of the dispatch function.
        build: Receives the code.
        generic: The reduction.
        point: Index of each of its loops.
        accumulator: The sum, maximum or minimum before the step.
    """
    (new_accumulator,) = body_at(elements, build, generic, point, [accumulator])
    if not isinstance(new_accumulator, OpResult) or new_accumulator.op.name != "arith.addf":
        return new_accumulator
    addition = new_accumulator.op
    products = [v.op for v in addition.operands if isinstance(v, OpResult) and v.op.name == "arith.mulf"]
    if products:
        for op in (*products, addition):
            op.properties["fastmath"] = arith.FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT])
    return new_accumulator


def reduced(build: Builder, accumulators: Sequence[Sequence[SSAValue]]) -> list[SSAValue]:
    """Return the result of each unrolled reduction, one for each list of `accumulators`.

    The result is the last accumulator, unless all steps are the same NaN-propagating maximum or minimum: then one
    maximum of all operands is emitted, which takes fewer instructions. For the accumulators [%init, %m1 = maximumf
    %init, %a, %m2 = maximumf %m1, %b, %m3 = maximumf %m2, %c] the operands are %init, %a, %b and %c. %m1 to %m3 are
    then unused.

    Args:
        build: Receives the code.
        accumulators: For each reduction, the initial value and then the value after each step, as `step_at` returns it.
    """
    # The operation of all steps; None if steps differ or if one is no maximum or minimum.
    operations = {_extremum(after, before) for values in accumulators for before, after in pairwise(values)}
    name = operations.pop() if len(operations) == 1 else None
    operands_of_reductions = [_operands_of_steps(values) for values in accumulators]
    # For fewer values than `MIN_VALUES`, the separate steps are as fast.
    if name is not None and len(operands_of_reductions[0]) >= MIN_VALUES:
        return [maximum_or_minimum(build, name, operands) for operands in operands_of_reductions]
    return [values[-1] for values in accumulators]


def _operands_of_steps(accumulators: Sequence[SSAValue]) -> list[SSAValue]:
    """Return the initial value of a reduction, and the value that each maximum or minimum combines with it.

    accumulators: the initial value, then the result of each step: [%init, %m1, %m2] with `%m1 = maximumf %init, %a` and
        `%m2 = maximumf %m1, %b` has the operands [%init, %a, %b]. A step that is no maximum or minimum has no operand.
    """
    operands = [operand_of(after, before) for before, after in pairwise(accumulators)]
    return [accumulators[0], *(operand for operand in operands if operand is not None)]


def _extremum(after: SSAValue, before: SSAValue) -> str | None:
    """Return "arith.maximumf" or "arith.minimumf" if that computes `after` from `before` and another value, else None.

    `operand_of` returns the other value, and None for the results of other operations.
    """
    has_operand = operand_of(after, before) is not None
    return after.owner.name if has_operand and isinstance(after.owner, Operation) else None
