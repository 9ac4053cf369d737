"""Convolutions of images whose channels are the last axis, and matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.frontends.graph.dtypes import I32, DType
from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import indexing, shapes
from pydispatch.frontends.ops.products import Window, contract, dot_general, window_sizes
from pydispatch.frontends.tosa.operators.fixed_point import shifted
from pydispatch.frontends.tosa.tracer import Convert, Results, Tracer
from pydispatch.frontends.tosa.types import element_dtype


def accumulator(t: Tracer, op: Operation) -> DType:
    """Return the type in the attribute `acc_type`; the type of the result without the attribute."""
    declared = op.properties.get("acc_type")
    return t.dtype(op) if declared is None else element_dtype(getattr(declared, "type", declared))


def _operands(t: Tracer, op: Operation, x: list[Tensor], spatial: int) -> tuple[Tensor, Tensor]:
    """Return the image and the kernel without their zero points."""
    for tensor, what in ((x[0], "the image"), (x[1], "the kernel")):
        t.rank(tensor, spatial + 2, what)
    t.rank(x[2], 1, "the bias")
    if x[0].dtype.is_float != x[1].dtype.is_float:
        raise t.b.fail(f"a convolution of {x[0]} by {x[1]}: both are floats or both are integers")
    zeros = [t.zero_point(op, x, 3, "input_zp", I32), t.zero_point(op, x, 4, "weight_zp", I32)]
    image, kernel = (shifted(t.b, tensor, zero) for tensor, zero in zip(x[:2], zeros, strict=True))
    return image, kernel


def _same(t: Tracer, a: Size, b: Size, what: str) -> None:
    if not isinstance(a, Expr) and not isinstance(b, Expr) and a != b:
        raise t.b.fail(f"{what}: {a} and {b}")


def _with_bias(t: Tracer, op: Operation, made: Tensor, bias: Tensor) -> Tensor:
    if not isinstance(bias.shape[0], Expr) and bias.shape[0] != 1:
        _same(t, bias.shape[0], made.shape[-1], "the bias and the result differ in their channels")
    dtype = t.dtype(op)
    return ew.binary(t.b, "add", ew.convert(t.b, made, dtype), ew.convert(t.b, bias, dtype))


def _pairs(numbers: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding before, and the padding after, each axis, from a list that alternates them."""
    return tuple(numbers[::2]), tuple(numbers[1::2])


def _window(t: Tracer, op: Operation, spatial: int) -> Window:
    low, high = _pairs(t.numbers(op, "pad", 2 * spatial, 0))
    strides, dilations = (t.numbers(op, name, spatial, 1) for name in ("stride", "dilation"))
    return Window(strides, low, high, dilations)


def _conv(spatial: int) -> Convert:
    def convert(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
        image, kernel = _operands(t, op, x, spatial)
        made = _convolved(t, image, kernel, _window(t, op, spatial), accumulator(t, op))
        return _with_bias(t, op, made, x[2])

    return convert


def _convolved(t: Tracer, image: Tensor, kernel: Tensor, window: Window, dtype: DType) -> Tensor:
    """image [n, spatial..., c] by kernel [f, spatial..., c]: the loops are n, out..., f, kernel..., c."""
    _same(t, image.shape[-1], kernel.shape[-1], "the image and the kernel differ in their channels")
    spatial = image.rank - 2
    image = shapes.pad(t.b, image, (0, *window.low, 0), (0, *window.high, 0))
    inside = Window(window.strides, (0,) * spatial, (0,) * spatial, window.dilations)
    out = window_sizes(t.b, image.shape[1:-1], kernel.shape[1:-1], inside)
    count, d = 2 * spatial + 3, AffineExpr.dimension
    offsets = [d(spatial + 2 + n) for n in range(spatial)]
    places = [d(1 + n) * window.strides[n] + offsets[n] * window.dilations[n] for n in range(spatial)]
    x_map = AffineMap(count, 0, (d(0), *places, d(count - 1)))
    w_map = AffineMap(count, 0, (d(spatial + 1), *offsets, d(count - 1)))
    out_map = AffineMap(count, 0, tuple(d(n) for n in range(spatial + 2)))
    shape = (image.shape[0], *out, kernel.shape[0])
    parallel = [n < spatial + 2 for n in range(count)]
    return contract(t.b, image, kernel, x_map, w_map, out_map, shape, parallel, dtype)


def _depthwise(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    """kernel [height, width, c, m]: the loops are n, y, x, c, m, height, width; c and m are one axis of the result."""
    image, kernel = _operands(t, op, x, 2)
    _same(t, image.shape[-1], kernel.shape[2], "the image and the kernel differ in their channels")
    window = _window(t, op, 2)
    image = shapes.pad(t.b, image, (0, *window.low, 0), (0, *window.high, 0))
    inside = Window(window.strides, (0, 0), (0, 0), window.dilations)
    out = window_sizes(t.b, image.shape[1:3], kernel.shape[:2], inside)
    n, y, x_, c, m, ky, kx = (AffineExpr.dimension(loop) for loop in range(7))
    (sy, sx), (dy, dx) = window.strides, window.dilations
    x_map = AffineMap(7, 0, (n, y * sy + ky * dy, x_ * sx + kx * dx, c))
    w_map = AffineMap(7, 0, (ky, kx, c, m))
    shape = (image.shape[0], *out, *kernel.shape[2:])
    made = contract(t.b, image, kernel, x_map, w_map, AffineMap(7, 0, (n, y, x_, c, m)), shape,
                    [loop < 5 for loop in range(7)], accumulator(t, op))  # fmt: skip
    return _with_bias(t, op, shapes.reshape(t.b, made, [*shape[:3], shape[3] * shape[4]]), x[2])


def _transpose_conv(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    """Return a convolution of the image, with zeros inserted between its elements, by the reversed kernel."""
    image, kernel = _operands(t, op, x, 2)
    around = t.numbers(op, "out_pad", 4)
    strides = t.numbers(op, "stride", 2, 1)
    reach = [n - 1 for n in kernel.shape[1:3]]
    low = [n + r for n, r in zip(around[::2], reach, strict=True)]
    high = [n + r for n, r in zip(around[1::2], reach, strict=True)]
    if any(not isinstance(n, Expr) and n < 0 for n in (*low, *high)):
        raise t.b.fail(f"out_pad {list(around)} takes away more than the kernel of {kernel} adds")
    image = shapes.pad(t.b, image, (0, *low, 0), (0, *high, 0), 0, (0, *(n - 1 for n in strides), 0))
    made = _convolved(t, image, indexing.reverse(t.b, kernel, [1, 2]), Window.plain(2), accumulator(t, op))
    return _with_bias(t, op, made, x[2])


def _matmul(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    for tensor in x[:2]:
        t.rank(tensor, 3)
    zeros = [t.zero_point(op, x, 2, "a_zp", I32), t.zero_point(op, x, 3, "b_zp", I32)]
    a, b = (shifted(t.b, tensor, zero) for tensor, zero in zip(x[:2], zeros, strict=True))
    return dot_general(t.b, a, b, [(0, 0)], [(2, 1)], t.dtype(op))


def _fully_connected(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    a, b = _operands(t, op, x, 0)
    return _with_bias(t, op, dot_general(t.b, a, b, [], [(1, 1)], t.dtype(op)), x[2])


ROWS: dict[str, Convert] = {
    "tosa.conv2d": _conv(2), "tosa.conv3d": _conv(3), "tosa.depthwise_conv2d": _depthwise,
    "tosa.transpose_conv2d": _transpose_conv, "tosa.matmul": _matmul, "tosa.fully_connected": _fully_connected,
}  # fmt: skip
