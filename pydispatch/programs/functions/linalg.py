"""Functions of numpy.linalg on traced arrays: factors, linear systems, eigenvalues and singular values of matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pydispatch.graph.dtypes import F16, F32
from pydispatch.graph.values import Tensor
from pydispatch.operations import eigen, elementwise, factors, jacobi, linear, matrices, shapes, systems
from pydispatch.programs.array import Array
from pydispatch.programs.derivative_markers import with_rule
from pydispatch.programs.functions import combined, products
from pydispatch.programs.functions.common import division_operands
from pydispatch.programs.trace import Trace


class EigResult(NamedTuple):
    """Result of eig and eigh: eigenvalues [..., n], in ascending order for eigh, and eigenvectors [..., n, n] as
    columns.
    """

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Result of qr: Q with orthonormal columns, and the upper triangle R."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Result of svd: U, the singular values S in descending order, and Vh, the adjoint of V."""

    U: Array
    S: Array
    Vh: Array


class SlogdetResult(NamedTuple):
    """Result of slogdet: the sign of each determinant, and the logarithm of its magnitude."""

    sign: Array
    logabsdet: Array


def _matrices(trace: Trace, *operands: Any) -> list[Tensor]:
    """Return operands as tensors of one type that numpy.linalg computes in.

    Raise CompileError for f16, and if the first operand has less than two axes.
    """
    tensors = division_operands(trace, *operands)
    if tensors[0].dtype == F16:
        raise trace.fail(f"numpy.linalg has no functions of {tensors[0]}", f"convert it: x.astype(numpy.{F32.numpy})")
    if tensors[0].rank < 2:
        raise trace.fail(f"numpy.linalg of {tensors[0]}: expected matrices", "give it two axes or more")
    return tensors


def _function(of: Callable[..., Tensor | Sequence[Tensor]], result: Callable[..., Any] | None = None) -> Any:
    """Return the handler of a NumPy function whose only array argument is a batch of matrices.

    Args:
        of: Function of(trace, matrices, *options, **named) that returns a tensor or several. The options are those of
            the NumPy function.
        result: Named tuple of several results; None for a function with one result, or with several in a plain tuple.
    """

    def call(trace: Trace, a: Any, *options: Any, **named: Any) -> Any:
        """Record the call of(trace, matrices, ...) for the matrices in `a`, and return its result as an array.

        Several results are a tuple, of the type `result` unless that is None.
        """
        (x,) = _matrices(trace, a)
        results = of(trace, x, *options, **named)
        if isinstance(results, Tensor):
            return Array(trace, results)
        arrays = tuple(Array(trace, tensor) for tensor in results)
        return result(*arrays) if result else arrays

    return call


def _eigh(trace: Trace, x: Tensor, UPLO: str = "L") -> tuple[Tensor, Tensor]:  # noqa: N803
    """Return eigenvalues and eigenvectors of symmetric matrices, of which the triangle UPLO is read."""
    if UPLO not in ("L", "U", "l", "u"):
        raise trace.fail(f"numpy.linalg.eigh of the triangle {UPLO!r}", "UPLO is 'L' for the lower one, or 'U'")
    return eigen.eigh(trace, x, lower=UPLO.upper() == "L")


def _eigvalsh(trace: Trace, x: Tensor, UPLO: str = "L") -> Tensor:  # noqa: N803
    """Return the eigenvalues of symmetric matrices, of which the triangle UPLO is read."""
    return _eigh(trace, x, UPLO)[0]


