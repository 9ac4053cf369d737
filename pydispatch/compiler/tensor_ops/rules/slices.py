"""Parts of tensors: slices and single elements, taken out or put in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, OpResult, SSAValue

from pydispatch.compiler.analysis.destinations import slice_of
from pydispatch.compiler.analysis.sizes import kept_dims, size_of, term_of
from pydispatch.compiler.analysis.views import is_contiguous, walked_axes
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import both, equal, not_less
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type, unsupported
from pydispatch.compiler.tensor_ops.requirements import Equal, Requirement, SliceFits
from pydispatch.compiler.tensor_ops.rule import TensorOp, Update
from pydispatch.compiler.tensor_ops.terms import Stated, Term
from pydispatch.ir.values import constant_index, shape_of


class ExtractSlice(TensorOp):
    """`tensor.extract_slice`: a slice of a tensor; a view if the slice is one contiguous run of memory."""

    name = "tensor.extract_slice"
    view = True  # each element is one of operand 0; `is_view` says where the result is the memory of operand 0

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the size of the slice along the source dimension that became `axis` of the result.

        The two differ where the result drops dimensions of size 1: a slice of 4x1x8 can have the shape 4x8.
        """
        kept = kept_dims(op, shape_of(result))
        return slice_of(op).sizes[kept[axis]] if kept is not None else None

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Return the element of the source at the offsets of the slice plus `indices` times its strides."""
        return elements.at(build, op.source, in_slice(elements, build, op, op.source, tensor_type(result), indices))

    def requirements(self, op: Any) -> Iterator[Requirement]:
        """Require that the slice is inside its source, and that it has the static sizes of the result."""
        yield from _slice_fits(op, op.source)
        yield from _has_sizes(op, op.result)

    def is_view(self, op: Any) -> bool:
        """Return whether the slice is one contiguous run of the source's memory."""
        return is_contiguous(op)

    def repeats_cheaply(self, op: Any) -> bool:
        """Return True: an element is one load from the source, as it would be from a stored slice."""
        return True


