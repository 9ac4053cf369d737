"""`pyd.read_tile` and `pyd.matmul`: operations of a whole workgroup on tiles in its memory, in kernel IR."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition


@op_definition
class ReadTileOp(IRDLOperation):
    """Load of a tile into workgroup memory, `pyd.read_tile %view[%row, %column], %tile turned : memref<?x?xf32>,
    memref<RxCxf32, …>`.

    tile[r, c] = view[row + r, column + c], or zero out of bounds. With `turned`, the tile is transposed:
    tile[r, c] = view[row + c, column + r].
    The shape of the tile is static. The workgroup executes the load together, outside of parallel loops.
    """

    name = "pyd.read_tile"
    view = operand_def(MemRefType)
    row = operand_def(IndexType)
    column = operand_def(IndexType)
    tile = operand_def(MemRefType)
    turned = opt_prop_def(UnitAttr)
    assembly_format = (
        "$view `[` $row `,` $column `]` `,` $tile (`turned` $turned^)? attr-dict `:` type($view) `,` type($tile)"
    )

    def verify_(self) -> None:
        """Check that the view and the tile are matrices of one element type, and that the tile's sizes are static."""
        view, tile = self.view.type, self.tile.type
        assert isinstance(view, MemRefType) and isinstance(tile, MemRefType)
        if view.get_num_dims() != 2 or tile.get_num_dims() != 2 or any(n < 1 for n in tile.get_shape()):
            raise VerifyException(f"pyd.read_tile reads a part of a matrix into a static one, got {view} and {tile}")
        if view.element_type != tile.element_type:
            raise VerifyException(f"pyd.read_tile of {view} into {tile}: their elements differ")


@op_definition
class MatmulOp(IRDLOperation):
    """Product of tiles in workgroup memory, C += A·B: `pyd.matmul %a, %b, %c : memref<MxKxf32, …>, memref<KxNxf32, …>,
    memref<MxNxf32, …>`.

    The tiles are static; the workgroup computes the product together, outside of parallel loops. All have one element
    type, or A and B are f16 or bf16 and C is f32, or A and B are i8 and C is i32. Floating-point products and sums may
    be fused. Sums are in the order of K, except that tensor cores add sixteen steps at a time.
    """

    name = "pyd.matmul"
    a = operand_def(MemRefType)
    b = operand_def(MemRefType)
    c = operand_def(MemRefType)
    assembly_format = "$a `,` $b `,` $c attr-dict `:` type($a) `,` type($b) `,` type($c)"

    def verify_(self) -> None:
        """Check the sizes of the matrices, which must be static, and their element types.

        C must have a type in which products of elements of A and B may be accumulated.
        """
        a, b, c = (v.type for v in self.operands)
        assert isinstance(a, MemRefType) and isinstance(b, MemRefType) and isinstance(c, MemRefType)
        if any(t.get_num_dims() != 2 or min(t.get_shape()) < 1 for t in (a, b, c)):
            raise VerifyException(f"pyd.matmul takes static matrices, got {a}, {b} and {c}")
        (m, k), (k_of_b, n) = a.get_shape(), b.get_shape()
        if k != k_of_b or (m, n) != tuple(c.get_shape()):
            raise VerifyException(f"pyd.matmul of {a} and {b} is not {c}")
        if a.element_type != b.element_type or c.element_type not in sums_of(a.element_type):
            raise VerifyException(f"pyd.matmul of {a.element_type} and {b.element_type} into {c.element_type}")


def sums_of(element: Attribute) -> tuple[Attribute, ...]:
    """Return the types in which products of two elements of this type may be accumulated; () if they have none."""
    if isinstance(element, Float16Type | BFloat16Type):
        return (Float32Type(),)
    if element == IntegerType(8):
        return (IntegerType(32),)
    if isinstance(element, Float32Type | Float64Type) or element in (IntegerType(32), IntegerType(64)):
        return (element,)
    return ()


OPERATIONS: list[type[Operation]] = [ReadTileOp, MatmulOp]
