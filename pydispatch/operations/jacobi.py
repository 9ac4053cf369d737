"""Eigenvalues and singular values by Jacobi rotations, which have LAPACK's accuracy and need no branches.

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
from pydispatch.graph.dtypes import BOOL, F32, F64, I64
from pydispatch.graph.sizes import Size, ceil_div, maximum, minimum, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import control, factors, gathers, matrices, ordering, reductions, shapes, slicing
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import Element, formula, formulas
from pydispatch.operations.joined_parts import (
    times_imaginary_unit,
    times_number,
    unit_conjugate,
    with_parts_joined,
    with_parts_split,
)
from pydispatch.operations.scaling import scaled_to_one

MOST_SWEEPS = 30
"""Maximum number of sweeps, for matrices that do not converge, such as those with NaN. Usual are about log2(n) + 5."""

LARGEST = 1024
"""Largest supported order of a matrix. A sweep takes time O(n^3); for larger n LAPACK's blocked methods are
much faster."""


def eigh(builder: Builder, x: Tensor, lower: bool = True) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues of symmetric matrices in ascending order, and the normalized eigenvectors as columns.

    x is [..., n, n] of f32 or f64. Only its lower or upper triangle is read.
    """
    n = _checked_order(builder, "eigenvalues", x)
    if n == 0:
        return shapes.reshape(builder, x, x.shape[:-1]), x
    a = shapes.reshape(builder, x, [product(x.shape[:-2]), n, n])
    flipped = shapes.transpose(builder, a, [0, 2, 1])

    def symmetric(value: Element, mirror_image: Element) -> Element:
        """Return an element of the triangle that is read, or its mirror image across the diagonal."""
        i, j = value.position(1, I64), value.position(2, I64)
        return (i >= j if lower else i <= j).where(value, mirror_image)

    a, scale = scaled_to_one(builder, formula(builder, symmetric, a, flipped), axes=[1, 2])
    half = _pair_count(n)
    even = 2 * half
    a = slicing.pad(builder, a, low=[0, 0, 0], high=[0, even - n, even - n], value=0.0)

    def rotate(tensors: list[Tensor]) -> list[Tensor]:
        """Rotate all pairs of rows and columns of a round, and move them to the pairs of the next.

        The tensors are the matrices and the eigenvectors found so far, as rows.
        """
        a, vectors = tensors
        # The elements of the symmetric 2x2 matrix of each pair: first and second of the diagonal, off the diagonal.
        cos, sin = _angles(builder, *(_entry(builder, a, first, second) for first, second in ((0, 0), (1, 1), (0, 1))))
        # Rows are rotated, then those of the transpose, which are the columns; then both are moved.
        a = shapes.transpose(builder, _rotate_rows(builder, a, cos, sin), [0, 2, 1])
        a = _next_round(builder, _rotate_rows(builder, a, cos, sin), half)
        a = _next_round(builder, shapes.transpose(builder, a, [0, 2, 1]), half)
        return [a, _next_round(builder, _rotate_rows(builder, vectors, cos, sin), half)]

    def quotient(part: Element, whole: Element) -> Element:
        """Return part / whole; 0 for a part of 0 or NaN, also if the whole is 0."""
        least = 1e-300 if whole.dtype == F64 else 1e-37  # about the smallest normal number
        return (part > 0.0).where(part / whole.max(least), 0.0)

    def residual(tensors: list[Tensor]) -> Tensor:
        """Return the sum of the squares off the diagonal, divided by the sum of all squares."""
        (a, _) = tensors
        square = formula(builder, lambda v: v * v, a)
        off_diagonal = formula(builder, lambda v: v.position(1, I64).is_equal(v.position(2, I64)).where(0.0, v), square)
        off_diagonal_sum, total = (reductions.reduce(builder, "add", v, axes=[1, 2]) for v in (off_diagonal, square))
        return formula(builder, quotient, off_diagonal_sum, total)

    a, vectors = _sweep_until_converged(builder, even, [a, _identities(builder, a)], rotate, residual)
    # Rows of `vectors` are eigenvectors.
    values = shapes.squeeze(builder, matrices.diagonals(builder, a), axes=[1])
    # The sort key of padding is inf, so that the first n sorted values are those of the matrix.
    key = _mark_padding(builder, values, vectors, n, last=float("inf"))
    order = slicing.slice_axis(builder, ordering.sort_with_indices(builder, key, axis=1)[1], axis=1, start=0, limit=n)
    values = ew.binary(
        builder, "mul", gathers.take_along(builder, values, order, axis=1), shapes.squeeze(builder, scale, axes=[2])
    )
    rows = slicing.slice_axis(builder, vectors, axis=2, start=0, limit=n)
    positions = shapes.broadcast_to(builder, shapes.expand_dims(builder, order, axes=[2]), [rows.shape[0], n, n])
    columns = shapes.transpose(builder, gathers.take_along(builder, rows, positions, axis=1), [0, 2, 1])
    return shapes.reshape(builder, values, x.shape[:-1]), shapes.reshape(builder, columns, x.shape)


