"""Interpolation kernels, and resampling of axes: each new element is a weighted sum of a few old ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import gathers, products, shapes
from pydispatch.operations.formulas import Element, formula

Array = np.ndarray[Any, Any]  # of NumPy: indices and weights, computed when a graph is built
USUAL = -0.75
"""Coefficient of Keys' cubic convolution kernel that ML frameworks use by default."""
_MAX_GATHERED_TAPS = 4  # more taps per position are one product with a matrix instead of gathers


def cubic_inner(t: Any, a: float = USUAL) -> Any:
    """Return Keys' kernel with coefficient a at a distance t from 0 to 1; t is an array or an element of a formula."""
    return ((a + 2) * t - (a + 3)) * t * t + 1


def cubic_outer(t: Any, a: float = USUAL) -> Any:
    """Return Keys' kernel with coefficient a at a distance t from 1 to 2; it is 0 from there on."""
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a


def cubic_inner_slope(t: Any, a: float = USUAL) -> Any:
    """Return the derivative of `cubic_inner` by t."""
    return (3 * (a + 2) * t - 2 * (a + 3)) * t


def cubic_outer_slope(t: Any, a: float = USUAL) -> Any:
    """Return the derivative of `cubic_outer` by t."""
    return (3 * a * t - 10 * a) * t + 8 * a


Taps = Sequence[tuple[int, Callable[[Any], Any]]]
"""Taps of a position: offsets from the element before it, and functions from the distance to that element
to the weight."""
LINEAR: Taps = ((0, lambda part: 1 - part), (1, lambda part: part))
"""Taps of linear interpolation as (offset, weight). `part` is the distance of the position from the element before it,
from 0 to 1."""
CUBIC: Taps = ((-1, lambda part: cubic_outer(part + 1)), (0, cubic_inner), (1, lambda part: cubic_inner(1 - part)),
               (2, lambda part: cubic_outer(2 - part)))  # fmt: skip
"""Taps of cubic interpolation: four elements around a position."""

LINEAR_SLOPES: Taps = ((0, lambda part: part.const(-1.0)), (1, lambda part: part.const(1.0)))
"""Taps of `LINEAR` with the derivative of the weight by the position in place of the weight: (offset, derivative)."""
CUBIC_SLOPES: Taps = (
    (-1, lambda part: cubic_outer_slope(part + 1)),
    (0, cubic_inner_slope),
    (1, lambda part: -cubic_inner_slope(1 - part)),
    (2, lambda part: -cubic_outer_slope(2 - part)),
)
"""Taps of `CUBIC` with the derivative of the weight by the position in place of the weight: (offset, derivative).
`part` is the distance of the position from the element before it, from 0 to 1."""


def sum_of_products(*factors: Element) -> Element:
    """Return factors[0] * factors[1] + factors[2] * factors[3] + ...: elements and their weights alternate."""
    total = factors[0] * factors[1]
    for n in range(2, len(factors), 2):
        total = total + factors[n] * factors[n + 1]
    return total


def resampled(builder: Builder, x: Tensor, axis: int, taken: Array, weights: Array) -> Tensor:
    """Return x with new elements along an axis: new element i is the sum over n of old[taken[i, n]] * weights[i, n].

    `axis` is not negative, and its size is static.
    """
    if taken.shape[1] > _MAX_GATHERED_TAPS:  # one product with a matrix of weights replaces many gathers
        matrix = np.zeros((len(taken), int(x.shape[axis])))  # type: ignore[arg-type]
        np.add.at(matrix, (np.arange(len(taken))[:, None], taken), weights)  # adds up weights of repeated elements
        product = products.dot_general(builder, x, builder.constant(matrix, x.dtype), batch=[], contracted=[(axis, 1)])
        # The new axis is the last one of the product: move it to `axis`.
        return shapes.transpose(builder, product, [*range(axis), x.rank - 1, *range(axis, x.rank - 1)])
    return weighted_slices(builder, x, axis, [builder.constant(column) for column in taken.T],
                           [builder.constant(column, x.dtype) for column in weights.T])  # fmt: skip


def weighted_slices(
    builder: Builder, x: Tensor, axis: int, taken: Sequence[Tensor], weights: Sequence[Tensor]
) -> Tensor:
    """Return x with new elements along an axis: the sum over n of the slices at indices taken[n], times weights[n].

    Each tensor in `taken` and `weights` is a vector with an entry for each new element. For taken [[0, 1], [1, 2]] and
    weights [[0.75, 0.5], [0.25, 0.5]], the new elements are 0.75 x[0] + 0.25 x[1] and 0.5 x[1] + 0.5 x[2].
    """
    factors: list[Tensor] = []  # slice, its weights, next slice, its weights, ...
    for indices, weights_of_slice in zip(taken, weights, strict=True):
        factors.append(gathers.take(builder, x, indices, axis))
        factors.append(shapes.reshape(builder, weights_of_slice, [-1, *[1] * (x.rank - axis - 1)]))
    return formula(builder, sum_of_products, *factors)


def transposed(taken: Array, weights: Array, count: int) -> tuple[Array, Array]:
    """Return the taps of the transpose of `resampled`, which is its gradient.

    Example: of three old elements a, b and c, the new ones are 0.75 * a + 0.25 * b and 0.5 * b + 0.5 * c: `taken` is
    [[0, 1], [1, 2]], and `weights` [[0.75, 0.25], [0.5, 0.5]]. New element 0 uses a, both use b, 1 uses c: the results
    are [[0, 0], [0, 1], [1, 0]] and [[0.75, 0], [0.25, 0.5], [0.5, 0]].

    Args:
        taken: Indices of the old elements that each new element uses, [new, n].
        weights: Their weights, [new, n].
        count: Number of old elements.

    Returns:
        The indices of the new elements that use each old element, [count, k]. Their weights, [count, k]; 0 for old
        elements that fewer than k new ones use.
    """
    # A use is an entry of `taken`: use n is of new element n // width. In the example, old is [0, 1, 1, 2].
    old, width = taken.reshape(-1), taken.shape[1]
    order = np.argsort(old, kind="stable")
    use_counts = np.bincount(old, minlength=count)  # [1, 2, 1]
    # Sorted by old element, the uses of one are adjacent: number them from 0 for each old element, [0, 0, 1, 0].
    first_uses = np.cumsum(use_counts) - use_counts
    use_index = np.arange(len(old)) - np.repeat(first_uses, use_counts)
    most_uses = max(1, use_counts.max(initial=0))
    new, factors = (np.zeros((count, most_uses), dtype) for dtype in (np.int64, np.float64))
    new[old[order], use_index] = order // width
    factors[old[order], use_index] = weights.reshape(-1)[order]
    return new, factors
