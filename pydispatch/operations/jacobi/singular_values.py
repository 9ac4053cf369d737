"""Singular value decompositions: rotations of pairs of columns make all columns orthogonal to each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, F64, DType
from pydispatch.graph.size_functions import minimum
from pydispatch.graph.sizes import Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import factors, gathers, matrices, ordering, reductions, shapes, slicing
from pydispatch.operations.formulas import Element, formula, formulas
from pydispatch.operations.jacobi.rotations import (
    angles,
    check_order,
    identities,
    next_round,
    pair_count,
    rotate_rows,
    sweep_until_converged,
    with_padding_last,
)
from pydispatch.operations.joined_parts import (
    times_imaginary_unit,
    times_number,
    unit_conjugate,
    with_parts_joined,
    with_parts_split,
)
from pydispatch.operations.scaling import scaled_to_one


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
    """Return U, the singular values in descending order, and V^H of a [batch, m, n] by one-sided Jacobi rotations.

    With `full`, U has m columns and V^H n rows; otherwise both have min(m, n).

    Rotations V of the columns make those of a V orthogonal. Then a V = U diag(values): the lengths of the columns are
    the singular values, their directions are U, and the accumulated rotations are V.
    """
    _, m, n = a.shape
    check_order(builder, "singular values", a, n)
    if n == 0:
        return _svd_without_columns(builder, a, full)
    # The columns, stored as rows, are scaled so that sums of squares do not overflow, and rotated.
    rows, scale = scaled_to_one(
        builder, with_parts_joined(builder, shapes.transpose(builder, a, [0, 2, 1])), axes=[1, 2]
    )
    rows, vectors = _orthogonalized(builder, rows, n, a.dtype)

    # The singular values, and V^H. The rotations multiply the columns from the right: row i of `vectors` is column i of
    # V, so that `vectors` is V^T, and its conjugate V^H.
    values, order = _sorted_lengths(builder, rows, vectors, n)
    values = slicing.slice_axis(builder, values, axis=1, start=0, limit=minimum(m, n))
    v_transposed = with_parts_split(builder, _reordered(builder, vectors, order), a.dtype)
    vt = formula(
        builder,
        lambda element: element.conj() if a.dtype.is_complex else element,
        slicing.slice_axis(builder, v_transposed, axis=2, start=0, limit=n),  # without the columns that pad a
    )

    # U: the directions of the longest columns. With `full` zero columns are appended, for which `_normalized` returns
    # directions that are orthogonal to the others.
    orthogonal = with_parts_split(builder, _reordered(builder, rows, order), a.dtype)
    orthogonal = shapes.transpose(builder, orthogonal, [0, 2, 1])
    orthogonal = slicing.slice_axis(builder, orthogonal, axis=2, start=0, limit=minimum(m, n))
    if full:
        orthogonal = slicing.pad(builder, orthogonal, low=[0, 0, 0], high=[0, 0, m - minimum(m, n)], value=0.0)
    else:
        vt = slicing.slice_axis(builder, vt, axis=1, start=0, limit=minimum(m, n))
    u = _normalized(builder, orthogonal)
    return u, ew.binary(builder, "mul", values, shapes.squeeze(builder, scale, axes=[2])), vt


def _svd_without_columns(builder: Builder, a: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the SVD of a [batch, m, 0]: no singular values; U has m columns if it is full, else none."""
    batch, m, _ = a.shape
    no_values = shapes.full(builder, 0.0, [batch, 0], a.dtype.real)
    u = matrices.identity(builder, m, m if full else 0, a.dtype)
    return (
        shapes.broadcast_to(builder, u, [batch, *u.shape]),
        no_values,
        shapes.full(builder, 0.0, [batch, 0, 0], a.dtype),
    )


def _orthogonalized(builder: Builder, rows: Tensor, n: Size, dtype: DType) -> tuple[Tensor, Tensor]:
    """Return the columns of the matrices, rotated until they are orthogonal, and the accumulated rotations.

    Columns are stored as rows, because rotations combine rows; a complex row is its real parts and then its imaginary
    parts. The results are [batch, even, m] and [batch, even, even], with twice the row length if complex: `even` is n
    rounded up to an even number of at least 4, and zero columns pad the matrices. Row i of the second result has the
    factors of the old columns in column i of the first: it is column i of V.

    Args:
        builder: The builder.
        rows: The columns, as rows: [batch, n, m], or [batch, n, 2 m] if complex.
        n: Number of columns.
        dtype: Type of the elements of the matrices.
    """
    batch = rows.shape[0]
    even = 2 * pair_count(n)
    columns = slicing.pad(builder, rows, low=[0, 0, 0], high=[0, even - n, 0], value=0.0)
    width = 2 * even if dtype.is_complex else even
    eye = identities(builder, shapes.full(builder, 0.0, [batch, even, width], dtype.real))
    no_cosines = shapes.full(builder, 0.0, [batch], dtype.real)
    pairs = _Pairs(builder, pair_count(n), dtype)
    # The third tensor is the residual, the maximum over the rounds of a sweep: each sweep starts it at 0.
    columns, vectors, _ = sweep_until_converged(
        builder,
        even,
        [columns, eye, no_cosines],
        rotate=pairs.orthogonalize,
        residual=lambda state: state[2],
        reset_index=2,
    )
    return columns, vectors


