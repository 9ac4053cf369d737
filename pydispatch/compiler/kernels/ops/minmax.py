"""NaN-propagating maximum and minimum of several floats (IEEE 754), cheaper than one operation after the other.

`arith.maximumf` returns NaN if one operand is NaN, and orders +0 above -0. No vector instruction does that: on x86 each
step takes five. A reduction of several values takes two and a half per value: a plain maximum, a NaN test per pair of
values, and a combination of the sign bits for a result of zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, Float64Type, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernel_ir.readers import flags
from pydispatch.compiler.kernels.ops.builder import Builder
from pydispatch.ir.op_info import info_named

KINDS = ("arith.maximumf", "arith.minimumf")
"""The operations that propagate NaN."""

SIMPLE_FLAGS = {"fast", "nnan", "nsz"}
"""Fast-math flags under which the operation itself is one instruction: NaN or the sign of zero does not matter."""

MIN_VALUES = 4
"""Minimum number of values for which `maximum_or_minimum` is faster than one operation after the other."""


def operand_of(step: SSAValue, before: SSAValue) -> SSAValue | None:
    """Return the other operand of `step`, a maximum or minimum of `before` and this operand; None for other values.

    The operation of `step` is one of KINDS on f32 or f64. None is also returned if it has fast-math flags that make it
    one instruction.
    """
    if not isinstance(step, OpResult) or step.op.name not in KINDS:
        return None
    if SIMPLE_FLAGS & set(flags(step.op, "fastmath").split()):
        return None
    if not isinstance(step.type, Float32Type | Float64Type):
        return None
    left, right = step.op.operands
    if left is before:
        return right
    return left if right is before else None


def maximum_or_minimum(build: Builder, name: str, values: Sequence[SSAValue]) -> SSAValue:
    """Emit the maximum or minimum of all values, and return it.

    The result is NaN if a value is NaN. The maximum of -0 and +0 is +0, their minimum -0. One comparison and selection
    is emitted for each value, and NaN and zeros are handled once at the end.

    Args:
        build: Receives the code.
        name: "arith.maximumf" or "arith.minimumf".
        values: At least one value; all of one type, f32 or f64.
    """
    type_ = values[0].type
    assert isinstance(type_, Float32Type | Float64Type)
    # The identity of the operation, such as the initial value -inf of a maximum, is left out, unless all values are the
    # identity.
    values = [v for v in values if not _is_constant(v, info_named(name).identity)] or [values[0]]
    is_maximum = name == "arith.maximumf"
    bits = IntegerType(64 if isinstance(type_, Float64Type) else 32)
    # `extreme` is the result by plain comparisons, which is right except for NaN and the sign of a zero. The sign bit
    # of `signs` is the sign of a zero: "and" of all sign bits for a maximum, "or" for a minimum. If a maximum is zero,
    # all values but zeros are negative, so that their sign bits are set: a single +0 clears the bit.
    extreme, signs = values[0], _bits(build, values[0], bits)
    for value in values[1:]:
        is_kept = build.pure(arith.CmpfOp(extreme, value, "ogt" if is_maximum else "olt"))
        extreme = build.pure(arith.SelectOp(is_kept, extreme, value))
        word = _bits(build, value, bits)
        signs = build.pure(arith.AndIOp(signs, word) if is_maximum else arith.OrIOp(signs, word))
    is_nan = _is_any_nan(build, values)
    result = _with_zero_sign(build, extreme, signs)
    nan = build.pure(arith.ConstantOp(FloatAttr(float("nan"), type_)))
    return build.pure(arith.SelectOp(is_nan, nan, result))


def _with_zero_sign(build: Builder, value: SSAValue, signs: SSAValue) -> SSAValue:
    """Emit the value, or, if it is a zero, the zero with the sign bit of the integer `signs`, and return it."""
    type_, bits = value.type, signs.type
    assert isinstance(type_, Float32Type | Float64Type) and isinstance(bits, IntegerType)
    sign_mask = build.pure(arith.ConstantOp(IntegerAttr(-(1 << (bits.width.data - 1)), bits)))
    signed_zero = build.pure(arith.BitcastOp(build.pure(arith.AndIOp(signs, sign_mask)), type_))
    is_zero = build.pure(arith.CmpfOp(value, build.pure(arith.ConstantOp(FloatAttr(0.0, type_))), "oeq"))
    return build.pure(arith.SelectOp(is_zero, signed_zero, value))


def _is_any_nan(build: Builder, values: Sequence[SSAValue]) -> SSAValue:
    """Emit whether any value is NaN, an i1, by one comparison "unordered" for each pair of values."""
    pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
    # A last value without a partner is compared with itself.
    unordered = [build.pure(arith.CmpfOp(pair[0], pair[-1], "uno")) for pair in pairs]
    is_nan = unordered[0]
    for is_pair_unordered in unordered[1:]:
        is_nan = build.pure(arith.OrIOp(is_nan, is_pair_unordered))
    return is_nan


def _bits(build: Builder, value: SSAValue, bits: IntegerType) -> SSAValue:
    """Return a float as an integer with the same bits, of the type `bits`."""
    return build.pure(arith.BitcastOp(value, bits))


def _is_constant(value: SSAValue, constant: object) -> bool:
    """Return whether a value is the float constant `constant`; False for a value that is no float constant."""
    if not isinstance(value, OpResult) or not isinstance(value.op, arith.ConstantOp):
        return False
    return isinstance(value.op.value, FloatAttr) and value.op.value.value.data == constant
