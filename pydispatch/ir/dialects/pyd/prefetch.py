"""`pyd.prefetch`: a block of memory that is read soon, in kernel IR for CPUs."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, operand_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition


@op_definition
class PrefetchOp(IRDLOperation):
    """Request for a small static block of memory to be brought into the L2 cache, in kernel IR for CPUs, `pyd.prefetch
    %block : memref<RxC…>`.

    Rows are contiguous, and elements are whole bytes. The request changes no results, only their time.
    """

    name = "pyd.prefetch"
    block = operand_def(MemRefType)
    assembly_format = "$block attr-dict `:` type($block)"

    def verify_(self) -> None:
        """Check that the block is a static matrix."""
        block = self.block.type
        assert isinstance(block, MemRefType)
        shape = block.get_shape()
        if len(shape) != 2 or any(n < 1 for n in shape):
            raise VerifyException(f"pyd.prefetch takes a static block of two dimensions, got {block}")


OPERATIONS: list[type[Operation]] = [PrefetchOp]
