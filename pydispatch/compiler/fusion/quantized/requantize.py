"""Requantization: elementwise operations between stored integers become one operation on these integers.

QuantizeLinear(f(DequantizeLinear(x))) with scales and zero points that are constants is computed from integers as
clamp(round(sum(factor * x) + offset)) + zero point. Sums of products are scaled once, residual sums read bytes, and no
f32 tensor lies between. Scales and biases are folded in f64 and rounded once; results are rounded half to even, and may
differ by one step of the scale where the f32 of the written order is next to a tie.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    f32,
    i32,
)
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.compiler.analysis.edit import replace_with
from pydispatch.compiler.fusion.elimination import erase_unused
from pydispatch.compiler.fusion.quantized.affine import Combined, Constant, Element, Integer, Real
from pydispatch.compiler.fusion.quantized.dequantized import GenericBody
from pydispatch.compiler.fusion.quantized.scalars import Unrecognized
from pydispatch.compiler.fusion.quantized.trace import Tracer
from pydispatch.ir.core.rewriting import replace_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC, structured
from pydispatch.ir.values import shape_of

ROUNDING = float(3 << 22)
"""1.5 * 2^23. The addition of this constant in f32 rounds a number of a magnitude up to 2^22 to an integer, half to
even: the spacing of f32 is 1 there. The low bits of the sum are the integer."""

LARGEST = 1e30
"""Maximum magnitude of numbers before they are clamped: f32 must not overflow."""

_NO_NAN = arith.FastMathFlagsAttr([FastMathFlag.NO_NANS, FastMathFlag.NO_SIGNED_ZEROS])
"""Flags of clamps: numbers computed from integers and finite constants are no NaN, and the sign of 0 is lost anyway."""


def requantize(function: Operation) -> None:
    """Fuse each quantization in a host function with the operations before it, down to the stored integers, in place.

    The new generic computes the result of the quantization from stored integers and constants. Quantizations of other
    values stay.
    """
    changed = False
    for op in list(walk(function)):
        if op.name != GENERIC or op.parent is None:  # no parent: it was erased when an earlier one was rewritten
            continue
        if len(op.results) == 1 and op.results[0].uses:
            changed = _rewrite(op) or changed
    if changed:
        erase_unused(function)


def _rewrite(op: Operation) -> bool:
    """Replace an elementwise generic whose results are narrow integers, computed from quantized elements and constants.
    Return whether it was replaced.

    The computation may be spread over several generics, the last of which is `op`. For stored integers a and b, the
    number 0.5 * (a - 3) + 0.25 * b, rounded and clamped, becomes one generic that computes 0.5 * a + 0.25 * b - 1.5. If
    the results are the stored integers of one tensor, unchanged, that tensor replaces them.
    """
    generic = structured(op)
    type_ = op.results[0].type
    if not generic.is_parallel or not isinstance(type_, TensorType) or not isinstance(type_.element_type, IntegerType):
        return False
    # Recognize the results as a function of stored integers and constants.
    try:
        value = Tracer(len(shape_of(op.results[0]))).quantized(generic)
    except Unrecognized:
        return False
    if not value.terms or not _cannot_overflow_f32(value):  # without terms, it is a constant
        return False
    source = _unchanged_source(value, op)
    if source is not None:  # quantization restores the integers that were dequantized
        replace_op(op, source)
        return True
    replace_with(op, Requantized().generic_of(value, op))
    return True


def _cannot_overflow_f32(value: Real) -> bool:
    """Return whether a number, and each number that it is computed from, is far from the infinities of f32: then the
    program's f32 operations cannot overflow where the rewritten ones do not.
    """
    sources = [source for source, _ in value.terms if isinstance(source, Real)]
    return all(abs(bound) <= LARGEST for bound in value.unclamped_range) and all(map(_cannot_overflow_f32, sources))


def _unchanged_source(value: Real, op: Operation) -> SSAValue | None:
    """Return the tensor whose elements are the results of `op`, unchanged; None if `op` changes or reorders them.

    value: the elements that `op` computes, as a function of stored integers.
    """
    # `value` is shift + round(clamp(sum(factor * source) + offset, low, high)).
    (source, factor), *others = value.terms
    if others or not isinstance(source, Element):
        return None
    if (factor != 1.0).any() or source.tensor.type != op.results[0].type:
        return None
    # Offset and shift cancel out. The offset is then an integer like the shift, so that rounding changes nothing.
    adds_nothing = not (value.offset + value.shift).any()
    low, high = value.unclamped_range
    clamps_nothing = value.low <= low and high <= value.high
    is_in_order = source.is_in_order(shape_of(op.results[0]))
    return source.tensor if is_in_order and clamps_nothing and adds_nothing else None


class Requantized(GenericBody):
    """Builder of one `linalg.generic` that computes quantized numbers from stored integers.

    The rewrite of an elementwise generic creates one if it has traced the results to quantized numbers (`affine.Real`).

    Attributes:
        new_ops: Constant tensors that the body reads, to be inserted before the generic.
    """

    def __init__(self) -> None:
        """Begin with an empty body that reads no tensor and no constant."""
        super().__init__()
        self.new_ops: list[Operation] = []

    def generic_of(self, value: Real, op: Operation) -> list[Operation]:
        """Build the generic that computes `value` with the type of the result of `op`, preceded by its constants.

        The generic is the last operation of the list. None is inserted into a block.
        """
        type_ = cast("TensorType[Attribute]", op.results[0].type)
        stored = self._emit_quantized(value, cast(IntegerType, type_.element_type))
        rank = len(shape_of(op.results[0]))
        return [*self.new_ops, *self.generic(stored, structured(op).outputs[0], AffineMap.identity(rank))]

    def _emit_quantized(self, value: Real, to: IntegerType) -> SSAValue:
        """Add the computation of `round(clamped) + value.shift` as an integer of type `to`, and return it.

        The addition of ROUNDING = 1.5 * 2^23 in f32 rounds a number to an integer n, and bits(ROUNDING + n) is
        bits(ROUNDING) + n. So the emitted result is `bits(clamped + ROUNDING) - (bits(ROUNDING) - shift)`.
        """
        biased = self.add(arith.AddfOp(self._clamped(value), self._scalar(ROUNDING)))
        bits = self.add(arith.BitcastOp(biased, i32))
        bits_of_rounding = int(np.float32(ROUNDING).view(np.int32))
        base = self.add(arith.ConstantOp(IntegerAttr(bits_of_rounding - int(value.shift), i32)))
        integer = self.add(arith.SubiOp(bits, base))
        return self.add(arith.TruncIOp(integer, to))

    def _real(self, value: Real) -> SSAValue:
        """Add the computation of `round(clamped) + value.shift` in f32, and return it.

        `clamped` is the linear combination of stored integers that `_clamped` computes. It is rounded only if
        `value.rounded`.
        """
        real = self._clamped(value)
        if value.rounded:
            real = self.add(math.RoundEvenOp(real))
        return self.add(arith.AddfOp(real, self._scalar(value.shift))) if value.shift else real

    def _clamped(self, value: Real) -> SSAValue:
        """Add the computation of a number before its rounding and its shift, and return it as f32.

        This is `clamp(sum(factor * source) + offset, low, high)`, where `terms` of `value` has the sources and factors.
        Bounds that the sum cannot exceed are left out.
        """
        total: SSAValue | None = None
        for source, factor in value.terms:
            # A source is a number that is itself clamped and rounded, in f32, or an integer to convert.
            term = self._real(source) if isinstance(source, Real) else self._converted(source)
            if (factor != 1.0).any():
                term = self.add(arith.MulfOp(term, self._constant(factor)))
            total = term if total is None else self.add(arith.AddfOp(total, term))
        assert total is not None
        if value.offset.any():
            total = self.add(arith.AddfOp(total, self._constant(value.offset)))
        low, high = value.unclamped_range
        # _NO_NAN: the sum of integers times finite constants is no NaN.
        if low < value.low:
            total = self.add(arith.MaximumfOp(total, self._scalar(value.low), flags=_NO_NAN))
        if high > value.high:
            total = self.add(arith.MinimumfOp(total, self._scalar(value.high), flags=_NO_NAN))
        return total

    def _converted(self, source: Integer) -> SSAValue:
        """Add the computation of an i32 and its conversion to f32, and return it."""
        return self.add(arith.SIToFPOp(self._sum(source), f32))

    def _sum(self, source: Integer) -> SSAValue:
        """Add the computation of an i32 to the body, and return it: an element, or a sum or difference of elements."""
        if isinstance(source, Combined):
            combine = arith.AddiOp if source.kind == "addi" else arith.SubiOp
            return self.add(combine(self._sum(source.lhs), self._sum(source.rhs)))
        element = self.input(source.tensor, source.index)
        if source.width == 32:
            return element
        return self.add(arith.ExtSIOp(element, i32) if source.signed else arith.ExtUIOp(element, i32))

    def _scalar(self, value: float) -> SSAValue:
        """Add an f32 constant, and return it."""
        return self.add(arith.ConstantOp(FloatAttr(value, f32)))

    def _constant(self, array: Constant) -> SSAValue:
        """Add a constant, and return its value in the body.

        An array of one element becomes a scalar. Any other one becomes a new tensor, without the dimensions of size 1,
        and the body reads its element at the loop indices of the other dimensions.
        """
        if array.size == 1:
            return self._scalar(array.item())
        dims = [d for d, n in enumerate(array.shape) if n != 1]
        flat = np.ascontiguousarray(array, np.float32).reshape([array.shape[d] for d in dims])
        type_ = TensorType(f32, flat.shape)
        constant = arith.ConstantOp(DenseIntOrFPElementsAttr(type_, BytesAttr(flat.tobytes())))
        self.new_ops.append(constant)
        index = AffineMap(array.ndim, 0, tuple(AffineExpr.dimension(d) for d in dims))
        return self.input(constant.result, index)
