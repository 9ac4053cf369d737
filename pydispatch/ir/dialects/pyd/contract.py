"""`pyd.contract`: one register block of a matrix product, in kernel IR."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType, UnitAttr, i8, i16, i32
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition


@op_definition
class ContractOp(IRDLOperation):
    """`pyd.contract %a, %b, %c accumulate unsigned_a : memref<MxK…>, memref<KxN…>, memref<MxN…>`: C = A·B, or C += A·B.

    M and N are static: the block lives in registers while K, which may be dynamic, runs. Strides are read from the
    types: vectors lie along N when B's rows are contiguous, along K when that is contiguous in A and B. All three have
    one element type. The grouped form multiplies i16 into i32, two steps of K at once, or i8 into i32, four:
    `memref<MxK/4x4xi8>, memref<K/4xNx4xi8>, memref<MxNxi32>`, the groups contiguous. `unsigned_a`, `unsigned_b`: bytes
    of A, or of B, are unsigned; else they are signed.
    """

    name = "pyd.contract"
    a = operand_def(MemRefType)
    b = operand_def(MemRefType)
    c = operand_def(MemRefType)
    accumulate = opt_prop_def(UnitAttr)
    unsigned_a = opt_prop_def(UnitAttr)
    unsigned_b = opt_prop_def(UnitAttr)
    assembly_format = (
        "$a `,` $b `,` $c (`accumulate` $accumulate^)? (`unsigned_a` $unsigned_a^)? (`unsigned_b` $unsigned_b^)? "
        "attr-dict `:` type($a) `,` type($b) `,` type($c)"
    )

    def verify_(self) -> None:
        a, b, c = (v.type for v in self.operands)
        assert isinstance(a, MemRefType) and isinstance(b, MemRefType) and isinstance(c, MemRefType)
        grouped = a.get_num_dims() == 3
        ranks = [t.get_num_dims() for t in (a, b, c)]
        if ranks != ([3, 3, 2] if grouped else [2, 2, 2]):
            raise VerifyException(f"pyd.contract takes matrices, or groups of rank 3, 3 and 2; got ranks {ranks}")
        (m, n), sa, sb = c.get_shape(), a.get_shape(), b.get_shape()
        if m < 0 or n < 0:
            raise VerifyException(f"the block of pyd.contract must be static, got {c}")
        if sa[0] != m or sb[1] != n or (sa[1] >= 0 and sb[0] >= 0 and sa[1] != sb[0]):
            raise VerifyException(f"pyd.contract of {a} and {b} is not {c}")
        elements = tuple(t.element_type for t in (a, b, c))
        if grouped and (sa[2] != sb[2] or (*elements, sa[2]) not in ((i16, i16, i32, 2), (i8, i8, i32, 4))):
            raise VerifyException(f"pyd.contract groups two steps of K of i16 or four of i8 into i32; got {a}, {b}")
        for name in ("unsigned_a", "unsigned_b"):
            if name in self.properties and elements[0] != i8:
                raise VerifyException(f"{name} is for groups of i8")


OPERATIONS: list[type[Operation]] = [ContractOp]
