"""Jacobi rotations: they find eigenvalues and singular values with LAPACK's accuracy, and need no branches.

A round rotates disjoint pairs of rows or columns, so that it is one operation on whole matrices: of n (even) columns it
pairs i and i + n/2. The columns then change positions as in a round-robin tournament, so that n - 1 rounds, a sweep,
pair all columns once. Sweeps are repeated until the matrix is diagonal or its columns are orthogonal.

Complex columns are rotated as real vectors of twice the length, their real parts and then their imaginary parts, after
one of each pair is multiplied by a number of length 1 that makes their product real.

Each matrix is first divided by a power of two near its largest magnitude, so that squares neither overflow nor
underflow.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, I64
from pydispatch.graph.size_functions import ceil_div, maximum
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import control, gathers, reductions, shapes, slicing
from pydispatch.operations.formulas import Element, formula, formulas

MOST_SWEEPS = 30
"""Maximum number of sweeps, for matrices that do not converge, such as those with NaN. Usual are about log2(n) + 5."""

LARGEST = 1024
"""Largest supported order of a matrix. A sweep takes time O(n^3); for larger n LAPACK's blocked methods are
much faster."""


def check_order(builder: Builder, what: str, x: Tensor, n: Size) -> None:
    """Raise CompileError if the static order of a matrix is more than LARGEST: LAPACK's methods are faster then."""
    if isinstance(n, int) and n > LARGEST:
        raise builder.fail(f"{what} of {x}: the smaller size is at most {LARGEST}")


def pair_count(n: Size) -> Size:
    """Return the number of pairs of n columns, at least 2. A single pair would have axes of size 1, which are folded
    away.
    """
    return maximum(2, ceil_div(n, 2))


def identities(builder: Builder, like: Tensor) -> Tensor:
    """Return matrices of the type and shape [batch, n, m] of `like`, with 1 on the diagonal and 0 elsewhere."""
    return formula(
        builder, lambda v: v.position(1, I64).is_equal(v.position(2, I64)).where(v.const(1.0), v.const(0.0)), like
    )


def with_padding_last(builder: Builder, values: Tensor, vectors: Tensor, n: Size, last: float) -> Tensor:
    """Return the values [batch, columns] with `last` as the value of padding columns, which sorts these to the end.

    A padding column is recognized by its vector, one of `vectors` [batch, columns, rows]. No rotation mixes padding
    with the n columns of the matrix: in the rows from n on, the vector of a padding column has the squared length 1,
    that of any other column 0.
    """
    count = vectors.shape[1]
    if count == n:
        return values
    squares = formula(builder, lambda v: v * v, slicing.slice_axis(builder, vectors, axis=2, start=n, limit=count))
    lengths = reductions.reduce(builder, "add", squares, axes=[2])
    return formula(builder, lambda v, length: (length > 0.5).where(v.const(last), v), values, lengths)


def sweep_until_converged(
    builder: Builder, n: Size, tensors: list[Tensor], rotate: Callable[[list[Tensor]], list[Tensor]],
    residual: Callable[[list[Tensor]], Tensor], reset_index: int | None = None,
) -> list[Tensor]:  # fmt: skip
    """Apply sweeps of rotations to tensors until all matrices have converged, at most MOST_SWEEPS; return the tensors.

    A round rotates n / 2 disjoint pairs of rows or columns. A sweep is n - 1 rounds, in which each pair meets once.

    Args:
        builder: The builder.
        n: Order of the matrices, even.
        tensors: The state of the iteration, at first, such as the matrices and the product of all rotations. The first
            tensor has the type of the residual.
        rotate: Function that returns the state after a round.
        residual: Function that returns the squared relative residual of each matrix. A matrix has converged if it is
            at most (n * eps)**2.
        reset_index: Index of a tensor that is set to 0 before each sweep.
    """
    dtype = tensors[0].dtype
    eps = float(np.finfo(dtype.numpy).eps)
    order = reductions.size_as(builder, n, dtype)
    # The loop carries whether another sweep follows (at first true), the number of sweeps, and the state.
    more = shapes.full(builder, value=True, shape=(), dtype=BOOL)
    count = builder.constant(0, I64)

    def has_not_converged(residual: Element, order: Element) -> Element:
        """Return whether a residual exceeds the squared rounding error of a sum of `order` products."""
        error = order * eps
        return residual > error * error

    def goes_on(carried: list[Tensor]) -> Tensor:
        """Return whether another sweep follows: the first of the carried tensors."""
        return carried[0]

    def sweep(carried: list[Tensor]) -> list[Tensor]:
        """Do every round of a sweep, and return the new carried tensors.

        They are [whether another sweep follows, number of sweeps so far, *the state that `rotate` changes]. `order` is
        the order of the matrices as a tensor, and `residual` a function of the state.
        """
        _, sweeps, *now = carried
        if reset_index is not None:  # a tensor that accumulates over one sweep, such as its largest residual
            now[reset_index] = shapes.full(builder, 0.0, now[reset_index].shape, dtype)
        now = control.for_(builder, n - 1, now, lambda _, state: rotate(state))
        # Another sweep follows if a matrix has not converged, up to MOST_SWEEPS.
        exceeds = formula(builder, has_not_converged, residual(now), order)
        has_residual = reductions.reduce(builder, "or", exceeds)
        following_count = formula(builder, lambda v: v + 1, sweeps)
        continues = formula(builder, lambda more, n: more & (n < MOST_SWEEPS), has_residual, following_count)
        return [continues, following_count, *now]

    return control.while_(builder, [more, count, *tensors], goes_on, sweep)[2:]  # the state alone


