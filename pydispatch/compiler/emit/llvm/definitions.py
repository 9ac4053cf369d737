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
    computes_in_f16 = not _F16_ARITHMETIC.isdisjoint(features)
    # Every AArch64 and NVIDIA GPU converts f16.
    converts_f16 = arch in ("aarch64", "nvptx64") or not _F16_CONVERSIONS.isdisjoint(features)
    return Native(arithmetic=_WITH_F16 if computes_in_f16 else PLAIN, conversions=_WITH_F16 if converts_f16 else PLAIN)


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
    """Return a lowering that uses `row` for the float types that the target computes in, and expands other types.

    An expansion computes the operation by others, such as an addition of bf16 by one of f32.
    """

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        """Lower an operation by `row` if the target computes in the type of its first operand, else expand it."""
        float_class = type(op.operands[0].type)
        # PLAIN, f32 and f64, is tested first: it saves the look-up of the frequent types.
        if float_class in PLAIN or float_class in native_floats(emitter.platform).arithmetic:
            row(emitter, op)
        else:
            expand(emitter, op)

    return lower


def only_plain(row: Lowering) -> Lowering:
    """Return a lowering that uses `row` for f32 and f64, and expands other types into other operations."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        """Lower an operation by `row` if its first operand is an f32 or f64, else expand it."""
        if type(op.operands[0].type) in PLAIN:
            row(emitter, op)
        else:
            expand(emitter, op)

    return lower
