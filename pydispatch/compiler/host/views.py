"""Operations of straight-line host code that view memory in another shape, or copy contiguous slices.

Each function lowers an operation into the function that `straight` builds. Sizes and offsets are in registers, which
are named by their indices.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Operation

from pydispatch.compiler.analysis.destinations import slice_of
from pydispatch.compiler.analysis.sizes import reassociation
from pydispatch.compiler.analysis.types import dtype_of
from pydispatch.compiler.analysis.views import walked_axes
from pydispatch.compiler.host.commands import HostTensor
from pydispatch.compiler.host.scalar_table import ULE
from pydispatch.compiler.host.straight import Straight, where
from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.errors import CompileError
from pydispatch.formats.program.opcodes import element_bits
from pydispatch.formats.program.program import Opcode
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.op_info import listed


def _view(straight: Straight, op: Operation, source: HostTensor, dims: Sequence[int], dtype: int) -> None:
    """Define the result of `op` as a view of the bytes of `source`.

    dims: registers of its sizes. dtype: word that encodes its element type.
    """
    straight.put(
        op.results[0],
        HostTensor(storage=source.storage, dims=tuple(dims), dtype=dtype, offset=source.offset, length=source.length),
    )


# -- sizes


def dim(straight: Straight, op: Operation) -> None:
    """Lower tensor.dim to the register of the size. Raises CompileError for an axis that is not constant or out of
    range.
    """
    tensor = straight.tensors[op.operands[0]]
    axis = straight.function.constant_value(straight.registers[op.operands[1]])
    if axis is None or not 0 <= axis < len(tensor.dims):
        raise CompileError(
            f"axis {'of tensor.dim is not a constant' if axis is None else axis} does not name one of "
            f"{len(tensor.dims)} axes", location_of(op),
        )  # fmt: skip
    straight.registers[op.results[0]] = tensor.dims[axis]


def rank(straight: Straight, op: Operation) -> None:
    """Lower tensor.rank to a constant."""
    straight.registers[op.results[0]] = straight.function.constant(len(straight.tensors[op.operands[0]].dims))


# -- the whole tensor in another shape


def cast_(straight: Straight, op: Operation) -> None:
    """Lower tensor.cast to a view, and emit checks that the operand has the static sizes of the result."""
    tensor = straight.tensors[op.operands[0]]
    type = op.results[0].type
    if not isinstance(type, TensorType):
        raise CompileError(f"a cast to {type} is not supported", location_of(op), "host code knows the rank of tensors")
    dims = list(tensor.dims)
    for axis, size in enumerate(type.get_shape()):
        if size >= 0:
            fixed = straight.function.constant(size)
            straight.require_equal(dims[axis], fixed, f"axis {axis} of a cast to {type}", op)
            dims[axis] = fixed
    _view(straight, op, tensor, dims, tensor.dtype)


def forward(straight: Straight, op: Operation) -> None:
    """Lower an operation that returns its operands unchanged: each result is the operand at the same position."""
    for operand, result in zip(op.operands, op.results, strict=False):  # further operands are sizes or fences
        if operand in straight.tensors:
            straight.put(result, straight.tensors[operand])
        elif operand in straight.registers:
            straight.registers[result] = straight.registers[operand]


def expand(straight: Straight, op: Operation) -> None:
    """Lower tensor.expand_shape to a view, and emit checks of its sizes.

    The product of the sizes that a dimension of the operand is split into must be its size.
    """
    source = straight.tensors[op.operands[0]]
    result = cast("TensorType[Any]", op.results[0].type)
    # The sizes of the result: constants, or the operands for dynamic sizes.
    dynamic_sizes = iter(op.operands[1:])
    attribute_sizes = [int(n) for n in cast(Any, op.properties["static_output_shape"]).get_values()]
    dims: list[int] = []
    for attribute_size, type_size in zip(attribute_sizes, result.get_shape(), strict=True):
        if attribute_size == DYNAMIC_INDEX:
            dims.append(straight.registers[next(dynamic_sizes)])
        else:
            # The result type and the attribute may both state a size: then they are equal.
            dims.append(straight.function.constant(attribute_size if type_size < 0 else type_size))
    # Each axis of the operand is split into a group of dimensions.
    for axis, group in enumerate(reassociation(op)):
        product = straight.function.multiply(dims[n] for n in group)
        straight.require_equal(source.dims[axis], product, f"axis {axis} of the operand of '{op.name}'", op)
    _view(straight, op, source, dims, source.dtype)


def collapse(straight: Straight, op: Operation) -> None:
    """Lower tensor.collapse_shape to a view."""
    source = straight.tensors[op.operands[0]]
    result = cast("TensorType[Any]", op.results[0].type)
    dims = [straight.function.multiply(source.dims[n] for n in group) for group in reassociation(op)]
    _view(straight, op, source, _with_static_sizes(straight, op, dims, result), source.dtype)


def _with_static_sizes(straight: Straight, op: Operation, dims: Sequence[int], type: TensorType[Any]) -> list[int]:
    """Return `dims` with constants for the static sizes of `type`, and emit checks that they are equal.

    dims: registers of the sizes of the result of `op`.
    """
    fixed = list(dims)
    for axis, size in enumerate(type.get_shape()):
        if size >= 0:
            fixed[axis] = straight.function.constant(size)
            straight.require_equal(dims[axis], fixed[axis], f"axis {axis} of the result of '{op.name}'", op)
    return fixed


def view(straight: Straight, op: Operation) -> None:
    """Lower a bitcast or reshape to a view of the same bytes in another type, whose shape the rule of `op` defines.

    Emit a check that source and result have equally many bytes. It is omitted if the elements have equally many bits,
    and the sizes are in the same registers.

    straight: the builder of the host function, which computes sizes in registers.
    """
    source, result, rule = straight.tensors[op.operands[0]], op.results[0], rule_of(op)
    type = cast("TensorType[Any]", result.type)
    dtype = dtype_of(type.element_type, location_of(op))
    assert rule is not None
    # Registers of the result's sizes: static ones are constants, the rule states how to compute the others.
    dims = tuple(
        straight.size_register(size if size >= 0 else rule.size(op, result, axis), op)
        for axis, size in enumerate(type.get_shape())
    )
    size_name = f"the bytes of '{op.name}'"
    if source.dims != dims or element_bits(source.dtype) != element_bits(dtype):
        straight.require_equal(straight.size(source), straight.bytes_of(dims, dtype), size_name, op)
    _view(straight, op, source, dims, dtype)


# -- runs of a tensor


class _ContiguousSlice:
    """Slice that covers contiguous bytes of a tensor, or one such run of bytes for each index of some outer axes.

    The constructor emits checks that the slice is inside the tensor. It raises CompileError if the slice is not
    contiguous.

    Args:
        straight: The function that receives the code.
        op: The operation that states the slice.
        tensor: The tensor that the slice is a part of.
        walked: Number of outer axes, of static size, that are walked index by index: the slice has a run for each of
            their indices. 0 for one run.

    Attributes:
        sizes: Registers of the sizes of the slice.
        offset: Register of the byte offset of the first run in the memory of the tensor.
        length: Register of the number of bytes of a run.
    """

    def __init__(self, straight: Straight, op: Operation, tensor: HostTensor, walked: int = 0) -> None:
        """Emit the bounds checks of the slice, the byte offset of its first run and the length of a run.

        A run is a range of contiguous bytes. The slice has one for each index of its first `walked` axes, and is a
        single run if `walked` is 0.

        The slice x[1:2, 2:5] of a tensor [8, 6] of f32 begins at element 1 * 6 + 2 = 8: the offset is 32 bytes, and the
        length of its run 12 bytes.

        Args:
            straight: The function that receives the code.
            op: The operation that states the slice.
            tensor: The tensor that the slice is a part of.
            walked: Number of outer axes, of static size, that are walked index by index.
        """
        self.straight, self.op = straight, op
        function = straight.function
        # Registers of the offset, size and stride of each axis.
        offsets, sizes, strides = (
            [function.constant(n) if isinstance(n, int) else straight.registers[n] for n in row]
            for row in slice_of(op).components
        )
        self.sizes = sizes
        static_sizes = [function.constant_value(size) for size in sizes]
        self._require_contiguous(offsets, strides, static_sizes, tensor, walked)
        # In row-major order, an index of an axis is as many elements away from the next one as the inner axes have.
        first_element = function.constant(0)
        for axis, offset in enumerate(offsets):
            first_element = straight.add(first_element, function.multiply([offset, *tensor.dims[axis + 1 :]]))
        self.offset = self._bytes(first_element, element_bits(tensor.dtype))
        if tensor.is_part:  # the tensor itself begins at an offset in its storage
            self.offset = straight.add(tensor.offset, self.offset)
        self.length = straight.bytes_of(sizes[walked:], tensor.dtype)
        self._tensor = tensor
        # The caller walks only axes of static size (`walked_axes`).
        self._walked_sizes = [cast(int, count) for count in static_sizes[:walked]]

    def _require_contiguous(
        self,
        offsets: Sequence[int],
        strides: Sequence[int],
        static_sizes: Sequence[int | None],
        tensor: HostTensor,
        walked: int,
    ) -> None:
        """Emit the bounds checks, and checks of axes that the slice must cover. Raises CompileError if a static size
        or stride shows that the slice is not contiguous.

        Of a tensor [8, 4, 16], the slice [1, 2, 16] is one run: it has one index of axis 0, two of axis 1, and covers
        axis 2. The slice [3, 2, 16] is 3 runs, with axis 0 walked.

        Args:
            offsets, strides: Registers of the offset and stride of each axis.
            static_sizes: Static size of each axis of the slice; None for a dynamic one.
            tensor: The tensor that the slice is a part of.
            walked: Number of outer axes that are walked index by index.
        """
        function, sizes = self.straight.function, self.sizes
        # The outer `walked` axes are walked index by index: the slice has a contiguous run for each of their indices.
        # A run may begin and end anywhere in its outermost axis of a size other than 1, the partial axis, and must
        # cover the inner ones. A dynamic size counts as other than 1. If all sizes are 1, no axis must be covered.
        partial_axis = next(
            (axis for axis, size in enumerate(static_sizes) if axis >= walked and size != 1), len(sizes) - 1
        )
        for axis in range(len(sizes)):
            # The stride of an axis with one index has no effect.
            if function.constant_value(strides[axis]) != 1 and static_sizes[axis] != 1:
                raise self._not_contiguous(f"the stride of axis {axis} is not 1")
            self._require_in_bounds(axis, offsets[axis], sizes[axis], tensor.dims[axis])
            # One register for both sizes shows that they are equal.
            if axis > partial_axis and sizes[axis] != tensor.dims[axis]:
                self._require_whole_axis(axis, sizes[axis], tensor.dims[axis])

    def offsets(self) -> Iterator[int]:
        """Yield the register of the byte offset of each contiguous run, from the beginning of the tensor's storage.

        There is a run for each index of the outer axes that are walked, whose sizes are `_walked_sizes`. Runs are in
        the order of the slice's elements.
        """
        function, tensor = self.straight.function, self._tensor
        for indices in itertools.product(*map(range, self._walked_sizes)):
            distance = function.constant(0)  # from the first run, in elements
            for axis, index in enumerate(indices):
                axis_distance = function.multiply([function.constant(index), *tensor.dims[axis + 1 :]])
                distance = self.straight.add(distance, axis_distance)
            yield self.straight.add(self.offset, self._bytes(distance, element_bits(tensor.dtype)))

    def _bytes(self, elements: int, bits: int) -> int:
        """Return the register of the number of bytes that some elements take.

        An element of 2 or 4 bits must start at a byte: raises CompileError if it is known not to, else emits a check.

        Args:
            elements: Register of the number of elements.
            bits: Bits of an element.
        """
        function = self.straight.function
        if bits >= 8:
            return function.multiply([elements, function.constant(bits // 8)])
        known = function.constant_value(elements)
        if known is not None:
            if known * bits % 8:
                raise self._not_contiguous(f"element {known} of {bits} bits does not start a byte")
            return function.constant(known * bits // 8)
        total = function.multiply([elements, function.constant(bits)])
        remainder = function.binary(Opcode.REMU, total, function.constant(8))
        size_name = "the bits before the first whole byte of a slice"
        self.straight.require_equal(remainder, function.constant(0), size_name, self.op)
        return function.binary(Opcode.DIVU, total, function.constant(8))

    def _not_contiguous(self, why: str) -> CompileError:
        """Return the CompileError for a slice that is not contiguous."""
        return CompileError(f"'{self.op.name}' in host code does not cover one run of memory: {why}",
                            location_of(self.op), "such a slice belongs into a dispatch")  # fmt: skip

    def _require_whole_axis(self, axis: int, size: int, axis_size: int) -> None:
        """Require that a slice covers a whole axis: CompileError for static sizes, else a check at run time.

        size, axis_size: two different registers with the sizes. If both are constants, these differ, too.
        """
        function = self.straight.function
        known, known_axis_size = function.constant_value(size), function.constant_value(axis_size)
        if known is not None and known_axis_size is not None:
            raise self._not_contiguous(f"it takes {known} of {known_axis_size} elements of axis {axis}")
        self.straight.require_equal(size, axis_size, f"the size of axis {axis} of '{self.op.name}'", self.op)

    def _require_in_bounds(self, axis: int, offset: int, size: int, axis_size: int) -> None:
        """Require 0 <= offset, 0 <= size and offset + size <= axis_size. Raise CompileError if known values violate
        that, and emit checks at run time for others.

        offset, size, axis_size: registers with the start and size of the slice, and with the size of the axis.
        """
        function = self.straight.function
        start, count, extent = (function.constant_value(register) for register in (offset, size, axis_size))
        if start == 0 and size == axis_size:  # the whole axis, by the same register
            return
        if start is not None and count is not None and extent is not None:  # all are known while compiling
            is_in_bounds = 0 <= start <= extent and 0 <= count <= extent - start
            if not is_in_bounds:
                raise CompileError(
                    f"'{self.op.name}' takes {count} elements from {start} of axis {axis}, which has {extent}",
                    location_of(self.op),
                )
            return
        place = f"'{self.op.name}', axis {axis}{where(self.op)}"
        # Comparisons are unsigned: negative numbers, which are large unsigned ones, are refused, too.
        fits = function.compare(Opcode.CMP, ULE, offset, axis_size)
        function.check(fits, f"{place}: the offset lies outside")
        available = axis_size if start == 0 else function.binary(Opcode.SUB, axis_size, offset)
        function.check(function.compare(Opcode.CMP, ULE, size, available), f"{place}: the slice ends outside")


def extract_slice(straight: Straight, op: Operation) -> None:
    """Lower a contiguous `tensor.extract_slice` to a view. Its result may lack axes of size 1 (rank reduction)."""
    source = straight.tensors[op.operands[0]]
    run = _ContiguousSlice(straight, op, source)
    result = cast("TensorType[Any]", op.results[0].type)
    sizes = list(itertools.compress(run.sizes, _axes_in_result(straight, op, run.sizes, result)))
    view = HostTensor(
        storage=source.storage,
        dims=tuple(_with_static_sizes(straight, op, sizes, result)),
        dtype=source.dtype,
        offset=run.offset,
        length=run.length,
    )
    straight.put(op.results[0], view)


def _axes_in_result(straight: Straight, op: Operation, sizes: Sequence[int], type: TensorType[Any]) -> list[bool]:
    """Return for each axis of a slice whether its result has it; the result lacks axes of size 1 only.

    A slice of sizes (1, 4, 1, 3) with a result of shape (4, 1, 3) gives [False, True, True, True]. Raises CompileError
    if the result has not as many axes as remain. Sizes that differ from those of the result are not reported here:
    `_with_static_sizes` emits checks of them.

    Args:
        straight: The function, which knows static sizes.
        op: The operation that states the slice.
        sizes: Registers of the sizes of the slice.
        type: Type of its result.
    """
    kept: list[bool] = []
    shape = list(type.get_shape())
    # From left to right, drop axes of size 1, but keep one if the next axis of the result has the size 1, too. At most
    # as many axes are dropped as the slice has more than the result.
    for size in sizes:
        next_axis = sum(kept)  # of the result
        next_has_size_1 = next_axis < len(shape) and shape[next_axis] == 1
        has_size_1 = straight.function.constant_value(size) == 1
        can_drop = kept.count(False) < len(sizes) - len(shape)
        is_dropped = can_drop and has_size_1 and not next_has_size_1
        kept.append(not is_dropped)
    # Axes remain to be dropped where a dynamic size stands for a static 1 of the result: of the sizes (1, n) with the
    # result shape (1), the loop above keeps both. Drop axes of size 1 from the right; the choice does not matter, since
    # the elements are the same.
    surplus = sum(kept) - len(shape)
    for axis in reversed(range(len(kept))):
        if surplus > 0 and kept[axis] and straight.function.constant_value(sizes[axis]) == 1:
            kept[axis] = False
            surplus -= 1
    if surplus:
        raise CompileError(f"'{op.name}' has the result {type}, which does not fit its sizes", location_of(op))
    return kept


def insert_slice(straight: Straight, op: Operation) -> None:
    """Lower a `tensor.insert_slice` to copies of its operand into one or a few contiguous runs of the other tensor.

    The runs are one for each index of the outer, walked axes: x[:, 2:4] of a tensor [3, 8] has 3 runs. If the elements
    are f32, run i has 8 bytes. It is copied from byte 8 * i of the operand, of shape [3, 2], to byte 32 * i + 8.

    The copies write into the tensor in place, or into a copy of it. Checks of the bounds and of the operand's size are
    emitted, too.
    """
    source, value = straight.tensors[op.operands[0]], op.operands[1]
    destination = straight.tensors[value]
    target = straight.in_place(value, other_reads_memory=source.storage is destination.storage)
    run = _ContiguousSlice(straight, op, target, walked=walked_axes(op) or 0)
    offsets = list(run.offsets())  # one for each index of the walked axes
    total = straight.function.multiply([run.length, straight.function.constant(len(offsets))])
    straight.require_equal(straight.size(source), total, f"the bytes that '{op.name}' puts in", op)
    # The (source, target) of each copy: the operand has its runs one after another.
    runs = []
    for run_index, offset in enumerate(offsets):
        source_run = source
        if len(offsets) > 1:  # a single run is the whole operand
            begin = straight.function.multiply([run.length, straight.function.constant(run_index)])
            if source.is_part:  # then its runs begin at its own offset in the storage
                begin = straight.add(source.offset, begin)
            source_run = replace(source, offset=begin, length=run.length)
        runs.append((source_run, replace(target, dims=tuple(run.sizes), offset=offset, length=run.length)))
    straight.commands.copy_runs(runs, run.length)
    straight.put(op.results[0], target)


ROWS: dict[str, Callable[[Straight, Operation], None]] = {
    "tensor.dim": dim,
    "tensor.rank": rank,
    "tensor.cast": cast_,
    "tensor.expand_shape": expand,
    "tensor.collapse_shape": collapse,
    "tensor.extract_slice": extract_slice,
    "tensor.insert_slice": insert_slice,
    **dict.fromkeys(listed(lambda info: info.forwards), forward),
}
"""Name of an operation → function that lowers it. The last entries, for `forward`, return their operands unchanged.

`view` lowers the bitcasts and reshapes that are not listed: all other operations whose tensor rule is a `View`."""
