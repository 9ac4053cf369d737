"""Gradients of padding by elements of the tensor itself."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.graph.dtypes import I64
from pydispatch.frontends.graph.sizes import Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import normalization, reductions, shapes
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.torch.trace import Conversion, Tracer

Ints = Sequence[int]


def replication_pad_backward(tracer: Tracer, grad_output: Tensor, self: Tensor, padding: Ints) -> Tensor:
    gradient = ew.convert(tracer.b, grad_output, normalization.wide(self.dtype))
    for n in range(len(padding) // 2):
        gradient = _without_padding(tracer, gradient, self.rank - 1 - n, padding[2 * n], padding[2 * n + 1])
    return ew.convert(tracer.b, gradient, self.dtype)


def _without_padding(tracer: Tracer, grad: Tensor, axis: int, before: int, after: int) -> Tensor:
    """Return the gradient before padding along an axis: the outermost elements have the sums of their copies in the
    padding.

    Elements that a negative padding takes away have the gradient 0.
    """
    low, high = max(before, 0), max(after, 0)
    size: Size = grad.shape[axis] - low - high
    inner = shapes.slice_axis(tracer.b, grad, axis, low, low + size)
    beyond = [(0, 0, low), (size - 1, low + size, low + size + high)]
    for position, start, limit in (border for border, width in zip(beyond, (low, high), strict=True) if width):
        copies = shapes.slice_axis(tracer.b, grad, axis, start, limit)
        total = reductions.reduce(tracer.b, "add", copies, [axis], keep=True)

        def added(g: Element, n: Element, at: Element) -> Element:
            return g + g.position(axis, I64).is_equal(at).where(n, 0.0)

        inner = formula(tracer.b, added, inner, total, reductions.size_as(tracer.b, position, I64))
    around = ([max(0, -n) if d == axis else 0 for d in range(grad.rank)] for n in (before, after))
    return shapes.pad(tracer.b, inner, next(around), next(around))


PADDING_GRADIENTS: dict[str, Conversion] = {
    f"aten.replication_pad{n}d_backward": replication_pad_backward for n in (1, 2, 3)
}
