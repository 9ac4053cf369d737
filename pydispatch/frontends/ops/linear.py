"""Cholesky's factorization and triangular systems: a loop over columns, of which each step is one operation."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import I64
from pydispatch.frontends.graph.sizes import Expr, Size, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops.control import for_
from pydispatch.frontends.ops.indexing import reverse
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.scalars import Scalars
from pydispatch.frontends.ops.shapes import rearranged, reshape, slice_, slice_axis, transpose


def cholesky(b: Builder, x: Tensor, lower: bool = True) -> Tensor:
    """L of x = L adjoint(L), or adjoint(L) where not `lower`. x: [..., n, n] of floats or complex numbers.

    Only one triangle of x is read: the lower one, or the upper one where not `lower`. Of a matrix that is not positive
    definite there are NaN in the result.
    """
    n = _order(b, "Cholesky's factorization", x)
    a = reshape(b, x, [product(x.shape[:-2]), n, n])
    a = a if lower else _adjoint(b, a)

    def step(j: Size, place: Scalar, a: Tensor) -> Tensor:
        """Subtract the part of column j in the product from the elements right of column j and below row j."""
        column, pivot = slice_axis(b, a, 2, j, j + 1), _element(b, a, j)
        row = _adjoint(b, column)

        def element(s: Scalars, value: Scalar, left: Scalar, above: Scalar, pivot: Scalar) -> Scalar:
            later = s.binary("and", *(s.compare("gt", s.position(d), place) for d in (1, 2)))
            part = s.binary("div", s.binary("mul", left, above), _real(s, pivot))
            return s.select(later, s.binary("sub", value, part), value)

        return ew.apply(b, element, a, column, row, pivot)

    a = _loop(b, n, step, a)
    diagonal = _diagonal(b, a)

    def factor(s: Scalars, value: Scalar, pivot: Scalar) -> Scalar:
        below = s.compare("le", s.position(2), s.position(1))
        return s.select(below, s.binary("div", value, s.unary("sqrt", _real(s, pivot))), s.const(0.0, a.dtype))

    made = ew.apply(b, factor, a, diagonal)
    return reshape(b, made if lower else _adjoint(b, made), x.shape)


def _adjoint(b: Builder, x: Tensor) -> Tensor:
    """Return the conjugate transpose of matrices."""
    made = transpose(b, x, [0, 2, 1])
    return ew.apply(b, lambda s, v: s.conj(v), made) if x.dtype.is_complex else made


def _real(s: Scalars, value: Scalar) -> Scalar:
    """Return an element of the diagonal of a Hermitian matrix, whose imaginary part is taken to be 0."""
    return s.convert(s.real(value), value.dtype)


def triangular_solve(
    b: Builder, a: Tensor, y: Tensor, *, left: bool = True, lower: bool = True, transposed: bool = False,
    conjugated: bool = False, unit: bool = False,
) -> Tensor:  # fmt: skip
    """x of op(a) x = y, or of x op(a) = y where not `left`; op transposes where `transposed` and
    conjugates where `conjugated`.

    a: [..., n, n] of floats or complex numbers, of which only the lower or upper triangle is read, without its diagonal
    where `unit`: that is 1 then. y: [..., n, m], or [..., m, n] where not `left`.
    """
    n = _order(b, "a triangular system", a)
    if y.rank != a.rank or y.dtype != a.dtype or y.shape[-2 if left else -1] != n:
        raise b.fail(f"a triangular system of {a} with {y}: their types and sizes do not fit each other")
    lead = product(a.shape[:-2])
    matrix, given = reshape(b, a, [lead, n, n]), reshape(b, y, [lead, *y.shape[-2:]])
    if conjugated and a.dtype.is_complex:
        matrix = ew.apply(b, lambda s, v: s.conj(v), matrix)
    if not left:  # transpose(op(a)) transpose(x) = transpose(y)
        given, transposed = transpose(b, given, [0, 2, 1]), not transposed
    if transposed:
        matrix, lower = transpose(b, matrix, [0, 2, 1]), not lower
    if not lower:  # from the last row on
        matrix, given = reverse(b, matrix, [1, 2]), reverse(b, given, [1])

    def step(j: Size, place: Scalar, x: Tensor) -> Tensor:
        """Solve row j, and subtract its part from the rows below it."""
        column, row, pivot = slice_axis(b, matrix, 2, j, j + 1), slice_axis(b, x, 1, j, j + 1), _element(b, matrix, j)

        def element(s: Scalars, value: Scalar, factor: Scalar, row: Scalar, pivot: Scalar) -> Scalar:
            solved = row if unit else s.binary("div", row, pivot)
            at = s.position(1)
            rest = s.select(s.compare("gt", at, place), s.binary("sub", value, s.binary("mul", factor, solved)), value)
            return s.select(s.compare("eq", at, place), solved, rest)

        return ew.apply(b, element, x, column, row, pivot)

    made = _loop(b, n, step, given)
    made = made if lower else reverse(b, made, [1])
    return reshape(b, made if left else transpose(b, made, [0, 2, 1]), y.shape)


def _order(b: Builder, what: str, x: Tensor) -> Size:
    """Return the order of square matrices."""
    if x.rank < 2 or not (x.dtype.is_float or x.dtype.is_complex):
        raise b.fail(f"{what} of {x}: expected matrices of floats or complex numbers")
    rows, columns = x.shape[-2:]
    if rows != columns and not isinstance(rows, Expr) and not isinstance(columns, Expr):
        raise b.fail(f"{what} of {x}: expected square matrices")
    return rows


def _element(b: Builder, x: Tensor, j: Size) -> Tensor:
    """x[:, j, j] as [rows, 1, 1]."""
    return slice_(b, x, (0, j, j), (x.shape[0], j + 1, j + 1))


def _diagonal(b: Builder, x: Tensor) -> Tensor:
    """[rows, 1, n] with the diagonals of x [rows, n, n]."""
    row, _, place = (AffineExpr.dimension(d) for d in range(3))
    return rearranged(b, x, (x.shape[0], 1, x.shape[2]), AffineMap(3, 0, (row, place, place)))


def _loop(b: Builder, count: Size, step: Callable[[Size, Scalar, Tensor], Tensor], x: Tensor) -> Tensor:
    """x after step(j, j as an element, x) for each j < count."""

    def body(j: Size, tensors: list[Tensor]) -> list[Tensor]:
        place = b.add(arith.IndexCastOp(b.index(j), I64.element)).result
        return [step(j, Scalar(I64, (place,)), tensors[0])]

    return x if count == 0 else for_(b, count, [x], body)[0]
