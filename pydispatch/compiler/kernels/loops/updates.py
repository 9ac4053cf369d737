"""Results that are arguments updated in place: only the changed elements are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import unsupported
from pydispatch.compiler.tensor_ops.registry import looks_through, rule_of
from pydispatch.compiler.tensor_ops.rule import Update


@dataclass
class UpdateStep:
    """Update of a tensor in place that a kernel emits, such as an insertion of a slice.

    Several updates form a chain if each has the result of the one before as its destination.

    Attributes:
        op: The operation.
        rule: Rule that states which elements of the destination it writes, and their values.
        is_only_update: Whether the chain has no other update, so that the written elements are the final ones.
            Otherwise a later update may overwrite an element; its final value is the element of the chain's result.
    """

    op: Operation
    rule: Update
    is_only_update: bool

    def dims(self, elements: Elements) -> list[Index]:
        """Return the sizes of the tensor of written elements, the inserted slice or the slices of a scatter."""
        return self.rule.written_sizes(elements, self.op)

    def position(self, elements: Elements, build: Builder, indices: Sequence[Index]) -> list[Index]:
        """Return the index in the destination of the written element at `indices`."""
        return self.rule.position(elements, build, self.op, indices)

    @property
    def slice_index_rank(self) -> int:
        """The number of leading dimensions of the written elements that count slices, which are iterated in order.

        It is 0 if no two written elements can have the same position. The other dimensions are parallel.
        """
        return self.rule.slice_index_rank(self.op)

    def conflict_key(self, elements: Elements, build: Builder, slice_index: Sequence[Index]) -> Index:
        """Return a number that is equal for slices that may write the same element: these are applied in order.

        If each slice of a scatter is a row of the destination, the key may be the number of the row. `slice_index` has
        the index of the slice in each of the `slice_index_rank` dimensions that count slices.
        """
        return self.rule.conflict_key(elements, build, self.op, slice_index)

    def is_written(self, elements: Elements, build: Builder, indices: Sequence[Index]) -> SSAValue | bool:
        """Return whether the written element at `indices` is inside the destination."""
        return self.rule.is_written(elements, build, self.op, indices)

    def write(
        self, elements: Elements, build: Builder, value: SSAValue, buffer: SSAValue, indices: Sequence[Index]
    ) -> None:
        """Emit the store of the written element at `indices`, if it is inside the destination.

        Updates form a chain if each one changes the result of the one before in place. Two updates of a chain may write
        the same element. Both then store the final value, that of the chain's result, so that their order does not
        matter.

        Args:
            elements: Tensors of the kernel.
            build: Receives the code.
            value: The result of the chain of updates.
            buffer: Memory of the result.
            indices: Indices in the tensor of written elements, such as the inserted slice.
        """

        def store(builder: Builder) -> None:
            """Emit the store of the element at `indices` at its position in the destination."""
            position = self.position(elements, builder, indices)
            if self.is_only_update:
                element = self.element(elements, builder, indices)
            else:  # the value of the last update of the chain that writes there
                element = elements.at(builder, value, position)
            elements.store(builder, element, buffer, position)

        build.when(self.is_written(elements, build, indices), store)

    def element(self, elements: Elements, build: Builder, indices: Sequence[Index]) -> SSAValue:
        """Return the element that this update writes at `indices`, even if a later one of the chain overwrites it."""
        return self.rule.written_element(elements, build, self.op, indices)


def starts_empty(value: SSAValue) -> bool:
    """Return whether a value is the result of a chain of at least one update of a `tensor.empty`."""
    has_updates = False
    while isinstance(value, OpResult) and isinstance(rule := rule_of(value.op), Update):
        value = value.op.operands[rule.destination]
        has_updates = True
    return has_updates and isinstance(value, OpResult) and value.op.name == "tensor.empty"


def updates_of(value: SSAValue) -> list[UpdateStep]:
    """Return the chain of updates that computes a result in place, in execution order.

    It begins at an argument or a `tensor.empty`. The result %2 of `%1 = insert %a into %arg; %2 = insert %b into %1`
    has the updates of %1 and %2, both written to the memory of %arg.

    Raises:
        CompileError: Another operation is between the updates and the argument.
    """
    updates: list[tuple[Operation, Update]] = []  # in execution order, with their rules
    while isinstance(value, OpResult):
        rule = rule_of(value.op)
        if isinstance(rule, Update):
            updates.insert(0, (value.op, rule))
            value = value.op.operands[rule.destination]
        elif value.op.name == "tensor.empty":  # whose other elements are undefined
            break
        elif looks_through(value.op):  # a cast of the tensor type, which changes no elements
            value = value.op.operands[0]
        else:
            raise unsupported(value.op, "it stands between an update and the argument that it changes")
    return [UpdateStep(op, rule, is_only_update=len(updates) == 1) for op, rule in updates]
