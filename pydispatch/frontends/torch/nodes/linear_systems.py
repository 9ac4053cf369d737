"""Conversions of LU factorizations, determinants, inverses and linear systems."""

from __future__ import annotations

from pydispatch.frontends.torch.memory import TensorMemory
from pydispatch.frontends.torch.nodes.creation import eye, triangle
from pydispatch.frontends.torch.nodes.strided import is_contiguous
from pydispatch.frontends.torch.registry import converts
from pydispatch.frontends.torch.trace import Tracer
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.size_functions import minimum
from pydispatch.graph.sizes import Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import factors, gathers, linear, matrices, products, reductions, shapes, slicing, systems
from pydispatch.operations.control import for_
from pydispatch.operations.formulas import Element, formula

Pair = tuple[Tensor, Tensor]
"""Two results."""


# -- LU


@converts("aten.linalg_lu_factor_ex")
def lu_factor_ex(builder: Builder, A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> tuple[Tensor, ...]:  # noqa: N803
    """Return the LU factors in one matrix (U on and above the diagonal, L below it), the pivots (row i was exchanged
    with row pivots[i]), and the position of the first zero pivot, 0 for none.

    Pivots and position count from 1. `check_errors` has no effect: a zero pivot raises no error at run time.
    """
    if not pivot:
        raise builder.fail("LU without pivots is not supported: PyTorch has it on CUDA alone", "factor with pivot=True")
    return factors.lu(builder, A)


@converts("aten.linalg_lu_factor")
def lu_factor(builder: Builder, A: Tensor, *, pivot: bool = True) -> Pair:  # noqa: N803
    """Return the LU factors in one matrix (U on and above the diagonal, L below it), and the pivots, which are row
    exchanges that count from 1.
    """
    factored = lu_factor_ex(builder, A, pivot=pivot)
    return factored[0], factored[1]


def _permutation_of_pivots(builder: Builder, pivots: Tensor, n: Size) -> Tensor:
    """Return, for each row of L U, the index of the row of the factored matrix that it corresponds to: [..., n].

    `pivots` are LAPACK's successive row exchanges, counted from 1: in step j, row j was exchanged with row pivots[j].
    For example, [2, 3, 3] exchanges rows 1 and 2, then rows 2 and 3; the result, counted from 0, is [1, 2, 0].

    Args:
        builder: The builder.
        pivots: Row exchanges, [..., steps].
        n: Number of rows of the matrices.
    """
    lead, count = pivots.shape[:-1], pivots.shape[-1]
    pivot_rows = shapes.reshape(builder, pivots, [product(lead), count])
    identity = shapes.broadcast_to(builder, shapes.iota(builder, [n], axis=0, dtype=I64), [pivot_rows.shape[0], n])

    def step(j: Size, tensors: list[Tensor]) -> list[Tensor]:
        """Exchange entry j of each permutation with the entry at the pivot of step j.

        tensors: a list of the permutations after the steps before j, [matrices, n].
        """
        (rows,) = tensors
        # LAPACK's pivots count from 1, the permutation from 0.
        position = shapes.broadcast_to(builder, reductions.size_as(builder, j, I64), [pivot_rows.shape[0], 1])
        pivot = formula(
            builder, lambda p: p.to(I64) - 1, slicing.slice_axis(builder, pivot_rows, axis=1, start=j, limit=j + 1)
        )
        row_j, pivot_row = (gathers.take_along(builder, rows, index, axis=1) for index in (position, pivot))
        indices = shapes.iota(builder, rows.shape, axis=1, dtype=I64)
        return [formula(builder, _entry_after_exchange, rows, indices, position, pivot, row_j, pivot_row)]

    # An empty matrix has no exchanges, and no row j that the body of a loop could read.
    ordered = identity if count == 0 else for_(builder, count, [identity], step)[0]
    return shapes.reshape(builder, ordered, [*lead, n])


def _entry_after_exchange(
    row: Element, index: Element, j: Element, pivot: Element, row_j: Element, pivot_row: Element
) -> Element:
    """Return entry `index` of a permutation after entries j and `pivot` are exchanged.

    row: entry `index` before. row_j, pivot_row: entries j and `pivot` before.
    """
    return index.is_equal(j).where(pivot_row, index.is_equal(pivot).where(row_j, row))


def _triangles(builder: Builder, LU: Tensor) -> Pair:  # noqa: N803
    """Split LU factors in one matrix [..., m, n] into L [..., m, k], whose diagonal is 1, and U [..., k, n], for
    k = min(m, n).
    """
    m, n = LU.shape[-2:]
    k = minimum(m, n)
    # Keep the elements with column - row <= -1 for L, and those with column - row >= 0 for U.
    first_columns = slicing.slice_axis(builder, LU, LU.rank - 1, start=0, limit=k)
    lower = triangle(builder, first_columns, "le", diagonal=-1)
    upper = triangle(builder, slicing.slice_axis(builder, LU, LU.rank - 2, start=0, limit=k), "ge", diagonal=0)
    return ew.binary(builder, "add", lower, eye(builder, m, k, dtype=LU.dtype)), upper


@converts("aten.lu_unpack")
def lu_unpack(
    builder: Builder, LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True  # noqa: N803
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return P, L and U from the results of `lu_factor`. P is an empty vector unless `unpack_pivots`, L and U are empty
    vectors unless `unpack_data`.
    """
    m = LU_data.shape[-2]
    order = _permutation_of_pivots(builder, LU_pivots, m)
    # The permutation matrix P has a 1 at each position [order[i], i].
    rows = shapes.expand_dims(builder, order, [order.rank - 1])
    index = shapes.reshape(builder, shapes.iota(builder, [m], axis=0, dtype=I64), [m, 1])
    P = ew.convert(builder, ew.compare(builder, "eq", index, rows), LU_data.dtype)  # noqa: N806
    none = shapes.full(builder, 0, [0], LU_data.dtype)  # a result that the caller did not request
    return P if unpack_pivots else none, *(_triangles(builder, LU_data) if unpack_data else (none, none))


@converts("aten.linalg_lu")
def linalg_lu(builder: Builder, A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:  # noqa: N803
    """Return the permutation matrix P, L with ones on the diagonal, and U of A = P L U."""
    return lu_unpack(builder, *lu_factor(builder, A, pivot=pivot))


@converts("aten.linalg_lu_solve")
def lu_solve(
    builder: Builder, LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False  # noqa: N803
) -> Tensor:  # fmt: skip
    """Solve A X = B (or X A = B, if not `left`) for A = P L U. `LU` has L below the diagonal and U on and above it.

    pivots: row exchanges, counted from 1, whose product is P. adjoint: whether to solve with A^H instead of A.
    """
    if adjoint:  # X A^H = B is the adjoint of A X^H = B^H, so the matrix changes sides
        return matrices.adjoint(builder, lu_solve(builder, LU, pivots, matrices.adjoint(builder, B), left=not left))
    if not left:  # X P L U = B: solve with U, then with L, then multiply by the inverse of P, which is its adjoint
        P, L, U = lu_unpack(builder, LU, pivots)  # noqa: N806
        right, upper = systems.broadcast_batches(builder, B, U)
        solution = linear.triangular_solve(builder, upper, right, left=False, lower=False)
        solution = linear.triangular_solve(
            builder, systems.broadcast_batches(builder, L, solution)[0], solution, left=False, has_unit_diagonal=True
        )
        return products.matmul(builder, solution, matrices.adjoint(builder, P))
    # P L U X = B: bring the rows of B into the order of those of L U, then solve with L, then with U.
    order = _permutation_of_pivots(builder, pivots, LU.shape[-2])
    matrix, right = systems.broadcast_batches(builder, LU, B)
    positions = shapes.broadcast_to(builder, shapes.expand_dims(builder, order, [order.rank]), right.shape)
    permuted = gathers.take_along(builder, right, positions, right.rank - 2)
    lower_solution = linear.triangular_solve(builder, matrix, permuted, has_unit_diagonal=True)
    return linear.triangular_solve(builder, matrix, lower_solution, lower=False)


@converts("aten.lu_solve")
def lu_solve_legacy(builder: Builder, self: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:  # noqa: N803
    """Solve A X = self for a matrix A that is given by its LU factors."""
    return lu_solve(builder, LU_data, LU_pivots, self)


# -- determinants


def _lu_for_gradients(tracer: Tracer, A: TensorMemory) -> tuple[Tensor, Tensor, Tensor]:  # noqa: N803
    """Return the LU factors in one matrix, the pivots and the position of the first zero pivot (0 for none), as PyTorch
    saves them for the gradient of a determinant.

    For a contiguous real matrix PyTorch factors the transpose, which has the same determinant: LAPACK's column-major
    order then needs no copy.
    """
    matrix = A.tensor
    if not matrix.dtype.is_complex and is_contiguous(tracer, A):
        matrix = shapes.transpose(tracer.b, matrix, [*range(matrix.rank - 2), matrix.rank - 1, matrix.rank - 2])
    return factors.lu(tracer.b, matrix)


@converts("aten._linalg_det")
def det_with_factors(tracer: Tracer, A: TensorMemory) -> tuple[Tensor, Tensor, Tensor]:  # noqa: N803
    """Return the determinant, and the LU factors and pivots (see `_lu_for_gradients`) for its gradient."""
    LU, pivots, _ = _lu_for_gradients(tracer, A)  # noqa: N806
    return systems.determinant(tracer.b, LU, pivots), LU, pivots


@converts("aten.linalg_det", "aten.det")
def det(tracer: Tracer, A: TensorMemory) -> Tensor:  # noqa: N803
    """Return the determinants of matrices."""
    return det_with_factors(tracer, A)[0]


@converts("aten._linalg_slogdet")
def slogdet_with_factors(tracer: Tracer, A: TensorMemory) -> tuple[Tensor, ...]:  # noqa: N803
    """Return the signs of determinants, the logarithms of their magnitudes, and the LU factors and pivots (see
    `_lu_for_gradients`) for their gradients.
    """
    LU, pivots, _ = _lu_for_gradients(tracer, A)  # noqa: N806
    return *systems.log_determinant(tracer.b, LU, pivots), LU, pivots


@converts("aten.linalg_slogdet", "aten.slogdet")
def slogdet(tracer: Tracer, A: TensorMemory) -> Pair:  # noqa: N803
    """Return the signs of determinants, and the logarithms of their magnitudes."""
    results = slogdet_with_factors(tracer, A)
    return results[0], results[1]


@converts("aten.logdet")
def logdet(tracer: Tracer, A: TensorMemory) -> Tensor:  # noqa: N803
    """Return the logarithm of the determinant: NaN if it is negative, the principal value if it is complex."""
    sign, log = slogdet(tracer, A)
    if sign.dtype.is_complex:  # the sign is det / |det|: its angle is the imaginary part of the logarithm
        return ew.apply(
            tracer.b,
            lambda scalars, z, log_size: scalars.complex(
                log_size, scalars.binary("atan2", scalars.imag(z), scalars.real(z))
            ),
            sign,
            log,
        )
    return formula(tracer.b, lambda sign, log_size: (sign < 0.0).where(float("nan"), log_size), sign, log)


# -- linear systems


def _solve(builder: Builder, A: Tensor, B: Tensor, left: bool) -> tuple[Tensor, Tensor]:  # noqa: N803
    """Solve A X = B (or X A = B, if not `left`). Return X, and the position of the first zero pivot of A.

    Positions count from 1; 0 is no zero pivot.

    B is a vector if it has one axis, and a batch of vectors if it has the shape of A without the last axis. Else it is
    a matrix or a batch of matrices.
    """
    is_vector = B.rank == 1 or (A.rank - 1 == B.rank and all(
        n == m for n, m in zip(A.shape[:-1], B.shape, strict=True)))  # fmt: skip
    columns = shapes.expand_dims(builder, B, [B.rank]) if is_vector else B
    if left or is_vector:
        solution, failed = systems.solve(builder, A, columns)
    else:  # X A = B is A^H X^H = B^H
        solution, failed = systems.solve(builder, matrices.adjoint(builder, A), matrices.adjoint(builder, columns))
        solution = matrices.adjoint(builder, solution)
    return shapes.squeeze(builder, solution, [solution.rank - 1]) if is_vector else solution, failed


@converts("aten.linalg_solve")
def solve(builder: Builder, A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:  # noqa: N803
    """Solve A X = B, or X A = B if not `left`."""
    return _solve(builder, A, B, left)[0]


@converts("aten.linalg_solve_ex")
def solve_ex(builder: Builder, A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Pair:  # noqa: N803
    """Solve A X = B, or X A = B if not `left`. Return X, and the position of the first zero pivot of A, from 1 (0 for
    none). `check_errors` has no effect: a zero pivot raises no error at run time.
    """
    return _solve(builder, A, B, left)


@converts("aten._linalg_solve_ex")
def solve_with_factors(
    builder: Builder, A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False  # noqa: N803
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the solution X of A X = B (X A = B if not `left`), then the three results of `lu_factor_ex` for A.

    `check_errors` has no effect: a zero pivot raises no error at run time.
    """
    LU, pivots, failed = factors.lu(builder, A)  # noqa: N806
    return _solve(builder, A, B, left)[0], LU, pivots, failed


@converts("aten.linalg_inv_ex")
def inv_ex(builder: Builder, A: Tensor, *, check_errors: bool = False) -> Pair:  # noqa: N803
    """Return the inverse, and the position of the first zero pivot of A, from 1 (0 for none).

    `check_errors` has no effect: a zero pivot raises no error at run time.
    """
    return systems.solve(builder, A, eye(builder, A.shape[-1], dtype=A.dtype))


@converts("aten.linalg_inv", "aten.inverse")
def inv(builder: Builder, A: Tensor) -> Tensor:  # noqa: N803
    """Return the inverse."""
    return inv_ex(builder, A)[0]


@converts("aten.linalg_solve_triangular")
def solve_triangular(
    builder: Builder, self: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False  # noqa: N803
) -> Tensor:  # fmt: skip
    """Solve A X = B, or X A = B if not `left`. The triangular matrix A is `self`.

    Only its upper or lower triangle is read, and its diagonal counts as 1 if `unitriangular`.
    """
    matrix, right = systems.broadcast_batches(builder, self, B)
    return linear.triangular_solve(builder, matrix, right, left=left, lower=not upper, has_unit_diagonal=unitriangular)


@converts("aten.triangular_solve")
def triangular_solve(
    builder: Builder, self: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False  # noqa: N803
) -> Pair:  # fmt: skip
    """Return the solution x of A x = self (A^T x = self if `transpose`) for a triangular matrix A, and A.

    The batch axes of both are broadcast. A's diagonal counts as 1 if `unitriangular`.
    """
    matrix, right = systems.broadcast_batches(builder, A, self)
    solution = linear.triangular_solve(
        builder, matrix, right, lower=not upper, transposed=transpose, has_unit_diagonal=unitriangular
    )
    return solution, matrix
