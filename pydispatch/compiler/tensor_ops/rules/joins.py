"""Tensors that are put together: padding and concatenation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.analysis.destinations import mixed_operands
from pydispatch.compiler.analysis.sizes import term_of
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import both, not_less
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.tensor_ops.requirements import NotNegative, Requirement
from pydispatch.compiler.tensor_ops.rule import TensorOp
from pydispatch.compiler.tensor_ops.terms import Stated, add, same_size
from pydispatch.ir.values import Dim, shape_of


class Pad(TensorOp):
    """`tensor.pad`: a tensor with elements added before and after each dimension."""

    name = "tensor.pad"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return `low + source size + high`."""
        return add([Dim(op.source, axis), *(mixed_operands(op, side)[axis] for side in ("low", "high"))])

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Return the element: that of the source at `index - low` if this is inside of it, else the padding value."""
        low, _ = pad_amounts(elements, op)
        is_inside = is_in_source(elements, build, op, indices)
        source_indices = [build.minus(index, before) for index, before in zip(indices, low, strict=True)]

        def padding(builder: Builder) -> SSAValue:
            """Emit the region of the pad, which computes the padding value at `indices`, and return the value."""
            block = op.regions[0].block
            mapping = {a: builder.value(i) for a, i in zip(block.args, indices, strict=True)}
            # The region reads its indices as block arguments, not by linalg.index: `point`, which has the results of
            # linalg.index, is empty.
            (value,) = clone_block(elements, builder, block, mapping, point=[])
            return value

        return build.choose(is_inside, lambda b: elements.at(b, op.source, source_indices), padding)

    def requirements(self, op: Any) -> Iterator[Requirement]:
        """Require that dynamic padding amounts are not negative: padding adds elements, slices remove them."""
        for side in ("low", "high"):
            for axis, amount in enumerate(mixed_operands(op, side)):
                if not isinstance(amount, int):
                    yield NotNegative(term_of(amount), f"axis {axis}: the result is smaller than what is padded")


class Concat(TensorOp):
    """`tensor.concat`: tensors one after the other along an axis."""

    name = "tensor.concat"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the sum of the operands' sizes along the concatenated axis; along the others all are equal."""
        dims = [Dim(v, axis) for v in op.operands]
        return add(dims) if axis == op.dim.value.data else same_size(dims)

    def equal_sizes(self, op: Any) -> Sequence[Sequence[Dim]]:
        """Return groups of dimensions of equal size: a group has the dimensions of all operands along another axis."""
        axes = range(len(shape_of(op.results[0])))
        return [[Dim(v, axis) for v in op.operands] for axis in axes if axis != op.dim.value.data]

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Read the operand whose range along the axis contains the index, at the index within this operand."""
        axis = int(op.dim.value.data)

        def from_operand(builder: Builder, operand_index: int, start: Index) -> SSAValue:
            """Return the result's element at `indices`, which is in operand `operand_index` or in a later one.

            Emit a comparison of the index along `axis` with the end of the operand, and both choices. start: the
            position in the result of the operand's first element along the axis.
            """
            operand = op.operands[operand_index]
            operand_indices = list(indices)
            operand_indices[axis] = builder.minus(indices[axis], start)
            if operand_index == len(op.operands) - 1:  # the index is in bounds, so no comparison is left
                return elements.at(builder, operand, operand_indices)
            # `entry` builds code at the start of the function, where sizes are computed.
            end = elements.entry.plus(start, elements.dims(operand)[axis])
            is_in_operand = builder.less(indices[axis], end)
            return builder.choose(
                is_in_operand,
                lambda inner: elements.at(inner, operand, operand_indices),
                lambda inner: from_operand(inner, operand_index + 1, end),
            )

        return from_operand(build, 0, start=0)


def pad_amounts(elements: Elements, op: Any) -> tuple[list[Index], list[Index]]:
    """Return two lists: how many elements a `tensor.pad` adds before, and how many after, along each dimension."""
    return elements.indices(mixed_operands(op, "low")), elements.indices(mixed_operands(op, "high"))


def is_in_source(elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> SSAValue | bool:
    """Emit whether the element of a `tensor.pad` at `indices` is one of its source, and return the condition: an i1, or
    a bool if it is known. The element is if low <= index < low + source size in each dimension.
    """
    low, high = pad_amounts(elements, op)
    inside: SSAValue | bool = True
    for index, before, after, size in zip(indices, low, high, elements.dims(op.source), strict=True):
        source_index = build.minus(index, before)
        # The index is in the result. At an end without padding, the result ends where the source ends: the index
        # needs no comparison.
        if before != 0:
            inside = both(build, inside, not_less(build, source_index, rhs=0))
        if after != 0:
            inside = both(build, inside, build.less(source_index, size))
    return inside


RULES: list[type[TensorOp]] = [Pad, Concat]
"""Rules of this file, which `extensions.builtin` registers."""
