"""Parts and simple forms of matrices along the last two axes."""

from __future__ import annotations

from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64, DType
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import shapes
from pydispatch.operations.formulas import Element, formula, positions


def order_of(builder: Builder, what: str, x: Tensor) -> Size:
    """Return the order of square matrices, which is checked at run time if the sizes are known only then.

    Raise CompileError for other operands; `what` names the result.
    """
    if x.rank < 2 or not (x.dtype.is_float or x.dtype.is_complex):
        raise builder.fail(f"{what} of {x}: expected matrices of floats or complex numbers")
    rows, columns = x.shape[-2:]
    if rows != columns and not isinstance(rows, Expr) and not isinstance(columns, Expr):
        raise builder.fail(f"{what} of {x}: expected square matrices")
    shape = "matrices of {a} rows and {b} columns"
    builder.require_equal(rows, columns, f"{what} of {shape}: expected square matrices")
    return rows


def identity(builder: Builder, rows: Size, columns: Size, dtype: DType, k: int = 0) -> Tensor:
    """Return a matrix with 1 on diagonal k, where the column minus the row is k, and 0 elsewhere."""
    return positions(builder, lambda e: (e.at(1) - e.at(0)).is_equal(k).to(dtype), (rows, columns))


def triangle(builder: Builder, x: Tensor, order: str, k: Tensor) -> Tensor:
    """Return x [..., m, n] with 0 except where the column minus the row is at most ("le") or at least ("ge") k.

    `order` is "le" for a lower and "ge" for an upper triangle; k is a tensor of one i64.
    """
    row, column = x.rank - 2, x.rank - 1

    def element_of_triangle(value: Element, k: Element) -> Element:
        """Return the element if it is in the triangle (column - row is `order` k), else 0."""
        distance = value.position(column, I64) - value.position(row, I64)
        return distance.compare(order, k).where(value, value.const(0))

    return formula(builder, element_of_triangle, x, shapes.reshape(builder, k, []))


def diagonals(builder: Builder, x: Tensor) -> Tensor:
    """Return the diagonals of square matrices x [batch, n, n] as [batch, 1, n]."""
    row, _, position = (AffineExpr.dimension(d) for d in range(3))
    return shapes.rearranged(builder, x, (x.shape[0], 1, x.shape[2]), AffineMap(3, 0, (row, position, position)))


def adjoint(builder: Builder, x: Tensor) -> Tensor:
    """Return the conjugate transposes of matrices [..., m, n]."""
    transposed = shapes.transpose(builder, x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])
    return formula(builder, lambda v: v.conj(), transposed) if x.dtype.is_complex else transposed
