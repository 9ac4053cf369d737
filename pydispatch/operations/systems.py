"""Linear systems, determinants and QR factors of batches of matrices, from the packed factors of `factors`.

Tridiagonal systems are eliminated row by row.
"""

from __future__ import annotations

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I32, I64, DType
from pydispatch.graph.size_functions import minimum, one_unless_empty
from pydispatch.graph.sizes import Size, differ, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import control, factors, linear, matrices, reductions, shapes, slicing
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import Element, formula, formulas
from pydispatch.operations.sequences import row

_NO_POSITION = 2**31 - 1
"""Largest i32: beyond the position of every pivot, so that a minimum ignores it."""


def broadcast_batches(builder: Builder, a: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Broadcast the batch axes, all but the last two, of two batches of matrices to a common shape."""
    lead = ew.broadcast_shape(builder, a.shape[:-2], y.shape[:-2])
    return tuple(shapes.broadcast_to(builder, v, [*lead, *v.shape[-2:]]) for v in (a, y))  # type: ignore[return-value]


def solve(builder: Builder, a: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Solve a x = y for matrices a [..., n, n] and y [..., n, m]. Return x [..., n, m] and statuses [...].

    The status of a system is the position of the first zero pivot, counted from 1, or 0 if no pivot is zero. LU
    elimination of [a y] leaves [U, L^-1 P y], so that only the triangular system with U remains.
    """
    n = matrices.order_of(builder, "a linear system", a)
    operands = broadcast_batches(builder, a, y)
    # `failed` has the position of the first zero pivot of each system.
    factored, _, failed = factors.lu(builder, slicing.concat(builder, list(operands), operands[0].rank - 1))
    last = factored.rank - 1
    matrix = slicing.slice_axis(builder, factored, last, start=0, limit=n)
    right = slicing.slice_axis(builder, factored, last, n, factored.shape[last])
    return linear.triangular_solve(builder, matrix, right, lower=False), failed


def tridiagonal_solve(
    builder: Builder, lower: Tensor, diagonal: Tensor, upper: Tensor, y: Tensor
) -> tuple[Tensor, Tensor]:
    """Solve a x = y for tridiagonal matrices a. Return x [..., n, m] and statuses [...].

    A tridiagonal matrix is 0 but for the diagonal and the elements next to it. It is passed as these three bands:
    [[1, 2, 0], [3, 4, 5], [0, 6, 7]] has lower = [-, 3, 6], diagonal = [1, 4, 7] and upper = [2, 5, -].

    The status of a system is the position of the first zero pivot, counted from 1, or 0 if no pivot is zero.

    The algorithm is elimination with partial pivoting, like LAPACK's gtsv: time and memory are linear in n.

    Args:
        builder: The builder of the program.
        lower: Element a[i, i - 1] of each row i, [..., n]; the first one is not read.
        diagonal: Element a[i, i] of each row, [..., n].
        upper: Element a[i, i + 1] of each row, [..., n]; the last one is not read.
        y: The right-hand sides, [..., n, m].
    """
    bands = _bands_of_sides(builder, [lower, diagonal, upper], y)
    *_, n, count = y.shape
    shape = y.shape[:-1]
    if n == 0:
        return y, shapes.full(builder, 0, shape[:-1], I32)
    batch = product(shape[:-1])
    # Rows are the first axis, since the elimination goes through them in a loop.
    sides = shapes.transpose(builder, shapes.reshape(builder, y, [batch, n, count]), [1, 0, 2])
    below, diagonals, above = (
        shapes.transpose(builder, shapes.reshape(builder, v, [batch, n, 1]), [1, 0, 2]) for v in bands
    )
    eliminated = _eliminate_below_diagonal(builder, [below, diagonals, _without_last(builder, above)], sides)
    solution = _solve_three_bands(builder, eliminated)
    status = _first_zero_pivots(builder, eliminated[0])
    solution = shapes.reshape(builder, shapes.transpose(builder, solution, [1, 0, 2]), y.shape)
    return solution, shapes.reshape(builder, status, shape[:-1])


def _bands_of_sides(builder: Builder, bands: list[Tensor], y: Tensor) -> list[Tensor]:
    """Return the bands [..., n] of tridiagonal systems with the sizes of their right-hand sides y [..., n, m].

    Raise CompileError if types or sizes are known to differ; dynamic sizes are compared in each call.
    """
    message = (
        f"a tridiagonal system of {', '.join(map(str, bands))} with {y}: their types and sizes do not fit each other"
    )
    for band in bands:
        pairs = list(zip(band.shape, y.shape, strict=False))
        is_of_sides = band.rank >= 1 and band.rank == y.rank - 1 and band.dtype == y.dtype
        if not is_of_sides or any(differ(*pair) for pair in pairs):
            raise builder.fail(message)
        for pair in pairs:
            builder.require_equal(*pair, message)
    return [builder.as_shape(band, y.shape[:-1]) for band in bands]


def _without_last(builder: Builder, band: Tensor) -> Tensor:
    """Return a band [n, batch, 1] with 0 for its last element.

    The caller may pass anything there, such as NaN, and back substitution multiplies it by an unknown that is 0.
    """
    last_count = one_unless_empty(band.shape[0])
    others = slicing.slice_axis(builder, band, axis=0, start=0, limit=band.shape[0] - last_count)
    return slicing.pad(builder, others, low=[0, 0, 0], high=[last_count, 0, 0], value=0.0)


def _eliminate_below_diagonal(builder: Builder, bands: list[Tensor], sides: Tensor) -> list[Tensor]:
    """Transform tridiagonal systems into triangular ones with the same solutions: return the diagonal, the two bands
    above it and the right-hand sides.

    In step i, row i is exchanged with row i + 1 if the latter has the larger element in column i. The exchange fills
    the second band above the diagonal. A multiple of row i is then subtracted from row i + 1, whose element in column i
    becomes 0. For example, the system of the rows [1, 2 | 5] and [3, 4 | 6] becomes [3, 4 | 6] and [0, 2/3 | 3].

    The bands are [n, batch, 1], the sides [n, batch, m], before and after the elimination; `bands` are the band below
    the diagonal, the diagonal and the band above it, whose last element is 0.
    """
    n, batch, count = sides.shape
    # Step i eliminates row i with row i + 1. A row of zeros follows the last row, which step n - 1 leaves as it is.
    following = [slicing.pad(builder, v, low=[0, 0, 0], high=[1, 0, 0], value=0.0) for v in (*bands, sides)]

    def step(index: Size, carried: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Eliminate row `index`, of which `carried` has the diagonal, the band above it and the right-hand sides.

        Return the same of row `index` + 1, which is read from `following`, and the finished row: three bands and the
        right-hand sides.
        """
        pivot, above, side = carried
        low, middle, high, next_side = (row(builder, v, index + 1) for v in following)
        *eliminated, remaining_pivot, remaining_above = formulas(
            builder, _eliminate_bands, pivot, above, low, middle, high
        )
        eliminated_side, remaining_side = formulas(builder, _eliminate_sides, side, next_side, pivot, low)
        return [remaining_pivot, remaining_above, remaining_side], [*eliminated, eliminated_side]

    start = [row(builder, v, n=0) for v in following[1:]]  # exists also if there are no rows
    rows = [(sides.dtype, (batch, width)) for width in (1, 1, 1, count)]  # three bands and the right-hand sides
    return control.scan(builder, n, start, step, rows=rows)[1]


def _choose_pivot(pivot: Element, low: Element) -> tuple[Element, Element]:
    """Return whether a row and the next one are exchanged, and the multiple of the first that is then subtracted from
    the second.

    They are exchanged if `low`, the element of the next row in the pivot's column, is larger than the pivot.
    """
    swaps = low.unary("abs") > pivot.unary("abs")
    larger, smaller = swaps.where(low, pivot), swaps.where(pivot, low)
    # If the larger element is zero, so is the smaller one: the factor is 0 / 1.
    return swaps, smaller / larger.is_equal(0.0).where(larger.const(1.0), larger)


def _first_zero_pivots(builder: Builder, pivots: Tensor) -> Tensor:
    """Return the position [batch] of each system's first zero pivot, counted from 1; 0 if none is zero.

    pivots: the pivots of all systems, [n, batch, 1].
    """

    def position_if_zero(pivot: Element) -> Element:
        """Return the position of a pivot, counted from 1, if it is zero; else _NO_POSITION."""
        return pivot.is_equal(0.0).where(pivot.position(0, I32) + 1, _NO_POSITION)

    first_zero = reductions.reduce(builder, "min", formula(builder, position_if_zero, pivots), axes=[0, 2])
    return formula(builder, lambda at: (at < _NO_POSITION).where(at, 0), first_zero)


def _eliminate_bands(pivot: Element, above: Element, low: Element, middle: Element, high: Element) -> list[Element]:
    """Return the three bands of the eliminated row, and the two of the remaining next row.

    The row has the elements `pivot` and `above` (its third band is 0), the next one `low`, `middle` and `high`. An
    exchange fills the third band. Without an exchange, [pivot, above, 0] stays, and the next row becomes
    [middle - factor * above, high] for the factor low / pivot.
    """
    swaps, factor = _choose_pivot(pivot, low)
    first, second = swaps.where(middle, above), swaps.where(high, high.const(0.0))
    remaining = swaps.where(above, middle), swaps.where(high.const(0.0), high)
    return [swaps.where(low, pivot), first, second, remaining[0] - factor * first, remaining[1] - factor * second]


def _eliminate_sides(side: Element, next_side: Element, pivot: Element, low: Element) -> list[Element]:
    """Return the right-hand sides of the eliminated row and of the remaining next row."""
    swaps, factor = _choose_pivot(pivot, low)
    eliminated = swaps.where(next_side, side)
    return [eliminated, swaps.where(side, next_side) - factor * eliminated]


def _solve_three_bands(builder: Builder, eliminated: list[Tensor]) -> Tensor:
    """Return the solutions [n, batch, m] of triangular systems with two bands above the diagonal.

    eliminated: the diagonal and the two bands, [n, batch, 1], and the right-hand sides, [n, batch, m].
    """
    sides = eliminated[-1]

    def step(index: Size, carried: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Solve row `index` of `eliminated`. Carried are the solutions of the next row and of the one after it."""
        bands_and_side = [row(builder, tensor, index) for tensor in eliminated]
        new = formula(builder, _unknown, *bands_and_side, *carried)
        return [new, carried[0]], [new]

    # The loop goes from the last row to the first. The two unknowns after the last row count as 0.
    zeros = shapes.full(builder, 0.0, sides.shape[1:], sides.dtype)
    rows = [(sides.dtype, sides.shape[1:])]
    _, (solution,) = control.scan(builder, sides.shape[0], [zeros, zeros], step, rows=rows, backwards=True)
    return solution


def _unknown(pivot: Element, first: Element, second: Element, side: Element, x: Element, y: Element) -> Element:
    """Return the unknown of a row from x and y, those of the next two rows, with factors `first` and `second`."""
    return (side - first * x - second * y) / pivot


def determinant(builder: Builder, factored: Tensor, pivots: Tensor) -> Tensor:
    """Return the determinants of matrices from their packed LU factors and pivots, which `factors.lu` returns."""
    pivot = _pivots_on_diagonal(builder, "the determinant", factored)
    product_of_pivots = reductions.reduce(builder, "mul", pivot, [-1])
    return ew.binary(builder, "mul", product_of_pivots, _permutation_sign(builder, pivots, factored.dtype))


def log_determinant(builder: Builder, factored: Tensor, pivots: Tensor) -> tuple[Tensor, Tensor]:
    """Return the signs and the logarithms of the magnitudes of determinants. Arguments: see `determinant`."""
    pivot = _pivots_on_diagonal(builder, "the logarithm of the determinant", factored)
    signs = reductions.reduce(builder, "mul", ew.unary(builder, "sign", pivot), [-1])
    logs = formula(builder, lambda v: v.unary("abs").unary("log"), pivot)
    sign = ew.binary(builder, "mul", signs, _permutation_sign(builder, pivots, factored.dtype))
    return sign, reductions.reduce(builder, "add", logs, [-1])


def qr(builder: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q and R of matrices [..., m, n]: [..., m, k] with orthonormal columns, and the triangle [..., k, n].

    k is the smaller of m and n.
    """
    k = minimum(*x.shape[-2:])
    factored, scales = factors.qr(builder, x)
    rows = slicing.slice_axis(builder, factored, x.rank - 2, start=0, limit=k)
    upper = matrices.triangle(builder, rows, "ge", builder.constant(0, I64))
    return factors.product_of_reflections(
        builder, slicing.slice_axis(builder, factored, x.rank - 1, start=0, limit=k), scales
    ), upper


def _pivots_on_diagonal(builder: Builder, what: str, factored: Tensor) -> Tensor:
    """Return the diagonals of LU factors of square matrices [..., n, n] as [..., n].

    Raise CompileError for matrices that are not square; `what` names the caller's result in the message.
    """
    n = matrices.order_of(builder, what, factored)
    flat = shapes.reshape(builder, factored, [product(factored.shape[:-2]), n, n])
    return shapes.reshape(builder, matrices.diagonals(builder, flat), factored.shape[:-1])


def _permutation_sign(builder: Builder, pivots: Tensor, dtype: DType) -> Tensor:
    """Return 1 or -1: the determinant of the permutation that LAPACK's row exchanges `pivots` describe."""
    index = shapes.iota(builder, pivots.shape, pivots.rank - 1, I32)
    # Pivots count from 1: row i stays if its pivot is i + 1, and each exchange of two rows changes the sign.
    signs = formula(builder, lambda p, i: p.is_equal(i + 1).where(p.const(1), p.const(-1)), pivots, index)
    return ew.convert(builder, reductions.reduce(builder, "mul", signs, [-1]), dtype)
