"""Hessenberg and Schur forms, and eigenvalues of general and of Hermitian matrices, to LAPACK's accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import C64, C128, F32, F64, I64
from pydispatch.graph.size_functions import one_unless_empty
from pydispatch.graph.sizes import Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import (
    control,
    factors,
    gathers,
    indexing,
    jacobi,
    matrices,
    ordering,
    products,
    reductions,
    shapes,
    slicing,
)
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.scaling import scaled_to_one
from pydispatch.patterns.types import DType

if TYPE_CHECKING:
    from pydispatch.kernels.kernel import KernelSource


def schur(builder: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the Schur form T and the unitary factor Q of x = Q T adjoint(Q).

    x is [..., n, n] of f32, f64 or of complex numbers of these. T is triangular for complex x. For real x it has blocks
    of two rows with equal diagonal elements for pairs of conjugate eigenvalues, like LAPACK's. Both are NaN for a
    matrix with an infinity or NaN, and where the QR algorithm does not converge.
    """
    a = _square_matrices(builder, "the Schur form", x)
    t, q, scale = _scaled_schur(builder, a)
    t = formula(builder, _times, t, scale)
    return shapes.reshape(builder, t, x.shape), shapes.reshape(builder, q, x.shape)


def eigenvalues(builder: Builder, x: Tensor) -> Tensor:
    """Return the eigenvalues of x [..., n, n] as complex numbers [..., n]; NaN where `schur` returns NaN.

    The eigenvalues of a real matrix are real numbers and exactly conjugate pairs, of which the one with the positive
    imaginary part is first.
    """
    a = _square_matrices(builder, "eigenvalues", x)
    t, _, scale = _scaled_schur(builder, a)
    return shapes.reshape(builder, formula(builder, _times, _values_of_schur(builder, t), scale), x.shape[:-1])


def eigenvalues_of_schur(builder: Builder, t: Tensor) -> Tensor:
    """Return the eigenvalues of Schur forms [..., n, n], as of `schur`, as complex numbers [..., n]."""
    values = _values_of_schur(builder, _square_matrices(builder, "eigenvalues", t))
    return shapes.reshape(builder, values, t.shape[:-1])


def eig(builder: Builder, x: Tensor, left: bool = False) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the eigenvalues of x [..., n, n], and its right and left eigenvectors as columns.

    The left ones are None unless `left`. All are complex; the columns have length 1. A left eigenvector u has
    adjoint(u) x = value adjoint(u).
    """
    a = _square_matrices(builder, "eigenvectors", x)
    t, q, scale = _scaled_schur(builder, a)  # T of a / scale: eigenvalues are multiplied by the scale at the end
    eigenvalue_row = _values_of_schur(builder, t)  # [batch, 1, n]: one for each column of eigenvectors
    if not a.dtype.is_complex:
        from pydispatch.operations.schur_kernels import split_pairs_kernel  # no other program needs kernels in Python

        zero = shapes.full(builder, 0.0, a.shape, a.dtype)
        # The real Schur form has 2x2 blocks for conjugate pairs; this makes it triangular and complex.
        t, q = _complex_results(builder, split_pairs_kernel(DType(str(a.dtype))), [t, zero, q, zero])

    def vectors(columns: Tensor) -> Tensor:
        """Return eigenvectors of x, with length 1, as columns.

        columns: eigenvectors of the Schur form [batch, n, n]. q, the unitary factor of the Schur form, turns them into
        those of x. `eigenvalue_row` has the eigenvalue of each column.
        """
        columns = products.matmul(builder, q, columns)
        if not a.dtype.is_complex:  # vectors of real eigenvalues are real
            columns = formula(
                builder,
                lambda v, value: v.real.with_imag(value.imag.is_equal(0.0).where(0.0, v.imag)),
                columns,
                eigenvalue_row,
            )
        return shapes.reshape(builder, _unit_columns(builder, columns), x.shape)

    right = vectors(_vectors_of_triangular(builder, t))
    left_vectors = None
    if left:
        # Left vectors of T are right ones of its adjoint, which is triangular after rows and columns are reversed.
        reversed_adjoint = indexing.reverse(builder, matrices.adjoint(builder, t), axes=[1, 2])
        left_vectors = vectors(
            indexing.reverse(builder, _vectors_of_triangular(builder, reversed_adjoint), axes=[1, 2])
        )
    values = shapes.reshape(builder, formula(builder, _times, eigenvalue_row, scale), x.shape[:-1])
    return values, right, left_vectors


def _unit_columns(builder: Builder, matrices_: Tensor) -> Tensor:
    """Return complex matrices [batch, n, n] with each column divided by its length."""
    squares = formula(builder, lambda v: v.real * v.real + v.imag * v.imag, matrices_)
    length = formula(
        builder, lambda v: v.unary("sqrt"), reductions.reduce(builder, "add", squares, axes=[1], keep=True)
    )
    return formula(builder, lambda v, w: (v.real / w).with_imag(v.imag / w), matrices_, length)


def eigh(builder: Builder, x: Tensor, lower: bool = True) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues of symmetric or Hermitian matrices in ascending order, and the eigenvectors as columns.

    x is [..., n, n]. Only its lower or upper triangle is read, and only the real parts of the diagonal. Jacobi
    rotations reduce real matrices of static sizes. QR iterations reduce all others, which `jacobi.eigh` rejects.
    """
    if not x.dtype.is_complex and all(isinstance(n, int) for n in x.shape[-2:]):
        return jacobi.eigh(builder, x, lower)
    a = _square_matrices(builder, "eigenvalues", x)

    def hermitian(value: Element, other: Element) -> Element:
        """Return `value` in the triangle that is read (the lower one if `lower`), and `other` in the other triangle.

        value: element (i, j). other: conjugate of element (j, i).
        """
        i, j = value.position(axis=1, dtype=I64), value.position(axis=2, dtype=I64)
        if value.dtype.is_complex:  # only the real part of the diagonal is read
            value = value.real.with_imag(i.is_equal(j).where(0.0, value.imag))
        is_read = i >= j if lower else i <= j
        return is_read.where(value, other)

    # The Schur form of a Hermitian matrix is diagonal, with real eigenvalues, and Q has the eigenvectors.
    # t is that of a / scale.
    t, q, scale = _scaled_schur(builder, formula(builder, hermitian, a, matrices.adjoint(builder, a)))
    diagonal = shapes.squeeze(builder, formula(builder, lambda v: v.real, matrices.diagonals(builder, t)), axes=[1])
    values, order = ordering.sort_with_indices(builder, diagonal, axis=1)
    order = shapes.broadcast_to(builder, shapes.expand_dims(builder, order, axes=[1]), a.shape)
    vectors = gathers.take_along(builder, q, order, axis=2)
    values = ew.binary(builder, "mul", values, shapes.squeeze(builder, scale, axes=[2]))
    return shapes.reshape(builder, values, x.shape[:-1]), shapes.reshape(builder, vectors, x.shape)


