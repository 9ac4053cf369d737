"""Conversions of arith in SPIR-V; what they mean is in `shaders/casts.py`."""

from __future__ import annotations

from xdsl.dialects.builtin import Float64Type
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.casts import Casts
from pydispatch.compiler.emit.shaders.integers import bits_of
from pydispatch.compiler.emit.shaders.values import double_bits, is_native_float, single_bits
from pydispatch.compiler.emit.spirv.definitions import expand, natively
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.arith import wrap, zero_extended
from pydispatch.compiler.kernel_ir.readers import operands_of
from pydispatch.compiler.kernel_ir.types import is_integer


def resized(emitter: FunctionEmitter, value: Id, from_width: int, to_width: int) -> Id:
    """Convert a register to another width, keeping the sign."""
    if from_width == to_width:
        return value
    if from_width == 1:
        type_ = emitter.m.int(to_width)
        return emitter.code.let("Select", type_, value, emitter.m.integer(-1, to_width), emitter.m.integer(0, to_width))
    if to_width == 1:
        type_ = emitter.m.int(from_width)
        bit = emitter.code.let("BitwiseAnd", type_, value, emitter.m.integer(1, from_width))
        return emitter.code.let("INotEqual", emitter.m.bool(), bit, emitter.m.integer(0, from_width))
    if (from_width, to_width) == (32, 64):
        # Mesa 22.3's lavapipe compares what SConvert extends with constants wrongly; GPUs make the same of both.
        high = emitter.code.let("ShiftRightArithmetic", emitter.m.int(32), value, emitter.m.integer(31))
        pair = emitter.code.let("CompositeConstruct", emitter.m.type("TypeVector", emitter.m.int(32), 2), value, high)
        return emitter.code.let("Bitcast", emitter.m.int(64), pair)
    return emitter.code.let("SConvert", emitter.m.int(to_width), value)


def unsigned_resized(emitter: FunctionEmitter, value: Id, bits: int, from_width: int, to_width: int) -> Id:
    """Convert a register to a number without sign in another, wider or equal, width."""
    if from_width == 1:
        type_ = emitter.m.int(to_width)
        return emitter.code.let("Select", type_, value, emitter.m.integer(1, to_width), emitter.m.integer(0, to_width))
    plain = zero_extended(emitter, value, bits, from_width)
    return plain if from_width == to_width else emitter.code.let("UConvert", emitter.m.int(to_width), plain)


def _clamped(emitter: FunctionEmitter, value: Id) -> Id:
    m, let = emitter.m, emitter.code.let
    low, high = m.integer(-(1 << 31), 64), m.integer((1 << 31) - 1, 64)
    value = let("Select", m.int(64), let("SLessThan", m.bool(), value, low), low, value)
    return let("Select", m.int(64), let("SGreaterThan", m.bool(), value, high), high, value)


def _float_to_int(is_signed: bool) -> Lowering:
    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        source, target = op.operands[0].type, op.results[0].type
        float_type, value = emitter.type(source), emitter.get(op.operands[0])
        double = isinstance(source, Float64Type)
        bits, width = bits_of(emitter, target), emitter.width(target)
        emitter.define(op.results[0], _saturated(emitter, float_type, value, double, bits, width, is_signed))

    return natively(lower)


def _saturated(
    emitter: FunctionEmitter, float_type: Id, value: Id, double: bool, bits: int, width: int, is_signed: bool
) -> Id:
    m, let = emitter.m, emitter.code.let
    least = -(1 << (bits - 1)) if is_signed else 0
    most = (1 << (bits - 1)) - 1 if is_signed else (1 << bits) - 1

    def number(n: float) -> Id:
        return m.number(double_bits(n), 64) if double else m.number(single_bits(n), 32)

    register = max(width, 32)
    type_ = m.int(register)
    # What is converted lies in range; the ends are chosen instead of converted.
    too_low = let("FOrdLessThanEqual", m.bool(), value, number(float(least)))
    too_high = let("FOrdGreaterThanEqual", m.bool(), value, number(float(most + 1)))
    is_nan = let("IsNan", m.bool(), value)
    unsafe = let("LogicalOr", m.bool(), let("LogicalOr", m.bool(), too_low, too_high), is_nan)
    safe = let("Select", float_type, unsafe, number(0.0), value)
    result = let("ConvertFToS" if is_signed or bits < register else "ConvertFToU", type_, safe)
    result = let("Select", type_, too_low, m.integer(least, register), result)
    result = let("Select", type_, too_high, m.integer(most, register), result)
    result = let("Select", type_, is_nan, m.integer(0, register), result)
    return wrap(emitter, result, bits, register) if width > 1 else resized(emitter, result, 32, 1)


def _bitcast(emitter: FunctionEmitter, op: Operation) -> None:
    (operand,), (result,) = operands_of(op), op.results
    source, target = operand.type, result.type
    a, b = emitter.type(source), emitter.type(target)
    value = emitter.get(operand)
    if a != b and not (is_integer(source) and is_integer(target)):
        value = emitter.code.let("Bitcast", b, value)
    emitter.define(result, value)


class _Casts(Casts[FunctionEmitter, Id]):
    def operand(self, emitter: FunctionEmitter, value: SSAValue) -> Id:
        return emitter.get(value)

    def wrap(self, emitter: FunctionEmitter, value: Id, bits: int, width: int) -> Id:
        return wrap(emitter, value, bits, width)

    def zero_extended(self, emitter: FunctionEmitter, value: Id, bits: int, width: int) -> Id:
        return zero_extended(emitter, value, bits, width)

    def resized(self, emitter: FunctionEmitter, value: Id, from_width: int, to_width: int) -> Id:
        return resized(emitter, value, from_width, to_width)

    def unsigned_resized(self, emitter: FunctionEmitter, value: Id, bits: int, from_width: int, to_width: int) -> Id:
        return unsigned_resized(emitter, value, bits, from_width, to_width)

    def saturated_index(self, emitter: FunctionEmitter, value: Id) -> Id:
        return resized(emitter, _clamped(emitter, value), 64, 32)

    def float_to_int(self, is_signed: bool) -> Lowering:
        return _float_to_int(is_signed)

    def int_to_float(self, emitter: FunctionEmitter, value: Id, width: int, is_signed: bool, target: Attribute) -> Id:
        return emitter.code.let("ConvertSToF" if is_signed else "ConvertUToF", emitter.type(target), value)

    def float_to_float(self, emitter: FunctionEmitter, value: SSAValue, target: Attribute) -> Id | None:
        if not (is_native_float(value.type) and is_native_float(target)):
            return None
        return emitter.code.let("FConvert", emitter.type(target), emitter.get(value))

    def bitcast(self, emitter: FunctionEmitter, op: Operation) -> None:
        _bitcast(emitter, op)

    def expand(self, emitter: FunctionEmitter, op: Operation) -> None:
        expand(emitter, op)


ROWS: dict[str, Lowering] = _Casts().rows()
