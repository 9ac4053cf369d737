"""Cholesky factorization and triangular systems, as loops over columns whose steps are single operations."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Size, differ, product
from pydispatch.graph.values import Tensor
from pydispatch.operations.control import for_
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.indexing import reverse
from pydispatch.operations.matrices import adjoint, diagonals, order_of
from pydispatch.operations.reals import Scalar
from pydispatch.operations.shapes import reshape, transpose
from pydispatch.operations.slicing import slice_, slice_axis


def cholesky(builder: Builder, x: Tensor, lower: bool = True) -> Tensor:
    """Return the Cholesky factor L of x = L adjoint(L); adjoint(L) if not `lower`.

    x is [..., n, n] of floats or complex numbers, of which only the lower (or upper) triangle is read. The factor
    contains NaN if x is not positive definite.

    This is right-looking Cholesky: step j subtracts the part of x that column j of L contributes from the elements to
    the right of and below it. After all steps column j holds L[:, j] * L[j, j], and the diagonal L[j, j]^2.
    """
    n = order_of(builder, "Cholesky's factorization", x)
    a = reshape(builder, x, [product(x.shape[:-2]), n, n])
    a = a if lower else adjoint(builder, a)  # from here on only the lower triangle is used

    def step(j: Size, step_number: Scalar, a: Tensor) -> Tensor:
        """Subtract the outer product of column j from the elements to the right of and below the diagonal element j.

        Of a [batch, n, n] only the lower triangle is used. `step_number` is the same number as j: j bounds slices, and
        formulas compare positions with `step_number`.
        """
        column, pivot = slice_axis(builder, a, axis=2, start=j, limit=j + 1), _diagonal_element(builder, a, j)
        row = adjoint(builder, column)

        def element(value: Element, left: Element, above: Element, pivot: Element) -> Element:
            """Return an element minus its part of the outer product, left * above / pivot, right of and below the
            diagonal element j.

            `left` is the element of column j in the same row, `above` that of row j in the same column.
            """
            column_number = value.element_of(step_number)
            row_of_element, column_of_element = value.position(axis=1, dtype=I64), value.position(axis=2, dtype=I64)
            is_later = (row_of_element > column_number) & (column_of_element > column_number)
            return is_later.where(value - left * above / _real(pivot), value)

        return formula(builder, element, a, column, row, pivot)

    # The columns are divided by the roots of their pivots at the end, all at once.
    a = _loop(builder, n, step, a)

    def factor(value: Element, pivot: Element) -> Element:
        """Return an element of the triangle divided by the root of its pivot; 0 above the diagonal."""
        is_in_triangle = value.position(axis=2, dtype=I64) <= value.position(axis=1, dtype=I64)
        return is_in_triangle.where(value / _real(pivot).unary("sqrt"), 0.0)

    triangle = formula(builder, factor, a, diagonals(builder, a))
    return reshape(builder, triangle if lower else adjoint(builder, triangle), x.shape)


def _real(value: Element) -> Element:
    """Return a diagonal element of a Hermitian matrix with its imaginary part set to 0."""
    return value.real.to(value.dtype)


def triangular_solve(
    builder: Builder, a: Tensor, y: Tensor, *, left: bool = True, lower: bool = True, transposed: bool = False,
    conjugated: bool = False, has_unit_diagonal: bool = False,
) -> Tensor:  # fmt: skip
    """Solve op(a) x = y, or x op(a) = y if not `left`. op transposes if `transposed`, and conjugates if `conjugated`.

    a is [..., n, n] of floats or complex numbers. Only its lower or upper triangle is read; with `has_unit_diagonal`
    its diagonal is 1 and not read. y is [..., n, m], or [..., m, n] if not `left`.
    """
    n = order_of(builder, "a triangular system", a)
    if y.rank != a.rank or y.dtype != a.dtype or differ(y.shape[-2 if left else -1], n):
        raise builder.fail(f"a triangular system of {a} with {y}: their types and sizes do not fit each other")
    builder.require_equal(  # a failure replaces {a} and {b} by the two sizes
        y.shape[-2 if left else -1], n, f"a triangular system of {a} with {y}: {{a}} equations, and the order is {{b}}"
    )
    lead = product(a.shape[:-2])
    # The systems are rewritten until they are matrix x = sides with a lower triangular matrix.
    matrix, sides = reshape(builder, a, [lead, n, n]), reshape(builder, y, [lead, *y.shape[-2:]])
    if conjugated and a.dtype.is_complex:
        matrix = formula(builder, lambda v: v.conj(), matrix)
    if not left:  # transpose(op(a)) transpose(x) = transpose(y)
        sides, transposed = transpose(builder, sides, [0, 2, 1]), not transposed
    if transposed:
        matrix, lower = transpose(builder, matrix, [0, 2, 1]), not lower
    # An upper triangular matrix is lower triangular with its rows and columns in reverse order. The rows of the
    # right-hand sides and of the solution are then reversed too.
    if not lower:
        matrix, sides = reverse(builder, matrix, axes=[1, 2]), reverse(builder, sides, axes=[1])
    solution = _solve_lower(builder, matrix, sides, has_unit_diagonal)
    solution = solution if lower else reverse(builder, solution, axes=[1])
    return reshape(builder, solution if left else transpose(builder, solution, [0, 2, 1]), y.shape)


def _solve_lower(builder: Builder, matrix: Tensor, sides: Tensor, has_unit_diagonal: bool) -> Tensor:
    """Solve matrix x = sides by forward substitution, for lower triangular matrices [batch, n, n] and [batch, n, m]."""

    def step(j: Size, step_number: Scalar, x: Tensor) -> Tensor:
        """Solve row j of x, and subtract its contribution from the rows below it.

        Rows before j of x are those of the solution; the others are right-hand sides from which the contributions of
        these rows are subtracted. `matrix` are the lower triangular matrices [batch, n, n]; with `has_unit_diagonal`
        their diagonal is 1. `step_number` is the same number as j: j bounds slices, and formulas compare positions with
        `step_number`.
        """
        column, row, pivot = (
            slice_axis(builder, matrix, axis=2, start=j, limit=j + 1),
            slice_axis(builder, x, axis=1, start=j, limit=j + 1),
            _diagonal_element(builder, matrix, j),
        )

        def element(value: Element, factor: Element, in_row_j: Element, on_diagonal: Element) -> Element:
            """Return the new value of an element of x: solved in row j, less the contribution of row j in later rows.

            `factor` is the element of the matrix in column j, `in_row_j` that of row j of x in the same column.
            """
            solved = in_row_j if has_unit_diagonal else in_row_j / on_diagonal  # element of row j of the solution
            row_of_element, row_number = value.position(axis=1, dtype=I64), value.element_of(step_number)
            unsolved = (row_of_element > row_number).where(value - factor * solved, value)
            return row_of_element.is_equal(row_number).where(solved, unsolved)

        return formula(builder, element, x, column, row, pivot)

    return _loop(builder, matrix.shape[1], step, sides)


def _diagonal_element(builder: Builder, x: Tensor, j: Size) -> Tensor:
    """Return the diagonal element x[:, j, j] as [batch, 1, 1]."""
    return slice_(builder, x, starts=(0, j, j), limits=(x.shape[0], j + 1, j + 1))


def _loop(builder: Builder, count: Size, step: Callable[[Size, Scalar, Tensor], Tensor], x: Tensor) -> Tensor:
    """Return x after `x = step(j, scalar, x)` for j = 0, ..., count - 1; `scalar` is j as an i64 of the program."""

    def body(j: Size, tensors: list[Tensor]) -> list[Tensor]:
        """Run one step, with j as a scalar too."""
        step_number = builder.add(arith.IndexCastOp(builder.index(j), I64.element)).result
        return [step(j, Scalar(I64, (step_number,)), tensors[0])]

    return x if count == 0 else for_(builder, count, [x], body)[0]
