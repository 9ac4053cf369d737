"""Matrix factorizations in LAPACK's storage: LU with pivots (getrf), QR as Householder reflections (geqrf, orgqr).

Each is a loop over columns whose steps update all matrices of a batch at once.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I32, I64
from pydispatch.graph.size_functions import minimum, one_unless_empty
from pydispatch.graph.sizes import Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations.control import for_
from pydispatch.operations.formulas import Element, formula, formulas
from pydispatch.operations.gathers import take_along
from pydispatch.operations.matrices import order_of
from pydispatch.operations.reals import Scalar
from pydispatch.operations.reductions import arg_reduce, reduce
from pydispatch.operations.shapes import broadcast_to, full, reshape
from pydispatch.operations.slicing import slice_, slice_axis


def lu(builder: Builder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the packed LU factors of x [..., m, n], the pivots, and the position of the first zero pivot.

    U is on and above the diagonal, L below it; L's diagonal is 1. The pivots [..., min(m, n)] are i32: the row that row
    j was exchanged with in step j. The position [...] is LAPACK's info. Both count from 1; a position of 0 means that
    no pivot is zero.
    """
    a = _matrices(builder, "LU", x)
    batch, m, n = a.shape
    count = minimum(m, n)

    def step(j: Size, j_scalar: Scalar, tensors: list[Tensor]) -> list[Tensor]:
        """Exchange row j with the row of the largest pivot, and eliminate column j below it.

        Args:
            j: The row and column, as a size.
            j_scalar: j as a scalar of the program.
            tensors: The matrices [batch, m, n], the pivots (the row, from 1, with which each row was exchanged), and
                the position of the first zero pivot, from 1, or 0 (info).

        Returns:
            The same after the step.
        """
        a, pivots, info = tensors
        column_j = slice_axis(builder, a, axis=2, start=j, limit=j + 1)
        row_j = slice_axis(builder, a, axis=1, start=j, limit=j + 1)
        pivot_row = _row_of_largest(builder, column_j, j_scalar)
        eliminated, pivot = _eliminated(builder, a, j, j_scalar, column_j, row_j, pivot_row)
        pivots = _with_pivot(builder, pivots, j_scalar, reshape(builder, pivot_row, (batch, 1)))
        return [eliminated, pivots, _first_zero_pivot(builder, info, j_scalar, reshape(builder, pivot, (batch,)))]

    no_pivots, no_info = full(builder, 0, (batch, count), I32), full(builder, 0, (batch,), I32)
    factors, pivots, info = _loop(builder, count, step, [a, no_pivots, no_info])
    lead = x.shape[:-2]
    return reshape(builder, factors, x.shape), reshape(builder, pivots, (*lead, count)), reshape(builder, info, lead)


def _with_pivot(builder: Builder, pivots: Tensor, j: Scalar, pivot_row: Tensor) -> Tensor:
    """Return pivots [batch, count] with the index of the pivot's row [batch, 1], counted from 1, as pivot j."""

    def element(before: Element, pivot_row: Element) -> Element:
        """Return the new pivot j; others keep the value `before`."""
        is_pivot_j = before.position(axis=1, dtype=I64).is_equal(before.element_of(j))
        return is_pivot_j.where(pivot_row.to(I32) + 1, before)

    return formula(builder, element, pivots, pivot_row)


def _first_zero_pivot(builder: Builder, info: Tensor, j: Scalar, pivot: Tensor) -> Tensor:
    """Return the position [batch] of the first zero pivot, from 1: `info` unless that is 0 and pivot j is zero."""

    def element(before: Element, pivot: Element) -> Element:
        """Return j + 1 for the first zero pivot, else the position `before`."""
        is_first = pivot.is_equal(0.0) & before.is_equal(0)
        return is_first.where(before.element_of(j).to(I32) + 1, before)

    return formula(builder, element, info, pivot)


