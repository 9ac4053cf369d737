"""Translation of hand-written dispatch bodies on tensors to memrefs in destination-passing style.

Supported are slices of the tensors that the dispatch reads and returns, microkernel calls on them, and scalar code.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    MemRefType,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.compiler.analysis.destinations import (
    ALIASES,
    LAZY,
    LOADS,
    STORES,
    check_destinations,
    is_computed_in_place,
    result_of,
)
from pydispatch.compiler.outline.microkernels import Microkernels, strided_dims
from pydispatch.compiler.outline.overwrites import EXECUTED_ONCE, later_reader, stale_reader, store_of
from pydispatch.compiler.outline.slices import BodyMemory
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects import iree_codegen


class KernelBody(BodyMemory):
    """Translator of the body of one dispatch region to kernel code.

    A subclass calls `translate` once, with the operations of the body; it appends operations to `block`, a block of the
    kernel. Scalars are copied (`scalar`).
    """

    def __init__(self, block: Block) -> None:
        """Create a translator that appends to `block`, a block of the kernel."""
        super().__init__(block)
        self.microkernels = Microkernels()  # the functions that the kernel calls

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

    def _store_slice(self, base: SSAValue, op: Operation) -> None:
        """Copy the tensor that `op` stores or inserts to the slice of `base` that `op` states.

        A tensor that was computed in the memory of the slice needs no copy.
        """
        if not is_computed_in_place(op):
            self.add(memref.CopyOp(self.to_read(op.operands[0]), self.view(base, op)))

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
        arguments: list[SSAValue] = []
        tensor_index = 0
        for index, value in enumerate((*op.inputs, *op.outputs)):
            if not isinstance(value.type, TensorType):
                arguments.append(self.scalar(value))
                continue
            buffer = self.to_read(value) if index < len(op.inputs) else self._output_buffer(value, op)
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

    def _output_buffer(self, value: SSAValue, op: iree_codegen.UkernelGenericOp) -> SSAValue:
        """Return the memref of an output of a microkernel, after checks that the microkernel may overwrite it."""
        self._check_current(value, store_of(value))  # the microkernel may read the elements that it overwrites
        self._check_last_use(value, op)
        return self.to_write(value)

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
