"""Lowering of `pyd.copy_async` and `pyd.commit_copies` to cp.async of NVIDIA GPUs from sm_80 on."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.nvptx.generation import require_generation
from pydispatch.compiler.emit.llvm.types import memory_type_of
from pydispatch.compiler.kernel_ir.readers import attribute, op_name
from pydispatch.compiler.kernel_ir.types import bit_width

_GLOBAL, _SHARED = 1, 3
"""Address spaces of LLVM."""
_FIRST_GENERATION = 80
"""Number of the first architecture that has cp.async."""
_BYTES_PAST_L1 = 16
"""Bytes of a copy that bypasses the L1 cache (.cg); PTX allows that for 16 only, 4 or 8 pass through it (.ca)."""


def _copy(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.copy_async`, the copy of a row of 4, 8 or 16 bytes from global to workgroup memory, to cp.async.

    Operands are the source and the target, memrefs of shape [1, N]. With four f32, the code is:

        call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %target, ptr addrspace(1) %source)
    """
    body, byte_count = emitter.body, 0
    pointers = []
    for operand, space in zip(op.operands, (_GLOBAL, _SHARED), strict=True):
        row = emitter.memref(operand)
        length = row.sizes[1]
        assert isinstance(length, int)
        byte_count = length * bit_width(row.element) // 8  # equal for both operands
        address = row.aligned
        if row.offset != 0:
            address = body.let(f"getelementptr inbounds {memory_type_of(row.element)}, ptr {address}, i64 {row.offset}")
        pointers.append((f"ptr addrspace({space})", body.let(f"addrspacecast ptr {address} to ptr addrspace({space})")))
    source, target = pointers
    # "cg" bypasses the L1 cache, "ca" passes through it.
    cache = "cg" if byte_count == _BYTES_PAST_L1 else "ca"
    _call(emitter, f"{cache}.shared.global.{byte_count}", target, source)


def _commit(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.commit_copies`: group the copies since the last commit; wait for all but the last `pending` groups."""
    pending = cast(IntegerAttr, attribute(op, "pending")).value.data
    _call(emitter, "commit.group")
    _call(emitter, "wait.group", ("i32", str(pending)))


def _call(emitter: FunctionEmitter, name: str, *arguments: tuple[str, str]) -> None:
    """Emit a call of an intrinsic of cp.async, which has no result. arguments: (LLVM type, operand) of each.

    Raises CompileError for a target without cp.async.
    """
    require_generation(emitter, _FIRST_GENERATION, op_name(emitter.op))
    symbol = f"llvm.nvvm.cp.async.{name}"
    types = ", ".join(type_ for type_, _ in arguments)
    emitter.module.declare(symbol, f"declare void @{symbol}({types})")
    emitter.body.emit(f"call void @{symbol}({', '.join(' '.join(argument) for argument in arguments)})")


ROWS: dict[str, Lowering] = {"pyd.copy_async": _copy, "pyd.commit_copies": _commit}
"""Name of an operation → function that emits LLVM IR for it."""
