"""Tensors of a hand-written dispatch body as memrefs: each is a view of a binding.

A slice that is written back to its source is not copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pydispatch.compiler.analysis.destinations import (
    LOADS,
    STORES,
    base_of,
    destination_of,
    final_write_of,
    slice_of,
)
from pydispatch.compiler.outline.overwrites import Overwrites
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.dialects import iree_codegen


class BodyMemory(ABC):
    """Memory of the tensors in the body of one dispatch region; subclasses provide the bindings.

    The kernel has no tensors: a tensor of the body becomes a memref, a view of a binding, wherever it is used
    (`to_read`, `to_write`). Operations are appended to `block`, a block of the kernel.
    """

    def __init__(self, block: Block) -> None:
        """Append operations to `block`, a block of the kernel."""
        self.block = block
        self.mapping: dict[SSAValue, SSAValue] = {}  # scalar of the body → the same scalar in the kernel
        self.source: Operation  # the operation of the body that is being translated
        self._overwrites = Overwrites()  # the loads so far, and the stores that may write their slices

    @abstractmethod
    def binding_to_read(self, value: SSAValue) -> SSAValue:
        """Return the memref by which the kernel reads a tensor defined outside of the dispatch body.

        It has the contents from before the dispatch.
        """

    @abstractmethod
    def binding_to_write(self, value: SSAValue) -> SSAValue:
        """Return the memref by which the kernel writes the result that overwrites the tensor `value`.

        `value` is defined outside of the dispatch body, or a `tensor.empty`.
        """

    @abstractmethod
    def outer_dim(self, value: SSAValue, axis: int) -> SSAValue:
        """Return the size in dimension `axis` of a tensor from outside the body, as an index of the kernel."""

    @abstractmethod
    def target(self, op: Operation) -> SSAValue:
        """Return the memref of the whole binding that a tensor load or store names."""

    @abstractmethod
    def is_outer(self, value: SSAValue) -> bool:
        """Return whether a value is defined outside the body of the dispatch."""

    def scalar(self, value: SSAValue) -> SSAValue:
        """Return the value of the kernel for a scalar of the body.

        Raises CompileError if the kernel has not computed it yet.
        """
        if value not in self.mapping:
            raise self.error(
                "the slice that a result is stored in depends on a value that is computed after this operation"
            )
        return self.mapping[value]

    def add(self, op: Operation) -> Operation:
        """Append an operation to the kernel, with the location of the operation that is being translated."""
        set_location(op, self.source)
        self.block.add_op(op)
        return op

    def index(self, value: int) -> SSAValue:
        """Return a constant of type index in the kernel."""
        return self.add(arith.ConstantOp.from_int_and_width(value, IndexType())).results[0]

    def error(self, message: str, note: str | None = None) -> CompileError:
        """Return an error at the operation that is being translated."""
        return CompileError(message, location_of(self.source), note)

    def dim(self, value: SSAValue, axis: int) -> SSAValue:
        """Return the size in dimension `axis` of any tensor of the body, as an index of the kernel.

        A dynamic size is stated by the operation that defines the tensor: a slice, a load or a `tensor.empty` by its
        own sizes; an insertion or a microkernel by its destination, whose sizes the result has. Raises CompileError if
        it is not stated: for a slice that drops dimensions, or an operation that is not supported.
        """
        assert isinstance(value.type, TensorType)
        size = value.type.get_shape()[axis]
        if size >= 0:
            return self.index(size)
        if self.is_outer(value):  # defined on the host, outside of the body
            return self.outer_dim(value, axis)
        owner = value.owner
        if isinstance(owner, Operation) and owner.name in ("tensor.extract_slice", *LOADS):
            sizes = slice_of(owner).sizes
            keeps_rank = len(sizes) == value.type.get_num_dims()
            if keeps_rank:
                stated = sizes[axis]
                return self.index(stated) if isinstance(stated, int) else self.scalar(stated)
        elif isinstance(owner, Operation) and owner.name == "tensor.empty":  # its operands are the dynamic sizes
            dynamic_axes = [i for i, n in enumerate(value.type.get_shape()) if n < 0]
            return self.scalar(owner.operands[dynamic_axes.index(axis)])
        elif isinstance(owner, Operation) and owner.name == "tensor.insert_slice":
            return self.dim(owner.operands[1], axis)
        elif isinstance(owner, iree_codegen.UkernelGenericOp):
            return self.dim(destination_of(value), axis)
        raise self.error("the size of this tensor is not known inside the dispatch")

    def to_read(self, value: SSAValue) -> SSAValue:
        """Return the memref that has the elements of a tensor, of the body or from outside.

        It is the memory of the binding or result in which the tensor is stored: a slice is a view of the memory of its
        source. Raises CompileError if the binding of a loaded slice was written after the load: the memory then no
        longer has the elements that the program loaded.
        """
        if self.is_outer(value):
            return self.binding_to_read(value)
        owner = value.owner
        assert isinstance(owner, Operation)
        if owner.name == "tensor.extract_slice":
            return self.view(self.to_read(owner.operands[0]), owner)
        if owner.name in LOADS:
            self._check_current(value)
            return self.view(self.target(owner), owner)
        return self.to_write(value)  # a result or an empty tensor, which is in the memory that it is stored in

    def to_write(self, value: SSAValue) -> SSAValue:
        """Return the memref that an operation overwrites if the tensor is its destination.

        - For a tensor from outside, it is the memref of its binding.
        - For a tensor.empty, it is the memory of the result that it becomes part of.
        - For an extracted or loaded slice, it is a view of the memory that the slice was taken from.
        - For the result of an insertion or a microkernel, it is the memory of the destination.

        Raises CompileError unless the tensor is from outside, an extracted or loaded slice, a tensor.empty, or the
        result of an insertion or microkernel.
        """
        if self.is_outer(value):
            return self.binding_to_write(value)
        owner = value.owner
        assert isinstance(owner, Operation)
        if owner.name == "tensor.insert_slice":
            return self.to_write(owner.operands[1])
        if isinstance(owner, iree_codegen.UkernelGenericOp):
            return self.to_write(destination_of(value))
        if owner.name == "tensor.empty":
            return self._memory_of_empty(value)
        if owner.name == "tensor.extract_slice" or owner.name in LOADS:
            return self._memory_of_slice(value, owner)
        raise self.error(f"'{owner.name}' gives a tensor that cannot be written here")

    def _memory_of_empty(self, value: SSAValue) -> SSAValue:
        """Return the memref in which an empty tensor is finally stored: a result, or a slice of another memref."""
        final_write = final_write_of(value)
        if final_write is None or final_write.name in ("flow.return", "util.return"):
            return self.binding_to_write(value)
        if final_write.name in STORES:
            whole_memory = self.target(final_write)
        else:  # the memory of the tensor that an insertion updates
            whole_memory = self.to_write(final_write.operands[1])
        return self.view(whole_memory, final_write)

    def _memory_of_slice(self, value: SSAValue, extraction: Operation) -> SSAValue:
        """Return the memref of an extracted or loaded slice, which operations overwrite in place.

        It is a view of the memory that the slice was taken from. For %s in

            %s = tensor.extract_slice %t[2] [4] [1] : tensor<8xf32> to tensor<4xf32>
            %r = iree_codegen.ukernel.generic "f" outs(%s : tensor<4xf32>) -> tensor<4xf32>
            %u = tensor.insert_slice %r into %t[2] [4] [1] : tensor<4xf32> into tensor<8xf32>

        it is elements 2 to 5 of the memory of %t: the microkernel writes there, and the insertion copies nothing.

        Raises CompileError unless the result is put into the same slice of the same tensor, as in the example.
        Otherwise writing in place would change elements that the program leaves unchanged.

        Args:
            value: The slice.
            extraction: The `tensor.extract_slice`, or the load, that it is the result of.
        """
        # The insertion or store of the last tensor that is computed in the memory of the slice: the insertion %u above.
        whole, final_write = extraction.operands[0], final_write_of(value)
        is_written_back = False
        if final_write is not None and final_write.name in (*STORES, "tensor.insert_slice"):
            is_same_tensor = base_of(final_write.operands[1]) is base_of(whole)
            is_written_back = is_same_tensor and slice_of(final_write) == slice_of(extraction)
        if not is_written_back:
            raise self.error(
                "what is written here is not put back where it was taken from",
                "insert the result into the same slice of the same tensor, or write into a tensor.empty",
            )
        whole_memory = self.target(extraction) if extraction.name in LOADS else self.to_write(whole)
        return self.view(whole_memory, extraction)

    def view(self, base: SSAValue, op: Operation) -> SSAValue:
        """Emit a view of the memref `base`: the slice that `op` (extract_slice, insert_slice, load or store) states.

        Return it, a memref with the shape of the tensor that is extracted or inserted. For the slice [%i, 0] [2, %n]
        [1, 2] of a memref<4x8xf32>, it is a memref<2x?xf32, strided<[8, 2], offset: ?>>.
        """
        slice_ = slice_of(op)
        # The tensor that has the shape of the slice: the stored or inserted one, or the result of a load or extraction.
        tensor = op.operands[0] if op.name in (*STORES, "tensor.insert_slice") else op.results[0]
        assert isinstance(tensor.type, TensorType) and isinstance(base.type, MemRefType)
        shape = tensor.type.get_shape()
        if len(shape) != len(slice_.sizes):
            raise self.error("a slice of lower rank is not understood inside a dispatch", "keep all dimensions")
        type_ = MemRefType(tensor.type.element_type, shape, _layout_of_view(base.type, slice_.strides))
        # `dynamic` and `static` have three lists each: offsets, sizes and strides.
        dynamic = [[self.scalar(n) for n in row if not isinstance(n, int)] for row in slice_.components]
        static = [[n if isinstance(n, int) else DYNAMIC_INDEX for n in row] for row in slice_.components]
        subview = memref.SubviewOp(base, dynamic[0], dynamic[1], dynamic[2], static[0], static[1], static[2], type_)
        return self.add(subview).results[0]

    def _check_current(self, value: SSAValue, store: Operation | None = None) -> None:
        """Raise CompileError if a tensor is a loaded slice that was overwritten after the load.

        store: a store that does not count as overwriting `value`: its operand is computed in the memory of `value`.
        """
        if self._overwrites.has_overwritten(value, store):
            raise self.error(
                "a slice is read after its binding was written",
                "move what reads the slice before the first microkernel, insertion, store or loop that writes it",
            )


def _layout_of_view(base: MemRefType[Attribute], steps: Sequence[int | SSAValue]) -> StridedLayoutAttr:
    """Return the layout of a view of a memref whose slice has the strides `steps`; its offset is dynamic.

    A stride of the base is dynamic if it is None or negative.
    """
    strides = [
        stride * step if stride is not None and stride >= 0 and isinstance(step, int) else NoneAttr()
        for stride, step in zip(base.get_strides() or [], steps, strict=True)
    ]
    return StridedLayoutAttr(strides, NoneAttr())
