"""Conversions of the gradients of distances between rows."""

from __future__ import annotations

import math

import numpy as np

from pydispatch.frontends.torch.nodes.products import count_of_rows
from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import gathers, normalization, reductions, shapes
from pydispatch.operations.formulas import Element, formula


@converts("aten._cdist_backward")
def cdist_backward(builder: Builder, grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    """Return the gradient of x1 from the gradient of the distances of all rows of x1 to all rows of x2.

    The distances are d[i, j] = norm(x1[i] - x2[j]) of order p. By the chain rule, the gradient of x1[i, k] is the sum
    over j of grad[i, j] times the derivative of d[i, j] by x1[i, k].

    Args:
        builder: The builder.
        grad: Gradient of the distances, [..., n, m].
        x1: Rows, [..., n, c].
        x2: Rows, [..., m, c].
        p: Order of the norm.
        cdist: The distances, [..., n, m].
    """
    inner = normalization.wide(x1.dtype)

    def share(g: Element, d: Element, a: Element, c: Element) -> Element:
        """Return the summand of a row of x2 in the gradient of one component of a row of x1.

        a, c: this component of the row of x1 and of the row of x2. d: distance of both rows. g: gradient of d.
        `_slope` returns the derivative of d by a - c.
        """
        return g.to(inner) * _slope(a.to(inner) - c.to(inner), d.to(inner), p)

    # All operands broadcast to [..., n, m, c]; the shares of the m rows of x2 (axis -2) are added up.
    weights, distances = (shapes.expand_dims(builder, matrix, [matrix.rank]) for matrix in (grad, cdist))
    rows, columns = shapes.expand_dims(builder, x1, [x1.rank - 1]), shapes.expand_dims(builder, x2, [x2.rank - 2])
    gradient = reductions.reduce(builder, "add", formula(builder, share, weights, distances, rows, columns), [-2])
    return ew.convert(builder, gradient, x1.dtype)


def _slope(difference: Element, distance: Element, p: float) -> Element:
    """Return the derivative of a p-norm by one of its components; 0 for a component of 0.

    difference: the component. distance: the norm. p: order of the norm. The norm of order 0 counts components that are
    not 0, so its derivative is 0. The norm of infinite order is the largest magnitude of a component, so its derivative
    is 0 by components of smaller magnitude.
    """
    size, sign = difference.unary("abs"), difference.unary("sign")
    if p == 0:
        return difference.const(0.0)
    if p == 1:
        return sign
    if math.isinf(p):
        return (size >= distance).where(sign, 0.0)
    slope = difference / distance if p == 2 else sign * (size / distance).binary("pow", p - 1.0)
    return difference.is_equal(0.0).where(0.0, slope)


@converts("aten._pdist_backward")
def pdist_backward(builder: Builder, grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor:
    """Return the gradient of the rows of `self` for the gradient of the distances of all pairs of rows.

    grad: gradient of the distances. pdist: the distances. Both are vectors with an element for each pair of rows i < j,
    in row-major order. Both are expanded to symmetric matrices, in which [i, j] and [j, i] are the element of the pair,
    so that the gradient is that of `cdist(self, self)`.
    """
    count = count_of_rows(builder, self)
    if count < 2:  # no pairs
        return shapes.full(builder, 0, self.shape, self.dtype)
    # positions[i, j]: index of the pair (i, j) in the vectors. On the diagonal it is 0, an arbitrary pair: there the
    # derivative is 0, whatever the distance is.
    pairs = np.zeros((count, count), np.int64)
    pairs[np.triu_indices(count, 1)] = np.arange(count * (count - 1) // 2)
    positions = builder.constant(pairs + pairs.T)
    grad_matrix, distance_matrix = (gathers.take(builder, vector, positions, axis=0) for vector in (grad, pdist))
    return cdist_backward(builder, grad_matrix, self, self, p, distance_matrix)
