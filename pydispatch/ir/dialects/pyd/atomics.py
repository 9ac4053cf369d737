"""`pyd.compare_exchange`: an atomic update in kernel IR that depends on the old value."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, VarConstraint, base, operand_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition


@op_definition
class CompareExchangeOp(IRDLOperation):
    """Atomic replacement of an element that has an expected value, `%old = pyd.compare_exchange %expected, %value,
    %memory[%i] : i32, memref<?xi32>`.

    The result is the element before the operation. The element becomes `value` if the result equals `expected`, else it
    is unchanged. Elements are integers. Operands are in the order of `memref.atomic_rmw`, with `expected` last.
    """

    T: ClassVar = VarConstraint("T", base(IntegerType))

    name = "pyd.compare_exchange"
    value = operand_def(T)
    memory = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    expected = operand_def(T)
    result = result_def(T)
    assembly_format = "$expected `,` $value `,` $memory `[` $indices `]` attr-dict `:` type($value) `,` type($memory)"

    def verify_(self) -> None:
        """Check that memory has elements of the value's type, and an index for each dimension."""
        memory = self.memory.type
        assert isinstance(memory, MemRefType)
        if memory.element_type != self.value.type:
            raise VerifyException(f"pyd.compare_exchange of {self.value.type} in {memory}: their elements differ")
        if len(self.indices) != memory.get_num_dims():
            raise VerifyException(f"pyd.compare_exchange takes one index for each dimension of {memory}")


OPERATIONS: list[type[Operation]] = [CompareExchangeOp]
