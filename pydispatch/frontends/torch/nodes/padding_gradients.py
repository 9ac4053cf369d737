"""Conversions of the gradients of replication padding."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import normalization, reductions, slicing
from pydispatch.operations.formulas import Element, formula

Ints = Sequence[int]


@converts(*(f"aten.replication_pad{n}d_backward" for n in (1, 2, 3)))
def replication_pad_backward(builder: Builder, grad_output: Tensor, self: Tensor, padding: Ints) -> Tensor:
    """Add the gradient of each padding element to the gradient of the border element that it repeats.

    padding: elements before and after the last axis, then before and after the axis before it, and so on.
    """
    gradient = ew.convert(builder, grad_output, normalization.wide(self.dtype))
    for n in range(len(padding) // 2):
        gradient = _axis_padding_gradient(builder, gradient, self.rank - 1 - n, padding[2 * n], padding[2 * n + 1])
    return ew.convert(builder, gradient, self.dtype)


def _axis_padding_gradient(builder: Builder, grad: Tensor, axis: int, before: int, after: int) -> Tensor:
    """Return the gradient of a tensor whose `axis` was padded by `before` and `after` copies of its border elements.

    The gradients of the copies are added to the border elements' gradients. Elements that a negative padding crops have
    the gradient 0.
    """
    # Take the gradients of the elements themselves. Then add the gradients of the copies at the two border elements.
    low, high = max(before, 0), max(after, 0)
    size: Size = grad.shape[axis] - low - high
    inner = slicing.slice_axis(builder, grad, axis, low, low + size)
    borders = [(0, 0, low), (size - 1, low + size, low + size + high)]  # (border element, its copies from, to)
    # Skip a border without copies.
    for position, start, limit in (border for border, width in zip(borders, (low, high), strict=True) if width):
        copies = slicing.slice_axis(builder, grad, axis, start, limit)
        total = reductions.reduce(builder, "add", copies, [axis], keep=True)

        def add_at_border(g: Element, n: Element, at: Element) -> Element:
            """Return g, the gradient of an element, plus n if the element is at the index `at`, the border element.

            n: sum of the gradients of the border element's copies.
            """
            return g + g.position(axis, I64).is_equal(at).where(n, 0.0)

        inner = formula(builder, add_at_border, inner, total, reductions.size_as(builder, position, I64))
    # Zeros for the elements that negative paddings have cropped.
    cropped_low, cropped_high = ([max(0, -n) if d == axis else 0 for d in range(grad.rank)] for n in (before, after))
    return slicing.pad(builder, inner, cropped_low, cropped_high)
