"""arith conversions: one row per operation. Float to integer saturates, NaN gives 0."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, Float64Type, IndexType
from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.integers import bits_of
from pydispatch.compiler.emit.shaders.values import is_native_float, known, signed
from pydispatch.compiler.emit.wgsl.definitions import expand, natively
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops.arith import wrap, zero_extended
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned
from pydispatch.compiler.kernel_ir.readers import op_name, operands_of
from pydispatch.compiler.kernel_ir.types import is_float, is_integer


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


def _trunci(emitter: FunctionEmitter, op: Operation) -> None:
    (operand,), (result,) = emitter.operands(operands_of(op)), op.results
    target = result.type
    width = emitter.width(target)
    value = resized(emitter, operand, emitter.width(op.operands[0].type), width)
    emitter.define(result, wrap(emitter, value, bits_of(emitter, target), width))


def _index_cast(is_signed: bool) -> Lowering:
    """Return the lowering of an index cast.

    A wider integer saturates when it is cast to a 32-bit index, so that an out-of-bounds index stays out of bounds.
    """

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        source, target = op.operands[0].type, op.results[0].type
        bits, to_bits = bits_of(emitter, source), bits_of(emitter, target)
        from_width, to_width = emitter.width(source), emitter.width(target)
        found = emitter.index(op.operands[0])
        if known(found):
            number = found if is_signed else found & ((1 << bits) - 1)  # type: ignore[operator]
            emitter.define(op.results[0], signed(number, to_bits))  # type: ignore[arg-type]
            return
        value = emitter.get(op.operands[0])
        if isinstance(target, IndexType) and from_width > to_width:
            value = emitter.call("pyd_i64_saturated", value)
        elif not is_signed and to_bits > bits:
            value = unsigned_resized(emitter, value, bits, from_width, to_width)
        else:
            value = wrap(emitter, resized(emitter, value, from_width, to_width), to_bits, to_width)
        emitter.define(op.results[0], value)

    return lower


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
        made = emitter.call(f"pyd_{kind}_to_i{register}", value)
        if register == 32:
            made = emitter.let(f"clamp({made}, {emitter.number(least, 32)}, {emitter.number(most, 32)})")
        else:
            for bound, below in ((emitter.number(least, 64), True), (emitter.number(most, 64), False)):
                outside = emitter.less(made, bound, 64) if below else emitter.less(bound, made, 64)
                made = emitter.let(f"select({made}, {bound}, {outside})")
        emitter.define(result, wrap(emitter, made, bits, register) if width > 1 else resized(emitter, made, 32, 1))

    return natively(lower)


def _int_to_float(is_signed: bool) -> Lowering:
    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        source, (result,) = op.operands[0].type, op.results
        if not is_native_float(result.type):
            expand(emitter, op)
            return
        bits, width = bits_of(emitter, source), emitter.width(source)
        (value,) = emitter.operands(operands_of(op))
        if width == 1:
            value = resized(emitter, value, 1, 32) if is_signed else unsigned_resized(emitter, value, 1, 1, 32)
        elif not is_signed:
            value = zero_extended(emitter, value, bits, width)
        sign, register = "i" if is_signed else "u", max(width, 32)
        if type(result.type) is Float32Type and register == 32:
            emitter.define(result, emitter.let(f"f32({value})" if is_signed else f"f32({as_unsigned(value)})"))
            return
        if register == 32:  # to f64, of which all are numbers
            value = (
                emitter.call("pyd_i64_from_i32", value)
                if is_signed
                else emitter.let(f"vec2u({as_unsigned(value)}, 0u)")
            )
            register = 64
        kind = "f32" if type(result.type) is Float32Type else "f64"
        emitter.define(result, emitter.call(f"pyd_{sign}{register}_to_{kind}", value))

    return lower


def _convert_float(emitter: FunctionEmitter, op: Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    if emitter.is_f16(source) and isinstance(target, Float32Type):
        emitter.define(op.results[0], emitter.let(f"f32({emitter.get(op.operands[0])})"))
    elif isinstance(source, Float32Type) and emitter.is_f16(target):
        emitter.define(op.results[0], emitter.call("pyd_f16_nearest", *emitter.operands(operands_of(op))))
    elif is_native_float(source) and is_native_float(target):
        name = "pyd_f32_to_f64" if isinstance(target, Float64Type) else "pyd_f64_to_f32"
        emitter.define(op.results[0], emitter.call(name, *emitter.operands(operands_of(op))))
    elif is_float(source) and is_float(target):
        expand(emitter, op)
    else:
        raise emitter.error(f"{op_name(op)} from {source} to {target} cannot be compiled into a kernel")


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
