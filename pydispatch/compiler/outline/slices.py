"""Translation of hand-written dispatch bodies on tensors to memrefs in destination-passing style.

Supported are slices of the tensors that the dispatch reads and returns, microkernel calls on them, and scalar code.
Each tensor value is a view of a binding. A slice that is written back to its source is not copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.compiler.analysis.destinations import (
    ALIASES,
    LAZY,
    LOADS,
    STORES,
    base_of,
    check_destinations,
    destination_of,
    final_write_of,
    is_computed_in_place,
    result_of,
    slice_of,
)
from pydispatch.compiler.outline.microkernels import Microkernels, strided_dims
from pydispatch.compiler.outline.overwrites import EXECUTED_ONCE, Overwrites, later_reader, stale_reader, store_of
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects import iree_codegen


class KernelBody(ABC):
    """Translator of the body of one dispatch region to kernel code; subclasses provide the bindings.

    A subclass calls `translate` once, with the operations of the body; it appends operations to `block`, a block of the
    kernel. The kernel has no tensors: a tensor of the body becomes a memref, a view of a binding, wherever it is used
    (`to_read`, `to_write`). Scalars are copied (`scalar`).
    """

    def __init__(self, block: Block) -> None:
        """Create a translator that appends to `block`, a block of the kernel."""
        self.block = block
        self.mapping: dict[SSAValue, SSAValue] = {}  # scalar of the body → the same scalar in the kernel
        self.source: Operation  # the operation of the body that is being translated
        self.microkernels = Microkernels()  # the functions that the kernel calls
        self._overwrites = Overwrites()  # the loads so far, and the stores that may write their slices

    # -- implemented by subclasses

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

    # -- writing

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

    # -- operations

    def translate(self, ops: Sequence[Operation]) -> None:
        """Translate the operations of the body in order. ops: all operations except the terminator.

        Loads, slices and empty tensors emit nothing: `to_read` and `to_write` emit a view where their result is used.
        A load reads the elements that its binding has at the load. Using its result after a write of its slice is an
        error (`_check_current`).
        """
        for op in ops:
            self.source = op
            if op.name in LOADS:
                self._overwrites.record_load(op)
            elif op.name in LAZY:
                pass  # a view of a tensor is emitted where it is used
            elif op.name in ALIASES:
                self.mapping[op.results[0]] = self.scalar(op.operands[0])
            elif op.name in STORES:
                self._store_slice(self.target(op), op)
                self._overwrites.record_store(op)
            elif op.name == "tensor.insert_slice":
                self._insert_slice(op)
            elif op.name == "tensor.dim":
                self._dim(op)
            elif op.name == "tensor.extract":
                indices = [self.scalar(v) for v in op.operands[1:]]
                load = self.add(memref.LoadOp.get(self.to_read(op.operands[0]), indices))
                self.mapping[op.results[0]] = load.results[0]
            elif isinstance(op, iree_codegen.UkernelGenericOp):
                self._ukernel(op)
            else:
                self._copy(op)

    def _insert_slice(self, op: Operation) -> None:
        """Emit a `tensor.insert_slice` into operand 1 as a write to the memory of operand 1.

        The result has the elements of the destination around the inserted ones: they must not have been overwritten
        since they were loaded.
        """
        destination, result = op.operands[1], op.results[0]
        self._check_current(destination, store_of(result))
        self._store_slice(self.to_write(destination), op)
        if not is_computed_in_place(op):
            self._check_other_readers(destination, op, result)
        self._overwrites.record_early_store(result)

    def _copy(self, op: Operation) -> None:
        """Copy an operation on scalars, including its regions, into the kernel, and map its results to the new ones.

        Raises CompileError for operations on tensors, and for a loop that reads a slice which was loaded before the
        loop, if the loop overwrites this slice.
        """
        if any(isinstance(v.type, TensorType) for v in (*op.operands, *op.results)):
            raise self.error(
                f"'{op.name}' on tensors is not understood inside a dispatch",
                "slices (tensor.extract_slice, tensor.insert_slice), tensor.extract, tensor.dim and "
                "iree_codegen.ukernel.generic are; leave other operations outside, where the compiler fuses them",
            )
        if op.name not in EXECUTED_ONCE:  # an iteration of a loop follows the stores of earlier iterations
            for inner in walk(op):
                if inner.name in STORES:
                    self._overwrites.record_store_of_earlier_iteration(inner)
        operands = [self.scalar(v) for v in op.operands]
        new = type(op).create(
            operands=operands, result_types=[r.type for r in op.results], properties=dict(op.properties),
            attributes=dict(op.attributes), regions=[self._region(region) for region in op.regions],
        )  # fmt: skip
        self.source = op
        self.add(new)
        for old, result in zip(op.results, new.results, strict=True):
            result.name_hint = old.name_hint
            self.mapping[old] = result

    def _region(self, region: Region) -> Region:
        """Translate a region, and return the new region; raise CompileError if it has more than one block."""
        blocks = [Block(arg_types=[a.type for a in block.args]) for block in region.blocks]
        if len(blocks) > 1:
            raise self.error("control flow between blocks is not understood inside a dispatch", "write it with scf")
        outer_block = self.block  # while a block of the region is translated, operations are added to that block
        for old, new in zip(region.blocks, blocks, strict=True):
            self.mapping.update(zip(old.args, new.args, strict=True))
            self.block = new
            self.translate(list(old.ops))
        self.block = outer_block
        return Region(blocks)

    def _dim(self, op: Operation) -> None:
        """Map a `tensor.dim` to the size of its constant axis."""
        constant = op.operands[1].owner
        if not isinstance(constant, arith.ConstantOp) or not isinstance(constant.value, IntegerAttr):
            raise self.error("the axis of tensor.dim is not a constant")
        self.mapping[op.results[0]] = self.dim(op.operands[0], constant.value.value.data)

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

    # -- tensors as memrefs

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
        # Strides of the view in elements; None for one that is known at run time only. A stride of the base is dynamic
        # if it is None or negative.
        strides = [
            base_stride * step if base_stride is not None and base_stride >= 0 and isinstance(step, int) else None
            for base_stride, step in zip(base.type.get_strides() or [], slice_.strides, strict=True)
        ]
        layout = StridedLayoutAttr([NoneAttr() if stride is None else stride for stride in strides], NoneAttr())
        type_ = MemRefType(tensor.type.element_type, shape, layout)
        # `dynamic` and `static` have three lists each: offsets, sizes and strides.
        dynamic = [[self.scalar(n) for n in row if not isinstance(n, int)] for row in slice_.components]
        static = [[n if isinstance(n, int) else DYNAMIC_INDEX for n in row] for row in slice_.components]
        subview = memref.SubviewOp(base, dynamic[0], dynamic[1], dynamic[2], static[0], static[1], static[2], type_)
        return self.add(subview).results[0]

    def _store_slice(self, base: SSAValue, op: Operation) -> None:
        """Copy the tensor that `op` stores or inserts to the slice of `base` that `op` states.

        A tensor that was computed in the memory of the slice needs no copy.
        """
        if not is_computed_in_place(op):
            self.add(memref.CopyOp(self.to_read(op.operands[0]), self.view(base, op)))

    def _check_current(self, value: SSAValue, store: Operation | None = None) -> None:
        """Raise CompileError if a tensor is a loaded slice that was overwritten after the load.

        store: a store that does not count as overwriting `value`: its operand is computed in the memory of `value`.
        """
        if self._overwrites.has_overwritten(value, store):
            raise self.error(
                "a slice is read after its binding was written",
                "move what reads the slice before the first microkernel, insertion, store or loop that writes it",
            )

    # -- microkernels

    def _ukernel(self, op: iree_codegen.UkernelGenericOp) -> None:
        """Emit the call of a microkernel.

        Its arguments are the inputs and outputs in their order, then the other operands. A tensor is passed as base
        pointer, offset, and the strides that the operation requests. For example

            %r, %s = iree_codegen.ukernel.generic "f" ins(%a : tensor<8xf32>) outs(%b : tensor<2x4xf32>) (%n : index)
              strided_dims([[], [0]]) -> tensor<2x4xf32>, f32

        becomes `%s = call @f(%a_base, %a_offset, %b_base, %b_offset, %b_stride0, %n) -> f32`. The tensor result %r has
        no value of its own in the kernel: it is in the memory of %b.
        """
        check_destinations(op)
        # The arguments.
        arguments: list[SSAValue] = []
        tensor_index = 0
        for index, value in enumerate((*op.inputs, *op.outputs)):
            if not isinstance(value.type, TensorType):
                arguments.append(self.scalar(value))
                continue
            is_output = index >= len(op.inputs)
            if is_output:
                self._check_current(value, store_of(value))  # the microkernel may read the elements that it overwrites
                self._check_last_use(value, op)
            buffer = self.to_write(value) if is_output else self.to_read(value)
            arguments += self._tensor_arguments(buffer, op, tensor_index)
            tensor_index += 1
        arguments += [self.scalar(v) for v in op.other_operands]
        # The call, which returns the scalar results.
        outputs = [r for r in op.results if not isinstance(r.type, TensorType)]
        callee = self.microkernels.declare(op, [a.type for a in arguments], [r.type for r in outputs])
        call = self.add(func.CallOp(callee.sym_name.data, arguments, [r.type for r in outputs]))
        self.mapping.update(zip(outputs, call.results, strict=True))
        # The call has written the outputs: the operations that store the results of `op` have nothing left to copy.
        for value in op.outputs:
            self._overwrites.record_early_store(value)
        self.microkernels.add_objects(op)

    def _tensor_arguments(
        self, buffer: SSAValue, op: iree_codegen.UkernelGenericOp, tensor_index: int
    ) -> list[SSAValue]:
        """Emit and return the arguments by which a microkernel `op` is passed its tensor operand `tensor_index`.

        The arguments are the base pointer of the memref `buffer`, its offset in elements, and the strides that `op`
        requests.
        """
        assert isinstance(buffer.type, MemRefType)
        rank = buffer.type.get_num_dims()
        base = MemRefType(buffer.type.element_type, [])
        # The results: base pointer, offset, and the sizes and strides of all dimensions.
        types: list[Attribute | Sequence[Attribute] | None] = [base, IndexType(), [IndexType()] * (2 * rank)]
        metadata = self.add(iree_codegen.ExtractStridedMetadataOp(operands=[buffer], result_types=types)).results
        # metadata[2 : 2 + rank] are the sizes, which are not passed.
        base_pointer, offset, strides = metadata[0], metadata[1], metadata[2 + rank :]
        return [base_pointer, offset, *(strides[d] for d in strided_dims(op, tensor_index, rank))]

    def _check_last_use(self, value: SSAValue, op: iree_codegen.UkernelGenericOp) -> None:
        """Check that no operation reads a tensor after a microkernel has overwritten it; raise CompileError otherwise.

        Tensors from outside the body are exempt, because the dispatch copies them.

        Args:
            value: The tensor.
            op: The call of the microkernel.
        """
        reader = None if self.is_outer(value) else later_reader(value, op)
        if reader is not None:
            raise _used_after(op, reader)
        result = result_of(value, op)
        assert result is not None
        self._check_other_readers(value, op, result)

    def _check_other_readers(self, destination: SSAValue, op: Operation, result: SSAValue) -> None:
        """Raise CompileError if an operation reads another tensor after `op` has overwritten elements of that tensor.

        Args:
            destination: The tensor that `op` overwrites. Slices of it, or the tensor that it is a slice of, are in the
                same memory.
            op: A microkernel or an insertion.
            result: The tensor that `op` computes in this memory.
        """
        reader = stale_reader(destination, op, result, self.is_outer)
        if reader is not None:
            raise _used_after(op, reader)


def _used_after(op: Operation, reader: Operation) -> CompileError:
    """Return the error for an operation that reads a tensor which `op`, a microkernel or insertion, has overwritten."""
    article, writer = ("an", "insertion") if op.name == "tensor.insert_slice" else ("a", "microkernel")
    return CompileError(
        f"a tensor is used after {article} {writer} has overwritten it", location_of(reader),
        f"use the result of the {writer}, or read the tensor before it; a tensor that is overwritten "
        "in a loop must be defined in the loop",
    )  # fmt: skip
