"""Conversions of convolutions, whose channels are the last axis, and of matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.frontends.tosa.operators.fixed_point import shifted
from pydispatch.frontends.tosa.tracer import Convert, Results, TosaTracer
from pydispatch.frontends.tosa.types import element_dtype
from pydispatch.graph.dtypes import I32, DType
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import indexing, shapes, slicing
from pydispatch.operations.convolutions import Window, window_sizes
from pydispatch.operations.products import contract, dot_general


def accumulator(tracer: TosaTracer, op: Operation) -> DType:
    """Return the element type of an operation's sums: its attribute `acc_type`, or without it the result's type."""
    declared = op.properties.get("acc_type")
    return tracer.dtype(op) if declared is None else element_dtype(getattr(declared, "type", declared))


def _operands(tracer: TosaTracer, op: Operation, inputs: Sequence[Tensor], spatial: int) -> tuple[Tensor, Tensor]:
    """Return the image and the kernel of a convolution with their zero points subtracted.

    inputs: image, kernel, bias and, since TOSA 1.0, the zero points of image and kernel. spatial: number of spatial
    axes. Raise CompileError for wrong ranks or types.
    """
    for tensor, what in ((inputs[0], "the image"), (inputs[1], "the kernel")):
        tracer.require_rank(tensor, spatial + 2, what)
    tracer.require_rank(inputs[2], 1, "the bias")
    if inputs[0].dtype.is_float != inputs[1].dtype.is_float:
        raise tracer.b.fail(f"a convolution of {inputs[0]} by {inputs[1]}: both are floats or both are integers")
    zeros = [
        tracer.zero_point(op, inputs, index=3, name="input_zp", dtype=I32),
        tracer.zero_point(op, inputs, index=4, name="weight_zp", dtype=I32),
    ]
    image, kernel = (shifted(tracer.b, tensor, zero) for tensor, zero in zip(inputs[:2], zeros, strict=True))
    return image, kernel


def _require_equal(tracer: TosaTracer, lhs: Size, rhs: Size, message: str) -> None:
    """Raise CompileError with a message and both sizes if two static sizes differ. Dynamic sizes are not compared."""
    if not isinstance(lhs, Expr) and not isinstance(rhs, Expr) and lhs != rhs:
        raise tracer.b.fail(f"{message}: {lhs} and {rhs}")


def _with_bias(tracer: TosaTracer, op: Operation, result: Tensor, bias: Tensor) -> Tensor:
    """Return a convolution's sums [..., channels] plus a bias, in the type of the operation's result.

    bias: one element per channel, or one for all channels.
    """
    if not isinstance(bias.shape[0], Expr) and bias.shape[0] != 1:
        _require_equal(tracer, bias.shape[0], result.shape[-1], "the bias and the result differ in their channels")
    dtype = tracer.dtype(op)
    return ew.binary(tracer.b, "add", ew.convert(tracer.b, result, dtype), ew.convert(tracer.b, bias, dtype))


def _pairs(numbers: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return (padding before each axis, padding after each axis), from a list that alternates them axis by axis."""
    return tuple(numbers[::2]), tuple(numbers[1::2])


def _window(tracer: TosaTracer, op: Operation, spatial: int) -> Window:
    """Return the window geometry of an operation with `spatial` axes, from its attributes pad, stride and dilation."""
    low, high = _pairs(tracer.integers(op, "pad", count=2 * spatial, least=0))
    strides, dilations = (tracer.integers(op, name, count=spatial, least=1) for name in ("stride", "dilation"))
    return Window(strides, low, high, dilations)


