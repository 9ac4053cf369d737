"""Results that are updates of an argument: only what changes is written."""

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
    """Link in a chain of updates. only: the chain has no other link, so the written values are those of the source."""

    op: Operation
    rule: Update
    only: bool

    def dims(self, elements: Elements) -> list[Index]:
        """Return the sizes of the tensor of written elements."""
        return self.rule.written_sizes(elements, self.op)

    def position(self, elements: Elements, build: Builder, indices: Sequence[Index]) -> list[Index]:
        """Return the indices of the destination where an element of the source goes."""
        return self.rule.position(elements, build, self.op, indices)

    @property
    def ordered(self) -> int:
        """How many leading dimensions of what is written are walked in order."""
        return self.rule.ordered(self.op)

    def meeting(self, elements: Elements, build: Builder, leading: Sequence[Index]) -> Index:
        """Return a number that leading indices share when the elements they write may meet."""
        return self.rule.meeting(elements, build, self.op, leading)

    def lands(self, elements: Elements, build: Builder, indices: Sequence[Index]) -> SSAValue | bool:
        """Return whether an element of the source has a place in the destination."""
        return self.rule.lands(elements, build, self.op, indices)

    def write(
        self, elements: Elements, build: Builder, value: SSAValue, buffer: SSAValue, indices: Sequence[Index]
    ) -> None:
        """Write the element at `indices` of the source. value: the result, buffer: where it lies."""

        def land(builder: Builder) -> None:
            where = self.position(elements, builder, indices)
            elements.store(
                builder,
                self.element(elements, builder, indices) if self.only else elements.at(builder, value, where),
                buffer,
                where,
            )

        build.when(self.lands(elements, build, indices), land)

    def element(self, elements: Elements, build: Builder, indices: Sequence[Index]) -> SSAValue:
        """Return the element that the update writes, when nothing else writes there."""
        return self.rule.written_element(elements, build, self.op, indices)


def starts_empty(value: SSAValue) -> bool:
    """Return whether a value is a chain of updates of a tensor.empty."""
    links = 0
    while isinstance(value, OpResult) and isinstance(rule := rule_of(value.op), Update):
        value, links = value.op.operands[rule.destination], links + 1
    return links > 0 and isinstance(value, OpResult) and value.op.name == "tensor.empty"


def updates_of(value: SSAValue) -> list[UpdateStep]:
    """Return the chain of updates that makes a tied result, first to last."""
    links: list[tuple[Operation, Update]] = []
    while isinstance(value, OpResult):
        rule = rule_of(value.op)
        if isinstance(rule, Update):
            links.insert(0, (value.op, rule))
            value = value.op.operands[rule.destination]
        elif value.op.name == "tensor.empty":
            break
        elif looks_through(value.op):
            value = value.op.operands[0]
        else:
            raise unsupported(value.op, "it stands between an update and the argument that it changes")
    return [UpdateStep(op, rule, len(links) == 1) for op, rule in links]
