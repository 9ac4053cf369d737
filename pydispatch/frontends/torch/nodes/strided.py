"""Conversions of operators about the storage of a tensor: its strides, and as_strided, which reads it at others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.errors import CompileError
from pydispatch.frontends.torch.expressions import evaluate
from pydispatch.frontends.torch.memory import TensorMemory
from pydispatch.frontends.torch.registry import VIEWS, converts
from pydispatch.frontends.torch.trace import Tracer
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.size_functions import maximum, minimum
from pydispatch.graph.sizes import Expr, Shape, Size, is_static, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import assignment, reductions, shapes
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import formula
from pydispatch.operations.indexing import CoordinateBuilder, elements_at

Sizes = Sequence[Size]
_HINT = "write the model with slices, views, expand or unfold"
"""Remedy that errors about strides state."""


def _row_major(shape: Sequence[Size]) -> list[Size]:
    """Return the strides, in elements, of a row-major tensor without gaps."""
    return [product(shape[d + 1 :]) for d in range(len(shape))]


class _Layout(NamedTuple):
    """Strides and offset, in elements, of a tensor in its storage."""

    strides: list[Size]
    offset: Size


def _layout(tracer: Tracer, memory: TensorMemory) -> _Layout:
    """Return the strides and the offset of a tensor in its storage, as expressions over the sizes of a call.

    Raise CompileError for a stride or offset in the file that is no such expression. Without a `layout` from the file
    the tensor is row-major.
    """
    meta, shape = memory.layout, memory.tensor.shape
    if meta is None:
        return _Layout(_row_major(shape), offset=0)
    evaluated = [evaluate(n, tracer.symbols) for n in (*meta.strides, meta.offset)]
    layout = [n for n in evaluated if n is not None]
    if len(layout) != len(evaluated):
        raise tracer.b.fail(f"the strides of {memory.tensor} are not terms of the sizes of a call", _HINT)
    return _Layout(strides=layout[:-1], offset=layout[-1])


def is_contiguous(tracer: Tracer, memory: TensorMemory) -> bool | None:
    """Return whether PyTorch stores a tensor in row-major order without gaps; None if that depends on the call."""
    try:
        strides, _ = _layout(tracer, memory)
    except CompileError:  # a stride is no expression over the sizes of a call
        return None
    shape = memory.tensor.shape
    # The stride of an axis of size 1 addresses nothing.
    steps = [(step, dense) for n, step, dense in zip(shape, strides, _row_major(shape), strict=True) if n != 1]
    if all(step == dense for step, dense in steps):
        return True
    return False if is_static([*shape, *strides]) else None


def _storage_vector(tracer: Tracer, memory: TensorMemory) -> tuple[Tensor, list[int], Size]:
    """Return the elements of the storage of a tensor as a vector, in the order in which PyTorch stores them.

    The storage of a view is that of its base, `memory.whole`; for other tensors `memory.whole` is `memory`. For
    example, a tensor [2, 3] with the strides (1, 2) is stored column by column: the vector has the 6 elements of its
    transpose in row-major order.

    Raise CompileError if the storage has gaps, whose elements the program does not have.

    Returns:
        The vector; the axes of `memory.whole` from the largest stride to the smallest, [1, 0] in the example; the index
        of the vector's first element in the storage, 0 unless `memory.whole` begins later.
    """
    whole = memory.whole
    x, (strides, offset) = whole.tensor, _layout(tracer, whole)
    order = list(range(x.rank))
    if is_static(strides):  # dynamic strides cannot be sorted: they must be row-major, as the check below verifies
        order.sort(key=lambda d: (-int(strides[d]), d))  # type: ignore[arg-type]
    ordered_sizes = [x.shape[d] for d in order]
    dense = _row_major(ordered_sizes)
    # Without gaps, the strides are those of a row-major tensor with the axes in this order.
    if any(n != 1 and strides[d] != stride for d, n, stride in zip(order, ordered_sizes, dense, strict=True)):
        raise tracer.b.fail(
            f"as_strided of {x} with the strides {strides}: the memory between its elements is no part of the program",
            _HINT,
        )
    return shapes.reshape(tracer.b, shapes.transpose(tracer.b, x, order), [-1]), order, offset


def _start_index(
    tracer: Tracer, memory: TensorMemory, flat: Tensor, *, offset: Size, size: Sizes, stride: Sizes,
    start: Size | None,
) -> Size:  # fmt: skip
    """Return the index in the storage vector of the first element that as_strided reads.

    For example, the sizes [2, 3] with the strides [1, 2] from index 1 on read the elements 1 to 1 + 1 * 1 + 2 * 2 = 6.
    Raise CompileError if an element is out of bounds. If that depends on dynamic sizes, the first and the last element
    are checked at run time.

    Args:
        tracer: Tracer of the function.
        memory: Memory that is read.
        flat: The elements of its storage as a vector, in the order in which PyTorch stores them.
        offset: Index of the first of them in the storage.
        size: Sizes of the result of as_strided.
        stride: Distances, in elements, of neighbours along each axis of the result.
        start: Index in the storage of the first element of the result; None for the first one of `memory`.
    """
    if len(size) != len(stride):
        raise tracer.b.fail(f"as_strided has the sizes {list(size)} and the strides {list(stride)}")
    first = (_layout(tracer, memory).offset if start is None else start) - offset
    last, memory_end = first, flat.shape[0] - 1
    for n, step in zip(size, stride, strict=True):
        last = last + (n - 1) * step
    if any(n == 0 for n in size):
        return first
    # Only numbers are compared here: `first` and `last` may be expressions over dynamic sizes.
    is_before = isinstance(first, int) and first < 0
    is_beyond = not isinstance(first, Expr) and not isinstance(last, Expr) and not isinstance(memory_end, Expr) and (
        last > memory_end
    )  # fmt: skip
    if is_before or is_beyond:
        raise tracer.b.fail(
            f"as_strided of {memory.tensor} reads the elements {first} to {last} of a memory of {flat.shape[0]}", _HINT
        )
    # Check first >= 0 by min(first, 0) == 0.
    if isinstance(first, Expr):
        tracer.b.require_equal(minimum(first, 0), 0, "as_strided reads element {a}; the first one of its memory is {b}")
    # Check last <= memory_end by max(last, memory_end) == memory_end.
    tracer.b.require_equal(
        maximum(last, memory_end), memory_end, "as_strided reads element {a}; the last one of its memory is {b}"
    )
    return first


@converts("aten.sym_stride")
def sym_stride(tracer: Tracer, self: TensorMemory, dim: int) -> Size:
    """Return the distance in the storage, in elements, of neighbours along an axis, which may count from the end."""
    return _layout(tracer, self).strides[dim]


@converts("aten.sym_storage_offset")
def sym_storage_offset(tracer: Tracer, self: TensorMemory) -> Size:
    """Return the index of the tensor's first element in its storage."""
    return _layout(tracer, self).offset