def _row_of_largest(builder: Builder, column: Tensor, j: Scalar) -> Tensor:
    """Return the row, at or below j, of the largest element of a column [batch, m, 1], as [batch, 1, 1].

    The size of a complex element is |real| + |imag|, as in LAPACK.
    """

    def size(value: Element) -> Element:
        """Return the size of an element of the column on or below the diagonal, |real| + |imag|; -1 above it."""
        magnitude = value.real.unary("abs")
        if value.dtype.is_complex:
            magnitude = magnitude + value.imag.unary("abs")
        return (value.position(axis=1, dtype=I64) >= value.element_of(j)).where(magnitude, -1.0)

    return arg_reduce(builder, "max", formula(builder, size, column), axis=1, keep=True)


def _eliminated(
    builder: Builder, a: Tensor, j: Size, j_scalar: Scalar, column_j: Tensor, row_j: Tensor, pivot_row: Tensor
) -> tuple[Tensor, Tensor]:
    """Exchange row j of matrices with the pivot's row, and eliminate column j below it.

    Column j below the diagonal then has the factors of L: by how much row j was subtracted from each row. For j = 0 and
    the pivot's row 1, [[1, 2], [4, 6]] becomes [[4, 6], [0.25, 0.5]]: 0.25 is 1 / 4, and 0.5 is 2 - 0.25 * 6.

    Args:
        builder: The builder.
        a: The matrices [batch, m, n].
        j: The row and column, as a size.
        j_scalar: j as a scalar of the program.
        column_j: Column j before the step, [batch, m, 1].
        row_j: Row j before the step, [batch, 1, n].
        pivot_row: Index of the pivot's row, [batch, 1, 1].

    Returns:
        The matrices after the step, and the pivots [batch, 1, 1].
    """
    batch, _, n = a.shape
    new_row_j = take_along(builder, a, broadcast_to(builder, pivot_row, (batch, 1, n)), axis=1)
    corner = slice_axis(builder, row_j, axis=2, start=j, limit=j + 1)
    pivot = slice_axis(builder, new_row_j, axis=2, start=j, limit=j + 1)

    def element(
        value: Element, left: Element, old: Element, new: Element, pivot_row: Element, corner: Element, pivot: Element
    ) -> Element:
        """Return an element of a matrix after the step, from the element `value` before it.

        In column j, `left` is the element of its row, `corner` that of row j, and `pivot` that of the pivot's row,
        whose index is `pivot_row`. In the column of `value`, `old` is the element of row j, `new` that of the pivot's.
        """
        j = value.element_of(j_scalar)
        row, column = value.position(axis=1, dtype=I64), value.position(axis=2, dtype=I64)
        is_pivot_row = row.is_equal(pivot_row)  # this row contains the old row j after the exchange
        value = row.is_equal(j).where(new, is_pivot_row.where(old, value))
        left = is_pivot_row.where(corner, left)
        # A pivot has the largest magnitude of its column from row j on: if it is 0, so is `left`, and 0 / 0 is NaN.
        factor = pivot.is_equal(0.0).where(left, left / pivot)
        eliminated = column.is_equal(j).where(factor, value - factor * new)
        return ((row > j) & (column >= j)).where(eliminated, value)

    return formula(builder, element, a, column_j, row_j, new_row_j, pivot_row, corner, pivot), pivot


