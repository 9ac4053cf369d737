"""Conversions of arith in WGSL; what they mean is in `shaders/casts.py`."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.casts import Casts
from pydispatch.compiler.emit.shaders.integers import bits_of
from pydispatch.compiler.emit.shaders.values import is_native_float
from pydispatch.compiler.emit.wgsl.definitions import expand, natively
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops.arith import wrap, zero_extended
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned
from pydispatch.compiler.kernel_ir.readers import operands_of
from pydispatch.compiler.kernel_ir.types import is_integer


def resized(emitter: FunctionEmitter, value: Name, from_width: int, to_width: int) -> Name:
    """Return a register in another width, keeping the sign."""
    if from_width == to_width:
        return value
    if from_width == 1:
        return emitter.let(f"select({emitter.number(0, to_width)}, {emitter.number(-1, to_width)}, {value})")
    if to_width == 1:
        return emitter.let(f"({value}.x & 1u) != 0u" if from_width == 64 else f"({value} & 1) != 0")
    return emitter.call("pyd_i64_from_i32", value) if to_width == 64 else emitter.let(f"i32({value}.x)")


def unsigned_resized(emitter: FunctionEmitter, value: Name, bits: int, from_width: int, to_width: int) -> Name:
    """Return a register as a number without sign in another, wider or equal, width."""
    if from_width == 1:
        return emitter.let(f"select({emitter.number(0, to_width)}, {emitter.number(1, to_width)}, {value})")
    plain = zero_extended(emitter, value, bits, from_width)
    return plain if from_width == to_width else emitter.let(f"vec2u({as_unsigned(plain)}, 0u)")


def _float_to_int(is_signed: bool) -> Lowering:
    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        source, (result,) = op.operands[0].type, op.results
        bits, width = bits_of(emitter, result.type), emitter.width(result.type)
        (value,) = emitter.operands(operands_of(op))
        kind = "f64" if isinstance(source, Float64Type) else "f32"
        register = max(width, 32)
        if bits == register:
            emitter.define(result, emitter.call(f"pyd_{kind}_to_{'i' if is_signed else 'u'}{bits}", value))
            return
        least = -(1 << (bits - 1)) if is_signed else 0
        most = (1 << (bits - 1)) - 1 if is_signed else (1 << bits) - 1
        converted = emitter.call(f"pyd_{kind}_to_i{register}", value)
        if register == 32:
            converted = emitter.let(f"clamp({converted}, {emitter.number(least, 32)}, {emitter.number(most, 32)})")
        else:
            for bound, below in ((emitter.number(least, 64), True), (emitter.number(most, 64), False)):
                outside = emitter.less(converted, bound, 64) if below else emitter.less(bound, converted, 64)
                converted = emitter.let(f"select({converted}, {bound}, {outside})")
        emitter.define(
            result, wrap(emitter, converted, bits, register) if width > 1 else resized(emitter, converted, 32, 1)
        )

    return natively(lower)


def _bitcast(emitter: FunctionEmitter, op: Operation) -> None:
    (operand,), (result,) = operands_of(op), op.results
    a, b = emitter.type(operand.type), emitter.type(result.type)
    value = emitter.to_bits(emitter.get(operand), operand.type)
    if emitter.is_f16(operand.type) or emitter.is_f16(result.type):
        value = emitter.from_bits(value, result.type)
    elif a != b and not (is_integer(operand.type) and is_integer(result.type)):
        (value,) = emitter.operands([operand])
        value = emitter.let(f"bitcast<{b}>({value})")
    emitter.define(result, value)


class _Casts(Casts[FunctionEmitter, Name]):
    def operand(self, emitter: FunctionEmitter, value: SSAValue) -> Name:
        return emitter.operands([value])[0]

    def wrap(self, emitter: FunctionEmitter, value: Name, bits: int, width: int) -> Name:
        return wrap(emitter, value, bits, width)

    def zero_extended(self, emitter: FunctionEmitter, value: Name, bits: int, width: int) -> Name:
        return zero_extended(emitter, value, bits, width)

    def resized(self, emitter: FunctionEmitter, value: Name, from_width: int, to_width: int) -> Name:
        return resized(emitter, value, from_width, to_width)

    def unsigned_resized(
        self, emitter: FunctionEmitter, value: Name, bits: int, from_width: int, to_width: int
    ) -> Name:
        return unsigned_resized(emitter, value, bits, from_width, to_width)

    def saturated_index(self, emitter: FunctionEmitter, value: Name) -> Name:
        return emitter.call("pyd_i64_saturated", value)

    def float_to_int(self, is_signed: bool) -> Lowering:
        return _float_to_int(is_signed)

    def int_to_float(
        self, emitter: FunctionEmitter, value: Name, width: int, is_signed: bool, target: Attribute
    ) -> Name:
        is_single, sign = type(target) is Float32Type, "i" if is_signed else "u"
        if is_single and width == 32:
            return emitter.let(f"f32({value})" if is_signed else f"f32({as_unsigned(value)})")
        if width == 32 and is_signed:  # to f64, of which all are numbers
            value = emitter.call("pyd_i64_from_i32", value)
        elif width == 32:
            value = emitter.let(f"vec2u({as_unsigned(value)}, 0u)")
        return emitter.call(f"pyd_{sign}64_to_{'f32' if is_single else 'f64'}", value)

    def float_to_float(self, emitter: FunctionEmitter, value: SSAValue, target: Attribute) -> Name | None:
        source = value.type
        if emitter.is_f16(source) and isinstance(target, Float32Type):
            return emitter.let(f"f32({emitter.get(value)})")
        if isinstance(source, Float32Type) and emitter.is_f16(target):
            return emitter.call("pyd_f16_nearest", self.operand(emitter, value))
        if not (is_native_float(source) and is_native_float(target)):
            return None
        name = "pyd_f32_to_f64" if isinstance(target, Float64Type) else "pyd_f64_to_f32"
        return emitter.call(name, self.operand(emitter, value))

    def bitcast(self, emitter: FunctionEmitter, op: Operation) -> None:
        _bitcast(emitter, op)

    def expand(self, emitter: FunctionEmitter, op: Operation) -> None:
        expand(emitter, op)


ROWS: dict[str, Lowering] = _Casts().rows()