def _conv(spatial: int, tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Return a convolution over `spatial` axes, with its bias added. inputs: as for `_operands`."""
    image, kernel = _operands(tracer, op, inputs, spatial)
    result = _convolved(tracer, image, kernel, _window(tracer, op, spatial), accumulator(tracer, op))
    return _with_bias(tracer, op, result, inputs[2])


def _convolved(tracer: TosaTracer, image: Tensor, kernel: Tensor, window: Window, dtype: DType) -> Tensor:
    """Return the convolution of image [n, spatial..., c] by kernel [f, spatial..., c], as [n, out..., f].

    It is a contraction with the loops n, out..., f, kernel..., c. The maps give the element of the image, the kernel
    and the result that each iteration uses: along a spatial axis, out * stride + kernel * dilation of the padded image.
    The loops of the result are parallel, the others add up products of type `dtype`.

    For two spatial axes, the loops are (n, y, x, f, ky, kx, c), and each iteration adds
    padded[n, y*sy + ky*dy, x*sx + kx*dx, c] * kernel[f, ky, kx, c] to result[n, y, x, f]; (sy, sx) are the strides, and
    (dy, dx) the dilations.
    """
    _require_equal(tracer, image.shape[-1], kernel.shape[-1], "the image and the kernel differ in their channels")
    spatial = image.rank - 2
    image = slicing.pad(tracer.b, image, (0, *window.low, 0), (0, *window.high, 0))
    unpadded = Window(window.strides, (0,) * spatial, (0,) * spatial, window.dilations)  # `image` has the padding
    out = window_sizes(tracer.b, image.shape[1:-1], kernel.shape[1:-1], unpadded)
    loop_count, parallel_count = 2 * spatial + 3, spatial + 2
    loops = [AffineExpr.dimension(n) for n in range(loop_count)]
    batch, pixels, filter_, offsets, channel = (
        loops[0], loops[1 : spatial + 1], loops[spatial + 1], loops[parallel_count:-1], loops[-1]
    )  # fmt: skip
    positions = [
        pixel * stride + offset * dilation
        for pixel, offset, stride, dilation in zip(pixels, offsets, window.strides, window.dilations, strict=True)
    ]
    x_map = AffineMap(loop_count, 0, (batch, *positions, channel))
    w_map = AffineMap(loop_count, 0, (filter_, *offsets, channel))
    out_map = AffineMap(loop_count, 0, tuple(loops[:parallel_count]))
    shape = (image.shape[0], *out, kernel.shape[0])
    parallel = [n < parallel_count for n in range(loop_count)]
    return contract(tracer.b, image, kernel, x_map, w_map, out_map, shape, parallel, dtype)


def _depthwise(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Return a depthwise convolution by kernel [height, width, c, m]: m results for each channel c of the image.

    It is a contraction with the loops n, y, x, c, m, height, width; c and m are merged in the result.
    """
    image, kernel = _operands(tracer, op, inputs, spatial=2)
    _require_equal(tracer, image.shape[-1], kernel.shape[2], "the image and the kernel differ in their channels")
    window = _window(tracer, op, spatial=2)
    image = slicing.pad(tracer.b, image, (0, *window.low, 0), (0, *window.high, 0))
    unpadded = Window(window.strides, (0, 0), high=(0, 0), dilations=window.dilations)  # `image` has the padding
    out = window_sizes(tracer.b, image.shape[1:3], kernel.shape[:2], unpadded)
    n, y, x_, c, m, ky, kx = (AffineExpr.dimension(loop) for loop in range(7))
    (sy, sx), (dy, dx) = window.strides, window.dilations
    # The elements of the image and of the kernel that an iteration multiplies. The first 5 loops are parallel.
    x_map = AffineMap(7, 0, (n, y * sy + ky * dy, x_ * sx + kx * dx, c))
    w_map = AffineMap(7, 0, (ky, kx, c, m))
    shape = (image.shape[0], *out, *kernel.shape[2:])
    result = contract(tracer.b, image, kernel, x_map, w_map, AffineMap(7, 0, (n, y, x_, c, m)), shape,
                    [loop < 5 for loop in range(7)], accumulator(tracer, op))  # fmt: skip
    return _with_bias(tracer, op, shapes.reshape(tracer.b, result, [*shape[:3], shape[3] * shape[4]]), inputs[2])


def _transpose_conv(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Return a transposed convolution: a convolution of the image, with zeros between its elements, by the reversed
    kernel.

    Along one axis, the image [a, b], the kernel [p, q, r] and the stride 2 give [a*p, a*q, a*r + b*p, b*q, b*r]. That
    is the convolution of [0, 0, a, 0, b, 0, 0] by [r, q, p].

    The attribute `out_pad`, (top, bottom, left, right), has the rows and columns that the result gains before and after
    each axis, or loses where it is negative.

    Raise CompileError if `out_pad` takes away more than the kernel adds.
    """
    image, kernel = _operands(tracer, op, inputs, spatial=2)
    out_pad = tracer.integers(op, "out_pad", count=4)
    strides = tracer.integers(op, "stride", count=2, least=1)
    # A window begins up to this many elements before the first element of the image, and ends as many after the last
    # one: each element meets each element of the kernel. So the image is padded by as many zeros on each side.
    reach = [n - 1 for n in kernel.shape[1:3]]
    padding_before, padding_after = _pairs(out_pad)  # (top, left) and (bottom, right)
    low = [n + r for n, r in zip(padding_before, reach, strict=True)]
    high = [n + r for n, r in zip(padding_after, reach, strict=True)]
    if any(not isinstance(n, Expr) and n < 0 for n in (*low, *high)):
        raise tracer.b.fail(f"out_pad {list(out_pad)} takes away more than the kernel of {kernel} adds")
    zeros_between = (0, *(n - 1 for n in strides), 0)
    image = slicing.pad(tracer.b, image, (0, *low, 0), (0, *high, 0), value=0, interior=zeros_between)
    result = _convolved(
        tracer, image, indexing.reverse(tracer.b, kernel, axes=[1, 2]), Window.unit(2), accumulator(tracer, op)
    )
    return _with_bias(tracer, op, result, inputs[2])


def _matmul(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Return the products of n matrices [n, m, k] and [n, k, l] with their zero points subtracted, as [n, m, l].

    Since TOSA 1.0, the zero points are the operands 2 and 3.
    """
    for tensor in inputs[:2]:
        tracer.require_rank(tensor, 3)
    zeros = [
        tracer.zero_point(op, inputs, index=2, name="a_zp", dtype=I32),
        tracer.zero_point(op, inputs, index=3, name="b_zp", dtype=I32),
    ]
    a, b = (shifted(tracer.b, tensor, zero) for tensor, zero in zip(inputs[:2], zeros, strict=True))
    return dot_general(tracer.b, a, b, batch=[(0, 0)], contracted=[(2, 1)], dtype=tracer.dtype(op))


def _fully_connected(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Return the product of images [n, c] and kernels [f, c], plus the bias, as [n, f]."""
    a, b = _operands(tracer, op, inputs, spatial=0)
    return _with_bias(
        tracer, op, dot_general(tracer.b, a, b, batch=[], contracted=[(1, 1)], dtype=tracer.dtype(op)), inputs[2]
    )


ROWS: dict[str, Convert] = {
    "tosa.conv2d": partial(_conv, 2), "tosa.conv3d": partial(_conv, 3), "tosa.depthwise_conv2d": _depthwise,
    "tosa.transpose_conv2d": _transpose_conv, "tosa.matmul": _matmul, "tosa.fully_connected": _fully_connected,
}  # fmt: skip
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
