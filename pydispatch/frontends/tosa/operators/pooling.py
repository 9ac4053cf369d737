"""Conversions of pooling over images whose channels are the last axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation

from pydispatch.frontends.tosa.operators.convolutions import accumulator
from pydispatch.frontends.tosa.operators.elementwise import extreme, ignores_nan
from pydispatch.frontends.tosa.operators.fixed_point import reciprocal, saturated, scaled, shifted
from pydispatch.frontends.tosa.tracer import Convert, Results, TosaTracer
from pydispatch.graph.dtypes import I32, I64
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import reductions, shapes
from pydispatch.operations.convolutions import Window
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars
from pydispatch.operations.windows import reduce_windows

Combine = Callable[[Element, Element], Element]
"""Function combine(running value, element) -> new running value."""


def _attributes(
    tracer: TosaTracer, op: Operation, inputs: Sequence[Tensor], first_operand: int
) -> tuple[list[Size], Window]:
    """Return the kernel (height and width of a window) and the window geometry.

    For kernel [3, 3], stride [2, 2] and pad [0, 1, 0, 1] (top, bottom, left, right), return [3, 3] and a Window with
    the strides (2, 2), low=(0, 0), which is top and left, and high=(1, 1), bottom and right.

    Kernel, stride and pad are three operands from index `first_operand` on (adaptive pooling), if there are more
    operands than that, else attributes. Raise CompileError unless all of their numbers are known.
    """
    tracer.require_rank(inputs[0], 4, "the image")
    operands = inputs if len(inputs) > first_operand else []  # if empty, `sizes_of` reads attributes
    kernel, strides, pad = (
        tracer.sizes_of(op, operands, index=first_operand + n, name=name, count=count)
        for n, (name, count) in enumerate((("kernel", 2), ("stride", 2), ("pad", 4)))
    )
    # Dynamic sizes, which are no ints, are left out here, so that the counts differ and they are refused.
    extents, steps, pads = ([n for n in numbers if isinstance(n, int)] for numbers in (kernel, strides, pad))
    are_known = (len(extents), len(steps), len(pads)) == (2, 2, 4)
    if not are_known or min(*extents, *steps) < 1 or min(pads) < 0:
        raise tracer.b.fail(f"kernel {kernel}, stride {strides} and pad {pad} are numbers from 1, those of pad from 0")
    return list(kernel), Window((steps[0], steps[1]), tuple(pad[::2]), tuple(pad[1::2]), dilations=(1, 1))


def _pooled(
    tracer: TosaTracer, x: Tensor, kernel: Sequence[Size], window: Window, start: float, combine: Combine
) -> Tensor:
    """Reduce each window of x by `combine`.

    x: images [n, height, width, c]. kernel: height and width of a window. start: both the initial running value and the
    value of the padding.
    """
    # `reduce_windows` slides along all axes: along images and channels, windows have one element.
    all_axes = Window((1, *window.strides, 1), (0, *window.low, 0), (0, *window.high, 0), dilations=(1, 1, 1, 1))

    def combined(scalars: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        """Combine the only running value with the only element of an iteration."""
        return [combine(Element(scalars, running[0]), Element(scalars, elements[0])).scalar]

    initial = tracer.b.constant(start, x.dtype)
    return reduce_windows(tracer.b, [x], [initial], (1, *kernel, 1), all_axes, combined)[0]


def _max_pool(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Return the maximum of each window."""
    kernel, window = _attributes(tracer, op, inputs, first_operand=1)
    ignore = ignores_nan(tracer, op)
    low = reductions.least(inputs[0].dtype)
    return _pooled(tracer, inputs[0], kernel, window, low, lambda u, v: extreme("max", ignore, u, v))


