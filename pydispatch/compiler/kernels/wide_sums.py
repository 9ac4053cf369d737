"""Reductions of floats below 32 bits accumulate in f32, and round once at their end.

An f16 sum stops growing once it is 2048 times its terms. Maxima and minima are exact in any type; in f32 they are
vectorized on CPUs without f16 arithmetic. Contractions are rewritten only if they become plain loops: their own kernels
accumulate in f32.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AnyFloat, FloatAttr, TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Block, Operation, OpResult, SSAValue

from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.matmul.match import contraction_of
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.op_info import Grouping, info_of
from pydispatch.ir.structured import is_reduction, structured


def widen_sums(function: Operation) -> None:
    """Rewrite the reductions of a host function in place, except contractions, to accumulate in f32."""
    for op in list(walk(function)):
        if op.parent is not None and is_reduction(op):
            _widen(cast(GenericOp, op))


def with_wide_sums(function: FuncOp) -> FuncOp:
    """Return a copy of a dispatch function whose reductions in narrow float types accumulate in f32.

    Return the function itself if it has no such reductions.
    """
    if not any(op.name == "linalg.generic" and _narrow_results(cast(GenericOp, op)) for op in walk(function)):
        return function
    copy = function.clone()
    for op in list(walk(copy)):
        if op.name == "linalg.generic":
            for result in _narrow_results(cast(GenericOp, op)):
                _widen_result(cast(GenericOp, op), result)
    return copy


def _narrow_results(op: GenericOp) -> list[int]:
    """Return the positions of the results that are reduced in fewer than 32 bits, see `_is_narrow_reduction`."""
    last = op.body.block.last_op
    return [] if last is None else [n for n, value in enumerate(last.operands) if _is_narrow_reduction(op, n, value)]


def _widen(op: GenericOp) -> None:
    """Rewrite a generic to accumulate in f32, unless it is a contraction, whose kernels do that anyway."""
    results = _narrow_results(op)
    if not results or contraction_of(op) is not None:
        return
    for result in results:
        _widen_result(op, result)


def _is_narrow_reduction(op: GenericOp, result: int, value: SSAValue) -> bool:
    """Return whether a result is reduced in a float type of fewer than 32 bits, and can be reduced in f32 instead.

    For that, one operation must combine the accumulator and a new value, and no other may read the accumulator or the
    combined value, as in

        ^bb0(%x: f16, %accumulator: f16):
          %sum = arith.addf %accumulator, %x : f16
          linalg.yield %sum : f16

    Args:
        op: The generic.
        result: Position of the result.
        value: The value that the body yields for the result.
    """
    if not isinstance(value.type, AnyFloat) or (bit_width(value.type) or 64) >= 32:  # an unknown width is not narrow
        return False
    if not isinstance(value, OpResult) or result >= len(op.results):  # a generic on memrefs has no results
        return False
    if info_of(value.op).grouping is Grouping.FIXED:  # its results depend on the order: no sum or maximum
        return False
    # It must be reduced along a loop, and nothing else may read the accumulator or the combined value.
    generic = structured(op)
    accumulator = generic.block.args[len(generic.inputs) + result]
    dims_of_result = dims_in(generic.output_maps[result])
    # A reduction loop that indexes the result does not combine elements.
    reduces = any(kind == "reduction" and i not in dims_of_result for i, kind in enumerate(generic.iterators))
    is_only_use = accumulator.uses.get_length() == 1 and value.uses.get_length() == 1
    return reduces and is_only_use and accumulator in value.op.operands and value.op.parent is op.body.block


def _widen_result(op: GenericOp, index: int) -> None:
    """Rewrite result `index` of a reduction in place to accumulate in f32, and truncate the result after the operation.

    `_is_narrow_reduction` must hold for the result. All other users of the result use the truncated one.
    """
    argument_index = len(op.inputs) + index  # inputs come before outputs
    _widen_accumulator(op.body.block, index, argument_index)
    op.operands[argument_index] = _widened_initial(op, op.operands[argument_index])
    result = op.results[index]
    narrow = result.type
    assert isinstance(narrow, TensorType) and op.parent is not None
    result._type = TensorType(f32, narrow.get_shape(), narrow.encoding)
    rounded = arith.TruncFOp(result, narrow)
    op.parent.insert_op_after(rounded, op)
    rounded.result.name_hint = result.name_hint
    result.replace_uses_with_if(rounded.result, lambda use: use.operation is not rounded)


def _widen_accumulator(body: Block, index: int, argument_index: int) -> None:
    """Replace an accumulator of a reduction's body by an f32 one, and the operation that updates it by one on f32.

    A product that is added is also computed in f32, from factors that are extended to f32. The body

        ^bb0(%x: f16, %w: f16, %accumulator: f16):
          %product = arith.mulf %x, %w : f16
          %sum = arith.addf %accumulator, %product : f16
          linalg.yield %sum : f16

    becomes

        ^bb0(%x: f16, %w: f16, %accumulator: f32):
          %wide_x = arith.extf %x : f16 to f32
          %wide_w = arith.extf %w : f16 to f32
          %product = arith.mulf %wide_x, %wide_w : f32
          %sum = arith.addf %accumulator, %product : f32
          linalg.yield %sum : f32

    Args:
        body: The body.
        index: Position of the result among those of the reduction.
        argument_index: Position of its accumulator among the arguments of the body.
    """
    assert body.last_op is not None
    # The operation that updates the accumulator, and its copy on f32.
    combine = cast(OpResult, body.last_op.operands[index]).op
    narrow_accumulator = body.args[argument_index]
    wide_accumulator = body.insert_arg(f32, argument_index + 1)
    added = next(v for v in combine.operands if v is not narrow_accumulator)
    extended = _extended_value(combine, added)  # may recompute `added`, which is then unused
    flags = cast("arith.FastMathFlagsAttr | None", combine.properties.get("fastmath"))
    combine_type = cast("type[arith.FloatingPointLikeBinaryOperation]", type(combine))
    total = combine_type(wide_accumulator, extended, flags)
    body.insert_op_before(total, combine)
    # The copy replaces the operation. Then nothing uses the old accumulator, and perhaps nothing the added value.
    combine.results[0].replace_all_uses_with(total.results[0])
    erase_op(combine)
    if isinstance(added, OpResult) and added.op.parent is body and not added.uses.get_length():
        erase_op(added.op)
    body.erase_arg(narrow_accumulator)


def _extended_value(combine: Operation, value: SSAValue) -> SSAValue:
    """Return the value that one step combines with the accumulator, extended to f32 before `combine`.

    A product that is added to a sum is computed again from extended factors, so that it is not rounded.
    """
    if isinstance(value, OpResult) and isinstance(value.op, arith.MulfOp) and combine.name == "arith.addf":
        factors = [insert_before(arith.ExtFOp(factor, f32), combine) for factor in value.op.operands]
        return insert_before(arith.MulfOp(factors[0], factors[1], value.op.fastmath), combine)
    return insert_before(arith.ExtFOp(value, f32), combine)


def _widened_initial(op: Operation, value: SSAValue) -> SSAValue:
    """Return `value`, the tensor of initial values of the reduction `op`, extended to f32 before it.

    A splat of a constant stays one, so that later phases know the initial value.
    """
    type_ = value.type
    assert isinstance(type_, TensorType)
    wide = TensorType(f32, type_.get_shape(), type_.encoding)
    splat = value.op if isinstance(value, OpResult) and isinstance(value.op, tensor.SplatOp) else None
    initial = _float_constant(splat.input) if splat is not None else None
    if splat is None or initial is None:
        return insert_before(arith.ExtFOp(value, wide), op)
    constant = insert_before(arith.ConstantOp(FloatAttr(initial, f32)), op)
    return insert_before(tensor.SplatOp(constant, list(splat.dynamicSizes), wide), op)


def _float_constant(value: SSAValue) -> float | None:
    """Return the number that a value is if it is a float constant; None for other values."""
    if not isinstance(value, OpResult) or not isinstance(value.op, arith.ConstantOp):
        return None
    return value.op.value.value.data if isinstance(value.op.value, FloatAttr) else None
