"""arith on floats: one row per operation.

Decorated NoContraction unless fast-math flags let them be fused. Floats of 16 bits and less compute in f32.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.llvm.types import float_bits
from pydispatch.compiler.emit.shaders.values import is_native_float, signed
from pydispatch.compiler.emit.spirv.definitions import natively
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.kernel_ir.readers import FLOAT_PREDICATES, flags, integer, operands_of
from pydispatch.compiler.kernel_ir.types import bit_width

FLOAT_COMPARISONS = {
    "oeq": "FOrdEqual", "ogt": "FOrdGreaterThan", "oge": "FOrdGreaterThanEqual", "olt": "FOrdLessThan",
    "ole": "FOrdLessThanEqual", "one": "FOrdNotEqual", "ueq": "FUnordEqual", "ugt": "FUnordGreaterThan",
    "uge": "FUnordGreaterThanEqual", "ult": "FUnordLessThan", "ule": "FUnordLessThanEqual", "une": "FUnordNotEqual",
}  # fmt: skip


def float_constant(emitter: FunctionEmitter, value: float, type_: Attribute) -> Id:
    """Return a float constant in the register of its type."""
    bits = float_bits(value, type_)
    if is_native_float(type_):
        return emitter.m.number(bits, bit_width(type_))
    return emitter.m.integer(signed(bits, bit_width(type_)))


def float_op(emitter: FunctionEmitter, instruction: str, type_: int, *operands: int, op: Operation | None = None) -> Id:
    """Float arithmetic as IEEE 754 has it: not fused, unless the flags of `op` say so."""
    result = emitter.code.let(instruction, type_, *operands)
    fast_flags = flags(op, "fastmath").split() if op is not None else []
    if "contract" not in fast_flags and "fast" not in fast_flags:
        emitter.m.decorate(result, "NoContraction")
    return result


def _float(instruction: str) -> Lowering:
    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (result,) = op.results
        emitter.values[result] = float_op(
            emitter, instruction, emitter.type(result.type), *(emitter.get(o) for o in operands_of(op)), op=op
        )

    return natively(lower)


def _negf(emitter: FunctionEmitter, op: Operation) -> None:
    emitter.define(
        op.results[0], emitter.code.let("FNegate", emitter.type(op.results[0].type), emitter.get(op.operands[0]))
    )


def float_extreme(emitter: FunctionEmitter, name: str, type_: Id, lhs: Id, rhs: Id) -> Id:
    """maximum, minimum: NaN when one is NaN, -0 below +0. maxnum, minnum: the other one when one is NaN."""
    m, let = emitter.m, emitter.code.let
    larger = name.startswith("max")
    chosen = let("Select", type_, let("FOrdGreaterThan" if larger else "FOrdLessThan", m.bool(), lhs, rhs), lhs, rhs)
    width = 32 if type_ == m.float(32) else 64
    # Equal numbers are zeros of either sign, or the same bits: and-ed for the larger, or-ed for the smaller.
    bits = [let("Bitcast", m.int(width), x) for x in (lhs, rhs)]
    both = let("Bitcast", type_, let("BitwiseAnd" if larger else "BitwiseOr", m.int(width), *bits))
    chosen = let("Select", type_, let("FOrdEqual", m.bool(), lhs, rhs), both, chosen)
    b_is_nan = let("IsNan", m.bool(), rhs)
    a_is_nan = let("IsNan", m.bool(), lhs)
    if name.endswith("num"):
        chosen = let("Select", type_, b_is_nan, lhs, chosen)
        return let("Select", type_, a_is_nan, rhs, chosen)
    chosen = let("Select", type_, b_is_nan, rhs, chosen)
    return let("Select", type_, a_is_nan, lhs, chosen)


def _float_extreme(name: str) -> Lowering:
    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        fast_flags, type_ = flags(op, "fastmath").split(), emitter.type(op.results[0].type)
        operands = [emitter.get(o) for o in op.operands]
        if ("nnan" in fast_flags and "nsz" in fast_flags) or "fast" in fast_flags:
            result = emitter.code.glsl("FMax" if name.startswith("max") else "FMin", type_, *operands)
        else:
            result = float_extreme(emitter, name, type_, *operands)
        emitter.define(op.results[0], result)

    return natively(lower)


def _cmpf(emitter: FunctionEmitter, op: Operation) -> None:
    predicate, m, let = FLOAT_PREDICATES[integer(op, "predicate")], emitter.m, emitter.code.let
    a, b = (emitter.get(o) for o in op.operands)
    if predicate in ("false", "true"):
        emitter.define(op.results[0], m.truth(predicate == "true"))
    elif predicate in ("uno", "ord"):
        unordered = let("IsNan", m.bool(), a)
        if a != b:
            unordered = let("LogicalOr", m.bool(), unordered, let("IsNan", m.bool(), b))
        emitter.define(op.results[0], unordered if predicate == "uno" else let("LogicalNot", m.bool(), unordered))
    else:
        emitter.define(op.results[0], let(FLOAT_COMPARISONS[predicate], m.bool(), a, b))


ROWS: dict[str, Lowering] = {
    "arith.addf": _float("FAdd"),
    "arith.subf": _float("FSub"),
    "arith.mulf": _float("FMul"),
    "arith.divf": _float("FDiv"),
    "arith.negf": natively(_negf),
    "arith.maximumf": _float_extreme("maximum"),
    "arith.minimumf": _float_extreme("minimum"),
    "arith.maxnumf": _float_extreme("maxnum"),
    "arith.minnumf": _float_extreme("minnum"),
    "arith.cmpf": natively(_cmpf),
}
