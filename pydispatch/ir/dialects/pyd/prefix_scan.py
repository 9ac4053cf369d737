"""`pyd.prefix_scan`: a short block of memory, scanned in vector registers, in kernel IR for CPUs."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, StringAttr
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, VarConstraint, base, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition

_NAMES = ("addi", "andi", "maxsi", "maxui", "minsi", "minui", "muli", "ori", "xori")  # without the dialect: arith.addi
KINDS = tuple(f"arith.{name}" for name in _NAMES)
"""Operations on integers that combine elements: associative ones with an identity element."""


@op_definition
class PrefixScanOp(IRDLOperation):
    """Inclusive scan of a short static block in kernel IR for CPUs, `%last = pyd.prefix_scan "arith.addi" %initial,
    %block : i32, memref<16xi32>`.

    Each element becomes the combination of `initial` and the elements up to itself. The result is the last element.
    Elements are contiguous integers of 8, 16, 32 or 64 bits.
    """

    T: ClassVar = VarConstraint("T", base(IntegerType) | base(IndexType))

    name = "pyd.prefix_scan"
    kind = prop_def(StringAttr)
    initial = operand_def(T)
    block = operand_def(MemRefType)
    last = result_def(T)
    assembly_format = "$kind $initial `,` $block attr-dict `:` type($initial) `,` type($block)"

    def verify_(self) -> None:
        """Check the kind, and that the block has rank 1, a static size, and elements of the type of `initial`.

        This type is index, or an integer of 8, 16, 32 or 64 bits.
        """
        block, element = self.block.type, self.initial.type
        assert isinstance(block, MemRefType)
        if self.kind.data not in KINDS:
            raise VerifyException(f"pyd.prefix_scan combines by one of {', '.join(KINDS)}, got {self.kind.data}")
        has_valid_width = not isinstance(element, IntegerType) or element.width.data in (8, 16, 32, 64)  # or index
        is_static_line = block.get_num_dims() == 1 and block.get_shape()[0] > 0  # a dynamic size is negative
        if not has_valid_width or not is_static_line or block.element_type != element:
            raise VerifyException(f"pyd.prefix_scan takes a static line of {element}, got {block}")


OPERATIONS: list[type[Operation]] = [PrefixScanOp]