def _svd(trace: Trace, x: Tensor, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, the singular values in descending order, and V adjoint. U and V are square with `full_matrices`."""
    return jacobi.svd(trace, x, full_matrices)


def svd(
    trace: Trace, a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> SVDResult | Array:
    """Return (U, singular values, V adjoint) of matrices; without `compute_uv`, only the singular values."""
    if hermitian:
        raise trace.fail("numpy.linalg.svd of Hermitian matrices is not a part of programs", "leave hermitian= out")
    values: SVDResult = _function(_svd, SVDResult)(trace, a, full_matrices)
    return values if compute_uv else values.S


def _cholesky(trace: Trace, x: Tensor, *, upper: bool = False) -> Tensor:
    """Return the lower Cholesky factor, or the upper one, for which the upper triangle is read.

    The upper factor is the adjoint of the lower factor of the adjoint matrix.
    """
    a = matrices.adjoint(trace, x) if upper else x
    (factor,) = with_rule(trace, "numpy.linalg.cholesky", [a], [linear.cholesky(trace, a)])
    return matrices.adjoint(trace, factor) if upper else factor


def inverse(trace: Trace, x: Tensor) -> Tensor:
    """Return the inverse matrices, the solutions for the columns of the identity, marked with their derivative rule."""
    inverses = systems.solve(trace, x, matrices.identity(trace, x.shape[-1], x.shape[-1], x.dtype))[0]
    return with_rule(trace, "numpy.linalg.inv", [x], [inverses])[0]


def solution(trace: Trace, a: Tensor, sides: Tensor) -> Tensor:
    """Solve a x = sides for matrices [..., n, n] and right-hand sides [..., n, m] whose batch axes broadcast."""
    a, sides = systems.broadcast_batches(trace, a, sides)
    return with_rule(trace, "numpy.linalg.solve", [a, sides], [systems.solve(trace, a, sides)[0]])[0]


def solve(trace: Trace, a: Any, b: Any) -> Array:
    """Solve a x = b. As in NumPy 2, b is a vector if it has one axis, and otherwise matrices."""
    x, y = _matrices(trace, a, b)
    if y.rank != 1:
        return Array(trace, solution(trace, x, y))
    column = solution(trace, x, shapes.expand_dims(trace, y, axes=[1]))
    return Array(trace, shapes.squeeze(trace, column, [column.rank - 1]))


def _det(trace: Trace, x: Tensor) -> Tensor:
    """Return the determinants, from LU factors, marked with their derivative rule."""
    determinants = systems.determinant(trace, *factors.lu(trace, x)[:2])
    return with_rule(trace, "numpy.linalg.det", [x], [determinants])[0]


def _slogdet(trace: Trace, x: Tensor) -> Sequence[Tensor]:
    """Return the signs of the determinants and the logarithms of their magnitudes, from LU factors."""
    sign, log = systems.log_determinant(trace, *factors.lu(trace, x)[:2])
    return with_rule(trace, "numpy.linalg.slogdet", [x], [sign, elementwise.convert(trace, log, x.dtype.real)])


def outer(trace: Trace, a: Any, b: Any) -> Array:
    """Return the outer product of two vectors; numpy.outer takes arrays of any rank."""
    x, y = trace.tensor_of(a), trace.tensor_of(b)
    if (x.rank, y.rank) != (1, 1):
        raise trace.fail(f"numpy.linalg.outer of {x} and {y}: expected vectors", "numpy.outer takes arrays of any rank")
    return products.outer(trace, a, b)


def diagonal_sum(trace: Trace, a: Any, *, offset: int = 0) -> Any:
    """Return the sum of the diagonal of each matrix; numpy.trace takes the first two axes for matrices."""
    return combined.trace_of(trace, a, offset, axis1=-2, axis2=-1)


def qr(trace: Trace, a: Any, mode: str = "reduced") -> QRResult | Array:
    """Return Q and R, or R alone in the mode "r"."""
    if mode not in ("reduced", "r"):
        raise trace.fail(f"numpy.linalg.qr in the mode '{mode}' is not a part of programs", "there are reduced and r")
    both: QRResult = _function(systems.qr, QRResult)(trace, a)
    return both if mode == "reduced" else both.R


Array.FUNCTIONS |= {
    "eig": _function(lambda t, x: eigen.eig(t, x)[:2], EigResult), "eigvals": _function(eigen.eigenvalues),
    "eigh": _function(_eigh, EigResult), "eigvalsh": _function(_eigvalsh),
    "svd": svd, "svdvals": _function(lambda t, x: _svd(t, x, full_matrices=False)[1]), "cholesky": _function(_cholesky),
    "inv": _function(inverse), "solve": solve, "det": _function(_det), "slogdet": _function(_slogdet, SlogdetResult),
    "qr": qr, "linalg.outer": outer, "linalg.trace": diagonal_sum,
}  # fmt: skip
