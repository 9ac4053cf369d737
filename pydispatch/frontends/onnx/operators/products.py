"""Conversions of matrix products, convolutions and determinants."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.graph.dtypes import I32, DType
from pydispatch.graph.size_functions import ceil_div, maximum
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import convolutions, elementwise, factors, products, shapes, systems
from pydispatch.operations.convolutions import Window
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.normalization import wide

_MAX_WINDOW_PARAMETER = 1 << 20  # bounds strides, dilations and pads, so that sizes stay within 64 bits


@ONNX.converts("MatMul")
def matmul(call: NodeCall, x: Tensor, y: Tensor) -> Tensor:
    """Return the matrix product of x and y; floats smaller than f32 are summed in f32."""
    product_ = products.matmul(call.b, x, y, wide(x.dtype))
    return elementwise.convert(call.b, product_, x.dtype)


@ONNX.converts("Gemm")
def gemm(call: NodeCall, x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return alpha * x @ y + beta * bias; the attributes transA and transB transpose x and y."""
    if x.rank != 2 or y.rank != 2:
        raise call.fail(f"its operands are {x} and {y}; expected matrices")
    x = shapes.transpose(call.b, x) if call.flag("transA") else x
    y = shapes.transpose(call.b, y) if call.flag("transB") else y
    alpha, beta = call.real("alpha", 1.0), call.real("beta", 1.0)
    # `_times` multiplies an element by a constant, and emits nothing for 1. `wide`: f32 for smaller floats.
    product_ = products.matmul(call.b, x, y, wide(x.dtype))
    if bias is None or beta == 0.0:
        return formula(call.b, lambda v: _times(v, alpha).to(x.dtype), product_)
    inner = product_.dtype
    return formula(call.b, lambda v, w: (_times(v, alpha) + _times(w.to(inner), beta)).to(x.dtype), product_, bias)


def _times(value: Element, factor: float) -> Element:
    """Multiply an element by a constant, truncated for integers; emit nothing if the constant is 1."""
    return value if factor == 1.0 else value * (int(factor) if value.dtype.is_integer else factor)


@ONNX.converts("Einsum")
def _einsum(call: NodeCall, *operands: Tensor) -> Tensor:
    """Return the sum of products that the attribute `equation` states in Einstein notation."""
    return products.einsum(call.b, call.text("equation"), *operands)


def without_zero_point(call: NodeCall, x: Tensor, zero: Tensor | None, axis: int | None) -> Tensor:
    """Return x minus its zero point, in i32.

    `zero` is a scalar, or a vector along `axis`, which may count from the end; None and constant zeros need no
    subtraction. If `axis` is None, `zero` is expected to have one element.
    """
    wide = elementwise.convert(call.b, x, I32)
    if zero is None or (zero.numbers is not None and not zero.numbers.any()):
        return wide
    if zero.rank == 1 and zero.shape[0] != 1 and axis is not None:
        zero = shapes.reshape(call.b, zero, [zero.shape[0] if d == axis % x.rank else 1 for d in range(x.rank)])
    return formula(call.b, lambda v, z: v - z.to(I32), wide, zero)


@ONNX.converts("MatMulInteger")
def _matmul_integer(
    call: NodeCall, x: Tensor, y: Tensor, x_zero: Tensor | None = None, y_zero: Tensor | None = None
) -> Tensor:
    """Return (x - x_zero) @ (y - y_zero) in i32, for quantized matrices.

    x_zero may have an element for each row, y_zero for each column.
    """
    rows = without_zero_point(call, x, x_zero, axis=-2)
    return products.matmul(call.b, rows, without_zero_point(call, y, y_zero, axis=-1), I32)


# -- convolutions


def spatial_rank(call: NodeCall, x: Tensor) -> int:
    """Return the number of spatial axes of x [n, c, ...]. Raise CompileError if it has none."""
    if x.rank < 3:
        raise call.fail(f"its operand is {x}; expected 3 axes or more")
    return x.rank - 2