def qr(builder: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the packed QR factors of x [..., m, n], and the factors [..., min(m, n)] of the reflections.

    R is on and above the diagonal; below it are the vectors v of the reflections without their leading 1. A reflection
    is 1 - factor v adjoint(v).
    """
    a = _matrices(builder, "QR", x)
    batch, m, n = a.shape
    count = minimum(m, n)

    def step(j: Size, j_scalar: Scalar, tensors: list[Tensor]) -> list[Tensor]:
        """Make column j zero below the diagonal by a reflection, and record the reflection's factor.

        j is the column as a size, `j_scalar` the same as a scalar of the program.
        """
        a, factors = tensors
        reduced, _vector, factor = _column_reduced(builder, a, j, row=j)
        return [reduced, _with_factor(builder, factors, j_scalar, factor)]

    factored, factors = _loop(builder, count, step, [a, full(builder, 0.0, (batch, count), x.dtype)])
    return reshape(builder, factored, x.shape), reshape(builder, factors, (*x.shape[:-2], count))


def hessenberg(builder: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the packed Hessenberg form of x [..., n, n], and the factors [..., n - 1] of the reflections (gehrd).

    H = adjoint(Q) x Q is on and above the first subdiagonal. Q is the product of the reflections
    1 - factor v adjoint(v). The vector of reflection j is stored in column j, below row j + 1; it has a 1 in this row,
    which is not stored, and zeros above it.
    """
    n = order_of(builder, "the Hessenberg form", x)
    batch, count = product(x.shape[:-2]), n - one_unless_empty(n)  # no reflection for n = 0
    a = reshape(builder, x, (batch, n, n))

    def step(j: Size, j_scalar: Scalar, tensors: list[Tensor]) -> list[Tensor]:
        """Make column j zero below row j + 1 by a reflection, and apply it from the right too, for a similar matrix.

        `j_scalar` is j as a scalar of the program.
        """
        a, factors = tensors
        reduced, vector, factor = _column_reduced(builder, a, j, row=j + 1)
        # From the right: a (1 - factor v adjoint(v)) is a - factor (a v) adjoint(v), where `products` is a v.
        row = reshape(builder, vector, (batch, 1, n))
        products = reduce(builder, "add", ew.binary(builder, "mul", reduced, row), axes=[2], keep=True)
        # a: the reduced matrix, v: the vector as a row, p: a v, f: the factor.
        similar = formula(builder, lambda a, v, p, f: a - f * p * v.conj(), reduced, row, products, factor)
        return [similar, _with_factor(builder, factors, j_scalar, factor)]

    reduced, factors = _loop(builder, count, step, [a, full(builder, 0.0, (batch, count), x.dtype)])
    return reshape(builder, reduced, x.shape), reshape(builder, factors, (*x.shape[:-2], count))


def product_of_reflections(builder: Builder, x: Tensor, factors: Tensor) -> Tensor:
    """Return the first n columns of Q = H(0) H(1) ... H(k - 1), a product of reflections, as [..., m, n] (orgqr).

    H(j) is 1 - factor v adjoint(v) with the factor j of `factors` [..., k]. Its vector v is stored in column j of x
    [..., m, n], below the diagonal; v has a 1 in row j, which is not stored, and zeros above it.

    The loop multiplies the identity from the left by H(k - 1), then by H(k - 2), and at last by H(0).
    """
    a = _matrices(builder, "reflections", x)
    count = factors.shape[-1]
    factor_rows = reshape(builder, factors, (a.shape[0], 1, count))

    def identity_element(value: Element) -> Element:
        """Return 1 on the diagonal and 0 elsewhere, in the type of `value`."""
        row, column = value.position(axis=1, dtype=I64), value.position(axis=2, dtype=I64)
        return row.is_equal(column).where(value.const(1.0), 0.0)

    def step(index: Size, _: Scalar, products: list[Tensor]) -> list[Tensor]:
        """Multiply the only tensor of `products` from the left by H(j), where j is count - 1 - index."""
        j = count - 1 - index
        j_scalar = _scalar_of(builder, j)
        column = slice_axis(builder, a, axis=2, start=j, limit=j + 1)
        vector = formula(builder, lambda v: _with_leading_one(j_scalar, v), column)
        factor = slice_axis(builder, factor_rows, axis=2, start=j, limit=j + 1)
        return [_reflected(builder, products[0], vector, factor)]

    (q,) = _loop(builder, count, step, [formula(builder, identity_element, a)])
    return reshape(builder, q, x.shape)


def _column_reduced(builder: Builder, a: Tensor, j: Size, row: Size) -> tuple[Tensor, Tensor, Tensor]:
    """Make column j of matrices a [batch, m, n] zero below a row by a Householder reflection (LAPACK's larfg and larf).

    The adjoint of the reflection H = 1 - factor v adjoint(v) is applied; for real matrices it is H itself. It turns the
    column's element alpha in the row into beta, and the elements below it into 0. beta is the length of the column from
    the row on, with the sign opposite to that of alpha's real part. If alpha is real and the elements below it are 0
    already, the factor is 0 and beta is alpha.

    Example: the column (3, 4) with row 0 becomes (-5, 0), by v = (1, 0.5) and the factor 1.6. It is stored as
    (-5, 0.5).

    Args:
        builder: The builder.
        a: The matrices. Columns before j are not changed.
        j: The column.
        row: The row: j for a QR factorization, j + 1 for a Hessenberg form.

    Returns:
        The matrices with adjoint(H) applied to the columns after j. Column j has beta in the row, and v below it.
        The vector [batch, m, 1] of the reflection, which is 0 above the row and 1 in it.
        The factor [batch, 1, 1].
    """
    column_index, row_index = _scalar_of(builder, j), _scalar_of(builder, row)  # j and row as scalars of the program
    beta, factor, vector = _reflection(builder, a, j, row, row_index)
    # adjoint(H) is 1 - conj(factor) v adjoint(v).
    reflected = _reflected(builder, a, vector, formula(builder, lambda f: f.conj(), factor))

    def element(value: Element, new: Element, v: Element, beta: Element) -> Element:
        """Return one element of the first result of `_column_reduced`.

        Right of column j it is `new`, an element of adjoint(H) a. In column j it is beta in row `row`, and
        an element v of the reflection's vector below that row. Other elements are unchanged.
        """
        column, j = value.position(axis=2, dtype=I64), value.element_of(column_index)
        is_below, is_in_or_below = _is_below(value, row_index, "gt"), _is_below(value, row_index, "ge")
        in_column_j = is_below.where(v, is_in_or_below.where(beta, value))
        is_after, is_in_column_j = column > j, column.is_equal(j)
        return is_after.where(new, is_in_column_j.where(in_column_j, value))

    return formula(builder, element, a, reflected, vector, beta), vector, factor


def _reflection(builder: Builder, a: Tensor, j: Size, row: Size, row_index: Scalar) -> tuple[Tensor, Tensor, Tensor]:
    """Return beta [batch, 1, 1], the factor [batch, 1, 1] and the vector [batch, m, 1] of a Householder reflection.

    It makes column j of a [batch, m, n] zero below `row`, and its element in `row` beta. The factor is tau of LAPACK's
    larfg. `row_index` is `row` as a scalar of the program.
    """
    column, alpha = slice_axis(builder, a, axis=2, start=j, limit=j + 1), _element(builder, a, row, j)

    def size(value: Element) -> Element:
        """Return the larger magnitude of the real and the imaginary part of an element in or below `row`; 0 above."""
        largest = value.real.unary("abs").max(value.imag.unary("abs"))
        return _is_below(value, row_index, "ge").where(largest, 0.0)

    # The column is divided by its largest magnitude, so that the squares do not underflow.
    largest = reduce(builder, "max", formula(builder, size, column), axes=[1], keep=True)
    scale = formula(builder, lambda v: (v > 0.0).where(v, 1.0), largest)
    column, alpha = (formula(builder, _quotient, v, scale) for v in (column, alpha))

    def square(value: Element) -> Element:
        """Return the squared magnitude of an element below the row, and 0 elsewhere."""
        length = value.unary("abs")
        return _is_below(value, row_index, "gt").where(length * length, 0.0)

    squares_below = reduce(builder, "add", formula(builder, square, column), axes=[1], keep=True)
    beta, factor, divisor = formulas(builder, _beta_factor_and_divisor, alpha, squares_below, scale)
    vector = formula(builder, lambda v, by: _with_leading_one(row_index, v / by), column, divisor)
    return beta, factor, vector


def _beta_factor_and_divisor(alpha: Element, squares_below: Element, scale: Element) -> list[Element]:
    """Return beta and the factor of a reflection, and the divisor that turns the column into the reflection's vector.

    `alpha` is the element in the row and `squares_below` the sum of the squares below it, both of the column divided by
    `scale`.
    """
    length = alpha.unary("abs")
    is_reduced = squares_below.is_equal(0.0) & alpha.imag.is_equal(0.0)  # zero below the row: nothing to reflect
    # The sign is opposite to that of alpha, so that alpha - beta does not cancel.
    beta_real = -((length * length + squares_below).unary("sqrt").binary("copysign", alpha.real))
    beta = beta_real.to(alpha.dtype)
    in_row = is_reduced.where(alpha, beta) * scale.to(alpha.dtype)
    factor = is_reduced.where(0.0, (beta - alpha) / beta)
    divisor = is_reduced.where(1.0, alpha - beta)
    return [in_row, factor, divisor]


def _is_below(value: Element, row_index: Scalar, order: str) -> Element:
    """Return whether an element of a matrix is below a row (`order` is "gt"), or in or below it ("ge")."""
    return value.position(axis=1, dtype=I64).compare(order, value.element_of(row_index))


def _quotient(value: Element, by: Element) -> Element:
    """Return a real or complex element divided by a real one."""
    return (value.real / by).with_imag(value.imag / by) if value.dtype.is_complex else value / by


def _with_factor(builder: Builder, factors: Tensor, position: Scalar, factor: Tensor) -> Tensor:
    """Return factors [batch, count] with the one at a position replaced by a factor [batch, 1, 1]."""

    def replaced(old: Element, new: Element) -> Element:
        """Return the new factor at the position, and the old one elsewhere."""
        return old.position(axis=1, dtype=I64).is_equal(old.element_of(position)).where(new, old)

    return formula(builder, replaced, factors, reshape(builder, factor, (factors.shape[0], 1)))


def _matrices(builder: Builder, what: str, x: Tensor) -> Tensor:
    """Flatten the batch axes of matrices [..., m, n] to [batch, m, n]. Raise CompileError for other operands; `what`
    names the result.
    """
    if x.rank < 2 or not (x.dtype.is_float or x.dtype.is_complex):
        raise builder.fail(f"{what} of {x}: expected matrices of floats or complex numbers")
    return reshape(builder, x, [product(x.shape[:-2]), *x.shape[-2:]])


def _element(builder: Builder, x: Tensor, i: Size, j: Size) -> Tensor:
    """Return the element x[:, i, j] as [batch, 1, 1]."""
    return slice_(builder, x, starts=(0, i, j), limits=(x.shape[0], i + 1, j + 1))


def _with_leading_one(position: Scalar, value: Element) -> Element:
    """Return an element of a reflection's vector: 0 before `position`, 1 at it, `value` after it."""
    i, at = value.position(axis=1, dtype=I64), value.element_of(position)
    return (i > at).where(value, i.is_equal(at).where(value.const(1.0), 0.0))


def _reflected(builder: Builder, a: Tensor, vector: Tensor, factor: Tensor) -> Tensor:
    """Return (1 - factor v adjoint(v)) a, with v [batch, m, 1] and factor [batch, 1, 1]."""
    products = reduce(builder, "add", formula(builder, lambda a, v: v.conj() * a, a, vector), axes=[1], keep=True)
    return formula(builder, lambda a, v, p, f: a - f * v * p, a, vector, products, factor)


def _scalar_of(builder: Builder, j: Size) -> Scalar:
    """Return an index as an i64 scalar in the current block, which bodies of operations can use."""
    return Scalar(I64, (builder.add(arith.IndexCastOp(builder.index(j), I64.element)).result,))


def _loop(
    builder: Builder, count: Size, step: Callable[[Size, Scalar, list[Tensor]], list[Tensor]], tensors: list[Tensor]
) -> list[Tensor]:
    """Return the tensors after step(j, j as a scalar of the program, tensors) for each j < count."""
    if count == 0:
        return tensors
    return for_(builder, count, tensors, lambda j, state: step(j, _scalar_of(builder, j), state))