@dataclass(frozen=True)
class _Pairs:
    """Pairs of columns in a round of one-sided Jacobi rotations, with the functions that rotate them.

    The columns of the matrices are stored as rows; pair i has the rows i and half + i. `_orthogonalized` creates an
    instance, and passes `orthogonalize` as the round to `sweep_until_converged`.
    """

    builder: Builder
    half: Size
    """Number of pairs."""
    dtype: DType
    """Type of the elements of the matrices; complex ones are stored as real parts and then imaginary parts."""

    def split(self, x: Tensor) -> list[Tensor]:
        """Return the first and the second rows of all pairs."""
        return slicing.split(self.builder, x, axis=1, sizes=[self.half, self.half])

    def orthogonalize(self, state: list[Tensor]) -> list[Tensor]:
        """Make the columns of each pair orthogonal by a rotation, and reorder all for the pairs of the next round.

        The state is the columns of the matrices, stored as rows; the product of all rotations so far; and the residual,
        the largest squared cosine of the angle between the columns of a pair in this sweep.
        """
        builder = self.builder
        columns, vectors, largest_cosine = state
        # The rotation is real: it makes columns orthogonal only if their scalar product is real.
        if self.dtype.is_complex:
            columns, vectors = self.with_real_products(columns, vectors)
        # The rotation by (cos, sin) diagonalizes the pair's matrix of scalar products [[u u, u v], [u v, v v]].
        first, second = self.split(columns)
        # `squares` has the scalar products u u, v v and u v of each pair.
        squares = [_row_products(builder, u, v) for u, v in ((first, first), (second, second), (first, second))]
        cos, sin = angles(builder, *squares)
        worst = reductions.reduce(builder, "max", formula(builder, _squared_cosine, *squares), axes=[1, 2])
        moved = [next_round(builder, rotate_rows(builder, v, cos, sin), self.half) for v in (columns, vectors)]
        return [*moved, ew.binary(builder, "max", largest_cosine, worst)]

    def with_real_products(self, columns: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Multiply the second column of each pair, and its vector, by a complex number of length 1, so that the scalar
        product of the pair's columns becomes real. Return all columns and vectors.

        Let a pair have the columns u and v, with the product adjoint(u) v = r e^(i t). Then v is multiplied by the
        phase e^(-i t), and adjoint(u) v becomes r. A tensor stores each column as a row: real parts, imaginary parts.
        """
        builder = self.builder
        u, v = self.split(columns)
        # The real product of two such rows is the real part of adjoint(u) v. That of i u and v is its imaginary part.
        real_part = _row_products(builder, u, v)
        imaginary_part = _row_products(builder, times_imaginary_unit(builder, u), v)
        cosine, sine = formulas(builder, unit_conjugate, real_part, imaginary_part)  # real and imaginary part of phases
        return self._with_phases(columns, cosine, sine), self._with_phases(vectors, cosine, sine)

    def _with_phases(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Return x with the second column of each pair multiplied by the pair's phase, cosine + i sine."""
        first, second = self.split(x)
        return slicing.concat(self.builder, [first, times_number(self.builder, second, cosine, sine)], axis=1)


def _row_products(builder: Builder, u: Tensor, v: Tensor) -> Tensor:
    """Return the real scalar product of each row of u [batch, rows, k] and the same row of v: [batch, rows, 1]."""
    return reductions.reduce(builder, "add", ew.binary(builder, "mul", u, v), axes=[2], keep=True)


def _squared_cosine(p: Element, q: Element, r: Element) -> Element:
    """Return the squared cosine of the angle between columns u and v, with p = u u, q = v v and r = u v."""
    limits = np.finfo(p.dtype.numpy)
    # A square p or q below this is inexact, because terms of the sum may be subnormal. Such a short column counts as
    # orthogonal to all others: its length is below the rounding error of the longest column.
    min_exact_square = float(limits.tiny / limits.eps)
    return (p.min(q) < min_exact_square).where(0.0, (r / p) * (r / q))


def _sorted_lengths(builder: Builder, rows: Tensor, vectors: Tensor, n: Size) -> tuple[Tensor, Tensor]:
    """Return the lengths of the rows in descending order [batch, even], and the indices of the n longest [batch, n].

    The rows that pad n columns to an even count come last, with the length -1; `with_padding_last` recognizes them by
    their `vectors`.
    """
    # Each row is divided by its largest magnitude (`sizes`), so that the squares do not overflow.
    directions, sizes = scaled_to_one(builder, rows, axes=[2])
    squares = reductions.reduce(builder, "add", formula(builder, lambda v: v * v, directions), axes=[2])
    lengths = formula(builder, lambda v, s: v.unary("sqrt") * s, squares, shapes.squeeze(builder, sizes, axes=[2]))
    key = with_padding_last(builder, lengths, vectors, n, last=-1.0)
    values, indices = ordering.sort_with_indices(builder, key, axis=1, descending=True)
    return values, slicing.slice_axis(builder, indices, axis=1, start=0, limit=n)


def _reordered(builder: Builder, x: Tensor, order: Tensor) -> Tensor:
    """Return the rows of x [batch, rows, k] at the indices `order` [batch, n]."""
    batch, n = order.shape
    positions = shapes.broadcast_to(builder, shapes.expand_dims(builder, order, axes=[2]), [batch, n, x.shape[2]])
    return gathers.take_along(builder, x, positions, axis=1)


def _normalized(builder: Builder, columns: Tensor) -> Tensor:
    """Return orthonormal columns in the directions of orthogonal ones [batch, m, k], some of which may be zero.

    The Q of a QR factorization is orthonormal in any case. R is diagonal and real, but may be negative: its signs turn
    the columns of Q to the directions of the given ones.
    """
    upper, reflection_factors = factors.qr(builder, columns)
    u = factors.product_of_reflections(builder, upper, reflection_factors)
    square = slicing.slice_axis(builder, upper, axis=1, start=0, limit=upper.shape[2])
    signs = formula(
        builder, lambda v: (v.real < 0.0).where(v.const(-1.0), v.const(1.0)), matrices.diagonals(builder, square)
    )
    return ew.binary(builder, "mul", u, signs)
