"""Derivatives of functions of matrices: one formula, shorter and more accurate than the derivatives of all steps."""

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
    """Add the cotangents of a and b of a x = b: that of b solves the transposed system, that of a is its product with
    x.
    """
    trace = cotangents.trace
    a, cotangent = cotangents.program_tensor(op.operands[0]), cotangents.of(op.results[0])
    assert cotangent is not None
    of_sides = solution(trace, matrices.adjoint(trace, a), cotangent)
    x = cotangents.program_tensor(op.results[0])
    cotangents.add(op.operands[1], of_sides)
    cotangents.add(op.operands[0], _negated(trace, products.matmul(trace, of_sides, matrices.adjoint(trace, x))))


def _inverse(cotangents: Cotangents, op: Operation) -> None:
    """Add the cotangent of the inverted matrix: -y' dy y' for the inverse y, its transpose y' and its cotangent dy."""
    trace = cotangents.trace
    transposed, cotangent = (
        matrices.adjoint(trace, cotangents.program_tensor(op.results[0])),
        cotangents.of(op.results[0]),
    )
    assert cotangent is not None
    product = products.matmul(trace, products.matmul(trace, transposed, cotangent), transposed)
    cotangents.add(op.operands[0], _negated(trace, product))


def _determinant(cotangents: Cotangents, op: Operation) -> None:
    """Add the cotangent of a matrix: the transposed inverse, times the determinant and its cotangent."""
    trace, determinant = cotangents.trace, cotangents.program_tensor(op.results[0])
    cotangent = cotangents.of(op.results[0])
    assert cotangent is not None
    _add_scaled_inverse(cotangents, op, elementwise.binary(trace, "mul", determinant, cotangent))


def _log_determinant(cotangents: Cotangents, op: Operation) -> None:
    """Add the cotangent of a matrix: the transposed inverse, times the cotangent of the logarithm.

    The sign, result 0, is constant.
    """
    cotangent = cotangents.of(op.results[1])
    if cotangent is not None:
        _add_scaled_inverse(cotangents, op, cotangent)


def _add_scaled_inverse(cotangents: Cotangents, op: Operation, factors: Tensor) -> None:
    """Add the transposed inverses of the matrices, operand 0, times one factor for each, to their cotangent."""
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
    """Return the lower triangle of matrices with half of their diagonal, and 0 above it."""

    def element(value: Element) -> Element:
        """Return an element of the result."""
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
