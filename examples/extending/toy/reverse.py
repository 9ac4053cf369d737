"""How kernels compute `toy.reverse`, alone or fused with what makes its operand and what uses its result."""

from __future__ import annotations

from typing import Any

from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.tensor_ops.rule import TensorOp
from pydispatch.ir.values import Dim
from toy.dialect import ReverseOp


class Reverse(TensorOp):
    name = "toy.reverse"
    view = True

    def size(self, op: ReverseOp, result: OpResult, axis: int) -> Dim:
        return Dim(op.source, axis)

    def element(self, e: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        axis = op.axis.value.data
        last = build.minus(e.dims(op.source)[axis], 1)
        return e.at(build, op.source, [*indices[:axis], build.minus(last, indices[axis]), *indices[axis + 1 :]])


RULES = [Reverse]
