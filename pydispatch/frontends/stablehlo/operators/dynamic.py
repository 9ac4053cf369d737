"""Conversions of operations whose sizes are operands. Sizes that are expressions over argument sizes remain
symbolic.
"""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.operators import indexing, products
from pydispatch.frontends.stablehlo.operators.shapes import broadcast, broadcast_axes
from pydispatch.frontends.stablehlo.tracer import Convert, StablehloTracer
from pydispatch.frontends.stablehlo.types import shape_of
from pydispatch.graph.size_functions import ceil_div
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import padding, shapes, slicing
from pydispatch.operations.host_integers import HostInteger, read_integers
from pydispatch.operations.indexing import strided_axis


def sizes_in(tracer: StablehloTracer, x: Tensor, hint: str, least: int | None = 0) -> list[Size]:
    """Return the elements of an integer vector as sizes of at least `least`; None is for integers of any sign. Computed
    elements are read back at run time, as symbols whose names begin with `hint`, which also names the vector in errors.
    """
    if (known := x.known_integers()) is not None:
        return known
    if x.rank != 1 or isinstance(x.shape[0], Expr) or not x.dtype.is_integer:
        raise tracer.b.fail(f"{hint} is a vector of integers whose size is known, got {x}")
    return [n.size(hint, least) for n in read_integers(tracer.b, x)]


def _result_shape(tracer: StablehloTracer, op: Operation, x: Tensor) -> list[Size]:
    """Return the shape of a result: static sizes from its type, the others from the operand x. Raise CompileError if
    they contradict.
    """
    declared = shape_of(op.results[0].type)
    sizes = sizes_in(tracer, x, "shape")  # those that are computed at run time are symbols named after "shape"
    if len(sizes) != len(declared):
        raise tracer.b.fail(f"{len(sizes)} sizes are given for {op.results[0].type}")
    for n, m in zip(sizes, declared, strict=True):
        if m is not None and not isinstance(n, Expr) and n != m:
            raise tracer.b.fail(f"sizes {sizes} are given for {op.results[0].type}")
        if not isinstance(n, Expr) and n < 0:
            raise tracer.b.fail(f"sizes {sizes} have a negative one")
    return [n if m is None else m for n, m in zip(sizes, declared, strict=True)]


def _iota(tracer: StablehloTracer, op: Operation, sizes: Tensor) -> Tensor:
    """Return a tensor whose elements are their own indices along an axis, and whose sizes are an operand."""
    shape = _result_shape(tracer, op, sizes)
    return shapes.iota(tracer.b, shape, tracer.axis(op, "iota_dimension", len(shape)), tracer.dtype(op))


def _pad(tracer: StablehloTracer, op: Operation, x: Tensor, value: Tensor, *paddings: Tensor) -> Tensor:
    """Pad x with `value`. paddings: vectors of a number for each axis, the elements before it, after it, and between
    its elements.
    """
    # Numbers of any sign (least=None): a negative `low` or `high` crops x. Numbers that are computed at run time become
    # symbols with the name of the hint.
    low, high, interior = (
        sizes_in(tracer, g, hint, least=None) for g, hint in zip(paddings, ("low", "high", "interior"), strict=True)
    )
    if any(len(amounts) != x.rank for amounts in (low, high, interior)):
        raise tracer.b.fail(f"'stablehlo.dynamic_pad' of {x} needs as many numbers as axes")
    if any(isinstance(n, Expr) for n in interior):
        return padding.pad_between(tracer.b, x, low, high, value, interior)
    inner = [int(n) for n in interior]  # type: ignore[arg-type]
    tracer.entries(inner, x.rank, "interior_padding", least=0)  # raises for negative numbers
    # Pad between the elements first, then pad or crop both ends.
    spread = slicing.pad(tracer.b, x, [0] * x.rank, [0] * x.rank, value, inner)
    return slicing.pad_or_crop(tracer.b, spread, low, high, value)


def _slice(tracer: StablehloTracer, op: Operation, x: Tensor, *bounds: Tensor) -> Tensor:
    """Slice x. bounds: vectors of a number for each axis, the starts, the exclusive limits and the strides.

    A stride that is computed must be positive at run time.
    """
    hints = ("start", "limit", "stride")
    starts, limits, strides = (sizes_in(tracer, g, hint) for g, hint in zip(bounds, hints, strict=True))
    if any(len(one) != x.rank for one in (starts, limits, strides)):
        raise tracer.b.fail(f"'stablehlo.real_dynamic_slice' of {x} needs as many numbers as axes")
    # Slice by the known strides, which must be 1 or more; the loop below takes every n-th element along other axes.
    known = tracer.entries([1 if isinstance(n, Expr) else n for n in strides], x.rank, "strides", least=1)
    x = slicing.slice_(tracer.b, x, starts, limits, known)
    for axis, n in enumerate(strides):
        if isinstance(n, Expr):
            step = HostInteger.of(tracer.b, n)  # the host computes this integer, and checks it, in each call
            (step > 0).require(f"the stride of axis {axis} of 'stablehlo.real_dynamic_slice' is not positive")
            zero = HostInteger.of(tracer.b, 0)
            x = strided_axis(tracer.b, x, axis, zero, ceil_div(x.shape[axis], n), step)
    return x


def _gather(tracer: StablehloTracer, op: Operation, x: Tensor, indices: Tensor, sizes: Tensor) -> Tensor:
    """Return slices at computed positions. sizes: vector of the size of a slice along each axis of x."""
    slice_sizes = sizes_in(tracer, sizes, "slice")
    if len(slice_sizes) != x.rank:
        raise tracer.b.fail(f"{len(slice_sizes)} slice sizes are given for {x}")
    return indexing.gather(tracer, op, x, indices, slice_sizes)


def _convolution(tracer: StablehloTracer, op: Operation, x: Tensor, w: Tensor, padding: Tensor) -> Tensor:
    """Return a convolution whose padding is an operand: a row for each spatial axis, the padding before and after
    it.
    """
    values = sizes_in(tracer, shapes.reshape(tracer.b, padding, [2 * (x.rank - 2)]), "padding", least=None)
    return products.convolution(tracer, op, x, w, values[::2], values[1::2])


ROWS: dict[str, Convert] = {
    "stablehlo.dynamic_broadcast_in_dim": lambda t, op, x, shape: broadcast(
        t, x, _result_shape(t, op, shape), broadcast_axes(t, op, x)
    ),
    "stablehlo.dynamic_conv": _convolution,
    "stablehlo.dynamic_gather": _gather,
    "stablehlo.dynamic_iota": _iota,
    "stablehlo.dynamic_pad": _pad,
    "stablehlo.dynamic_reshape": lambda t, op, x, shape: shapes.reshape(t.b, x, _result_shape(t, op, shape)),
    "stablehlo.real_dynamic_slice": _slice,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