def window_of(call: NodeCall, x: Tensor, kernel: Sequence[Size]) -> Window:
    """Return the window geometry of a convolution or pooling of x [n, c, ...], from the attributes strides, dilations,
    pads and auto_pad. `kernel` has the size of the window along each spatial axis.

    The attribute pads has the padding before each spatial axis, then that after each of them. With auto_pad=SAME_UPPER,
    an axis of 6 with windows of 3 and the stride 2 has 3 windows, and 1 element of padding after it.

    Raise CompileError if `kernel` does not have a size for each spatial axis, or an attribute is invalid.
    """
    rank = spatial_rank(call, x)
    strides = positive(call, "strides", rank)
    dilations = positive(call, "dilations", rank)
    if len(kernel) != rank:
        raise call.fail(f"its kernel has {len(kernel)} axes; expected {rank}")
    auto = call.text("auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    pads = paddings(call, "pads", 2 * rank)
    low: list[Size] = list(pads[:rank])
    high: list[Size] = list(pads[rank:])
    if auto == "VALID":
        low, high = [0] * rank, [0] * rank
    elif auto != "NOTSET":
        for d in range(rank):  # SAME: so that there are ceil(size / stride) windows
            extent = (kernel[d] - 1) * dilations[d] + 1  # elements from the first to the last one of a window
            out = ceil_div(x.shape[2 + d], strides[d])
            total = maximum(0, (out - 1) * strides[d] + extent - x.shape[2 + d])
            # Half of it on each side; SAME_UPPER has an odd element after the axis, SAME_LOWER before it.
            low[d], high[d] = _halves(total, auto)
    return Window(tuple(strides), tuple(low), tuple(high), tuple(dilations))


def _halves(total: Size, auto: str) -> tuple[Size, Size]:
    """Return the padding before and after an axis, `total` in sum. If it is odd, the larger half is after the axis with
    SAME_UPPER, and before it otherwise.
    """
    smaller_half = total // 2
    return (smaller_half, total - smaller_half) if auto == "SAME_UPPER" else (total - smaller_half, smaller_half)


def positive(call: NodeCall, name: str, rank: int) -> list[int]:
    """Return the attribute `name`, which has one integer from 1 to _MAX_WINDOW_PARAMETER for each of `rank` spatial
    axes; all are 1 if it is omitted.
    """
    numbers = call.integers(name, [1] * rank)
    if len(numbers) != rank or any(not 1 <= n <= _MAX_WINDOW_PARAMETER for n in numbers):
        raise call.fail(f"its attribute {name} is {numbers}; expected {rank} numbers from 1 to {_MAX_WINDOW_PARAMETER}")
    return numbers


def paddings(call: NodeCall, name: str, count: int) -> list[int]:
    """Return the attribute `name`, which has `count` numbers of elements to add, or to crop where they are negative.

    All are 0 if it is omitted. Their magnitudes are at most _MAX_WINDOW_PARAMETER.
    """
    numbers, most = call.integers(name, [0] * count), _MAX_WINDOW_PARAMETER
    if len(numbers) != count or any(abs(n) > most for n in numbers):
        raise call.fail(f"its attribute {name} is {numbers}; expected {count} numbers from {-most} to {most}")
    return numbers


def kernel_of(call: NodeCall, w: Tensor, x: Tensor) -> Sequence[Size]:
    """Return the spatial sizes of the filters w [f, c, ...]. Raise CompileError if the attribute kernel_shape
    contradicts them, or if x has another number of axes. Dynamic sizes are compared with
    kernel_shape at run time.
    """
    if w.rank != x.rank:
        raise call.fail(f"its operands are {x} and {w}; expected as many axes in both")
    stated = call.maybe_integers("kernel_shape")
    if stated is None:
        return w.shape[2:]
    if len(stated) != w.rank - 2 or any(
        not isinstance(n, Expr) and n != m for n, m in zip(w.shape[2:], stated, strict=True)
    ):
        raise call.fail(f"its kernel_shape is {stated}, which is not that of its filters {w}")
    for size, expected in zip(w.shape[2:], stated, strict=True):
        # If the sizes differ at run time, they are written in place of {a} and {b}.
        message = f"{call.node.op_type}: a size of its filters is {{a}}; its kernel_shape states {{b}}"
        call.b.require_equal(size, expected, message)
    return w.shape[2:]


def groups_of(call: NodeCall) -> int:
    """Return the number of channel groups of a convolution."""
    groups = call.integer("group", 1)
    if groups < 1:
        raise call.fail(f"it has {groups} groups; expected at least 1")
    return groups


@ONNX.converts("Conv")
def conv(call: NodeCall, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the convolution of x [n, c, ...] by filters w [f, c / groups, ...], plus one bias element per filter."""
    window = window_of(call, x, kernel_of(call, w, x))
    convolved = convolutions.convolution(call.b, x, w, window, groups=groups_of(call), dtype=wide(x.dtype))
    return with_bias(call, convolved, bias, x.dtype)


def with_bias(call: NodeCall, x: Tensor, bias: Tensor | None, dtype: DType) -> Tensor:
    """Add one bias element per channel to x [n, f, ...] and convert the sum to `dtype`."""
    if bias is None:
        return elementwise.convert(call.b, x, dtype)
    bias = shapes.reshape(call.b, bias, [bias.shape[0], *[1] * (x.rank - 2)])
    return formula(call.b, lambda v, w: (v + w.to(v.dtype)).to(dtype), x, bias)


@ONNX.converts("ConvInteger")
def conv_integer(
    call: NodeCall, x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None
) -> Tensor:
    """Return the convolution of x - x_zero by filters w - w_zero in i32; so elements of the padding equal x_zero.

    w_zero may have an element for each filter.
    """
    window = window_of(call, x, kernel_of(call, w, x))
    inputs, filters = without_zero_point(call, x, x_zero, axis=1), without_zero_point(call, w, w_zero, axis=0)
    return convolutions.convolution(call.b, inputs, filters, window, groups=groups_of(call), dtype=I32)


@ONNX.converts("ConvTranspose")
def _conv_transpose(call: NodeCall, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the transposed convolution of x [n, c, ...] by filters w, plus one bias element per channel of the result.

    The pads crop the result: an axis of 3 with a kernel of 3 and the stride 2 becomes 7 elements, of which the pads 1
    and 1 leave 5. They are computed from the attribute output_shape, the sizes of the result, if the node has it; else
    from auto_pad, unless it is NOTSET; else they are the attribute pads. Filters w are [c, f / groups, ...], and
    output_padding appends elements to the result.

    Raise CompileError if output_shape does not have a size for each spatial axis, or another attribute is invalid.
    """
    rank = spatial_rank(call, x)
    kernel = kernel_of(call, w, x)
    strides, dilations = positive(call, "strides", rank), positive(call, "dilations", rank)
    output_padding, pads = paddings(call, "output_padding", rank), paddings(call, "pads", 2 * rank)
    auto = call.text("auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    wanted = call.maybe_integers("output_shape")
    if wanted is not None and len(wanted) < rank:
        raise call.fail(f"its output_shape is {wanted}; expected {rank} numbers or more")

    # The pads along each axis, from `output_shape`, else `auto_pad`, else `pads`.
    low: list[Size] = list(pads[:rank])
    high: list[Size] = list(pads[rank:])
    for d in range(rank):
        extent = (kernel[d] - 1) * dilations[d] + 1
        uncropped = (x.shape[2 + d] - 1) * strides[d] + output_padding[d] + extent  # size of the result without pads
        if wanted is not None:  # the last sizes are the spatial ones; n and c may precede them
            total = uncropped - wanted[len(wanted) - rank + d]  # sum of both pads
        elif auto in ("SAME_UPPER", "SAME_LOWER"):  # size of the result: that of x times the stride
            total = uncropped - x.shape[2 + d] * strides[d]
        else:
            continue
        if not isinstance(total, Expr) and total < 0:  # a negative pad appends zeros to the result
            low[d], high[d] = 0, total
        else:
            low[d], high[d] = _halves(total, auto)  # SAME_UPPER has an odd element after the axis, others before it
    if auto == "VALID" and wanted is None:  # no pads, whatever the attribute pads states
        low, high = [0] * rank, [0] * rank
    convolved = convolutions.transposed_convolution(
        call.b, x, w, Window(tuple(strides), tuple(low), tuple(high), tuple(dilations)), groups=groups_of(call),
        output_padding=output_padding, dtype=wide(x.dtype),
    )  # fmt: skip
    return with_bias(call, convolved, bias, x.dtype)


# -- determinants


@ONNX.converts("Det")
def _det(call: NodeCall, x: Tensor) -> Tensor:
    """Return the determinants of matrices [..., n, n]; floats smaller than f32 are computed in f32."""
    factored, pivots, _ = factors.lu(call.b, elementwise.convert(call.b, x, wide(x.dtype)))
    return elementwise.convert(call.b, systems.determinant(call.b, factored, pivots), x.dtype)
