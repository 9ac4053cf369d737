"""Operations on tensors that apply to each element what they do to scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.ops.bodies import scalarized
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.tensor_ops.registry import ELEMENTWISE
from pydispatch.compiler.tensor_ops.rule import TensorOp
from pydispatch.compiler.tensor_ops.terms import Stated, same_size
from pydispatch.ir.values import Dim, shape_of


class Elementwise(TensorOp):
    """Rule of every operation that `ir/op_info.py` calls elementwise; scalars and tensors of rank 0 are broadcast."""

    name = ELEMENTWISE

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the size along `axis` of operands with the rank of the result; others are broadcast."""
        rank = len(shape_of(result))
        return same_size([Dim(v, axis) for v in op.operands if len(shape_of(v)) == rank])

    def equal_sizes(self, op: Any) -> Sequence[Sequence[Dim]]:
        """Return a list for each axis: the dimensions of results and operands with the rank of the result."""
        rank = len(shape_of(op.results[0]))
        values = [v for v in (*op.results, *op.operands) if len(shape_of(v)) == rank]
        return [[Dim(v, axis) for v in values] for axis in range(rank)]

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Emit the element from those of the operands at the same indices; one of rank 0 is used for all indices.

        The elements of all results are emitted together. Those of the other results are cached for their readers.
        """
        operands: list[SSAValue] = []
        for value in op.operands:
            if isinstance(value.type, TensorType):
                operands.append(elements.at(build, value, indices if shape_of(value) else []))
            else:
                operands.append(elements.scalar(value))
        computed = scalarized(elements, build, op, operands)  # an element of each result
        for other, element in zip(op.results, computed, strict=True):
            elements.define(build, other, indices, element)
        return computed[result.index]

    def is_pointwise(self, op: Any) -> bool:
        """Return whether the operation has no region, which could read elements at other indices."""
        return not op.regions


RULES: list[type[TensorOp]] = [Elementwise]
"""Rules of this file, which `extensions.builtin` registers."""
