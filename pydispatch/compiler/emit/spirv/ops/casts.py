"""Conversions of arith in SPIR-V; what they mean is in `shaders/casts.py`."""

from __future__ import annotations

from xdsl.dialects.builtin import Float64Type
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.casts import Casts
from pydispatch.compiler.emit.shaders.values import double_bits, is_f32_or_f64, single_bits
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.registers import SpirvRegisters
from pydispatch.compiler.kernel_ir.readers import operands_of
from pydispatch.compiler.kernel_ir.types import is_integer


def _bitcast(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `arith.bitcast`."""
    (operand,), (result,) = operands_of(op), op.results
    source, target = operand.type, result.type
    from_register, to_register = emitter.type(source), emitter.type(target)
    value = emitter.get(operand)
    # Integers and indices that are bitcast have registers of one type; other bits are reinterpreted.
    if from_register != to_register and not (is_integer(source) and is_integer(target)):
        value = emitter.code.let("Bitcast", to_register, value)
    emitter.define(result, value)


class _Casts(SpirvRegisters, Casts[FunctionEmitter, Id]):
    """Lowerings of conversions to SPIR-V: the base class decides what they mean, the methods here emit instructions."""

    def widened(self, emitter: FunctionEmitter, value: Id) -> Id:
        """Extend a 32-bit register with zeros to 64 bits."""
        return emitter.code.let("UConvert", emitter.m.int(64), value)

    def float_to_int(
        self, emitter: FunctionEmitter, value: Id, source: Attribute, bits: int, width: int, is_signed: bool
    ) -> Id:
        """Emit the saturating conversion of a float to an integer of `bits` bits, as a register of `width`; NaN is 0.

        SPIR-V leaves the conversion of numbers out of range undefined. So these are replaced by 0.0 before it, and by
        the limits after it. `source` is the type of the float, f32 or f64.
        """
        module, let, is_double = emitter.m, emitter.code.let, isinstance(source, Float64Type)
        least = -(1 << (bits - 1)) if is_signed else 0
        most = (1 << (bits - 1)) - 1 if is_signed else (1 << bits) - 1

        def constant(n: float) -> Id:
            """Return a float constant of the type `source`: f64 (`is_double`) or f32."""
            return module.float_constant(double_bits(n), 64) if is_double else module.float_constant(single_bits(n), 32)

        type_ = module.int(width)
        # `least` and `most` + 1 are 0 or powers of two, which floats hold exactly; `most` itself may be rounded.
        too_low = let("FOrdLessThanEqual", module.bool(), value, constant(float(least)))
        too_high = let("FOrdGreaterThanEqual", module.bool(), value, constant(float(most + 1)))
        is_nan = let("IsNan", module.bool(), value)
        unsafe = let("LogicalOr", module.bool(), let("LogicalOr", module.bool(), too_low, too_high), is_nan)
        safe = let("Select", emitter.type(source), unsafe, constant(0.0), value)
        # The conversion, and the results of the replaced numbers. An unsigned integer that is narrower than its
        # register fits a signed register, so that the signed conversion serves it, too.
        fits_signed = is_signed or bits < width
        result = let("ConvertFToS" if fits_signed else "ConvertFToU", type_, safe)
        result = let("Select", type_, too_low, module.integer(least, width), result)
        result = let("Select", type_, too_high, module.integer(most, width), result)
        return let("Select", type_, is_nan, module.integer(0, width), result)

    def int_to_float(self, emitter: FunctionEmitter, value: Id, width: int, is_signed: bool, target: Attribute) -> Id:
        """Convert an integer register of `width` bits to the type `target`, f32 or f64."""
        return emitter.code.let("ConvertSToF" if is_signed else "ConvertUToF", emitter.type(target), value)

    def float_to_float(self, emitter: FunctionEmitter, value: SSAValue, target: Attribute) -> Id | None:
        """Emit the conversion between f32 and f64; return None for other types, whose bits must be converted."""
        if not (is_f32_or_f64(value.type) and is_f32_or_f64(target)):
            return None
        return emitter.code.let("FConvert", emitter.type(target), emitter.get(value))

    def bitcast(self, emitter: FunctionEmitter, op: Operation) -> None:
        """Lower `arith.bitcast`."""
        _bitcast(emitter, op)


ROWS: dict[str, Lowering] = _Casts().rows()
"""Name of an operation → function that emits SPIR-V for it."""
