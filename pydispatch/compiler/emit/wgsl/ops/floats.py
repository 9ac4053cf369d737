"""Float instructions of WGSL; what operations mean is in `shaders/floats.py`.

f64 is two words and computed by functions of the library. Where the language has f16, its sums, differences and
products are instructions.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.floats import EXTREMES, Floats
from pydispatch.compiler.emit.shaders.values import is_f32_or_f64
from pydispatch.compiler.emit.wgsl.function import HIDDEN_ZERO, FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops.registers import WgslRegisters
from pydispatch.compiler.emit.wgsl.words import Name
from pydispatch.compiler.kernel_ir.readers import op_name

SINGLE = {
    "arith.addf": "{} + {}", "arith.subf": "{} - {}", "arith.mulf": "{} * {}", "arith.divf": "{} / {}",
    "arith.negf": "-{}", "math.absf": "abs({})", "math.sqrt": "sqrt({})", "math.floor": "floor({})",
    "math.ceil": "ceil({})", "math.trunc": "trunc({})", "math.roundeven": "round({})", "math.fma": "fma({}, {}, {})",
}  # fmt: skip
"""Operations on f32 -> expressions of their operands."""
DOUBLE = {
    "arith.addf": "pyd_f64_add", "arith.subf": "pyd_f64_sub", "arith.mulf": "pyd_f64_mul", "arith.divf": "pyd_f64_div",
    "math.sqrt": "pyd_f64_sqrt", "math.floor": "pyd_f64_floor", "math.ceil": "pyd_f64_ceil",
    "math.trunc": "pyd_f64_trunc", "math.roundeven": "pyd_f64_round", "math.fma": "pyd_f64_fma",
}  # fmt: skip
"""Operations on f64 -> functions of the library."""
SQRT_ITERATIONS = 60
"""Upper bound of the iterations of the loops in `pyd_f64_sqrt`, which each call adds to those of its entry point."""
HALF = ("arith.addf", "arith.subf", "arith.mulf")
"""Operations on f16 that WGSL computes where it has the type; others are expanded to their definitions in f32."""

_F32_COMPARISONS = {
    "oeq": "{a} == {b}", "ogt": "{a} > {b}", "oge": "{a} >= {b}", "olt": "{a} < {b}", "ole": "{a} <= {b}",
    "one": "({a} < {b}) | ({a} > {b})", "ueq": "!(({a} < {b}) | ({a} > {b}))", "ugt": "!({a} <= {b})",
    "uge": "!({a} < {b})", "ult": "!({a} >= {b})", "ule": "!({a} > {b})", "une": "!({a} == {b})",
}  # fmt: skip
"""Predicate of `arith.cmpf` -> the comparison of two f32, by operators that are false if an operand is NaN."""

_CANCEL = frozenset(("arith.addf", "arith.subf", "arith.negf"))
"""Operations of expressions such as (x + c) - c, whose result is the rounding of a sum. A compiler may simplify this
expression to x, so `_as_written` hides the operands of these operations from it."""
_REGROUPED = frozenset(("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "math.fma"))
"""Operations that a WGSL compiler may regroup with others, as (a + b) + c to a + (b + c). Definitions depend on the
rounding of such results, and hide these operations from the compiler (`_as_written`)."""


class _Floats(WgslRegisters, Floats[FunctionEmitter, Name]):
    """Lowerings of float arithmetic to WGSL."""

    def has_instruction(self, emitter: FunctionEmitter, name: str, type_: Attribute) -> bool:
        """Return whether WGSL, or the library for f64, computes the operation `name` on a float type."""
        if not is_f32_or_f64(type_):  # f16, or smaller
            return name in HALF and emitter.is_f16(type_)
        if isinstance(type_, Float32Type):
            return True
        # The library for f64 lacks extremes; the sign of f64 is changed as a bit.
        return name not in EXTREMES and name not in ("arith.negf", "math.absf")

    def computed(self, emitter: FunctionEmitter, op: Operation, operands: Sequence[Name]) -> Name:
        """Emit an operation: an expression for f32 and f16, a call of a function of the library for f64."""
        name, type_ = op_name(op), op.results[0].type
        is_double = is_f32_or_f64(type_) and not isinstance(type_, Float32Type)
        if is_double:
            if name == "math.sqrt":  # the only function of the f64 library with loops
                emitter.iterations.add(SQRT_ITERATIONS)
            return emitter.call(DOUBLE[name], *operands)
        text = SINGLE[name].format(*operands)
        # Compilers may regroup sums and products, so that their rounding would be lost.
        return emitter.let(_as_written(emitter, op, text) if name in _REGROUPED else text)

    def plain_extreme(
        self, emitter: FunctionEmitter, is_larger: bool, type_: Attribute, operands: Sequence[Name]
    ) -> Name:
        """Emit a minimum or maximum of operands without NaN, where the sign of a zero does not matter."""
        return emitter.let(f"{'max' if is_larger else 'min'}({', '.join(operands)})")

    def is_nan(self, emitter: FunctionEmitter, type_: Attribute, value: Name) -> Name:
        """Emit the test of an f32 or f64 for NaN, on its bits: a WGSL compiler may assume that no float is NaN."""
        return emitter.call("pyd_f32_is_nan" if isinstance(type_, Float32Type) else "pyd_f64_is_nan", value)

    def float_compared(self, emitter: FunctionEmitter, predicate: str, type_: Attribute, lhs: Name, rhs: Name) -> Name:
        """Emit a comparison of two f32 or f64. predicate: the predicate of `arith.cmpf`, such as "olt"."""
        if isinstance(type_, Float32Type):
            return emitter.let(_F32_COMPARISONS[predicate].format(a=lhs, b=rhs))
        return _compared_double(emitter, predicate, lhs, rhs)


def _as_written(emitter: FunctionEmitter, op: Operation, expression: str) -> str:
    """Return the f32 expression of `op` in a form that compilers cannot regroup with its uses, if that matters.

    WGSL lets compilers take (x + c) - c to be x, and definitions of functions need the rounding of such sums. So the
    bits of a result that may cancel are combined with `HIDDEN_ZERO`, a variable that is always 0, which no compiler can
    know. Outside definitions, expressions are returned unchanged.
    """
    if not emitter.is_definition or all(use.operation.name not in _CANCEL for use in op.results[0].uses):
        return expression
    zero = emitter.module.declare(HIDDEN_ZERO, lambda: f"var<private> {HIDDEN_ZERO}: u32;")
    return f"bitcast<f32>(bitcast<u32>({expression}) ^ {zero})"


def _compared_double(emitter: FunctionEmitter, predicate: str, lhs: Name, rhs: Name) -> Name:
    """Emit a comparison of two f64 by the functions `lt`, `le` and `eq`, which are false if an operand is NaN."""
    if predicate in ("one", "ueq"):
        compared = emitter.let(f"{emitter.call('pyd_f64_lt', lhs, rhs)} | {emitter.call('pyd_f64_lt', rhs, lhs)}")
        return compared if predicate == "one" else emitter.let(f"!{compared}")
    # An unordered comparison is the negation of the opposite ordered one, and a > b is b < a.
    inverse = {"une": "oeq", "ugt": "ole", "uge": "olt", "ult": "oge", "ule": "ogt"}.get(predicate)
    ordered = inverse or predicate
    if ordered in ("ogt", "oge"):
        lhs, rhs = rhs, lhs
    name = {"oeq": "eq", "olt": "lt", "ogt": "lt", "ole": "le", "oge": "le"}[ordered]
    compared = emitter.call(f"pyd_f64_{name}", lhs, rhs)
    return emitter.let(f"!{compared}") if inverse else compared


ROWS: dict[str, Lowering] = _Floats().rows()
"""Name of an operation → function that emits WGSL for it."""
