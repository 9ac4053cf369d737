"""Derivatives of operations that move elements: their cotangents move back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import tensor
from xdsl.ir import Operation, SSAValue

from pydispatch.derivatives.cotangents import Cotangents, Rule
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.operations import reductions, shapes, slicing


def _reshaped(cotangents: Cotangents, op: Operation) -> None:
    """Add the cotangent of operand 0 of a reshape: the cotangent of the result, in the shape of the operand."""
    source = op.operands[0]
    of_result = _of_result(cotangents, op)
    cotangents.add(source, shapes.reshape(cotangents.trace, of_result, cotangents.program_tensor(source).shape))


def _extract_slice(cotangents: Cotangents, op: tensor.ExtractSliceOp) -> None:
    """Add the cotangent of a slice to the cotangent of its source, at the elements of the slice."""
    cotangents.add(op.source, _inserted(cotangents, op, _of_result(cotangents, op), cotangents.zeros(op.source)))


def _insert_slice(cotangents: Cotangents, op: tensor.InsertSliceOp) -> None:
    """Add the cotangents of the operands of an insertion, from the cotangent of its result.

    The destination gets it with 0 inside of the slice, the source gets the slice of it."""
    of_result, zeros = _of_result(cotangents, op), cotangents.zeros(op.source)
    cotangents.add(op.dest, _inserted(cotangents, op, zeros, of_result))
    trace, like = cotangents.trace, cotangents.program_tensor(op.source)
    taken = tensor.ExtractSliceOp.build(
        operands=[trace.value(of_result), op.offsets, op.sizes, op.strides], properties=_bounds(op),
        result_types=[op.source.type],
    )  # fmt: skip
    cotangents.add(op.source, trace.wrap(like.dtype, like.shape, trace.add(taken).result))


def _inserted(
    cotangents: Cotangents, op: tensor.ExtractSliceOp | tensor.InsertSliceOp, slice_: Tensor, into: Tensor
) -> Tensor:
    """Return `into` with `slice_` written to the offsets, sizes and strides of `op`."""
    trace = cotangents.trace
    value = trace.value(into)
    inserted = tensor.InsertSliceOp.build(
        operands=[trace.value(slice_), value, op.offsets, op.sizes, op.strides], properties=_bounds(op),
        result_types=[value.type],
    )  # fmt: skip
    return trace.wrap(into.dtype, into.shape, trace.add(inserted).result)


def _bounds(op: tensor.ExtractSliceOp | tensor.InsertSliceOp) -> dict[str, Any]:
    """Return the properties that hold the static offsets, sizes and strides of a slice, by name."""
    return {name: op.properties[name] for name in ("static_offsets", "static_sizes", "static_strides")}


def _concat(cotangents: Cotangents, op: tensor.ConcatOp) -> None:
    """Add to the cotangent of each operand the slice of the result's cotangent that belongs to it."""
    axis = op.dim.value.data
    sizes = [cotangents.program_tensor(source).shape[axis] for source in op.inputs]
    cut = slicing.split(cotangents.trace, _of_result(cotangents, op), axis, sizes)
    for source, cotangent in zip(op.inputs, cut, strict=True):
        cotangents.add(source, cotangent)


def _pad(cotangents: Cotangents, op: tensor.PadOp) -> None:
    """Add to the cotangent of the source that of its elements in the result. Raise CompileError for a padding value
    that has a cotangent."""
    if any(operand in cotangents.active for operand in op.region.block.ops.last.operands):  # type: ignore[union-attr]
        raise cotangents.refuse("padding with a computed value")
    like = cotangents.program_tensor(op.source)
    low = _sizes(cotangents, op.static_low.get_values(), op.low)  # index of the source's first element in the result
    ends: list[Any] = [start + size for start, size in zip(low, like.shape, strict=True)]
    cotangents.add(op.source, slicing.slice_(cotangents.trace, _of_result(cotangents, op), low, ends))


def _sizes(cotangents: Cotangents, static: Sequence[Any], dynamic: Sequence[SSAValue]) -> list[Size]:
    """Return the sizes of a list of integers, where a value of `dynamic` replaces each that is DYNAMIC, in order."""
    values = iter(dynamic)
    return [cotangents.trace.size_of(next(values)) if n == DYNAMIC else n for n in static]


def _splat(cotangents: Cotangents, op: tensor.SplatOp) -> None:
    """Add the sum over the result's cotangent to the cotangent of the number, which is every element of the result."""
    cotangents.add(op.input, reductions.reduce(cotangents.trace, "add", _of_result(cotangents, op)))


def _from_elements(cotangents: Cotangents, op: tensor.FromElementsOp) -> None:
    """Add to the cotangent of each number the cotangent of its element in the result."""
    trace = cotangents.trace
    flat = shapes.reshape(trace, _of_result(cotangents, op), (-1,))
    for index, operand in enumerate(op.operands):
        own = slicing.slice_axis(trace, flat, axis=0, start=index, limit=index + 1)
        cotangents.add(operand, shapes.reshape(trace, own, ()))


def _extract(cotangents: Cotangents, op: tensor.ExtractOp) -> None:
    """Add to the cotangent of the tensor that is read: the cotangent of the element at its indices, and 0 elsewhere."""
    trace, zeros = cotangents.trace, cotangents.zeros(op.tensor)
    value = trace.value(zeros)
    own = trace.value(shapes.reshape(trace, _of_result(cotangents, op), [1] * zeros.rank))
    inserted = tensor.InsertSliceOp.get(own, value, [1] * zeros.rank, offsets=list(op.indices), result_type=value.type)
    cotangents.add(op.tensor, trace.wrap(zeros.dtype, zeros.shape, trace.add(inserted).result))


def _of_result(cotangents: Cotangents, op: Operation) -> Tensor:
    """Return the cotangent of the single result of an operation; it has one, or its rule would not run."""
    of_result = cotangents.of(op.results[0])
    assert of_result is not None
    return of_result


MOVES: dict[str, Any] = {
    **dict.fromkeys(
        ("flow.tensor.tie_shape", "flow.tensor.reshape", "tensor.cast", "tensor.collapse_shape", "tensor.expand_shape"),
        _reshaped,
    ),
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
    "tensor.concat": _concat,
    "tensor.pad": _pad,
    "tensor.splat": _splat,
    "tensor.from_elements": _from_elements,
    "tensor.extract": _extract,
}
"""Name of an operation → its derivative, a function that takes the class of that operation."""
MOVE_RULES: dict[str, Rule] = MOVES
"""`MOVES` with the type that the table of all derivatives has."""