def _square_matrices(builder: Builder, what: str, x: Tensor) -> Tensor:
    """Return square matrices [..., n, n] as [batch, n, n]. Raise CompileError for other operands; `what` names the
    result.
    """
    if x.rank < 2 or x.dtype not in (F32, F64, C64, C128):
        raise builder.fail(f"{what} of {x}: expected square matrices of f32 or f64, real or complex",
                           "convert the operand to f32 first")  # fmt: skip
    n = matrices.order_of(builder, what, x)
    return shapes.reshape(builder, x, [product(x.shape[:-2]), n, n])


def _times(value: Element, scale: Element) -> Element:
    """Return a real or complex element times a real one."""
    return (value.real * scale).with_imag(value.imag * scale) if value.dtype.is_complex else value * scale


def _scaled_schur(builder: Builder, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return T, Q and scale of a / scale = Q T adjoint(Q), the Schur form of scaled matrices a [batch, n, n].

    T is triangular for a complex a; for a real one it has a 2x2 block for each pair of conjugate eigenvalues. Q is
    unitary. The scale [batch, 1, 1] is a power of two: the largest magnitude in a / scale is about 1, so that squares
    neither overflow nor underflow. The eigenvalues of a are those of T times scale. T and Q are NaN for a matrix with
    an infinity or NaN.

    Reflections turn a / scale into a Hessenberg matrix (0 below the first subdiagonal), and a kernel turns that into T.
    """
    if a.shape[1] == 0:  # an empty matrix has no largest magnitude
        return a, a, shapes.full(builder, 1.0, (a.shape[0], 1, 1), a.dtype.real)
    # The scale, from the larger magnitude of the real and the imaginary part of each element.
    sizes = formula(builder, lambda v: v.real.unary("abs").max(v.imag.unary("abs")), a)
    _, scale = scaled_to_one(builder, sizes, axes=[1, 2])
    largest = reductions.reduce(builder, "max", sizes, axes=[1, 2], keep=True)

    def quotient(value: Element, scale: Element, largest: Element) -> Element:
        """Return an element divided by the scale; NaN for a matrix with an infinity or NaN."""
        return _times(value, largest.unary("is_finite").where(1.0 / scale, float("nan")))

    h, q = _hessenberg_form(builder, formula(builder, quotient, a, scale, largest), largest)
    return *_reduced_by_kernel(builder, _real_parts(builder, h), _real_parts(builder, q)), scale


def _hessenberg_form(builder: Builder, a: Tensor, largest: Tensor) -> tuple[Tensor, Tensor]:
    """Return H and Q of a = Q H adjoint(Q), where H is 0 below the first subdiagonal, and Q is unitary.

    largest: the largest magnitude of a part of an element of each matrix before it was scaled, [batch, 1, 1]; where it
    is not finite, Q is NaN.
    """
    # H and the reflections whose product is Q, packed in one matrix.
    packed, scales = factors.hessenberg(builder, a)
    batch, n, _ = a.shape
    one = one_unless_empty(n)  # rows and columns that are cut off and padded again: none if n is 0
    # Q is [[1, 0], [0, inner]], because the vector of each reflection is 0 in row 0. The packed matrix without its
    # first row and last column has the reflections whose product is `inner`, in the format of `qr`.
    reflections = slicing.slice_(builder, packed, starts=(0, one, 0), limits=(batch, n, n - one))
    inner = factors.product_of_reflections(builder, reflections, scales)
    inner = slicing.pad(builder, inner, [0, one, one], high=[0, 0, 0], value=0.0)

    def corner(value: Element, largest: Element) -> Element:
        """Return an element of Q, the unitary factor, from that of [[0, 0], [0, inner]]: only element (0, 0) changes.

        It becomes 1, because no reflection changes the first row or column of the identity. For a matrix with an
        infinity or NaN it becomes NaN, as the elements of `inner` are already.

        value: the element of [[0, 0], [0, inner]]. largest: largest magnitude in the matrix.
        """
        one = largest.unary("is_finite").where(value.const(1.0), float("nan"))
        row, column = value.position(axis=1, dtype=I64), value.position(axis=2, dtype=I64)
        return (row + column).is_equal(0).where(one, value)  # row and column are 0

    def without_vectors(value: Element) -> Element:
        """Return the element, and 0 below the first subdiagonal, where `hessenberg` stores the vectors of
        reflections.
        """
        row, column = value.position(axis=1, dtype=I64), value.position(axis=2, dtype=I64)
        return (row > column + 1).where(value.const(0.0), value)

    return formula(builder, without_vectors, packed), formula(builder, corner, inner, largest)


def _reduced_by_kernel(builder: Builder, h: list[Tensor], q: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the Schur form of Hessenberg matrices, and q times the unitary factor.

    Both h and q are lists of real tensors [batch, n, n]: of one, or of the real and the imaginary parts.
    """
    from pydispatch.operations.python_kernels import call_kernel
    from pydispatch.operations.schur_kernels import complex_schur_kernel, real_schur_kernel

    dtype = DType(str(h[0].dtype))
    if len(h) == 1:
        t, factor = call_kernel(builder, real_schur_kernel(dtype), [*h, *q])
        return t, factor
    return _complex_results(builder, complex_schur_kernel(dtype), [*h, *q])


def _complex_results(builder: Builder, kernel: KernelSource, operands: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Call a kernel that changes four real tensors, and return them as two complex ones.

    `operands` are the real and the imaginary parts of the first matrices, then those of the second ones.
    """
    from pydispatch.operations.python_kernels import call_kernel

    parts = call_kernel(builder, kernel, operands)
    first, second = (formula(builder, lambda u, v: u.with_imag(v), *parts[n : n + 2]) for n in (0, 2))
    return first, second


def _real_parts(builder: Builder, x: Tensor) -> list[Tensor]:
    """Return [x] for a real tensor, and [real part, imaginary part] for a complex one."""
    if not x.dtype.is_complex:
        return [x]
    return [builder.wrap(x.dtype.real, x.shape, part) for part in builder.parts(x)]


def _values_of_schur(builder: Builder, t: Tensor) -> Tensor:
    """Return the eigenvalues of Schur forms [batch, n, n] as complex numbers [batch, 1, n].

    They are the diagonal; a block [[a, b], [c, a]] of a real form has the eigenvalues a +- sqrt(|b| |c|) i.
    """
    diagonal = matrices.diagonals(builder, t)
    if t.dtype.is_complex:
        return diagonal
    if t.shape[1] == 0:  # no eigenvalues: only the type of the result matters
        return formula(builder, lambda v: v.with_imag(v), diagonal)
    batch, n, _ = t.shape
    one = one_unless_empty(n)  # there are n - 1 elements below and above the diagonal; none if n is 0 in a call
    below = matrices.diagonals(builder, slicing.slice_(builder, t, starts=(0, one, 0), limits=(batch, n, n - one)))
    above = matrices.diagonals(builder, slicing.slice_(builder, t, starts=(0, 0, one), limits=(batch, n - one, n)))
    imag = formula(builder, lambda u, v: u.unary("abs").unary("sqrt") * v.unary("abs").unary("sqrt"), below, above)
    # The first row of a block has the positive imaginary part, the second row the negative one. For real eigenvalues
    # the element below the diagonal is 0, and so is `imag`.
    first = slicing.pad(builder, imag, low=[0, 0, 0], high=[0, 0, one], value=0.0)
    second = slicing.pad(builder, imag, low=[0, 0, one], high=[0, 0, 0], value=0.0)
    return formula(builder, lambda v, u, w: v.with_imag(u - w), diagonal, first, second)


def _vectors_of_triangular(builder: Builder, t: Tensor) -> Tensor:
    """Return the right eigenvectors of upper triangular complex matrices [batch, n, n] as columns of arbitrary norm.

    Column k belongs to the eigenvalue t[k, k]. Back substitution computes a row of all vectors at once, from the last
    row to the first. For t = [[1, 2], [0, 3]], row 1 is (0, 1), row 0 is (1, -2 / (1 - 3)) = (1, 1), and the vectors
    are the columns (1, 0) and (1, 1).

    The caller has scaled t to a largest magnitude of about 1, and normalizes the vectors. To avoid overflow, a column
    whose new element v has |v| > 1 is divided by |v|: (v, a, b) becomes (v, a, b) / |v|, which is an eigenvector, too.
    """
    batch, n, _ = t.shape
    if n == 0:
        return t
    values = matrices.diagonals(builder, t)

    def row_of_vectors(index: Size, tensors: list[Tensor]) -> list[Tensor]:
        """Return the vectors with row j = n - 1 - index computed from the rows below it, which were computed before.

        The only tensor of `tensors` and of the result is x, the vectors: x[i, k] is the element i of vector k.
        For k > j, x[j, k] solves row j of (t - values[k]) x = 0: it is minus the sum of t[j, i] * x[i, k] over i > j,
        divided by t[j, j] - values[k]. It is 1 for k = j, and 0 for k < j. A divisor of about 0, as of equal
        eigenvalues, is replaced by a small number. t are the triangular n x n matrices, values their diagonals.
        """
        (x,) = tensors
        j = n - 1 - index
        row = slicing.slice_axis(builder, t, axis=1, start=j, limit=j + 1)
        column = shapes.reshape(builder, row, (batch, n, 1))
        # The sum over all i is that over i > j, because the rows of x up to j are still 0.
        total = reductions.reduce(builder, "add", ew.binary(builder, "mul", column, x), axes=[1], keep=True)
        row_index = builder.constant(np.array(j, object), I64)  # an I64 tensor with the value that j has at run time
        pivot = slicing.slice_axis(builder, row, axis=2, start=j, limit=j + 1)
        new = formula(builder, _element_of_vectors, total, pivot, values, row_index)  # row j of x
        # Return x with `new` as row j. Each column whose new element v has |v| > 1 is divided by |v|.
        return [formula(builder, _with_row_scaled, x, new, row_index)]

    return control.for_(builder, n, [shapes.full(builder, 0.0, t.shape, t.dtype)], row_of_vectors)[0]


def _element_of_vectors(total: Element, pivot: Element, value: Element, row_index: Element) -> Element:
    """Return an element of row j of the eigenvectors of a triangular matrix t: 1 on the diagonal, 0 left of it, and
    -total / (pivot - value) right of it.

    `total` is the sum of t[j, i] times element i of the vector over i > j, `pivot` is t[j, j], `value` the eigenvalue
    of the column, `row_index` is j.
    """
    eps = float(np.finfo(total.dtype.real.numpy).eps)
    difference = pivot - value
    # The least divisor, for equal eigenvalues. It is relative to the eigenvalue, like LAPACK's, so that the vectors of
    # small eigenvalues of a graded matrix are accurate, too; eps * eps is for an eigenvalue of about 0.
    smallest = (value.unary("abs") * eps).max(eps * eps)
    is_small = difference.unary("abs") < smallest
    column = total.position(axis=2, dtype=I64)
    solved = -total / is_small.where(smallest.to(total.dtype), difference)
    of_rest = column.is_equal(row_index).where(total.const(1.0), total.const(0.0))
    return (column > row_index).where(solved, of_rest)


def _with_row_scaled(old: Element, new: Element, row_index: Element) -> Element:
    """Return an element of a matrix whose columns are vectors, after row `row_index` is replaced: `old` is the element
    before, `new` that of the new row in the same column.

    All elements of a column are divided by the magnitude of its new element if that is above 1: so vectors, which may
    have any length, do not overflow.
    """
    divisor = new.unary("abs").max(1.0)
    combined = old.position(axis=1, dtype=I64).is_equal(row_index).where(new, old)
    return (combined.real / divisor).with_imag(combined.imag / divisor)