class InsertSlice(Update):
    """Rule of `tensor.insert_slice`: the result is the destination with a slice overwritten."""

    name = "tensor.insert_slice"

    def size_operands(self, op: Any) -> list[SSAValue]:
        """Return the operands that state sizes of the slice; the result has the sizes of the destination."""
        return list(op.sizes)

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Return the element of the source if `indices` are inside the slice, else that of the destination.

        Computed offsets are clamped, so that the slice is in bounds.
        """
        inside: SSAValue | bool = True
        indices_in_slice: list[Index] = []  # for each dimension of the destination, also those that the source lacks
        _, sizes, strides = (elements.indices(row) for row in slice_of(op).components)
        rows = (indices, _starts(elements, build, op, op.dest), sizes, strides, elements.dims(result))
        for index, start, size, stride, axis_size in zip(*rows, strict=True):
            has_axis_size = size is axis_size or size == axis_size  # the same value, or equal integers
            covers_axis = start == 0 and stride == 1 and has_axis_size
            if covers_axis:  # the slice has all indices of the axis
                indices_in_slice.append(index)
                continue
            index_in_slice, inside = _index_in_slice(build, index, start, size, stride, condition=inside)
            indices_in_slice.append(index_in_slice)
        dims_of_source = _dims_of_slice(op, tensor_type(op.source))
        return build.choose(
            inside,
            lambda b: elements.at(b, op.source, [indices_in_slice[d] for d in dims_of_source]),
            lambda b: elements.at(b, op.dest, indices),
        )

    def position(self, elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> list[Index]:
        """Return the index in the destination of the element of the source at `indices`."""
        return in_slice(elements, build, op, op.dest, tensor_type(op.source), indices)

    def is_written(self, elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> bool:
        """Return True: every element of the source is written, since `requirements` checks constant offsets, and
        `position` clamps computed ones."""
        return True

    def requirements(self, op: Any) -> Iterator[Requirement]:
        """Require that the slice is in bounds, and that the source has its sizes."""
        yield from _slice_fits(op, op.dest)
        yield from _has_sizes(op, op.source)

    def runs_on_host(self, op: Any) -> bool:
        """Return whether the host copies the source without a kernel: the slice is one contiguous run of the
        destination, or a few runs if the destination is the value of a global."""
        return walked_axes(op) is not None


class Insert(Update):
    """Rule of `tensor.insert`, which writes one element."""

    name = "tensor.insert"

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Return the scalar at its `position`, and the element of the destination at all other indices."""
        is_at_position: SSAValue | bool = True
        for index, coordinate in zip(indices, self.position(elements, build, op, ()), strict=True):
            is_at_position = both(build, is_at_position, equal(build, index, coordinate))
        return build.choose(
            is_at_position, lambda b: elements.scalar(op.scalar), lambda b: elements.at(b, op.dest, indices)
        )

    def written_sizes(self, elements: Elements, op: Any) -> list[Index]:
        """Return [], the sizes of a scalar: one element is written."""
        return []

    def written_element(self, elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> SSAValue:
        """Return the inserted scalar; there is no other written element, so `indices` is unused."""
        return elements.scalar(op.scalar)

    def position(self, elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> list[Index]:
        """Return the position of the scalar in the destination, clamped into bounds. `indices` is empty: a scalar has
        none."""
        return [build.clamp(elements.index(i), n) for i, n in zip(op.indices, elements.dims(op.dest), strict=True)]


def _index_in_slice(
    build: Builder, index: Index, start: Index, size: Index, stride: Index, condition: SSAValue | bool
) -> tuple[Index, SSAValue | bool]:
    """Emit the index n of an element in a slice along one axis, from its index in the sliced tensor.

    The tensor's index is in the slice if it is start + n * stride for an n with 0 <= n < size. A slice with the start
    1, the size 3 and the stride 2 has the indices 1, 3 and 5.

    Args:
        build: Builder of the code.
        index: Index in the tensor.
        start: Index in the tensor of the slice's first element.
        size: Number of elements of the slice.
        stride: Distance between them in the tensor.
        condition: Whether the indices along earlier axes are in the slice.

    Returns:
        The index n, and the condition that the indices along this axis and the earlier ones are in the slice.
    """
    index_in_slice = build.minus(index, start)
    if stride == 1:
        condition = both(build, condition, not_less(build, index_in_slice, rhs=0))
    else:
        # Only n = |distance| / |stride| is possible, also for a stride below 0. With the stride 0, all elements of the
        # slice have the index `start`, and the first one is taken: their order is undefined.
        distance = build.most(index_in_slice, build.minus(start, index))
        step = max(abs(stride), 1) if isinstance(stride, int) else build.most(stride, build.minus(0, stride))
        index_in_slice = build.quotient(distance, step)
        index_of_element = build.plus(start, build.times(index_in_slice, stride))
        condition = both(build, condition, equal(build, index_of_element, index))
    return index_in_slice, both(build, condition, build.less(index_in_slice, size))


def _slice_fits(op: Any, tensor: SSAValue) -> Iterator[Requirement]:
    """Yield, for each axis, the requirement that the slice `op` is inside of `tensor`.

    It has the elements offset, offset + stride, ..., offset + (size - 1) * stride of the axis.
    """
    slice_ = slice_of(op)
    for axis, (offset, size, stride) in enumerate(zip(slice_.offsets, slice_.sizes, slice_.strides, strict=True)):
        known_stride = _known(stride)
        # `_known(offset)` is None for a computed offset, which kernels clamp. Computed sizes and strides have no such
        # remedy: they are terms, which the host checks.
        yield SliceFits(
            axis=axis,
            offset=_known(offset),
            size=_term(size),
            stride=stride if known_stride is None else known_stride,
            axis_size=size_of(tensor, axis),
        )


def _has_sizes(op: Any, part: SSAValue) -> Iterator[Requirement]:
    """Yield the requirement, for each axis of `part`, the extracted or inserted tensor, that the slice has its size."""
    sizes = slice_of(op).sizes
    # `kept_dims`: the dimension of the slice for each axis of `part`, which may lack dimensions of size 1.
    for axis, dim in enumerate(kept_dims(op, shape_of(part)) or ()):
        # `Equal` replaces {} by both numbers, such as "12 elements instead of 13".
        message = f"axis {axis}: the slice has {{}}"
        yield Equal(expected=size_of(part, axis), actual=_term(sizes[dim]), message=message)


def _known(n: int | SSAValue) -> int | None:
    """Return the value of a constant offset, size or stride; None if it is computed."""
    return n if isinstance(n, int) else constant_index(n)


def _term(n: int | SSAValue) -> Term:
    """Return an offset, size or stride as a term, which requirements compare at run time."""
    return n if isinstance(n, int) else term_of(n)


def _dims_of_slice(op: Any, slice_type: TensorType[Attribute]) -> list[int]:
    """Return, for each dimension of a slice's type, the dimension of the sliced tensor that it is a part of.

    The type may lack dimensions in which the slice has size 1. Raise CompileError if it does not fit the slice's sizes.
    """
    # A dynamic size is DYNAMIC_INDEX in the type, and -1 for `kept_dims`.
    kept = kept_dims(op, [-1 if n < 0 else n for n in slice_type.get_shape()])
    if kept is None:
        raise unsupported(op, f"its sizes do not give {slice_type}")
    return kept


def in_slice(
    elements: Elements, build: Builder, op: Any, tensor: SSAValue, slice_type: TensorType[Attribute],
    indices: Sequence[Index],
) -> list[Index]:  # fmt: skip
    """Return the indices in a tensor of the element at `indices` of a slice of it: start + index * stride.

    A computed offset is clamped, so that the slice is in bounds.

    Args:
        elements: Access to offsets, sizes and strides.
        build: Builder of the code.
        op: The operation that names the slice, such as a `tensor.extract_slice`.
        tensor: The tensor that is sliced.
        slice_type: Type of the slice. It may lack dimensions of size 1.
        indices: Indices of the element in the slice, one for each dimension of `slice_type`.
    """
    strides = elements.indices(slice_of(op).strides)
    indices_in_slice: list[Index] = [0] * len(strides)  # 0 in the dimensions of size 1 that `slice_type` lacks
    for dimension, index in zip(_dims_of_slice(op, slice_type), indices, strict=True):
        indices_in_slice[dimension] = index
    rows = (_starts(elements, build, op, tensor), indices_in_slice, strides)
    return [build.plus(start, build.times(index, stride)) for start, index, stride in zip(*rows, strict=True)]


def _starts(elements: Elements, build: Builder, op: Any, tensor: SSAValue) -> list[Index]:
    """Return the index of the first element of a slice of `tensor` along each dimension: its offset. A computed offset
    is clamped, so that the slice is in bounds.
    """
    offsets, sizes, strides = (elements.indices(row) for row in slice_of(op).components)
    starts: list[Index] = []
    for offset, size, stride, axis_size in zip(offsets, sizes, strides, elements.dims(tensor), strict=True):
        start = offset
        if isinstance(offset, SSAValue):
            entry = elements.entry  # emits at the entry of the kernel: these values are equal for all elements
            reach = entry.times(entry.minus(size, 1), stride)  # distance from the first element to the last one
            low: Index = 0  # how far before the first element a slice reaches that runs backwards
            may_run_backwards = not (isinstance(stride, int) and stride >= 0)  # then `reach` may be negative
            if may_run_backwards:
                low, reach = entry.most(entry.minus(0, reach), 0), entry.most(reach, 0)
            # Clamp the offset to [low, axis_size - 1 - reach].
            start = build.most(build.least(offset, build.minus(axis_size, entry.plus(reach, 1))), low)
        starts.append(start)
    return starts


RULES: list[type[TensorOp]] = [ExtractSlice, InsertSlice, Insert]
"""Rules of this file, which `extensions.builtin` registers."""