def entry_of_pairs(builder: Builder, a: Tensor, first: int, second: int) -> Tensor:
    """Return element (first, second), both 0 or 1, of the 2x2 matrix of each pair, [batch, pairs, 1].

    Pair i has rows and columns i and half + i of a [batch, n, n], so these elements are the diagonal of a quarter of a.
    """
    half = int(a.shape[1]) // 2  # type: ignore[arg-type]
    batch, pair, _ = (AffineExpr.dimension(d) for d in range(3))
    # The quarter of a: its diagonal is read as element [batch, pair, pair].
    starts = (0, first * half, second * half)
    block = slicing.slice_(builder, a, starts, (a.shape[0], starts[1] + half, starts[2] + half))
    return shapes.rearranged(builder, block, (a.shape[0], half, 1), AffineMap(3, 0, (batch, pair, pair)))


def angles(builder: Builder, p: Tensor, q: Tensor, r: Tensor) -> list[Tensor]:
    """Return cosine and sine of the rotation that diagonalizes each matrix [[p, r], [r, q]]; all have one shape."""

    def cosine_and_sine(p: Element, q: Element, r: Element) -> list[Element]:
        """Return (cosine, sine) of the rotation that makes [[p, r], [r, q]] diagonal.

        Its angle t has cot(2 t) = (q - p) / (2 r). Of the two solutions, the one with |t| <= 45 degrees is taken:
        |tan t| = 1 / (|cot 2 t| + sqrt(cot(2 t)^2 + 1)).
        """
        is_diagonal = r.is_equal(0.0)
        cotangent = (q - p) / (is_diagonal.where(1.0, r) * 2.0)  # cot(2 t)
        size = cotangent.unary("abs")
        # From 1e9 on, adding 1 to the square has no effect, and the square may overflow.
        root = (size < 1e9).where((size * size + 1.0).unary("sqrt"), size)
        tangent = (1.0 / (size + root)).binary("copysign", cotangent)
        tangent = is_diagonal.where(0.0, tangent)
        cos = 1.0 / (tangent * tangent + 1.0).unary("sqrt")
        return [cos, tangent * cos]

    return formulas(builder, cosine_and_sine, p, q, r)


def rotate_rows(builder: Builder, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair of rows of x [batch, n, k]: rows i and n / 2 + i by cos and sin [batch, n / 2, 1]."""
    half = cos.shape[1]
    first, second = slicing.split(builder, x, axis=1, sizes=[half, half])

    def rotated(u: Element, v: Element, c: Element, s: Element) -> list[Element]:
        """Return [cos u - sin v, sin u + cos v], written as small changes of u and v, which have small rounding errors.

        c and s are cos and sin. With h = s / (1 + c), cos is 1 - s h: cos u - sin v = u - s (v + h u).
        """
        half_tangent = s / (c + 1.0)  # h, the tangent of half the angle
        return [u - s * (v + half_tangent * u), v + s * (u - half_tangent * v)]

    return slicing.concat(builder, formulas(builder, rotated, first, second, cos, sin), axis=1)


def next_round(builder: Builder, x: Tensor, half: Size) -> Tensor:
    """Permute the rows of x [batch, 2 half, k] to their positions in the next round of the tournament.

    Row 0 stays. The other rows of the first half move down, those of the second half up, and two change halves: rows
    0 1 2 | 3 4 5 become 0 3 1 | 4 5 2. `half` is at least 2.
    """
    # Ranges of rows (begin, end), in the order of the next round.
    blocks = [(0, 1), (half, half + 1), (1, half - 1), (half + 1, 2 * half), (half - 1, half)]
    if isinstance(half, int):
        order = [row for begin, end in blocks for row in range(begin, end)]  # type: ignore[arg-type]
        return gathers.take(builder, x, builder.constant(order), axis=1)
    slices = [slicing.slice_axis(builder, x, axis=1, start=begin, limit=end) for begin, end in blocks]
    return slicing.concat(builder, slices, axis=1)
