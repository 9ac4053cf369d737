"""`pyd.copy_async` and `pyd.commit_copies`: copies into workgroup memory that an invocation waits for later."""

from __future__ import annotations

from xdsl.dialects.builtin import FixedBitwidthType, IntegerAttr, MemRefType
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition


@op_definition
class CopyAsyncOp(IRDLOperation):
    """Copy of contiguous elements by one invocation, `pyd.copy_async %source, %target : memref<1xNx…>, memref<1xNx…>`.

    Both are static views of N elements, together 4, 8 or 16 bytes, that are aligned to this size: memref<1x4xf32> is
    one copy of 16 bytes. The target is in workgroup memory. The copy belongs to the group that the next
    `pyd.commit_copies` of the invocation ends. The invocation may read the target after a `pyd.commit_copies` that has
    waited for this group, other invocations after a barrier that follows.
    """

    name = "pyd.copy_async"
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)
    assembly_format = "$source `,` $target attr-dict `:` type($source) `,` type($target)"

    def verify_(self) -> None:
        """Check that source and target have one type 1xN, with a static N, and that a row has 4, 8 or 16 bytes."""
        source, target = self.source.type, self.target.type
        assert isinstance(source, MemRefType) and isinstance(target, MemRefType)
        shape = tuple(source.get_shape())
        if shape != tuple(target.get_shape()) or len(shape) != 2 or shape[0] != 1 or shape[1] < 1:
            raise VerifyException(f"pyd.copy_async copies one static row, got {source} and {target}")
        if source.element_type != target.element_type:
            raise VerifyException(f"pyd.copy_async of {source} into {target}: their elements differ")
        element = source.element_type
        bits = shape[1] * element.bitwidth if isinstance(element, FixedBitwidthType) else 0  # 0 is refused below
        if bits not in (32, 64, 128):
            raise VerifyException(f"pyd.copy_async copies 4, 8 or 16 bytes, got {source}")


@op_definition
class CommitCopiesOp(IRDLOperation):
    """End of a group of copies of an invocation, `pyd.commit_copies pending = 1 : i64`.

    The group has the `pyd.copy_async` of the invocation since its previous `pyd.commit_copies`. The invocation then
    waits until at most the last `pending` of its groups are incomplete; 0 waits for all.
    """

    name = "pyd.commit_copies"
    pending = prop_def(IntegerAttr)
    assembly_format = "`pending` `=` $pending attr-dict"


OPERATIONS: list[type[Operation]] = [CopyAsyncOp, CommitCopiesOp]
