"""arith conversions: one row per operation. Float to integer saturates, NaN gives 0."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, Float64Type, IndexType, IntegerType
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.integers import bits_of
from pydispatch.compiler.emit.shaders.values import double_bits, is_native_float, known, signed, single_bits
from pydispatch.compiler.emit.spirv.definitions import expand, natively
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.arith import wrap, zero_extended
from pydispatch.compiler.kernel_ir.readers import op_name, operands_of
from pydispatch.compiler.kernel_ir.types import is_float, is_integer


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


def _extsi(emitter: FunctionEmitter, op: Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    bits_of(emitter, source)
    emitter.define(
        op.results[0], resized(emitter, emitter.get(op.operands[0]), emitter.width(source), emitter.width(target))
    )


def _extui(emitter: FunctionEmitter, op: Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    bits = bits_of(emitter, source)
    emitter.define(
        op.results[0],
        unsigned_resized(emitter, emitter.get(op.operands[0]), bits, emitter.width(source), emitter.width(target)),
    )


def _bits(type_: Attribute) -> int:
    return type_.width.data if type(type_) is IntegerType else 0


def _trunci(emitter: FunctionEmitter, op: Operation) -> None:
    (operand,), (result,) = operands_of(op), op.results
    source, target = operand.type, result.type
    if _bits(target) == 32 and _bits(source) == 64:  # the rule where elements are read in pairs
        emitter.values[result] = emitter.code.let("SConvert", emitter.m.int(32), emitter.get(operand))
        return
    width = emitter.width(target)
    value = resized(emitter, emitter.get(operand), emitter.width(source), width)
    emitter.define(result, wrap(emitter, value, bits_of(emitter, target), width))


def _index_cast(is_signed: bool) -> Lowering:
    """Return the lowering of an index cast.

    A wider integer saturates when it is cast to a 32-bit index, so that an out-of-bounds index stays out of bounds.
    """

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        source, target = op.operands[0].type, op.results[0].type
        bits, to_bits = bits_of(emitter, source), bits_of(emitter, target)
        from_width, to_width = emitter.width(source), emitter.width(target)
        value = emitter.index(op.operands[0])
        if known(value):
            number = value if is_signed else value & ((1 << bits) - 1)
            emitter.define(op.results[0], signed(number, to_bits))
            return
        value = emitter.get(op.operands[0])
        if isinstance(target, IndexType) and from_width > to_width:
            value = _clamped(emitter, value)
        if not is_signed and to_bits > bits:
            value = unsigned_resized(emitter, value, bits, from_width, to_width)
        else:
            value = wrap(emitter, resized(emitter, value, from_width, to_width), to_bits, to_width)
        emitter.define(op.results[0], value)

    return lower


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


def _int_to_float(is_signed: bool) -> Lowering:
    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        source, target = op.operands[0].type, op.results[0].type
        if not is_native_float(target):
            expand(emitter, op)
            return
        bits, width = bits_of(emitter, source), emitter.width(source)
        value = emitter.get(op.operands[0])
        if width == 1:
            value = resized(emitter, value, 1, 32) if is_signed else unsigned_resized(emitter, value, 1, 1, 32)
        elif not is_signed:
            value = zero_extended(emitter, value, bits, width)
        emitter.define(
            op.results[0], emitter.code.let("ConvertSToF" if is_signed else "ConvertUToF", emitter.type(target), value)
        )

    return lower


def _convert_float(emitter: FunctionEmitter, op: Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    if is_native_float(source) and is_native_float(target):
        emitter.define(op.results[0], emitter.code.let("FConvert", emitter.type(target), emitter.get(op.operands[0])))
    elif is_float(source) and is_float(target):
        expand(emitter, op)
    else:
        raise emitter.error(f"{op_name(op)} from {source} to {target} cannot be compiled into a kernel")


def _bitcast(emitter: FunctionEmitter, op: Operation) -> None:
    (operand,), (result,) = operands_of(op), op.results
    source, target = operand.type, result.type
    if type(target) is Float32Type and _bits(source) == 32:
        emitter.values[result] = emitter.code.let("Bitcast", emitter.m.float(32), emitter.get(operand))
        return
    a, b = emitter.type(source), emitter.type(target)
    value = emitter.get(operand)
    if a != b and not (is_integer(source) and is_integer(target)):
        value = emitter.code.let("Bitcast", b, value)
    emitter.define(result, value)


ROWS: dict[str, Lowering] = {
    "arith.extsi": _extsi,
    "arith.extui": _extui,
    "arith.trunci": _trunci,
    "arith.index_cast": _index_cast(is_signed=True),
    "arith.index_castui": _index_cast(is_signed=False),
    "arith.fptosi": _float_to_int(is_signed=True),
    "arith.fptoui": _float_to_int(is_signed=False),
    "arith.sitofp": _int_to_float(is_signed=True),
    "arith.uitofp": _int_to_float(is_signed=False),
    "arith.extf": _convert_float,
    "arith.truncf": _convert_float,
    "arith.scaling_extf": expand,
    "arith.scaling_truncf": expand,
    "arith.bitcast": _bitcast,
}
