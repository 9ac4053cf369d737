"""pyd.prefetch: a prefetch instruction for each cache line of each row."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.blocks import LINE_BYTES, address, prefetch
from pydispatch.compiler.kernel_ir.types import bit_width


def _prefetch(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.prefetch` of a static block of rows to prefetches into the L2 cache, one per LINE_BYTES of a row."""
    block = emitter.memref(op.operands[0])
    if bit_width(block.element) % 8:
        raise emitter.error(f"pyd.prefetch takes elements of whole bytes, got {block.element}")
    if block.strides[1] != 1:
        raise emitter.error("pyd.prefetch needs contiguous rows")
    rows, columns = block.sizes
    assert isinstance(rows, int) and isinstance(columns, int)
    row_bytes = columns * bit_width(block.element) // 8
    for row in range(rows):
        for offset in range(0, row_bytes, LINE_BYTES):
            prefetch(emitter, address(emitter, block, row, 0), offset, level=2)


ROWS: dict[str, Lowering] = {"pyd.prefetch": _prefetch}
"""Name of an operation → function that emits LLVM IR for it."""
