"""Conversions of constants, broadcasts, slices, padding, concatenation, and of sizes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.tracer import Convert, StablehloTracer
from pydispatch.frontends.stablehlo.types import shape_of
from pydispatch.graph.dtypes import I32
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import shapes, slicing
from pydispatch.operations.indexing import reverse as reversed_


def declared(tracer: StablehloTracer, op: Operation, known: Sequence[Size | None] = ()) -> list[Size]:
    """Return the shape of the first result of `op`: static sizes from its type, dynamic ones from `known`.

    known: a size or None for each axis, or empty. Raise CompileError for a dynamic axis without a known size.
    """
    shape: list[Size] = []
    for axis, n in enumerate(shape_of(op.results[0].type)):
        size = n if n is not None else known[axis] if axis < len(known) else None
        if size is None:
            raise tracer.b.fail(f"'{op.name}': the size of axis {axis} of {op.results[0].type} is not known")
        shape.append(size)
    return shape


def _constant_like(tracer: StablehloTracer, op: Operation, x: Tensor) -> Tensor:
    """Return a tensor of the shape and type of x whose elements are the number in the attribute."""
    return shapes.full(tracer.b, op.properties["value"].value.data, x.shape, x.dtype)  # type: ignore[attr-defined]


def broadcast_axes(tracer: StablehloTracer, op: Operation, x: Tensor) -> tuple[int, ...]:
    """Return, for each axis of the operand, the axis of the result that it becomes."""
    axes = tracer.listed(op, "broadcast_dimensions", x.rank)
    return tracer.axes(axes, "broadcast_dimensions", len(shape_of(op.results[0].type)))


def _broadcast_in_dim(tracer: StablehloTracer, op: Operation, x: Tensor) -> Tensor:
    """Repeat x to the result's shape, in which each axis of x becomes an axis of `broadcast_dimensions`.

    A dynamic size of the result's type is the size of the axis of x that becomes this axis.
    """
    axes = broadcast_axes(tracer, op, x)
    known: list[Size | None] = [None] * len(shape_of(op.results[0].type))
    for d, axis in enumerate(axes):
        known[axis] = x.shape[d]
    return broadcast(tracer, x, declared(tracer, op, known), axes)


def broadcast(tracer: StablehloTracer, x: Tensor, shape: Sequence[Size], axes: Sequence[int]) -> Tensor:
    """Repeat x to a shape. `axes` are the axes of the result that x's axes become, in any order.

    x is transposed first if they are not ascending, which `shapes.broadcast_to` requires.
    """
    order = sorted(range(x.rank), key=lambda d: axes[d])
    if order != list(range(x.rank)):
        x, axes = shapes.transpose(tracer.b, x, order), sorted(axes)
    return shapes.broadcast_to(tracer.b, x, shape, axes)


def _concatenate(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Tensor:
    """Concatenate tensors along an axis."""
    if not operands or not operands[0].rank:
        raise tracer.b.fail("'stablehlo.concatenate' joins tensors of at least one axis")
    return slicing.concat(tracer.b, operands, tracer.axis(op, "dimension", operands[0].rank))


def _set_dimension_size(tracer: StablehloTracer, op: Operation, x: Tensor, size: Tensor) -> Tensor:
    """Return x cropped to a new size along an axis; elements beyond that size are not part of the tensor."""
    axis = tracer.axis(op, "dimension", x.rank)
    return slicing.slice_axis(tracer.b, x, axis, start=0, limit=size_in(tracer, size, "size"))


def size_in(tracer: StablehloTracer, x: Tensor, hint: str) -> Size:
    """Return the element of an integer tensor as a size. A computed element is read back at run time, as a symbol whose
    name begins with `hint`.
    """
    known = x.known_integers()
    return known[0] if known is not None else tracer.b.size_of(tracer.b.scalar(x), hint)


def _iota(tracer: StablehloTracer, op: Operation) -> Tensor:
    """Return a tensor whose elements are their own indices along an axis."""
    shape = declared(tracer, op)
    return shapes.iota(tracer.b, shape, tracer.axis(op, "iota_dimension", len(shape)), tracer.dtype(op))


def _pad(tracer: StablehloTracer, op: Operation, x: Tensor, value: Tensor) -> Tensor:
    """Pad before and after each axis, and between elements."""
    low, high = (tracer.listed(op, f"edge_padding_{side}", x.rank) for side in ("low", "high"))
    interior = tracer.listed(op, "interior_padding", x.rank, 0)
    return slicing.pad(tracer.b, x, low, high, value, interior)


def _reshape(tracer: StablehloTracer, op: Operation, x: Tensor) -> Tensor:
    """Reshape to the result's shape, in which one size may be dynamic: it is derived from the number of elements."""
    sizes = shape_of(op.results[0].type)
    if sizes.count(None) > 1:
        raise tracer.b.fail(f"'stablehlo.reshape' to {op.results[0].type} leaves more than one size open")
    return shapes.reshape(tracer.b, x, [-1 if n is None else n for n in sizes])


def _slice(tracer: StablehloTracer, op: Operation, x: Tensor) -> Tensor:
    """Return the elements from starts to exclusive limits, at intervals of the strides, along each axis."""
    starts, limits = (tracer.listed(op, name, x.rank) for name in ("start_indices", "limit_indices"))
    return slicing.slice_(tracer.b, x, starts, limits, tracer.listed(op, "strides", x.rank, 1))


def _number_of_device(tracer: StablehloTracer, op: Operation) -> Tensor:
    """Return 0 as the number of the device, because a program runs on one device."""
    return tracer.b.constant(0, tracer.dtype(op))


ROWS: dict[str, Convert] = {
    "chlo.constant_like": _constant_like,
    "stablehlo.broadcast": lambda t, op, x: shapes.broadcast_to(t.b, x, (*t.integers(op, "broadcast_sizes"), *x.shape)),
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.constant": lambda t, op: t.constant(op),
    "stablehlo.get_dimension_size": lambda t, op, x: t.b.constant(x.shape[t.axis(op, "dimension", x.rank)], I32),
    "stablehlo.iota": _iota,
    "stablehlo.pad": _pad,
    "stablehlo.partition_id": _number_of_device,
    "stablehlo.replica_id": _number_of_device,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": lambda t, op, x: reversed_(t.b, x, t.axes(t.integers(op, "dimensions"), "dimensions", x.rank)),
    "stablehlo.set_dimension_size": _set_dimension_size,
    "stablehlo.slice": _slice,
    "stablehlo.transpose": lambda t, op, x: shapes.transpose(t.b, x, t.listed(op, "permutation", x.rank)),
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
