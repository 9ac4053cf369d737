"""Gradients of pooling."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import I64, DType
from pydispatch.frontends.graph.sizes import Size, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import normalization, products, reductions, scatters, shapes, windows
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.torch.nodes.windows import Pool, elements_in_windows
from pydispatch.frontends.torch.trace import Conversion, Tracer

Ints = Sequence[int]


def _max_pool(spatial: int) -> Conversion:
    def convert(
        t: Tracer, grad_output: Tensor, self: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints,
        ceil_mode: bool, indices: Tensor,
    ) -> Tensor:  # fmt: skip
        p = Pool(t, self, spatial, kernel_size, stride, padding, dilation, ceil_mode)
        inner = normalization.wide(self.dtype)
        grad, places = ew.convert(t.b, p.batched(grad_output), inner), p.batched(indices)
        made = windows.sum_over_windows(t.b, grad, p.x.shape[2:], p.kernel, p.window, places)
        return p.done(ew.convert(t.b, made, self.dtype))

    return convert


def _avg_pool(spatial: int) -> Conversion:
    def convert(
        t: Tracer, grad_output: Tensor, self: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
        count_include_pad: bool, divisor_override: int | None,
    ) -> Tensor:  # fmt: skip
        p = Pool(t, self, spatial, kernel_size, stride, padding, (1,), ceil_mode)
        inner = normalization.wide(self.dtype)
        if divisor_override is not None:
            divisor = t.b.constant(divisor_override, inner)
        else:
            divisor = elements_in_windows(t, p, count_include_pad, inner)
        share = ew.binary(t.b, "div", ew.convert(t.b, p.batched(grad_output), inner), divisor)
        made = windows.sum_over_windows(t.b, share, p.x.shape[2:], p.kernel, p.window)
        return p.done(ew.convert(t.b, made, self.dtype))

    return convert


# -- pooling to a size


def _adaptive_avg_pool(spatial: int) -> Conversion:
    def convert(t: Tracer, grad_output: Tensor, self: Tensor) -> Tensor:
        made = ew.convert(t.b, grad_output, normalization.wide(self.dtype))
        for axis in range(self.rank - spatial, self.rank):
            made = _spread(t.b, made, axis, self.shape[axis])
        return ew.convert(t.b, made, self.dtype)

    return convert


def _spread(b: Builder, grad: Tensor, axis: int, size: Size) -> Tensor:
    """Return the gradient of means over windows along an axis of `size` elements."""
    out = grad.shape[axis]
    if out == size:
        return grad
    if out == 1 or (isinstance(out, int) and isinstance(size, int) and size % out == 0):
        each = size // out
        shape = [*grad.shape[: axis + 1], each, *grad.shape[axis + 1 :]]
        share = formula(b, lambda g, n: g / n, grad, reductions.size_as(b, each, grad.dtype))
        made = shapes.broadcast_to(b, shapes.expand_dims(b, share, [axis + 1]), shape)
        return shapes.reshape(b, made, [*grad.shape[:axis], size, *grad.shape[axis + 1 :]])
    made = products.dot_general(b, grad, _shares(b, size, out, grad.dtype), [], [(axis, 1)])
    return shapes.transpose(b, made, [*range(axis), made.rank - 1, *range(axis, made.rank - 1)])


def _shares(b: Builder, size: Size, out: Size, dtype: DType) -> Tensor:
    """Return the weight of each of `size` elements in each of `out` means over adaptive windows, [size, out]."""
    numbers = shapes.reshape(b, shapes.iota(b, [size], 0, I64), [size, 1])

    def share(i: Element, n: Element, m: Element) -> Element:
        window = i.position(1, I64)
        first, limit = (window * n) / m, ((window + 1) * n + m - 1) / m
        weight = i.const(1).to(dtype) / (limit - first).to(dtype)
        return ((i >= first) & (i < limit)).choose(weight, 0.0)

    wide = shapes.broadcast_to(b, numbers, [size, out])
    return formula(b, share, wide, reductions.size_as(b, size, I64), reductions.size_as(b, out, I64))


def _adaptive_max_pool(spatial: int) -> Conversion:
    def convert(t: Tracer, grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
        lead = self.shape[: self.rank - spatial]
        grad, places = (shapes.reshape(t.b, x, [product(lead), -1]) for x in (grad_output, indices))
        start = shapes.full(t.b, 0, [product(lead), product(self.shape[-spatial:])], normalization.wide(self.dtype))
        made = scatters.put_along(t.b, start, places, ew.convert(t.b, grad, start.dtype), 1, "add")
        return ew.convert(t.b, shapes.reshape(t.b, made, self.shape), self.dtype)

    return convert


POOL_GRADIENTS: dict[str, Conversion] = {
    **{f"aten.max_pool{n}d_with_indices_backward": _max_pool(n) for n in (2, 3)},
    **{f"aten.avg_pool{n}d_backward": _avg_pool(n) for n in (2, 3)},
    **{f"aten._adaptive_avg_pool{n}d_backward": _adaptive_avg_pool(n) for n in (2, 3)},
    **{f"aten.adaptive_max_pool{n}d_backward": _adaptive_max_pool(n) for n in (2, 3)},
}
