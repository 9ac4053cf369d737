"""math: LLVM intrinsics where every target lowers them inline, else calls of C's functions (`expf`, `exp`, ...).

The device library has those functions as bitcode, so that they inline and vectorise. 16-bit floats compute in f32.
"""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.body import as_index
from pydispatch.compiler.emit.llvm.definitions import expand, natively, only_plain
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.arith import FLOAT_SUFFIX, fast, int_type
from pydispatch.compiler.emit.llvm.types import scalar
from pydispatch.compiler.kernel_ir.math.definitions import COMPOSED, TESTS


def _intrinsic(emitter: FunctionEmitter, op: Operation, name: str) -> None:
    """Lower `op` to the LLVM intrinsic `llvm.NAME` of its float type."""
    type_ = scalar(op.results[0].type)
    operands = ((type_, emitter.get(o)) for o in op.operands)
    emitter.define(
        op.results[0], emitter.intrinsic(f"llvm.{name}.{FLOAT_SUFFIX[type_]}", type_, *operands, flags=fast(op))
    )


def _c_function(emitter: FunctionEmitter, op: Operation, *names: str) -> None:
    """Lower `op` to C functions with these names, one for each result; f32 calls `expf` for the name "exp"."""
    type_ = scalar(op.operands[0].type)
    operands = [(type_, emitter.get(o)) for o in op.operands]
    for result, name in zip(op.results, names, strict=True):
        symbol = emitter.platform.math_call(name if type_ == "double" else f"{name}f")
        emitter.define(result, emitter.intrinsic(symbol, type_, *operands, flags=fast(op)))


def _inline(name: str) -> Lowering:
    """Return the lowering to an intrinsic that all targets have instructions for."""
    return natively(lambda f, op: _intrinsic(f, op, name))


def _call(*names: str) -> Lowering:
    """Return the lowering to C functions, one for each result; types other than f32 and f64 are expanded."""
    return only_plain(lambda f, op: _c_function(f, op, *names))


def _intrinsic_with(feature: str, name: str) -> Lowering:
    """Return the lowering to an intrinsic if the CPU has `feature`, else to the C function of this name.

    Without the feature, LLVM would compile the intrinsic to a call. The device library has the C function as bitcode,
    which is inlined. Architectures other than x86-64 always have the instruction. Float types that the target lacks are
    computed in f32 (`natively`).
    """

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        """Emit the intrinsic `name`. On x86-64 without `feature`, call the C function of this name instead."""
        if emitter.platform.arch != "x86_64" or feature in emitter.platform.features:
            _intrinsic(emitter, op, name)
        else:
            _c_function(emitter, op, name)

    return natively(lower)


def _bits(name: str, *extra: tuple[str, str]) -> Lowering:
    """Return the lowering of an operation on integers to the intrinsic `llvm.NAME`.

    `extra` are (LLVM type, operand) of the intrinsic's arguments after the first; "i1 false" states that no input is
    undefined, such as 0 for the number of leading zeros.
    """

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        """Call the intrinsic `llvm.NAME` of the result's width with the operand and the arguments `extra`."""
        type_ = int_type(emitter, op.results[0].type)
        operand = (type_, emitter.get(op.operands[0]))
        emitter.define(op.results[0], emitter.intrinsic(f"llvm.{name}.{type_}", type_, operand, *extra))

    return lower


def _power(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower a power with an integer exponent by its definition, which depends on the exponent if it is constant."""
    exponent = as_index(emitter.get(op.operands[1]))
    expand(emitter, op, exponent if isinstance(exponent, int) else None)


_CALLS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp2",
    "expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh",
)  # fmt: skip
"""Functions of f32 and f64 that the C library has."""

ROWS: dict[str, Lowering] = {
    **{f"math.{name}": _call(name) for name in _CALLS},
    **dict.fromkeys((*COMPOSED, *TESTS, "math.isnormal"), expand),
    "math.powf": _call("pow"),
    "math.sincos": _call("sin", "cos"),
    "math.sqrt": _inline("sqrt"),
    "math.absf": only_plain(lambda f, op: _intrinsic(f, op, "fabs")),
    "math.copysign": only_plain(lambda f, op: _intrinsic(f, op, "copysign")),
    **{f"math.{name}": _intrinsic_with("sse4.1", name) for name in ("floor", "ceil", "trunc", "round", "roundeven")},
    "math.fma": _intrinsic_with("fma", "fma"),
    "math.absi": _bits("abs", ("i1", "false")),
    "math.ctlz": _bits("ctlz", ("i1", "false")),
    "math.cttz": _bits("cttz", ("i1", "false")),
    "math.ctpop": _bits("ctpop"),
    "math.fpowi": _power,
    "math.ipowi": _power,
}
"""Name of an operation → function that emits LLVM IR for it."""
