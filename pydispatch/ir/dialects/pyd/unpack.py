"""`pyd.unpack`: unsigned weights of few bits as floats or bytes, in kernel IR for CPUs."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, MemRefType, f32, i8
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, operand_def, opt_operand_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition

WORD_BYTES = 4
"""Size in bytes of a group: the packed weights of one column at adjacent indices of K."""


@op_definition
class UnpackOp(IRDLOperation):
    """Conversion of packed unsigned weights to f32 or to bytes, in kernel IR for CPUs.

    Syntax: `pyd.unpack %weights, %to scaled %terms : memref<GxNx8xi4>, memref<(G*8)xNxf32>, memref<TxNxf32>`.

    - The weights are a matrix of K rows and N columns, packed as the operand B of `pyd.contract`. A group is the 4
      bytes of one column at adjacent indices of K: 8 indices of i4, or 4 of i8. There are G groups along K. A group of
      i4 has indices 0 to 3 in the low halves of its bytes, and 4 to 7 in the high halves: the bytes 0x40, 0x51, 0x62
      and 0x73 are the weights 0, 1, ..., 7.
    - To f32, with terms, the first dimension of `to` is K: to[k, n] = (weight[k, n] - terms[0, n]) * terms[1, n], plus
      terms[2, n] if there are three terms. The terms of a column are its zero point, its scale and an offset.
    - To i8, without terms, `to` is in groups of 4 indices of K: memref<GxNx8xi4> becomes memref<(G*2)xNx4xi8>.

    All sizes but the number of groups are static. Columns are contiguous.
    """

    name = "pyd.unpack"
    weights = operand_def(MemRefType)
    target = operand_def(MemRefType)
    terms = opt_operand_def(MemRefType)
    assembly_format = (
        "$weights `,` $target (`scaled` $terms^)? attr-dict `:` type($weights) `,` type($target) (`,` type($terms)^)?"
    )

    def verify_(self) -> None:
        """Check ranks, sizes and element types of the weights [groups, columns, indices of K in a group], the target
        and the terms: for each column its zero point, its scale and optionally an offset.

        A group of weights is 4 bytes. With terms the weights become floats, without them bytes in groups of 4: weights
        of type memref<3x24x8xi4> have the target memref<24x24xf32> with terms of memref<2x24xf32> or memref<3x24xf32>,
        and memref<6x24x4xi8> without terms.
        """
        weights, target = self.weights.type, self.target.type
        assert isinstance(weights, MemRefType) and isinstance(target, MemRefType)
        bits = {IntegerType(4): 4, i8: 8}.get(weights.element_type)  # of a weight; None for other types
        shape, target_shape = weights.get_shape(), target.get_shape()
        if bits is None or len(shape) != 3 or shape[1] < 1 or shape[2] != WORD_BYTES * 8 // bits:
            raise VerifyException(f"pyd.unpack takes groups of 8 weights of i4, or of 4 of i8; got {weights}")
        groups, columns, steps = shape
        # K, the number of rows of the weight matrix; negative, which is dynamic, if the number of groups is.
        row_count = groups * steps if groups >= 0 else groups
        # Without terms: bytes. Weights of i8 are bytes already, so only those of i4 are unpacked.
        if self.terms is None:
            words = row_count // WORD_BYTES if groups >= 0 else groups  # groups of 4 bytes in the target
            if bits != 4 or target.element_type != i8 or target_shape != (words, columns, WORD_BYTES):
                raise VerifyException(f"pyd.unpack without terms makes bytes of i4 in groups of 4; got {target}")
            return
        # With terms: floats, a row for each index of K.
        terms = self.terms.type
        assert isinstance(terms, MemRefType)
        if target.element_type != f32 or target_shape != (row_count, columns):
            raise VerifyException(f"pyd.unpack of {weights} with terms makes f32 of the same steps; got {target}")
        if terms.element_type != f32 or terms.get_shape() not in ((2, columns), (3, columns)):
            raise VerifyException(f"pyd.unpack takes two or three f32 terms of each column; got {terms}")


OPERATIONS: list[type[Operation]] = [UnpackOp]
