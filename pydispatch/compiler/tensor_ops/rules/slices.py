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

        A slice with the offset 1, the size 3 and the stride 2 has the indices 1, 3 and 5. Index i is in it if the
        distance i - 1 is 0, 2 or 4; it is then element (i - 1) / 2 of the source.
        """
        inside: SSAValue | bool = True
        indices_in_slice: list[Index] = []  # for each dimension of the destination, also those that the source lacks
        rows = (elements.indices(row) for row in slice_of(op).components)  # the offsets, sizes and strides
        for index, offset, size, stride, whole in zip(indices, *rows, elements.dims(result), strict=True):
            # `whole` is the size of the destination. A slice that covers the axis has all of its indices.
            covers_axis = offset == 0 and stride == 1 and (size is whole or size == whole)
            if covers_axis:
                indices_in_slice.append(index)
                continue
            # With a positive stride, the slice has this index if 0 <= distance < size * stride, and the stride divides
            # the distance.
            distance = build.minus(index, offset)
            inside = both(build, inside, not_less(build, distance, rhs=0))
            source_index = distance
            if stride != 1:
                positive = build.most(distance, 0)  # negative distances are outside; a division needs at least 0
                inside = both(build, inside, equal(build, build.remainder(positive, stride), rhs=0))
                source_index = build.quotient(positive, stride)
            inside = both(build, inside, build.less(source_index, size))
            indices_in_slice.append(source_index)
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
        """Return the scalar at the overwritten indices, and the element of the destination at all others."""
        here: SSAValue | bool = True
        for index, wanted in zip(indices, op.indices, strict=True):
            here = both(build, here, equal(build, index, elements.index(wanted)))
        return build.choose(here, lambda b: elements.scalar(op.scalar), lambda b: elements.at(b, op.dest, indices))

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


def _slice_fits(op: Any, whole: SSAValue) -> Iterator[Requirement]:
    """Yield the requirement, for each axis, that a slice is inside of `whole`, the tensor that it is a slice of.

    The slice extends from `offset` to offset + (size - 1) * stride."""
    part = slice_of(op)
    for axis, (offset, size, stride) in enumerate(zip(part.offsets, part.sizes, part.strides, strict=True)):
        known = _known(stride)
        step = stride if known is None else known
        # `_known(offset)` is None for a computed offset, which kernels clamp. Computed sizes and strides have no such
        # remedy: they are terms, which the host checks.
        yield SliceFits(axis=axis, offset=_known(offset), size=_term(size), stride=step, whole=size_of(whole, axis))


def _has_sizes(op: Any, part: SSAValue) -> Iterator[Requirement]:
    """Yield the requirement, for each axis of `part`, the extracted or inserted tensor, that the slice has its size."""
    sizes = slice_of(op).sizes
    for axis, dim in enumerate(kept_dims(op, shape_of(part)) or ()):
        # `Equal` replaces {} by both numbers, such as "12 elements instead of 13".
        yield Equal(size_of(part, axis), _term(sizes[dim]), f"axis {axis}: the slice has {{}}")


def _known(n: int | SSAValue) -> int | None:
    """Return the value of a constant offset, size or stride; None if it is computed."""
    return n if isinstance(n, int) else constant_index(n)


def _term(n: int | SSAValue) -> Term:
    """Return an offset, size or stride as a term, which requirements compare at run time."""
    return n if isinstance(n, int) else term_of(n)


def _dims_of_slice(op: Any, part: TensorType[Attribute]) -> list[int]:
    """Return, for each dimension of a slice's type, the dimension of the whole tensor that it is a part of.

    The type may lack dimensions in which the slice has size 1. Raise CompileError if it does not fit the slice's sizes.
    """
    kept = kept_dims(op, [-1 if n < 0 else n for n in part.get_shape()])
    if kept is None:
        raise unsupported(op, f"its sizes do not give {part}")
    return kept


def in_slice(
    elements: Elements, build: Builder, op: Any, whole: SSAValue, part: TensorType[Attribute], indices: Sequence[Index]
) -> list[Index]:
    """Return the indices in the whole tensor of the element at `indices` of a slice.

    A computed offset is clamped, so that the slice is in bounds.

    Args:
        elements: Access to offsets, sizes and strides.
        build: Builder of the code.
        op: The operation that names the slice, such as a `tensor.extract_slice`.
        whole: The tensor that is sliced.
        part: Type of the slice. It may lack dimensions of size 1.
        indices: Indices of the element in the slice, one for each dimension of `part`.
    """
    offsets, sizes, strides = (elements.indices(row) for row in slice_of(op).components)
    where: list[Index] = [0] * len(offsets)  # index 0 in the dimensions of size 1 that `part` lacks
    for dimension, index in zip(_dims_of_slice(op, part), indices, strict=True):
        where[dimension] = index
    whole_indices: list[Index] = []
    for offset, index, size, stride, n in zip(offsets, where, sizes, strides, elements.dims(whole), strict=True):
        start = offset
        if isinstance(offset, SSAValue):
            entry = elements.entry  # emits at the entry of the kernel: these values are equal for all elements
            reach = entry.times(entry.minus(size, 1), stride)  # distance from the first element to the last one
            low: Index = 0  # how far before the first element a slice reaches that runs backwards
            may_run_backwards = not (isinstance(stride, int) and stride >= 0)  # then `reach` may be negative
            if may_run_backwards:
                low, reach = entry.most(entry.minus(0, reach), 0), entry.most(reach, 0)
            # Clamp the offset to [low, n - 1 - reach].
            start = build.most(build.least(offset, build.minus(n, entry.plus(reach, 1))), low)
        whole_indices.append(build.plus(start, build.times(index, stride)))
    return whole_indices


RULES: list[type[TensorOp]] = [ExtractSlice, InsertSlice, Insert]
"""Rules of this file, which `extensions.builtin` registers."""
