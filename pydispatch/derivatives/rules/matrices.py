"""Derivatives of functions of matrices, by formulas: these are shorter and more accurate than the derivatives of the
loops that compute the functions.

The operation of a rule is a marker (`programs/derivative_markers.py`) whose operands are the arguments and then the
results of the function. The last two axes of a tensor are those of its matrices.
"""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.derivatives.cotangents import Cotangents, Rule
from pydispatch.graph.dtypes import I64
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise, linear, matrices, products, shapes
from pydispatch.operations.formulas import Element, formula
from pydispatch.programs.functions.linalg import inverse, solution
from pydispatch.programs.trace import Trace


def _solve(cotangents: Cotangents, op: Operation) -> None:
    """Add the cotangents of a and b for the solution x of a x = b with the cotangent dx: db solves the transposed
    system a' db = dx, and da is -db x'.
    """
    trace = cotangents.trace
    a, cotangent = cotangents.program_tensor(op.operands[0]), cotangents.of(op.results[0])
    assert cotangent is not None
    of_sides = solution(trace, matrices.adjoint(trace, a), cotangent)
    x = cotangents.program_tensor(op.results[0])
    cotangents.add(op.operands[1], of_sides)
    cotangents.add(op.operands[0], _negated(trace, products.matmul(trace, of_sides, matrices.adjoint(trace, x))))


def _inverse(cotangents: Cotangents, op: Operation) -> None:
    """Add the cotangent of a matrix: -y' dy y', for its inverse y, the transpose y' of y, and the cotangent dy of y."""
    trace = cotangents.trace
    transposed, cotangent = (
        matrices.adjoint(trace, cotangents.program_tensor(op.results[0])),
        cotangents.of(op.results[0]),
    )
    assert cotangent is not None
    product = products.matmul(trace, products.matmul(trace, transposed, cotangent), transposed)
    cotangents.add(op.operands[0], _negated(trace, product))


def _determinant(cotangents: Cotangents, op: Operation) -> None:
    """Add the cotangent of a matrix: the transpose of its inverse, times the determinant and the cotangent of that."""
    trace, determinant = cotangents.trace, cotangents.program_tensor(op.results[0])
    cotangent = cotangents.of(op.results[0])
    assert cotangent is not None
    _add_scaled_inverse(cotangents, op, elementwise.binary(trace, "mul", determinant, cotangent))


def _log_determinant(cotangents: Cotangents, op: Operation) -> None:
    """Add the cotangent of a matrix: the transpose of its inverse, times the cotangent of the determinant's logarithm.

    Result 0, the sign of the determinant, has the derivative 0; result 1 is the logarithm.
    """
    cotangent = cotangents.of(op.results[1])
    if cotangent is not None:
        _add_scaled_inverse(cotangents, op, cotangent)


def _add_scaled_inverse(cotangents: Cotangents, op: Operation, factors: Tensor) -> None:
    """Add to the cotangent of operand 0, a stack of matrices, the transposed inverse of each matrix times its factor.

    Determinants and their logarithms have such derivatives. factors: one for each matrix, so that the shape is that of
    operand 0 without the last two axes.
    """
    trace, a = cotangents.trace, cotangents.program_tensor(op.operands[0])
    transposed = matrices.adjoint(trace, inverse(trace, a))
    scale = shapes.expand_dims(trace, factors, axes=[factors.rank, factors.rank + 1])
    cotangents.add(op.operands[0], elementwise.binary(trace, "mul", transposed, scale))


def _cholesky(cotangents: Cotangents, op: Operation) -> None:
    """Add the symmetric cotangent of a = L L': that of Murray, "Differentiation of the Cholesky decomposition".

    It is the symmetric part of inv(L') P inv(L), where P is the lower triangle of L' dL with half of its diagonal.
    """
    trace, factor = cotangents.trace, cotangents.program_tensor(op.results[0])
    cotangent = cotangents.of(op.results[0])
    assert cotangent is not None
    lower = matrices.triangle(trace, cotangent, "le", trace.constant(0, I64))
    product = products.matmul(trace, matrices.adjoint(trace, factor), lower)
    left = linear.triangular_solve(trace, factor, _half_of_diagonal(trace, product), transposed=True)
    both = linear.triangular_solve(trace, factor, left, left=False)
    symmetric = elementwise.binary(trace, "add", both, matrices.adjoint(trace, both))
    cotangents.add(op.operands[0], elementwise.binary(trace, "mul", symmetric, trace.constant(0.5, symmetric.dtype)))


def _half_of_diagonal(trace: Trace, x: Tensor) -> Tensor:
    """Return the lower triangles of a stack of matrices, with the elements of their diagonals halved.

    The derivative of a Cholesky decomposition contains this term.
    """

    def element(value: Element) -> Element:
        """Return an element below the diagonal, half of one on the diagonal, and 0 above it."""
        row, column = value.position(x.rank - 2, I64), value.position(x.rank - 1, I64)
        return (row > column).where(value, row.is_equal(column).where(value * 0.5, 0.0))

    return formula(trace, element, x)


def _negated(trace: Trace, x: Tensor) -> Tensor:
    """Return -x."""
    return elementwise.unary(trace, "neg", x)


MATRIX_RULES: dict[str, Rule] = {
    "numpy.linalg.solve": _solve,
    "numpy.linalg.inv": _inverse,
    "numpy.linalg.det": _determinant,
    "numpy.linalg.slogdet": _log_determinant,
    "numpy.linalg.cholesky": _cholesky,
}
"""Rules by the names of the markers in `programs.functions.linalg`."""