@converts("aten.as_strided", "aten.as_strided_copy", "prims.as_strided")
def as_strided(
    tracer: Tracer, self: TensorMemory, size: Sizes, stride: Sizes, storage_offset: Size | None = None
) -> Tensor:
    """Return a tensor of sizes `size`, whose elements are read from the storage of `self`.

    An element is at storage_offset + the sum of index * stride over the axes. The default offset is that of `self`.
    """
    # The storage as a vector, and the index in it of the first element that is read.
    flat, _, offset = _storage_vector(tracer, self)
    first = _start_index(tracer, self, flat, offset=offset, size=size, stride=stride, start=storage_offset)
    shape: Shape = tuple(size)
    static_terms = [n for n in (first, *stride) if not isinstance(n, Expr)]
    if len(static_terms) == len(shape) + 1:  # all are numbers, so the positions are an affine map of the indices
        position = AffineExpr.constant(static_terms[0])
        for d, step in enumerate(static_terms[1:]):
            position = position + AffineExpr.dimension(d) * step
        return shapes.rearranged(tracer.b, flat, shape, AffineMap(len(shape), 0, (position,)))
    factors = [tracer.b.index(n) for n in (first, *stride)]  # the first position, then the stride of each axis

    def coordinates(coords: CoordinateBuilder) -> list[SSAValue]:
        """Emit the position in the storage vector of an element of the result: first position + sum of index * stride.

        This function is called once, for the body of an operation that runs for each element of the result. `factors`
        has the first position, then the stride of each axis.
        """
        at = factors[0]
        for d, factor in enumerate(factors[1:]):
            at = coords.plus(at, coords.times(coords.loop_index(d), factor))
        return [at]

    return elements_at(tracer.b, flat, shape, coordinates)


@converts("aten.as_strided_scatter", "prims.as_strided_scatter")
def as_strided_scatter(
    tracer: Tracer, self: TensorMemory, src: Tensor, size: Sizes, stride: Sizes, storage_offset: Size | None = None
) -> Tensor:
    """Return the tensor with the elements that `as_strided` would read replaced by the elements of `src`.

    The elements are written into the vector of the tensor's storage, at the positions that the strides give, and the
    vector is shaped back to the tensor. Raise CompileError for a view, since the vector has all elements of its base.
    """
    builder, whole = tracer.b, self.whole
    flat, order, offset = _storage_vector(tracer, self)  # order: axes by stride, the largest first
    if whole is not self:
        raise builder.fail(f"as_strided_scatter of {self.tensor}, a view of {whole.tensor}", _HINT)
    first = _start_index(tracer, self, flat, offset=offset, size=size, stride=stride, start=storage_offset)
    positions = _positions_in_storage(builder, first, size, stride)
    written = shapes.broadcast_to(builder, ew.convert(builder, src, flat.dtype), size)
    count = product(size)
    updated = assignment.put_rows(
        builder, flat, [shapes.reshape(builder, positions, [count])], shapes.reshape(builder, written, [count])
    )
    # Undo the order of the axes by strides.
    ordered = shapes.reshape(builder, updated, [whole.tensor.shape[d] for d in order])
    return shapes.transpose(builder, ordered, [order.index(d) for d in range(len(order))])


def _positions_in_storage(builder: Builder, first: Size, size: Sizes, stride: Sizes) -> Tensor:
    """Return, for each element of a tensor of the sizes `size`, first + the sum of index * stride over the axes."""
    positions = shapes.broadcast_to(builder, reductions.size_as(builder, first, I64), size)
    for d, step in enumerate(stride):
        along = shapes.reshape(
            builder, shapes.iota(builder, [size[d]], axis=0, dtype=I64), [-1, *[1] * (len(size) - d - 1)]
        )
        positions = formula(
            builder, lambda at, n, s: at + n * s, positions, along, reductions.size_as(builder, step, I64)
        )
    return positions


VIEWS.update({"aten.as_strided": None, "prims.as_strided": None})
