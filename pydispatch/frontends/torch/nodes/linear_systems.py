"""Conversions of LU factorizations, determinants, inverses and linear systems."""

from __future__ import annotations

from pydispatch.frontends.torch.memory import TensorMemory
from pydispatch.frontends.torch.nodes.creation import eye, triangle
from pydispatch.frontends.torch.nodes.strided import is_contiguous
from pydispatch.frontends.torch.registry import converts
from pydispatch.frontends.torch.trace import Tracer
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Size, minimum, product
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
    """Return the packed LU factors, the pivots, and the position of the first zero pivot, from 1; 0 without one."""
    if not pivot:
        raise builder.fail("LU without pivots is not supported: PyTorch has it on CUDA alone", "factor with pivot=True")
    return factors.lu(builder, A)


@converts("aten.linalg_lu_factor")
def lu_factor(builder: Builder, A: Tensor, *, pivot: bool = True) -> Pair:  # noqa: N803
    """Return the packed LU factors and the pivots."""
    factored = lu_factor_ex(builder, A, pivot=pivot)
    return factored[0], factored[1]


def _permutation_of_pivots(builder: Builder, pivots: Tensor, n: Size) -> Tensor:
    """Return, for each row of L U, the index of the row of the factored matrix that it corresponds to: [..., n].

    `pivots` are LAPACK's successive row exchanges, counted from 1.
    """
    lead, count = pivots.shape[:-1], pivots.shape[-1]
    pivot_rows = shapes.reshape(builder, pivots, [product(lead), count])
    rows = shapes.broadcast_to(builder, shapes.iota(builder, [n], axis=0, dtype=I64), [pivot_rows.shape[0], n])

    def entry_after_exchange(
        row: Element, index: Element, j: Element, pivot: Element, row_j: Element, pivot_row: Element
    ) -> Element:
        """Return entry `index` of the permutation after the exchange of entry j with the entry of the pivot."""
        return index.is_equal(j).where(pivot_row, index.is_equal(pivot).where(row_j, row))

    def step(j: Size, tensors: list[Tensor]) -> list[Tensor]:
        """Exchange row j with the row that its pivot names, in the permutation [matrices, n] so far."""
        (rows,) = tensors
        position = shapes.broadcast_to(builder, reductions.size_as(builder, j, I64), [pivot_rows.shape[0], 1])
        pivot = formula(
            builder, lambda p: p.to(I64) - 1, slicing.slice_axis(builder, pivot_rows, axis=1, start=j, limit=j + 1)
        )
        row_j, pivot_row = (gathers.take_along(builder, rows, index, axis=1) for index in (position, pivot))
        indices = shapes.iota(builder, rows.shape, axis=1, dtype=I64)
        return [formula(builder, entry_after_exchange, rows, indices, position, pivot, row_j, pivot_row)]

    ordered = rows if count == 0 else for_(builder, count, [rows], step)[0]
    return shapes.reshape(builder, ordered, [*lead, n])


def _triangles(builder: Builder, LU: Tensor) -> Pair:  # noqa: N803
    """Split packed LU factors into L, whose diagonal is 1, and U."""
    m, n = LU.shape[-2:]
    k = minimum(m, n)
    first_columns = slicing.slice_axis(builder, LU, LU.rank - 1, start=0, limit=k)
    lower = triangle(builder, first_columns, "le", diagonal=-1)
    upper = triangle(builder, slicing.slice_axis(builder, LU, LU.rank - 2, start=0, limit=k), "ge", diagonal=0)
    return ew.binary(builder, "add", lower, eye(builder, m, k, dtype=LU.dtype)), upper


