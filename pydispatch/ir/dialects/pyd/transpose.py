"""`pyd.transpose`: a small block of memory, transposed, in kernel IR for CPUs."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, operand_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition


@op_definition
class TransposeOp(IRDLOperation):
    """Transposition of a small static block in kernel IR for CPUs, `pyd.transpose %source, %target : memref<RxC…>,
    memref<CxR…>`.

    target[j, i] = source[i, j]. Rows are contiguous in both memrefs, which do not overlap. Elements are whole bytes.
    The target may have fewer than C rows and R columns: elements of the source beyond them are read, and not stored.
    """

    name = "pyd.transpose"
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)
    assembly_format = "$source `,` $target attr-dict `:` type($source) `,` type($target)"

    def verify_(self) -> None:
        """Check that static matrices have one element type, and that the target is not larger than the transposed
        source."""
        source, target = self.source.type, self.target.type
        assert isinstance(source, MemRefType) and isinstance(target, MemRefType)
        shape = source.get_shape()
        if len(shape) != 2 or any(n < 1 for n in shape):
            raise VerifyException(f"pyd.transpose turns static blocks of two dimensions, got {source}")
        target_shape = target.get_shape()
        fits = len(target_shape) == 2 and 1 <= target_shape[0] <= shape[1] and 1 <= target_shape[1] <= shape[0]
        if not fits or source.element_type != target.element_type:
            raise VerifyException(f"pyd.transpose of {source} is not {target}, nor a part of it")


OPERATIONS: list[type[Operation]] = [TransposeOp]
