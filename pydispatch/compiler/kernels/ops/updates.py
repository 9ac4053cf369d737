"""Results that are updates of an argument: only what changes is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.producers import coordinates, in_slice, picked_index
from pydispatch.compiler.kernels.ops.tensors import tensor_type, unsupported


@dataclass
class Update:
    """One link of a chain of updates. only: the chain has no other, so that what is written is the source."""

    op: Any
    only: bool

    def dims(self, e: Elements) -> list[Index]:
        """The sizes of what is written."""
        return [] if self.op.name == "tensor.insert" else e.dims(self.op.source)

    def position(self, e: Elements, build: Builder, indices: Sequence[Index]) -> list[Index]:
        """Where an element of the source goes."""
        op = self.op
        if op.name == "tensor.insert":
            return [build.clamp(e.index(i), n) for i, n in zip(op.indices, e.dims(op.dest), strict=True)]
        if op.name == "tensor.scatter":
            batch = tensor_type(op.indices).get_num_dims() - 1
            return picked_index(op, coordinates(e, build, op, indices[:batch]), indices[batch:])
        return in_slice(e, build, op, op.dest, tensor_type(op.source), indices)

    def lands(self, e: Elements, build: Builder) -> SSAValue | bool:
        """Whether the destination has elements: single ones cannot be written otherwise."""
        return True if self.op.name == "tensor.insert_slice" else build.not_empty(e.dims(self.op.dest))

    def element(self, e: Elements, build: Builder, indices: Sequence[Index]) -> SSAValue:
        """What is written, when nothing else writes there."""
        if self.op.name == "tensor.insert":
            return e.scalar(self.op.scalar)
        return e.at(build, self.op.source, indices)


def starts_empty(value: SSAValue) -> bool:
    """Whether a value is a chain of updates of a tensor.empty."""
    links = 0
    while isinstance(value, OpResult) and value.op.name in ("tensor.insert", "tensor.insert_slice", "tensor.scatter"):
        value, links = value.op.operands[1], links + 1
    return links > 0 and isinstance(value, OpResult) and value.op.name == "tensor.empty"


def updates_of(value: SSAValue) -> list[Update]:
    """The chain of updates that makes a tied result, first to last."""
    links: list[Any] = []
    while isinstance(value, OpResult):
        if value.op.name in ("tensor.insert", "tensor.insert_slice", "tensor.scatter"):
            links.insert(0, value.op)
            value = value.op.operands[1]
        elif value.op.name == "tensor.empty":
            break
        elif value.op.name in ("flow.dispatch.tie_shape", "tensor.cast"):
            value = value.op.operands[0]
        else:
            raise unsupported(value.op, "it stands between an update and the argument that it changes")
    return [Update(op, len(links) == 1) for op in links]
