"""Conversions of arith in WGSL; what they mean is in `shaders/casts.py`."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.casts import Casts
from pydispatch.compiler.emit.shaders.values import is_f32_or_f64
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops.registers import WgslRegisters
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned
from pydispatch.compiler.kernel_ir.readers import operands_of
from pydispatch.compiler.kernel_ir.types import is_integer


def _bitcast(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `arith.bitcast`, by the WGSL types of both sides; integers and bits of small floats have one type."""
    (operand,), (result,) = operands_of(op), op.results
    from_register, to_register = emitter.type(operand.type), emitter.type(result.type)
    if emitter.is_f16(operand.type) or emitter.is_f16(result.type):
        bits = emitter.to_bits(emitter.get(operand), operand.type)
        emitter.define(result, emitter.from_bits(bits, result.type))
    elif from_register != to_register and not (is_integer(operand.type) and is_integer(result.type)):
        (value,) = emitter.operands([operand])  # a name also for a literal, which WGSL would evaluate and may refuse
        emitter.define(result, emitter.let(f"bitcast<{to_register}>({value})"))
    else:
        emitter.define(result, emitter.get(operand))


class _Casts(WgslRegisters, Casts[FunctionEmitter, Name]):
    """Lowerings of conversions to WGSL: the base class decides what they mean, the methods here emit expressions."""

    def widened(self, emitter: FunctionEmitter, value: Name) -> Name:
        """Extend a 32-bit register with zeros to two words."""
        return emitter.let(f"vec2u({as_unsigned(value)}, 0u)")

    def float_to_int(
        self, emitter: FunctionEmitter, value: Name, source: Attribute, bits: int, width: int, is_signed: bool
    ) -> Name:
        """Convert a float to an integer of `bits` bits in a register of `width`, saturating; a NaN becomes 0.

        The library has conversions to 32 and 64 bits. For fewer `bits`, the float is converted to a signed integer of
        `width` bits, which is clamped. source: type of the float, f32 or f64.
        """
        kind = "f64" if isinstance(source, Float64Type) else "f32"
        if bits == width:
            return emitter.call(f"pyd_{kind}_to_{'i' if is_signed else 'u'}{bits}", value)
        least = -(1 << (bits - 1)) if is_signed else 0
        most = (1 << (bits - 1)) - 1 if is_signed else (1 << bits) - 1
        converted = emitter.call(f"pyd_{kind}_to_i{width}", value)
        if width == 32:
            return emitter.let(f"clamp({converted}, {emitter.number(least, 32)}, {emitter.number(most, 32)})")
        # 64-bit integers are two words, which WGSL cannot clamp: replace a number below the least, then one above the
        # greatest.
        for bound, is_least in ((emitter.number(least, 64), True), (emitter.number(most, 64), False)):
            outside = emitter.less(converted, bound, 64) if is_least else emitter.less(bound, converted, 64)
            converted = emitter.let(f"select({converted}, {bound}, {outside})")
        return converted

    def int_to_float(
        self, emitter: FunctionEmitter, value: Name, width: int, is_signed: bool, target: Attribute
    ) -> Name:
        """Convert an integer register of `width` bits to the type `target`, f32 or f64."""
        is_single, sign = type(target) is Float32Type, "i" if is_signed else "u"
        if is_single and width == 32:
            return emitter.let(f"f32({value})" if is_signed else f"f32({as_unsigned(value)})")
        if width == 32 and is_signed:  # to f64, which represents every i32 and u32 exactly, by way of 64 bits
            value = emitter.call("pyd_i64_from_i32", value)
        elif width == 32:
            value = self.widened(emitter, value)
        return emitter.call(f"pyd_{sign}64_to_{'f32' if is_single else 'f64'}", value)

    def float_to_float(self, emitter: FunctionEmitter, value: SSAValue, target: Attribute) -> Name | None:
        """Convert between f16 and f32 or f32 and f64 and return the result; None for other pairs of types.

        f16 values are registers of WGSL's own type. An f64 is a pair of words, which helper functions convert.
        """
        source = value.type
        if emitter.is_f16(source) and isinstance(target, Float32Type):
            return emitter.let(f"f32({emitter.get(value)})")
        if isinstance(source, Float32Type) and emitter.is_f16(target):
            helper = "pyd_f16_nearest"
        elif is_f32_or_f64(source) and is_f32_or_f64(target):  # the types differ
            helper = "pyd_f32_to_f64" if isinstance(target, Float64Type) else "pyd_f64_to_f32"
        else:
            return None
        # `operands` names a literal by a variable: WGSL evaluates calls of literals, and may refuse them.
        (operand,) = self.operands(emitter, [value])
        return emitter.call(helper, operand)

    def bitcast(self, emitter: FunctionEmitter, op: Operation) -> None:
        """Lower `arith.bitcast`."""
        _bitcast(emitter, op)


ROWS: dict[str, Lowering] = _Casts().rows()
"""Name of an operation → function that emits WGSL for it."""
