"""Slices, microkernel destinations and final locations of the tensors in a dispatch body."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, DenseArrayBase, IntegerAttr, TensorType
from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.dialects import iree_codegen

LOADS = ("iree_tensor_ext.dispatch.tensor.load", "flow.dispatch.tensor.load")
"""Operations that read a slice of a binding of a dispatch as a tensor."""
STORES = ("iree_tensor_ext.dispatch.tensor.store", "flow.dispatch.tensor.store")
"""Operations that write a tensor to a slice of a binding of a dispatch."""
ALIASES = ("iree_tensor_ext.dispatch.workload.ordinal", "flow.dispatch.workload.ordinal", "flow.dispatch.tie_shape")
"""Operations whose result is operand 0 itself."""
LAZY = ("tensor.empty", "tensor.extract_slice", *LOADS)
"""Operations that compute nothing: their results are views of memory, which are emitted before each use."""

Mixed = tuple[int | SSAValue, ...]
"""Offsets, sizes or strides: an integer for a static one, a value of the program for a dynamic one."""


@dataclass(frozen=True)
class Slice:
    """Slice of a tensor: offset, size and stride in each dimension, in elements."""

    offsets: Mixed
    sizes: Mixed
    strides: Mixed

    @property
    def components(self) -> tuple[Mixed, Mixed, Mixed]:
        """Offsets, sizes and strides."""
        return self.offsets, self.sizes, self.strides


def slice_of(op: Operation) -> Slice:
    """Return the slice that an extract_slice, insert_slice, tensor load or tensor store names."""
    return Slice(*(mixed_operands(op, name) for name in ("offsets", "sizes", "strides")))


def mixed_operands(op: Operation, name: str) -> Mixed:
    """Return the integers of the property `static_<name>`, where an operand of the list `<name>` replaces each dynamic
    one: static_sizes = [4, dynamic] with sizes = [%n] becomes (4, %n).
    """
    dynamic: Iterator[SSAValue] = iter(getattr(op, name))
    return tuple(next(dynamic) if n == DYNAMIC_INDEX else n for n in _integers(op, f"static_{name}"))


def _integers(op: Operation, name: str) -> list[int]:
    """Return the integers of a property, which is a dense array or a list of integer attributes."""
    attribute = op.properties[name]
    if isinstance(attribute, DenseArrayBase):
        return [int(n) for n in attribute.get_values()]
    assert isinstance(attribute, ArrayAttr)
    return [int(n.value.data) for n in attribute.data if isinstance(n, IntegerAttr)]


def destination_of(value: SSAValue) -> SSAValue:
    """Return the destination that a tensor result of a microkernel overwrites: the tensor in `outs` with the same index
    among the tensors as the result has among the tensor results.
    """
    op = value.owner
    assert isinstance(op, iree_codegen.UkernelGenericOp) and isinstance(value, OpResult)
    check_destinations(op)
    tensors = [r for r in op.results if isinstance(r.type, TensorType)]
    return [o for o in op.outputs if isinstance(o.type, TensorType)][tensors.index(value)]


def result_of(value: SSAValue, op: iree_codegen.UkernelGenericOp) -> SSAValue | None:
    """Return the tensor result of a microkernel that overwrites `value`; None if `value` is none of its outputs."""
    outputs = [o for o in op.outputs if isinstance(o.type, TensorType)]
    tensors = [r for r in op.results if isinstance(r.type, TensorType)]
    return tensors[outputs.index(value)] if value in outputs and len(outputs) == len(tensors) else None


def check_destinations(op: iree_codegen.UkernelGenericOp) -> None:
    """Check that each tensor result has a tensor in outs that it overwrites; raise CompileError if the
    counts differ.
    """
    tensors = [r for r in op.results if isinstance(r.type, TensorType)]
    outputs = [o for o in op.outputs if isinstance(o.type, TensorType)]
    if len(tensors) != len(outputs):
        raise CompileError(
            f"a microkernel has {len(tensors)} tensor results and {len(outputs)} tensors in outs", location_of(op),
            "each tensor result is one of the tensors in outs, overwritten",
        )  # fmt: skip


def base_of(value: SSAValue) -> SSAValue:
    """Return the tensor whose memory `value` overwrites: follow insertions and microkernels to their destinations.

    Return the argument itself for an alias of an argument, such as a binding with its sizes (`dispatch.tie_shape`).
    """
    while isinstance(op := value.owner, Operation):
        if op.name in ALIASES:
            value = op.operands[0]
        elif op.name == "tensor.insert_slice":
            value = op.operands[1]  # the destination of the insertion
        elif isinstance(op, iree_codegen.UkernelGenericOp):
            value = destination_of(value)
        else:
            break
    return value


def is_computed_in_place(op: Operation) -> bool:
    """Return whether the tensor that a store or insertion `op` writes is in the memory of its slice already.

    The tensor is there if it was computed by overwriting an empty tensor, which is given the memory of the slice, or by
    overwriting a view of that slice.
    """
    value = op.operands[0]
    root = base_of(value)  # the tensor that was overwritten
    was_overwritten = value.owner is not root.owner
    if not isinstance(root.owner, Operation) or not was_overwritten:
        return False
    if root.owner.name == "tensor.empty":
        return True
    return root.owner.name in LAZY and slice_of(root.owner) == slice_of(op)  # the other LAZY operations are views


def final_write_of(value: SSAValue) -> Operation | None:
    """Return the operation that puts a tensor where it finally is stored: an insertion, a store or a return.

    Code generation uses it to let a producer write directly into that memory. Updates of the tensor are followed:
    insertions into it, and microkernels that overwrite it. For %0 and %1 of

        %0 = tensor.empty() : tensor<8xf32>
        %1 = tensor.insert_slice %row into %0[0] [2] [1] : tensor<2xf32> into tensor<8xf32>
        iree_tensor_ext.dispatch.tensor.store %1, %binding, ...

    it is the store, for %row the insertion. Return None if there is no such operation, or if there are several; other
    readers of the tensor do not count.
    """
    ends = set[Operation | None]()  # with None for an update that has no final write, or several
    for use in value.uses:
        user = use.operation
        is_insertion = user.name == "tensor.insert_slice"
        writes_value = use.index == 0 and (user.name in STORES or is_insertion)  # operand 0: the elements to write
        if isinstance(user, iree_codegen.UkernelGenericOp):
            if (result := result_of(value, user)) is not None:
                ends.add(final_write_of(result))
        elif writes_value or user.name.endswith(".return"):
            ends.add(user)
        elif is_insertion and use.index == 1:  # operand 1: the destination, which the insertion updates
            ends.add(final_write_of(user.results[0]))
    return ends.pop() if len(ends) == 1 else None
