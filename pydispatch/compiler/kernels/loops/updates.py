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
    """One link of a chain of updates. only: the chain has no other, so that what is written is the source."""

    op: Operation
    rule: Update
    only: bool

    def dims(self, e: Elements) -> list[Index]:
        """The sizes of what is written."""
        return self.rule.written_sizes(e, self.op)

    def position(self, e: Elements, build: Builder, indices: Sequence[Index]) -> list[Index]:
        """Where an element of the source goes."""
        return self.rule.position(e, build, self.op, indices)

    def has_room(self, e: Elements, build: Builder) -> SSAValue | bool:
        """Whether the destination has elements: single ones cannot be written otherwise."""
        return self.rule.has_room(e, build, self.op)

    def element(self, e: Elements, build: Builder, indices: Sequence[Index]) -> SSAValue:
        """What is written, when nothing else writes there."""
        return self.rule.written_element(e, build, self.op, indices)


def starts_empty(value: SSAValue) -> bool:
    """Whether a value is a chain of updates of a tensor.empty."""
    links = 0
    while isinstance(value, OpResult) and isinstance(rule := rule_of(value.op), Update):
        value, links = value.op.operands[rule.destination], links + 1
    return links > 0 and isinstance(value, OpResult) and value.op.name == "tensor.empty"


def updates_of(value: SSAValue) -> list[UpdateStep]:
    """The chain of updates that makes a tied result, first to last."""
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
