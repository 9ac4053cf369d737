"""Panels: the layout of a constant factor in which register blocks read it, a fixed number of columns side by side.

A tensor with the dimension n lies in panels along n when it is [n / width, the other dimensions in their order, width].
Its dispatch function turns panels into the tensor again, by one generic; kernels on CPUs read the panels themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import tensor
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, TensorType
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.compiler.tensor_ops.registry import source_of
from pydispatch.ir.structured import GENERIC, structured

PANEL_BYTES = 128
"""Of the columns of a panel: register blocks of every CPU level are as wide, or a half or a quarter as wide."""


@dataclass(frozen=True)
class Panels:
    """A tensor whose elements lie in panels. axis: of the tensor, along which it is cut; width: columns of a panel."""

    argument: BlockArgument
    axis: int
    width: int

    def strides(self) -> list[int]:
        """Elements between neighbours along each dimension of the tensor, within a panel."""
        _, *middle, width = self._shape()
        strides: list[int] = []
        step = width
        for size in reversed(middle):
            strides.insert(0, step)
            step *= size
        strides.insert(self.axis, 1)
        return strides

    @property
    def step(self) -> int:
        """Elements between panels."""
        total = 1
        for size in self._shape()[1:]:
            total *= size
        return total

    def _shape(self) -> Sequence[int]:
        assert isinstance(self.argument.type, TensorType)
        return self.argument.type.get_shape()


def type_in_panels(type: TensorType[Attribute], axis: int, width: int) -> TensorType[Attribute]:
    shape = list(type.get_shape())
    columns = shape.pop(axis)
    return TensorType(type.element_type, [columns // width, *shape, width])


def into_panels(value: SSAValue, axis: int, width: int) -> list[Operation]:
    """The operations whose last one has the panels of a tensor of known sizes."""
    assert isinstance(value.type, TensorType)
    result = type_in_panels(value.type, axis, width)
    rank = value.type.get_num_dims()
    # The loops are [panel, other dimensions ..., column].
    reads = [AffineExpr.dimension(d + 1) for d in range(rank - 1)]
    reads.insert(axis, AffineExpr.dimension(0) * width + AffineExpr.dimension(rank))
    return _copy(value, result, AffineMap(rank + 1, 0, tuple(reads)))


def from_panels(value: SSAValue, result: TensorType[Attribute], axis: int, width: int) -> list[Operation]:
    """The operations whose last one has a tensor from its panels."""
    return _copy(value, result, _map(result.get_num_dims(), axis, width))


def panels_of(value: SSAValue) -> Panels | None:
    """The panels that a value of a dispatch function is made from, None when it is no argument in panels."""
    value = source_of(value)
    if not isinstance(value, OpResult) or value.op.name != GENERIC:
        return None
    g = structured(value.op)
    if len(g.inputs) != 1 or not isinstance(g.inputs[0], BlockArgument) or not isinstance(g.block.last_op, YieldOp):
        return None
    if len(list(g.block.ops)) != 1 or g.block.last_op.operands[0] is not g.block.args[0]:
        return None
    type_ = g.inputs[0].type
    if not isinstance(type_, TensorType) or not type_.has_static_shape():
        return None
    width, rank = type_.get_shape()[-1], len(g.iterators)
    for axis in range(rank):
        if g.maps[0] == _map(rank, axis, width) and g.maps[1] == AffineMap.identity(rank):
            return Panels(g.inputs[0], axis, width)
    return None


def _map(rank: int, axis: int, width: int) -> AffineMap:
    """Where the element of a tensor is in its panels."""
    column = AffineExpr.dimension(axis)
    others = [AffineExpr.dimension(d) for d in range(rank) if d != axis]
    return AffineMap(rank, 0, (column // width, *others, column % width))


def _copy(value: SSAValue, result: TensorType[Attribute], reads: AffineMap) -> list[Operation]:
    empty = tensor.EmptyOp([], result)
    body = Block(arg_types=[result.element_type] * 2)
    body.add_op(YieldOp(body.args[0]))
    maps = ArrayAttr([AffineMapAttr(reads), AffineMapAttr(AffineMap.identity(reads.num_dims))])
    loops = ArrayAttr([IteratorTypeAttr(IteratorType.PARALLEL)] * reads.num_dims)
    return [empty, GenericOp([value], [empty.results[0]], Region(body), maps, loops, [result])]
