"""How kernels compute `toy.reverse` and `toy.flatten`, alone or fused with what is before and after them."""

from __future__ import annotations

from typing import Any

from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.tensor_ops.rule import TensorOp, View
from pydispatch.compiler.tensor_ops.terms import Term, multiply
from pydispatch.ir.values import Dim, shape_of
from toy.dialect import FlattenOp, ReverseOp


class Reverse(TensorOp):
    """Rule of `toy.reverse`: each element of the result is one of the operand, at the mirrored index of the axis."""

    name = "toy.reverse"
    view = True

    def size(self, op: ReverseOp, result: OpResult, axis: int) -> Dim:
        """Return the size of the operand along the axis."""
        return Dim(op.source, axis)

    def element(self, e: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Emit the operand's element at size - 1 - index along the axis, and at the same indices along others."""
        axis = op.axis.value.data
        last = build.minus(e.dims(op.source)[axis], 1)
        return e.at(build, op.source, [*indices[:axis], build.minus(last, indices[axis]), *indices[axis + 1 :]])


class Flatten(View):
    """Rule of `toy.flatten`: the result is the memory of the operand.

    It needs no kernel unless it is fused with an operation that computes with the elements.
    """

    name = "toy.flatten"

    def size(self, op: FlattenOp, result: OpResult, axis: int) -> Term:
        """Return the product of the operand's sizes."""
        return multiply([Dim(op.source, n) for n in range(len(shape_of(op.source)))])

    def element(self, e: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Emit the operand's element whose indices in row-major order are the only index of the result."""
        return e.at(build, op.source, build.split(indices[0], e.dims(op.source)))


RULES = [Reverse, Flatten]
"""Rules that this package adds to the compiler."""
