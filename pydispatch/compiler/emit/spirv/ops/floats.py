"""Float instructions of SPIR-V; what operations mean is in `shaders/floats.py`.

Sums and products are decorated NoContraction unless fast-math flags let them be fused.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import Float64Type
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.floats import Floats
from pydispatch.compiler.emit.shaders.values import is_f32_or_f64
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.registers import SpirvRegisters
from pydispatch.compiler.kernel_ir.readers import flags, op_name

ARITHMETIC = {"arith.addf": "FAdd", "arith.subf": "FSub", "arith.mulf": "FMul", "arith.divf": "FDiv"}
"""Operations -> core instructions."""
GLSL = {
    "math.absf": "FAbs", "math.sqrt": "Sqrt", "math.floor": "Floor", "math.ceil": "Ceil", "math.trunc": "Trunc",
    "math.roundeven": "RoundEven", "math.fma": "Fma",
}  # fmt: skip
"""Operations -> instructions of GLSL.std.450."""
WRONG_DOUBLES = ("math.trunc", "math.roundeven")
"""Operations on f64 that are expanded: Mesa's Trunc loses the sign of a zero, and its RoundEven is wrong."""
COMPARISONS = {
    "oeq": "FOrdEqual", "ogt": "FOrdGreaterThan", "oge": "FOrdGreaterThanEqual", "olt": "FOrdLessThan",
    "ole": "FOrdLessThanEqual", "one": "FOrdNotEqual", "ueq": "FUnordEqual", "ugt": "FUnordGreaterThan",
    "uge": "FUnordGreaterThanEqual", "ult": "FUnordLessThan", "ule": "FUnordLessThanEqual", "une": "FUnordNotEqual",
}  # fmt: skip
"""Predicates of `arith.cmpf` -> instructions."""


class _Floats(SpirvRegisters, Floats[FunctionEmitter, Id]):
    """Lowerings of float arithmetic to SPIR-V."""

    def has_instruction(self, emitter: FunctionEmitter, name: str, type_: Attribute) -> bool:
        """Return whether drivers compute the operation `name` on a type correctly by an instruction of SPIR-V."""
        return is_f32_or_f64(type_) and not (isinstance(type_, Float64Type) and name in WRONG_DOUBLES)

    def computed(self, emitter: FunctionEmitter, op: Operation, operands: Sequence[Id]) -> Id:
        """Emit the instruction of an operation on f32 or f64, and return its result.

        Sums and products must not be contracted to a fused multiply-add unless the program allows it.
        """
        name, type_ = op_name(op), emitter.type(op.results[0].type)
        if name in GLSL:
            return emitter.code.glsl(GLSL[name], type_, *operands)
        if name == "arith.negf":
            return emitter.code.let("FNegate", type_, *operands)
        result = emitter.code.let(ARITHMETIC[name], type_, *operands)
        fast_flags = flags(op, "fastmath").split()
        if "contract" not in fast_flags and "fast" not in fast_flags:
            emitter.m.decorate(result, "NoContraction")
        return result

    def plain_extreme(self, emitter: FunctionEmitter, is_larger: bool, type_: Attribute, operands: Sequence[Id]) -> Id:
        """Emit a maximum or minimum of operands without NaN, where the sign of a zero does not matter."""
        return emitter.code.glsl("FMax" if is_larger else "FMin", emitter.type(type_), *operands)

    def is_nan(self, emitter: FunctionEmitter, type_: Attribute, value: Id) -> Id:
        """Emit the test of a float for NaN; the result is a bool."""
        return emitter.code.let("IsNan", emitter.m.bool(), value)

    def float_compared(self, emitter: FunctionEmitter, predicate: str, type_: Attribute, lhs: Id, rhs: Id) -> Id:
        """Emit the comparison of floats by a predicate of `arith.cmpf`; the result is a bool."""
        return emitter.code.let(COMPARISONS[predicate], emitter.m.bool(), lhs, rhs)


ROWS: dict[str, Lowering] = _Floats().rows()
"""Name of an operation → function that emits SPIR-V for it."""
