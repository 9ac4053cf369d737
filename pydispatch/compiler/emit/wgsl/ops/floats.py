"""arith on floats: one row per operation. f64 is two words and computed by functions of the library; floats of 16 bits
and less compute in f32, but for sums, differences and products of f16 where the language has it."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.llvm.types import float_bits
from pydispatch.compiler.emit.shaders.values import is_native_float, signed
from pydispatch.compiler.emit.wgsl.definitions import natively
from pydispatch.compiler.emit.wgsl.function import ZERO, FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.words import Name, integer, single, unsigned, wide
from pydispatch.compiler.kernel_ir.readers import FLOAT_PREDICATES, flags, operands_of
from pydispatch.compiler.kernel_ir.readers import integer as integer_of
from pydispatch.compiler.kernel_ir.types import bit_width


def float_constant(emitter: FunctionEmitter, value: float, type_: Attribute) -> Name:
    """Return a float constant as a value of its type's register."""
    bits = float_bits(value, type_)
    if type(type_) is Float32Type:
        literal = single(bits)
        return literal if literal is not None else special(emitter, bits)
    if emitter.is_f16(type_):
        return emitter.at_entry(("f16", bits), lambda: emitter.call("pyd_f16", integer(signed(bits, 16))))
    return wide(bits) if is_native_float(type_) else integer(signed(bits, bit_width(type_)))


def special(emitter: FunctionEmitter, bits: int) -> Name:
    """Return an infinity or a NaN: through a name, since constants of WGSL are finite."""

    def make() -> Name:
        held = emitter.let(unsigned(bits), "k")
        return emitter.let(f"bitcast<f32>({held})", "k")

    return emitter.at_entry(("special", bits), make)


_CANCEL = frozenset(("arith.addf", "arith.subf", "arith.negf"))


def as_written(emitter: FunctionEmitter, op: Operation, expression: str) -> str:
    """Return an f32 that no compiler sees through, where a definition needs sums to be rounded as they are written:
    WGSL lets compilers regroup, and they take (x + c) - c to be x. Its bits meet a zero that only the device knows.
    """
    if not emitter.is_definition or all(use.operation.name not in _CANCEL for use in op.results[0].uses):
        return expression
    zero = emitter.module.declare(ZERO, lambda: f"var<private> {ZERO}: u32;")
    return f"bitcast<f32>(bitcast<u32>({expression}) ^ {zero})"


def _float(operator: str, name: str) -> Lowering:
    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (result,) = op.results
        a, b = emitter.operands(operands_of(op))
        if type(result.type) is Float32Type:
            emitter.values[result] = emitter.let(as_written(emitter, op, f"{a} {operator} {b}"))
        else:
            emitter.values[result] = emitter.call(f"pyd_f64_{name}", a, b)

    exactly = natively(lower)

    def native(emitter: FunctionEmitter, op: Operation) -> None:
        if operator != "/" and emitter.is_f16(op.results[0].type):
            a, b = emitter.operands(operands_of(op))
            emitter.define(op.results[0], emitter.let(f"{a} {operator} {b}"))
        else:
            exactly(emitter, op)

    return native


def _negf(emitter: FunctionEmitter, op: Operation) -> None:
    (operand,) = emitter.operands(operands_of(op))
    if type(op.results[0].type) is Float32Type:
        emitter.define(op.results[0], emitter.let(f"-{operand}"))
    else:
        emitter.define(op.results[0], emitter.let(f"{operand} ^ vec2u(0u, 0x80000000u)"))


def _extreme(name: str) -> Lowering:
    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        fast_flags = flags(op, "fastmath").split()
        a, b = emitter.operands(operands_of(op))
        if type(op.results[0].type) is not Float32Type:
            extreme_ = emitter.call(f"pyd_f64_{name}", a, b)
        elif ("nnan" in fast_flags and "nsz" in fast_flags) or "fast" in fast_flags:
            extreme_ = emitter.let(f"{name[:3]}({a}, {b})")
        else:
            extreme_ = emitter.call(f"pyd_f32_{name}", a, b)
        emitter.define(op.results[0], extreme_)

    return natively(lower)


def is_nan(emitter: FunctionEmitter, type_: Attribute, value: Name) -> str:
    """Return whether an f32 or f64 is no number."""
    return f"{emitter.module.library('pyd_f32_is_nan' if type(type_) is Float32Type else 'pyd_f64_is_nan')}({value})"


_ORDERED = {"oeq": "{a} == {b}", "ogt": "{a} > {b}", "oge": "{a} >= {b}", "olt": "{a} < {b}", "ole": "{a} <= {b}",
            "one": "({a} < {b}) | ({a} > {b})", "ueq": "!(({a} < {b}) | ({a} > {b}))", "ugt": "!({a} <= {b})",
            "uge": "!({a} < {b})", "ult": "!({a} >= {b})", "ule": "!({a} > {b})", "une": "!({a} == {b})"}  # fmt: skip
"""On f32, by comparisons that NaN makes false."""


def _cmpf(emitter: FunctionEmitter, op: Operation) -> None:
    predicate, type_ = FLOAT_PREDICATES[integer_of(op, "predicate")], op.operands[0].type
    a, b = emitter.operands(operands_of(op))
    if predicate in ("false", "true"):
        emitter.define(op.results[0], int(predicate == "true"))
    elif predicate in ("uno", "ord"):
        either = is_nan(emitter, type_, a) if a == b else f"{is_nan(emitter, type_, a)} | {is_nan(emitter, type_, b)}"
        emitter.define(op.results[0], emitter.let(either if predicate == "uno" else f"!({either})"))
    elif type(type_) is Float32Type:
        emitter.define(op.results[0], emitter.let(_ORDERED[predicate].format(a=a, b=b)))
    else:
        emitter.define(op.results[0], _compared_double(emitter, predicate, a, b))


def _compared_double(emitter: FunctionEmitter, predicate: str, lhs: Name, rhs: Name) -> Name:
    """Compare two f64 numbers with the functions `lt`, `le` and `eq`, which are false if an operand is NaN."""
    if predicate in ("one", "ueq"):
        compared = emitter.let(f"{emitter.call('pyd_f64_lt', lhs, rhs)} | {emitter.call('pyd_f64_lt', rhs, lhs)}")
        return compared if predicate == "one" else emitter.let(f"!{compared}")
    inverse = {"une": "oeq", "ugt": "ole", "uge": "olt", "ult": "oge", "ule": "ogt"}.get(predicate)
    ordered = inverse or predicate
    if ordered in ("ogt", "oge"):
        lhs, rhs = rhs, lhs
    name = {"oeq": "eq", "olt": "lt", "ogt": "lt", "ole": "le", "oge": "le"}[ordered]
    compared = emitter.call(f"pyd_f64_{name}", lhs, rhs)
    return emitter.let(f"!{compared}") if inverse else compared


ROWS: dict[str, Lowering] = {
    "arith.addf": _float("+", "add"),
    "arith.subf": _float("-", "sub"),
    "arith.mulf": _float("*", "mul"),
    "arith.divf": _float("/", "div"),
    "arith.negf": natively(_negf),
    "arith.maximumf": _extreme("maximum"),
    "arith.minimumf": _extreme("minimum"),
    "arith.maxnumf": _extreme("maxnum"),
    "arith.minnumf": _extreme("minnum"),
    "arith.cmpf": natively(_cmpf),
}