def _counts(tracer: TosaTracer, size: Size, out: Size, kernel: Size, stride: int, low: Size) -> Tensor:
    """Return for each window along one axis how many of its elements are not padding, but at least 1: i64[out].

    size: elements of the axis. out: number of windows. kernel: elements of a window. low: padding before the axis.
    Window i has the elements from i * stride - low up to, not including, that plus kernel; those outside of 0 to
    `size` are padding.
    """
    b = tracer.b

    def size_tensor(size: Size) -> Tensor:
        """Return a size as an i64 scalar."""
        return reductions.size_as(b, size, I64)

    first = ew.binary(b, "mul", shapes.iota(b, [out], axis=0, dtype=I64), size_tensor(stride))
    first = ew.binary(b, "sub", first, size_tensor(low))
    last = ew.binary(b, "min", ew.binary(b, "add", first, size_tensor(kernel)), size_tensor(size))
    count = ew.binary(b, "sub", last, ew.binary(b, "max", first, size_tensor(0)))
    return ew.binary(b, "max", count, size_tensor(1))  # it is less than 1 only where every element is padding


def _avg_pool(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Return the mean of the elements of each window that are not padding.

    The number of these elements is the product of the counts along both axes. With padding 1 on all sides, a 2 x 2
    window in the upper left corner has one such element, and its mean is this element.

    Integers are divided as TOSA defines it: by a multiplication with a fixed-point reciprocal, which rounds once. The
    zero point of the input is subtracted before, and that of the result is added after.
    """
    kernel, window = _attributes(tracer, op, inputs, first_operand=3)  # after the image and two zero points
    acc, dtype = accumulator(tracer, op), tracer.dtype(op)  # types of the sums and of the result
    if acc == dtype and dtype.is_integer:  # no `acc_type`: sums of 8 or 16 bits would overflow
        acc = I32
    # Sums of the windows. Padding is 0, which is the zero point after the subtraction.
    values = ew.convert(
        tracer.b, shifted(tracer.b, inputs[0], tracer.zero_point(op, inputs, index=1, name="input_zp", dtype=I32)), acc
    )
    total = _pooled(tracer, values, kernel, window, start=0, combine=lambda u, v: u + v)
    # Number of rows and of columns in each window that are not padding, shaped to broadcast to the sums.
    rows, columns = (
        _counts(
            tracer,
            size=inputs[0].shape[1 + d],
            out=total.shape[1 + d],
            kernel=kernel[d],
            stride=window.strides[d],
            low=window.low[d],
        )
        for d in (0, 1)  # vertical, horizontal
    )
    rows = shapes.reshape(tracer.b, rows, [1, total.shape[1], 1, 1])
    columns = shapes.reshape(tracer.b, columns, [1, 1, total.shape[2], 1])
    # Means: the sums divided by rows * columns.
    if dtype.is_float:
        return formula(tracer.b, lambda x, m, n: (x / (m * n).to(acc)).to(dtype), total, rows, columns)
    zero = shapes.reshape(tracer.b, tracer.zero_point(op, inputs, index=2, name="output_zp", dtype=I32), [])

    def mean(window_sum: Element, row_count: Element, column_count: Element, result_zero: Element) -> Element:
        """Return the integer mean of one window.

        window_sum: sum of the elements, from each of which the input's zero point is subtracted. row_count,
        column_count: how many rows and columns are not padding. result_zero: zero point of the result.
        """
        # TOSA divides by a multiplication with multiplier / 2**shift, about 1 / count, and rounds once.
        multiplier, shift = reciprocal(row_count * column_count)
        quotient = scaled(window_sum.to(I64), multiplier, shift, double_round=False)
        return saturated(quotient + result_zero.to(I64), dtype)

    return formula(tracer.b, mean, total, rows, columns, zero)


ROWS: dict[str, Convert] = {
    "tosa.max_pool2d": _max_pool,
    "tosa.max_pool2d_adaptive": _max_pool,
    "tosa.avg_pool2d": _avg_pool,
    "tosa.avg_pool2d_adaptive": _avg_pool,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