def svd(builder: Builder, x: Tensor, full: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, the singular values in descending order, and V^H, so that x = U diag(values) V^H.

    x is [..., m, n] of f32, f64 or complex numbers of these; the singular values are real. With `full`, U has m columns
    and V^H n rows; otherwise both have min(m, n). Matrices of static sizes with fewer rows than columns are transposed,
    which needs fewer rotations.
    """
    if x.rank < 2 or x.dtype.real not in (F32, F64):
        raise builder.fail(f"singular values of {x}: expected matrices of f32 or f64, real or complex",
                     "convert the operand to f32 first")  # fmt: skip
    *lead, m, n = x.shape
    a = shapes.reshape(builder, x, [product(lead), m, n])
    if isinstance(m, int) and isinstance(n, int) and m < n:
        u, values, vt = svd(builder, matrices.adjoint(builder, a), full)
        factors = matrices.adjoint(builder, vt), values, matrices.adjoint(builder, u)
    else:
        factors = _svd_by_columns(builder, a, full)
    u, values, vt = (shapes.reshape(builder, v, [*lead, *v.shape[1:]]) for v in factors)
    return u, values, vt


def _svd_by_columns(builder: Builder, a: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the SVD of a [batch, m, n].

    Rotations make the columns orthogonal. Their lengths are then the singular values, and the accumulated rotations V.
    """
    batch, m, n = a.shape
    rank = minimum(m, n)
    dtype, is_complex = a.dtype.real, a.dtype.is_complex
    _require_order_within_limit(builder, "singular values", a, n)
    if n == 0:
        no_values = shapes.full(builder, 0.0, [batch, 0], dtype)
        u = matrices.identity(builder, m, m if full else 0, a.dtype)
        return (
            shapes.broadcast_to(builder, u, [batch, *u.shape]),
            no_values,
            shapes.full(builder, 0.0, [batch, 0, 0], a.dtype),
        )
    half = _pair_count(n)
    even = 2 * half
    # [batch, n, m], or [batch, n, 2 m] if complex
    rows, scale = scaled_to_one(
        builder, with_parts_joined(builder, shapes.transpose(builder, a, [0, 2, 1])), axes=[1, 2]
    )
    columns = slicing.pad(builder, rows, low=[0, 0, 0], high=[0, even - n, 0], value=0.0)
    limits = np.finfo(dtype.numpy)
    min_exact_square = float(limits.tiny / limits.eps)  # terms of smaller sums may be subnormal

    def rows_of_pairs(x: Tensor) -> list[Tensor]:
        """Return the first and the second row of each pair: pair i has the rows i and half + i."""
        return slicing.split(builder, x, axis=1, sizes=[half, half])

    def product_of(u: Tensor, v: Tensor) -> Tensor:
        """Return the real scalar product of each two rows, [batch, half, 1]."""
        return reductions.reduce(builder, "add", ew.binary(builder, "mul", u, v), axes=[2], keep=True)

    def make_products_real(columns: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Multiply the second column of each pair, and its vector, by a number of length 1 that makes the columns'
        scalar product real. Return all columns and vectors; real ones are unchanged.
        """
        if not is_complex:
            return columns, vectors
        first, second = rows_of_pairs(columns)
        # Parts of the complex inner product: the imaginary one is the real inner product of i * first and second.
        real_part = product_of(first, second)
        imaginary_part = product_of(times_imaginary_unit(builder, first), second)
        phase_real, phase_imaginary = formulas(builder, unit_conjugate, real_part, imaginary_part)
        return tuple(  # type: ignore[return-value]
            slicing.concat(builder, [u, times_number(builder, v, phase_real, phase_imaginary)], axis=1)
            for u, v in map(rows_of_pairs, (columns, vectors))
        )

    def rotate(tensors: list[Tensor]) -> list[Tensor]:
        """Make the columns of each pair orthogonal, and record the largest squared cosine between two of them.

        The tensors are the columns as rows, the accumulated rotations, and the largest squared cosine of this sweep.
        """
        columns, vectors, largest_cosine = tensors
        columns, vectors = make_products_real(columns, vectors)
        first, second = rows_of_pairs(columns)
        squares = [product_of(u, v) for u, v in ((first, first), (second, second), (first, second))]
        cos, sin = _angles(builder, *squares)

        def cosine(p: Element, q: Element, r: Element) -> Element:
            """Return the squared cosine of the angle between columns u and v, with p = u u, q = v v and r = u v."""
            # Squares below min_exact_square are inexact. Such short columns do not count: they are below the rounding
            # error of the longest.
            return (p.min(q) < min_exact_square).where(0.0, (r / p) * (r / q))

        worst = reductions.reduce(builder, "max", formula(builder, cosine, *squares), axes=[1, 2])
        rotated_pairs = [_next_round(builder, _rotate_rows(builder, v, cos, sin), half) for v in (columns, vectors)]
        return [*rotated_pairs, ew.binary(builder, "max", largest_cosine, worst)]

    width = 2 * even if is_complex else even
    eye = _identities(builder, shapes.full(builder, 0.0, [batch, even, width], dtype))
    no_cosines = shapes.full(builder, 0.0, [batch], dtype)
    # The third tensor is the residual, the maximum over the rounds of a sweep: each sweep starts it at 0.
    columns, vectors, _ = _sweep_until_converged(
        builder, even, [columns, eye, no_cosines], rotate, lambda tensors: tensors[2], reset_index=2
    )
    directions, sizes = scaled_to_one(builder, columns, axes=[2])
    squares = reductions.reduce(builder, "add", formula(builder, lambda v: v * v, directions), axes=[2])
    lengths = formula(builder, lambda v, s: v.unary("sqrt") * s, squares, shapes.squeeze(builder, sizes, axes=[2]))
    key = _mark_padding(builder, lengths, vectors, n, last=-1.0)
    sorted_values, sorted_indices = ordering.sort_with_indices(builder, key, axis=1, descending=True)
    values = slicing.slice_axis(builder, sorted_values, axis=1, start=0, limit=rank)
    order = slicing.slice_axis(builder, sorted_indices, axis=1, start=0, limit=n)

    def reordered(x: Tensor) -> Tensor:
        """Return the rows of x [batch, even, k] in descending order of the singular values, without the padding."""
        positions = shapes.broadcast_to(builder, shapes.expand_dims(builder, order, axes=[2]), [batch, n, x.shape[2]])
        return gathers.take_along(builder, x, positions, axis=1)

    # The rotations multiply the columns from the right: vectors are the rows of V^T.
    v = with_parts_split(builder, reordered(vectors), a.dtype)
    vt = formula(
        builder, lambda v: v.conj() if is_complex else v, slicing.slice_axis(builder, v, axis=2, start=0, limit=n)
    )
    # A QR factorization of the orthogonal columns gives an orthonormal U even if some columns are zero.
    scaled = shapes.transpose(builder, with_parts_split(builder, reordered(columns), a.dtype), [0, 2, 1])
    scaled = slicing.slice_axis(builder, scaled, axis=2, start=0, limit=rank)
    if full:
        scaled = slicing.pad(builder, scaled, low=[0, 0, 0], high=[0, 0, m - rank], value=0.0)
    else:
        vt = slicing.slice_axis(builder, vt, axis=1, start=0, limit=rank)
    upper, reflection_factors = factors.qr(builder, scaled)
    u = factors.of_reflections(builder, upper, reflection_factors)
    square = slicing.slice_axis(builder, upper, axis=1, start=0, limit=upper.shape[2])
    # R is diagonal, and real, but may be negative: its signs make the columns of U point in the directions of x V.
    signs = formula(
        builder, lambda v: (v.real < 0.0).where(v.const(-1.0), v.const(1.0)), matrices.diagonals(builder, square)
    )
    return (
        ew.binary(builder, "mul", u, signs),
        ew.binary(builder, "mul", values, shapes.squeeze(builder, scale, axes=[2])),
        vt,
    )


def _checked_order(builder: Builder, what: str, x: Tensor) -> int:
    """Return the static order of square matrices of f32 or f64. Raise CompileError for other operands; `what` names the
    result.
    """
    n = x.shape[-1] if x.rank > 1 else None
    if not isinstance(n, int) or n != x.shape[-2] or x.dtype not in (F32, F64):
        raise builder.fail(f"{what} of {x}: expected square matrices of f32 or f64 whose order is known",
                     "export the model with static sizes of the matrices")  # fmt: skip
    _require_order_within_limit(builder, what, x, n)
    return n


def _require_order_within_limit(builder: Builder, what: str, x: Tensor, n: Size) -> None:
    """Raise CompileError if the static order of a matrix is more than LARGEST."""
    if isinstance(n, int) and n > LARGEST:
        raise builder.fail(f"{what} of {x}: the smaller size is at most {LARGEST}")


def _pair_count(n: Size) -> Size:
    """Return the number of pairs of n columns, at least 2. A single pair would have axes of size 1, which are folded
    away.
    """
    return maximum(2, ceil_div(n, 2))


def _identities(builder: Builder, like: Tensor) -> Tensor:
    """Return matrices of the type and shape [batch, n, m] of `like`, with 1 on the diagonal and 0 elsewhere."""
    return formula(
        builder, lambda v: v.position(1, I64).is_equal(v.position(2, I64)).where(v.const(1.0), v.const(0.0)), like
    )


def _mark_padding(builder: Builder, values: Tensor, vectors: Tensor, n: Size, last: float) -> Tensor:
    """Return the values [batch, columns] with `last` for columns that pad the first n ones, so that these are sorted to
    the end.

    No rotation changes padding columns, so their vectors are unit vectors of the padding: of `vectors` [batch, columns,
    rows], the rows of the padding have a squared length of 1 in padding columns, else 0.
    """
    count = vectors.shape[1]
    if count == n:
        return values
    squares = formula(builder, lambda v: v * v, slicing.slice_axis(builder, vectors, axis=2, start=n, limit=count))
    return formula(
        builder,
        lambda v, w: (w > 0.5).where(v.const(last), v),
        values,
        reductions.reduce(builder, "add", squares, axes=[2]),
    )


def _sweep_until_converged(
    builder: Builder, n: Size, tensors: list[Tensor], rotate: Callable[[list[Tensor]], list[Tensor]],
    residual: Callable[[list[Tensor]], Tensor], reset_index: int | None = None,
) -> list[Tensor]:  # fmt: skip
    """Apply at most MOST_SWEEPS sweeps of rotations to tensors, and return the tensors.

    Args:
        builder: The builder.
        n: Order of the matrices; a sweep has n - 1 rounds, in which each pair of rows meets once.
        tensors: The state of the iteration, at first; the first tensor has the type of the residual.
        rotate: Function that returns the state after a round.
        residual: Function that returns the squared relative residual of each matrix. A matrix has converged if it is
            at most (n * eps)**2.
        reset_index: Index of a tensor that is set to 0 before each sweep.
    """
    dtype = tensors[0].dtype
    eps = float(np.finfo(dtype.numpy).eps)
    order = reductions.size_as(builder, n, dtype)
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
        """Do every round of a sweep. Carried are: whether another sweep follows, the number of sweeps, the state."""
        _, sweeps, *now = carried
        if reset_index is not None:  # a tensor that accumulates over one sweep, such as its largest residual
            now[reset_index] = shapes.full(builder, 0.0, now[reset_index].shape, dtype)
        now = control.for_(builder, n - 1, now, lambda _, state: rotate(state))
        exceeds = formula(builder, has_not_converged, residual(now), order)
        has_residual = reductions.reduce(builder, "or", exceeds)
        following_count = formula(builder, lambda v: v + 1, sweeps)
        continues = formula(builder, lambda r, v: r & (v < MOST_SWEEPS), has_residual, following_count)
        return [continues, following_count, *now]

    return control.while_(builder, [more, count, *tensors], goes_on, sweep)[2:]


def _entry(builder: Builder, a: Tensor, first: int, second: int) -> Tensor:
    """Return element (first, second), both 0 or 1, of the 2x2 matrix of each pair, [batch, pairs, 1].

    Pair i has rows and columns i and half + i of a [batch, n, n], so these elements are the diagonal of a quarter of a.
    """
    half = int(a.shape[1]) // 2  # type: ignore[arg-type]
    batch, pair, _ = (AffineExpr.dimension(d) for d in range(3))
    starts = (0, first * half, second * half)
    block = slicing.slice_(builder, a, starts, (a.shape[0], starts[1] + half, starts[2] + half))
    return shapes.rearranged(builder, block, (a.shape[0], half, 1), AffineMap(3, 0, (batch, pair, pair)))


def _angles(builder: Builder, p: Tensor, q: Tensor, r: Tensor) -> list[Tensor]:
    """Return cosine and sine of the rotation that diagonalizes each matrix [[p, r], [r, q]]; all have one shape."""

    def written(p: Element, q: Element, r: Element) -> list[Element]:
        """Return (cosine, sine) of the rotation that makes [[p, r], [r, q]] diagonal, by the smaller of both angles."""
        is_diagonal = r.is_equal(0.0)
        cotangent = (q - p) / (is_diagonal.where(1.0, r) * 2.0)
        size = cotangent.unary("abs")
        # From 1e9 on, adding 1 to the square has no effect, and the square may overflow.
        root = (size < 1e9).where((size * size + 1.0).unary("sqrt"), size)
        tangent = (1.0 / (size + root)).binary("copysign", cotangent)
        tangent = is_diagonal.where(0.0, tangent)
        cos = 1.0 / (tangent * tangent + 1.0).unary("sqrt")
        return [cos, tangent * cos]

    return formulas(builder, written, p, q, r)


def _rotate_rows(builder: Builder, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair of rows of x [batch, n, k]: rows i and n / 2 + i by cos and sin [batch, n / 2, 1]."""
    half = cos.shape[1]
    first, second = slicing.split(builder, x, axis=1, sizes=[half, half])

    def rotated(u: Element, v: Element, c: Element, s: Element) -> list[Element]:
        """Rotate one pair of elements."""
        # cos u - sin v and sin u + cos v, written as small changes of u and v, which have small rounding errors.
        half_tangent = s / (c + 1.0)
        return [u - s * (v + half_tangent * u), v + s * (u - half_tangent * v)]

    return slicing.concat(builder, formulas(builder, rotated, first, second, cos, sin), axis=1)


def _next_round(builder: Builder, x: Tensor, half: Size) -> Tensor:
    """Permute the rows of x [batch, 2 half, k] to their positions in the next round of the tournament.

    Row 0 stays. The other rows of the first half move down, those of the second half up, and two change halves.
    """
    # Ranges of rows (begin, end), in the order of the next round.
    blocks = [(0, 1), (half, half + 1), (1, half - 1), (half + 1, 2 * half), (half - 1, half)]
    if isinstance(half, int):
        order = [row for begin, end in blocks for row in range(begin, end)]  # type: ignore[arg-type]
        return gathers.take(builder, x, builder.constant(order), axis=1)
    slices = [slicing.slice_axis(builder, x, axis=1, start=begin, limit=end) for begin, end in blocks]
    return slicing.concat(builder, slices, axis=1)
