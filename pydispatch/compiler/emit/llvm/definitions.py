"""Operations on floats that the target does not compute in: their definitions are written in their place.

bf16 and smaller floats compute in f32, and so does f16 where the target lacks its arithmetic. Definitions are integer
instructions, which vectorise everywhere, where LLVM's own conversions would be a library call for each element.
"""

from __future__ import annotations

import functools

from xdsl.dialects.builtin import Float16Type
from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.platform import Platform
from pydispatch.compiler.kernel_ir.math.definitions import PLAIN, Native, definition
from pydispatch.compiler.kernel_ir.readers import op_name
from pydispatch.compiler.kernel_ir.types import is_float, is_integer

_F16_ARITHMETIC = frozenset({"fullfp16", "avx512fp16", "zfh"})
"""LLVM features, each of which lets a target compute in f16."""
_F16_CONVERSIONS = _F16_ARITHMETIC | {"f16c", "zfhmin"}
"""LLVM features, each of which lets a target convert between f16 and f32."""

_WITH_F16 = PLAIN | {Float16Type}
"""Float types of targets that compute in f16."""


def native_floats(platform: Platform[FunctionEmitter]) -> Native:
    """Return the float types that the target has instructions for: to compute in, and to convert between."""
    return _native(platform.arch, platform.features)


@functools.cache
def _native(arch: str, features: frozenset[str]) -> Native:
    """Return the native float types of an architecture with these LLVM features; others are computed in f32."""
    arithmetic = _WITH_F16 if _F16_ARITHMETIC & features else PLAIN
    converts = arch in ("aarch64", "nvptx64") or _F16_CONVERSIONS & features
    return Native(arithmetic, conversions=_WITH_F16 if converts else PLAIN)


def expand(emitter: FunctionEmitter, op: Operation, exponent: int | None = None) -> None:
    """Emit an operation by its definition in simpler operations, and define its results.

    The definition is a function of kernel IR, whose body is emitted in the place of the operation. For a target without
    arithmetic of bf16, `%r = arith.addf %a, %b : bf16` becomes the extension of both operands to f32, by shifts of
    integers, their addition, and the rounding of the sum.

    Args:
        emitter: Emitter of the function that contains the operation.
        op: The operation, on scalars.
        exponent: The exponent of an integer power (`math.ipowi`, `math.fpowi`) if it is a constant; None otherwise.
    """
    if not any(is_float(value.type) or is_integer(value.type) for value in (op.operands[0], op.results[0])):
        raise emitter.error(
            f"operation '{op_name(op)}' on {op.operands[0].type} cannot be compiled into a kernel",
            "kernel IR computes on scalars; vectors come from parallel loops",
        )
    # The definition for the float types that the target has instructions for.
    function = definition(op, native_floats(emitter.platform), exponent).function
    # The parameters of the definition are the operands of the operation.
    emitter.values.update(
        zip(function.body.blocks[0].args, (emitter.values[operand] for operand in op.operands), strict=True)
    )

    def leave(end: Operation) -> None:
        """Define the results of the operation as the operands of `end`, the return of the definition."""
        emitter.values.update(zip(op.results, (emitter.values[operand] for operand in end.operands), strict=True))

    emitter.region(function.body, leave)
    emitter.op = op  # region() changed it; errors name the operation itself


def natively(row: Lowering) -> Lowering:
    """Return a lowering that uses `row` for float types with native arithmetic, and the definition for others."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        """Lower an operation by `row` if the target computes on the type of its first operand, else by definition."""
        kind = type(op.operands[0].type)
        (row if kind in PLAIN or kind in native_floats(emitter.platform).arithmetic else expand)(emitter, op)

    return lower


def only_plain(row: Lowering) -> Lowering:
    """Return a lowering that uses `row` for f32 and f64, and the definition for other types."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        """Lower an operation on f32 or f64 by the row, and others by its definition."""
        (row if type(op.operands[0].type) in PLAIN else expand)(emitter, op)

    return lower
