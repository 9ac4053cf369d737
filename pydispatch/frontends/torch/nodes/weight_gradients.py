"""Conversions of gradients of weight normalization and of masked_scatter."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import assignment, normalization, reductions, scans, shapes
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import Element, formula

Sizes = Sequence[Size]


@converts("aten._weight_norm_interface_backward")
def weight_norm_backward(
    builder: Builder, grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """Return the gradients of v and g of the weight w = g * v / norm(v), where the norm is over all axes but `dim`.

    Let n be the sum of grad_w * v over these axes. The gradient of v is g / norm * (grad_w - v * n / norm^2), that of g
    is n / norm. saved_norms: norm(v), whose reduced axes have size 1.
    """
    inner, axis = normalization.wide(saved_v.dtype), dim % saved_v.rank
    norm_axes = [d for d in range(saved_v.rank) if d != axis]
    products = formula(builder, lambda w, v: w.to(inner) * v.to(inner), grad_w, saved_v)
    total = reductions.reduce(builder, "add", products, norm_axes, keep=True)

    def of_v(w: Element, value: Element, g: Element, norm: Element, n: Element) -> Element:
        """Return the gradient of one element of v, which is passed as `value`.

        w, g, norm, n: the elements of grad_w, saved_g, saved_norms and `total` that broadcast to its position.
        """
        norm = norm.to(inner)
        return (g.to(inner) / norm * (w.to(inner) - value.to(inner) * n / (norm * norm))).to(saved_v.dtype)

    of_g = formula(builder, lambda n, norm: (n / norm.to(inner)).to(saved_g.dtype), total, saved_norms)
    return formula(builder, of_v, grad_w, saved_v, saved_g, saved_norms, total), of_g


@converts("aten.masked_scatter_backward")
def masked_scatter_backward(builder: Builder, grad_output: Tensor, mask: Tensor, sizes: Sizes) -> Tensor:
    """Return the gradient of the source of `masked_scatter`, of the shape `sizes`.

    It consists of the gradients of the masked elements, in order, then zeros. For the mask [1, 0, 1] and gradients
    [a, b, c], with the size 3, it is [a, c, 0]. The position of a masked element's gradient is the number of masked
    elements before it. Gradients of other elements have the position -1, which `put_rows` does not write.
    """
    marked = ew.convert(
        builder, shapes.reshape(builder, shapes.broadcast_to(builder, mask, grad_output.shape), [-1]), I64
    )
    marked_before = scans.cumulative(builder, "add", marked, axis=0, exclusive=True)
    positions = formula(builder, lambda m, n: m.is_equal(0).where(-1, n), marked, marked_before)
    source = shapes.full(builder, 0, [product(tuple(sizes))], grad_output.dtype)
    gradient = assignment.put_rows(builder, source, [positions], shapes.reshape(builder, grad_output, [-1]))
    return shapes.reshape(builder, gradient, sizes)