@converts("aten.lu_unpack")
def lu_unpack(
    builder: Builder, LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True  # noqa: N803
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return P, L and U from packed factors; matrices that are not requested are empty."""
    m = LU_data.shape[-2]
    order = _permutation_of_pivots(builder, LU_pivots, m)
    # The permutation matrix P has a 1 at each position [order[i], i].
    rows = shapes.expand_dims(builder, order, [order.rank - 1])
    index = shapes.reshape(builder, shapes.iota(builder, [m], axis=0, dtype=I64), [m, 1])
    P = ew.convert(builder, ew.compare(builder, "eq", index, rows), LU_data.dtype)  # noqa: N806
    none = shapes.full(builder, 0, [0], LU_data.dtype)
    return P if unpack_pivots else none, *(_triangles(builder, LU_data) if unpack_data else (none, none))


@converts("aten.linalg_lu")
def linalg_lu(builder: Builder, A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:  # noqa: N803
    """Return P, L and U of A = P L U."""
    return lu_unpack(builder, *lu_factor(builder, A, pivot=pivot))


@converts("aten.linalg_lu_solve")
def lu_solve(
    builder: Builder, LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False  # noqa: N803
) -> Tensor:  # fmt: skip
    """Solve A X = B (or X A = B, if not `left`) for a matrix A = P L U that is given by its packed factors L and U.

    pivots: row exchanges, of which P consists. adjoint: whether A^H takes the place of A.
    """
    if adjoint:  # X A^H = B is the adjoint of A X^H = B^H, so the matrix changes sides
        return matrices.adjoint(builder, lu_solve(builder, LU, pivots, matrices.adjoint(builder, B), left=not left))
    if not left:
        P, L, U = lu_unpack(builder, LU, pivots)  # noqa: N806
        right, upper = systems.broadcast_batches(builder, B, U)
        solution = linear.triangular_solve(builder, upper, right, left=False, lower=False)
        solution = linear.triangular_solve(
            builder, systems.broadcast_batches(builder, L, solution)[0], solution, left=False, has_unit_diagonal=True
        )
        return products.matmul(builder, solution, matrices.adjoint(builder, P))
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
    """Return LU, pivots and the index of the first zero pivot, as PyTorch saves them for the gradient of a determinant.

    For a contiguous real matrix these are the factors of its transpose.
    """
    matrix = A.tensor
    if not matrix.dtype.is_complex and is_contiguous(tracer, A):
        matrix = shapes.transpose(tracer.b, matrix, [*range(matrix.rank - 2), matrix.rank - 1, matrix.rank - 2])
    return factors.lu(tracer.b, matrix)


@converts("aten._linalg_det")
def det_with_factors(tracer: Tracer, A: TensorMemory) -> tuple[Tensor, Tensor, Tensor]:  # noqa: N803
    """Return the determinant, and the LU factors and pivots for its gradient."""
    LU, pivots, _ = _lu_for_gradients(tracer, A)  # noqa: N806
    return systems.determinant(tracer.b, LU, pivots), LU, pivots


@converts("aten.linalg_det", "aten.det")
def det(tracer: Tracer, A: TensorMemory) -> Tensor:  # noqa: N803
    """Return the determinants of matrices."""
    return det_with_factors(tracer, A)[0]


@converts("aten._linalg_slogdet")
def slogdet_with_factors(tracer: Tracer, A: TensorMemory) -> tuple[Tensor, ...]:  # noqa: N803
    """Return the signs and logarithms of determinants, and the LU factors and pivots for their gradients."""
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
    if sign.dtype.is_complex:
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
    """Solve A X = B (or X A = B, if not `left`), where B has matrices or vectors. Return X and the first zero pivot."""
    is_vector = B.rank == 1 or (A.rank - 1 == B.rank and all(
        n == m for n, m in zip(A.shape[:-1], B.shape, strict=True)))  # fmt: skip
    columns = shapes.expand_dims(builder, B, [B.rank]) if is_vector else B
    if left or is_vector:
        solution, failed = systems.solve(builder, A, columns)
    else:
        solution, failed = systems.solve(builder, matrices.adjoint(builder, A), matrices.adjoint(builder, columns))
        solution = matrices.adjoint(builder, solution)
    return shapes.squeeze(builder, solution, [solution.rank - 1]) if is_vector else solution, failed


@converts("aten.linalg_solve")
def solve(builder: Builder, A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:  # noqa: N803
    """Solve A X = B, or X A = B if not `left`."""
    return _solve(builder, A, B, left)[0]


@converts("aten.linalg_solve_ex")
def solve_ex(builder: Builder, A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Pair:  # noqa: N803
    """Solve A X = B, or X A = B if not `left`. Return X and the position of the first zero pivot; 0 without one."""
    return _solve(builder, A, B, left)


@converts("aten._linalg_solve_ex")
def solve_with_factors(
    builder: Builder, A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False  # noqa: N803
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the solution, the packed LU factors, the pivots, and the position of the first zero pivot (0 for none)."""
    LU, pivots, failed = factors.lu(builder, A)  # noqa: N806
    return _solve(builder, A, B, left)[0], LU, pivots, failed


@converts("aten.linalg_inv_ex")
def inv_ex(builder: Builder, A: Tensor, *, check_errors: bool = False) -> Pair:  # noqa: N803
    """Return the inverse, and the position of the first zero pivot; 0 without one."""
    return systems.solve(builder, A, eye(builder, A.shape[-1], dtype=A.dtype))


@converts("aten.linalg_inv", "aten.inverse")
def inv(builder: Builder, A: Tensor) -> Tensor:  # noqa: N803
    """Return the inverse."""
    return inv_ex(builder, A)[0]


@converts("aten.linalg_solve_triangular")
def solve_triangular(
    builder: Builder, self: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False  # noqa: N803
) -> Tensor:  # fmt: skip
    """Solve a triangular system A X = B, or X A = B if not `left`."""
    matrix, right = systems.broadcast_batches(builder, self, B)
    return linear.triangular_solve(builder, matrix, right, left=left, lower=not upper, has_unit_diagonal=unitriangular)


@converts("aten.triangular_solve")
def triangular_solve(
    builder: Builder, self: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False  # noqa: N803
) -> Pair:  # fmt: skip
    """Return the solution of A x = self, and A, both broadcast to one batch."""
    matrix, right = systems.broadcast_batches(builder, A, self)
    solution = linear.triangular_solve(
        builder, matrix, right, lower=not upper, transposed=transpose, has_unit_diagonal=unitriangular
    )
    return solution, matrix
