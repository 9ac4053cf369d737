"""Windows that move over the last axes of a tensor, each reduced to an element."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import DType
from pydispatch.frontends.graph.sizes import Shape, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import shapes
from pydispatch.frontends.ops.products import Window
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.reductions import Combine, least
from pydispatch.frontends.ops.scalars import Scalars, scalars_of


def pool_with(
    b: Builder, x: Tensor, kernel: Sequence[Size], window: Window, out: Shape, starts: Sequence[tuple[float, DType]],
    combine: Combine, around: complex,
) -> list[Tensor]:  # fmt: skip
    """Windows over the spatial axes of x [n, c, ...], each reduced to several elements.

    out: the spatial sizes of the results. starts: the first running values with the types of the results. around: what
    lies beyond x. Loop 2 + d of the body is the place of the window along spatial axis d, loop 2 + len(out) + d that in
    it.
    """
    spatial = len(out)
    reach = [(k - 1) * step + 1 for k, step in zip(kernel, window.dilations, strict=True)]
    # As much after the last element as the last window reaches beyond it, which may be less than nothing.
    after = [(out[d] - 1) * window.strides[d] + reach[d] - window.low[d] - x.shape[2 + d] for d in range(spatial)]
    x = shapes.pad(b, x, (0, 0, *window.low), (0, 0, *after), around)
    count = 2 + 2 * spatial
    d = AffineExpr.dimension
    inside = [d(2 + spatial + n) for n in range(spatial)]
    places = [d(2 + n) * window.strides[n] + inside[n] * window.dilations[n] for n in range(spatial)]
    shape = (x.shape[0], x.shape[1], *out)
    bounds = b.empty(x.dtype.element, kernel)  # says how large windows are; nobody reads it
    inputs = [(b.value(x), AffineMap(count, 0, (d(0), d(1), *places))), (bounds, AffineMap(count, 0, tuple(inside)))]
    to_result = AffineMap(count, 0, tuple(d(n) for n in range(2 + spatial)))
    outputs = [(b.splat(b.number(start, dtype), shape), to_result) for start, dtype in starts]

    def body(block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        element, _, *running = scalars_of([x.dtype, x.dtype, *(dtype for _, dtype in starts)], args)
        return [result.value for result in combine(Scalars(block), running, [element])]

    parallel = [n < 2 + spatial for n in range(count)]
    values = b.generic(inputs, outputs, parallel, body)
    return [b.wrap(dtype, shape, value) for (_, dtype), value in zip(starts, values, strict=True)]


def pool(b: Builder, name: str, x: Tensor, kernel: Sequence[Size], window: Window, out: Shape) -> Tensor:
    """The "add" or "max" of the elements in each window."""
    start = least(x.dtype) if name == "max" else 0

    def combine(s: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        return [s.binary(name, running[0], elements[0])]

    return pool_with(b, x, kernel, window, out, [(start, x.dtype)], combine, start)[0]
