"""Eigenvalues of symmetric matrices: rotations of rows and columns make the matrix diagonal."""

from __future__ import annotations

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, F64, I64
from pydispatch.graph.sizes import Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import gathers, matrices, ordering, reductions, shapes, slicing
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.jacobi.rotations import (
    angles,
    check_order,
    entry_of_pairs,
    identities,
    next_round,
    pair_count,
    rotate_rows,
    sweep_until_converged,
    with_padding_last,
)
from pydispatch.operations.scaling import scaled_to_one


def eigh(builder: Builder, x: Tensor, lower: bool = True) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues of symmetric matrices in ascending order, and the normalized eigenvectors as columns.

    x is [..., n, n] of f32 or f64. Only its lower or upper triangle is read.

    This is Jacobi's method: a rotation of rows i and j and of columns i and j makes element (i, j) 0. Sweeps over all
    pairs (i, j) make the matrix diagonal. The diagonal then has the eigenvalues, and the product of the rotations the
    eigenvectors.
    """
    n = _checked_order(builder, x)
    if n == 0:
        return shapes.reshape(builder, x, x.shape[:-1]), x
    a = shapes.reshape(builder, x, [product(x.shape[:-2]), n, n])
    a, scale = scaled_to_one(builder, _mirrored(builder, a, lower), axes=[1, 2])
    even = 2 * pair_count(n)  # a round rotates all rows in pairs, so zeros pad the matrix to an even order
    a = slicing.pad(builder, a, low=[0, 0, 0], high=[0, even - n, even - n], value=0.0)
    # The state of the iteration is [a, vectors]. Each round rotates both; the elements of a off its diagonal are the
    # residual.
    a, vectors = sweep_until_converged(
        builder,
        even,
        [a, identities(builder, a)],
        rotate=lambda state: _diagonalize_pairs(builder, *state),
        residual=lambda state: _off_diagonal_share(builder, state[0]),
    )
    values, columns = _sorted_without_padding(builder, a, vectors, n)
    values = ew.binary(builder, "mul", values, shapes.squeeze(builder, scale, axes=[2]))
    return shapes.reshape(builder, values, x.shape[:-1]), shapes.reshape(builder, columns, x.shape)


def _checked_order(builder: Builder, x: Tensor) -> int:
    """Return the static order of square matrices of f32 or f64. Raise CompileError for other operands."""
    n = x.shape[-1] if x.rank > 1 else None
    if not isinstance(n, int) or n != x.shape[-2] or x.dtype not in (F32, F64):
        raise builder.fail(f"eigenvalues of {x}: expected square matrices of f32 or f64 whose order is known",
                     "export the model with static sizes of the matrices")  # fmt: skip
    check_order(builder, "eigenvalues", x, n)
    return n


def _mirrored(builder: Builder, a: Tensor, lower: bool) -> Tensor:
    """Return symmetric matrices [batch, n, n] with the lower or upper triangle of `a`, and its mirror image."""

    def symmetric(value: Element, mirror_image: Element) -> Element:
        """Return an element of the triangle that is read, or its mirror image across the diagonal."""
        i, j = value.position(1, I64), value.position(2, I64)
        is_read = i >= j if lower else i <= j
        return is_read.where(value, mirror_image)

    flipped = shapes.transpose(builder, a, [0, 2, 1])
    return formula(builder, symmetric, a, flipped)


def _diagonalize_pairs(builder: Builder, a: Tensor, vectors: Tensor) -> list[Tensor]:
    """Do one round: rotate all pairs of rows and columns of `a`, and move them to the pairs of the next round.

    Pair i is rows and columns i and n / 2 + i. Its 2x2 matrix is the four elements of `a` where they cross; those off
    its diagonal become 0. For n = 4 the pairs are (0, 2) and (1, 3), and a[0, 2] and a[1, 3] become 0.

    Args:
        builder: The builder.
        a: The symmetric matrices [batch, n, n], of even n.
        vectors: The eigenvectors so far, as rows; they are rotated and moved like the rows of `a`.

    Returns:
        The new `a` and `vectors`.
    """
    half = a.shape[1] // 2
    # The elements of the symmetric 2x2 matrix of each pair: first and second of the diagonal, off the diagonal.
    cos, sin = angles(
        builder,
        entry_of_pairs(builder, a, first=0, second=0),
        entry_of_pairs(builder, a, first=1, second=1),
        entry_of_pairs(builder, a, first=0, second=1),
    )
    # Rows are rotated, then those of the transpose, which are the columns; then both are moved.
    a = shapes.transpose(builder, rotate_rows(builder, a, cos, sin), [0, 2, 1])
    a = next_round(builder, rotate_rows(builder, a, cos, sin), half)
    a = next_round(builder, shapes.transpose(builder, a, [0, 2, 1]), half)
    return [a, next_round(builder, rotate_rows(builder, vectors, cos, sin), half)]


def _off_diagonal_share(builder: Builder, a: Tensor) -> Tensor:
    """Return the sum of the squares off the diagonal of each matrix, divided by the sum of all squares: [batch]."""
    square = formula(builder, lambda v: v * v, a)
    off_diagonal = formula(builder, lambda v: v.position(1, I64).is_equal(v.position(2, I64)).where(0.0, v), square)
    off_diagonal_sum, total = (reductions.reduce(builder, "add", v, axes=[1, 2]) for v in (off_diagonal, square))
    return formula(builder, _quotient, off_diagonal_sum, total)


def _quotient(part: Element, whole: Element) -> Element:
    """Return part / whole for sums of squares, of which `whole` includes `part`. It is 0 for a part of 0 or NaN."""
    least = 1e-300 if whole.dtype == F64 else 1e-37  # about the smallest normal number
    return (part > 0.0).where(part / whole.max(least), 0.0)


def _sorted_without_padding(builder: Builder, a: Tensor, vectors: Tensor, n: Size) -> tuple[Tensor, Tensor]:
    """Return the diagonal of `a` in ascending order [batch, n], and the eigenvectors as columns [batch, n, n].

    Args:
        builder: The builder.
        a: Diagonal matrices, padded from order n.
        vectors: The padded eigenvectors, as rows.
        n: Order without padding.
    """
    values = shapes.squeeze(builder, matrices.diagonals(builder, a), axes=[1])
    # The sort key of padding is inf, so that the first n sorted values belong to the matrix.
    key = with_padding_last(builder, values, vectors, n, last=float("inf"))
    order = slicing.slice_axis(builder, ordering.sort_with_indices(builder, key, axis=1)[1], axis=1, start=0, limit=n)
    values = gathers.take_along(builder, values, order, axis=1)
    rows = slicing.slice_axis(builder, vectors, axis=2, start=0, limit=n)
    positions = shapes.broadcast_to(builder, shapes.expand_dims(builder, order, axes=[2]), [rows.shape[0], n, n])
    return values, shapes.transpose(builder, gathers.take_along(builder, rows, positions, axis=1), [0, 2, 1])
