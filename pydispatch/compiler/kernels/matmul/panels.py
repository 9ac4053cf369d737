"""Panels: a layout of a constant factor for register blocks. A panel has some adjacent columns with all their rows.

A tensor with the dimension n is stored in panels along n when its shape is [n / width, the other dimensions in their
order, width]. If n is no multiple of the width, zeros fill the last panel.
Where an instruction takes several steps of k at once (`cpu/arithmetic.py`), k is cut too, and the steps of a group are
last: [n / width, the others with k / group, width, group].
The dispatch function has one generic that unpacks the tensor; kernels on CPUs read the panels in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, AffineMapAttr, ArrayAttr, IndexType, TensorType
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.compiler.kernels.ops.tensors import zero_attribute
from pydispatch.compiler.tensor_ops.registry import source_of
from pydispatch.ir.structured import GENERIC, Structured, structured

PANEL_BYTES = 128
"""Size in bytes of a row of a panel: the row of a register block has this size on every CPU level, or a half or a
quarter of it."""


@dataclass(frozen=True)
class Layout:
    """Layout of a tensor that is stored in panels, each of which has a few adjacent columns with all their rows.

    A matrix of shape [K, N] with `axis` 1 and `width` 16 is stored as [N / 16, K, 16]; with groups of 4 steps along
    dimension 0, as [N / 16, K / 4, 16, 4].

    Attributes:
        axis: The dimension that is cut into panels.
        width: Columns of a panel.
        group: Number of neighbours along the dimension `step_axis` that are contiguous in each column.
        step_axis: The dimension whose neighbours are grouped; None where there are none.
    """

    axis: int
    width: int
    group: int = 1
    step_axis: int | None = None

    def type_of(self, type: TensorType[Attribute]) -> TensorType[Attribute]:
        """Return the type of the panels that a tensor of `type` is stored in.

        [K, N] in panels of 16 columns has the shape [N / 16, K, 16], and [N / 16, K / 4, 16, 4] with groups of 4 steps.
        """
        shape = list(type.get_shape())
        if self.step_axis is not None:
            shape[self.step_axis] //= self.group
        columns = shape.pop(self.axis)
        panel_count = -(-columns // self.width)  # rounded up
        inner_sizes = [self.width] if self.step_axis is None else [self.width, self.group]
        return TensorType(type.element_type, [panel_count, *shape, *inner_sizes])

    def packed_map(self, rank: int) -> AffineMap:
        """Return the map from indices of a tensor of rank `rank` to the indices of the same element in its panels.

        (k, n) -> (n // 16, k, n % 16) for panels of 16 columns, and (n // 16, k // 4, n % 16, k % 4) with groups of 4
        steps k.
        """
        indices: list[AffineExpr] = [AffineExpr.dimension(d) for d in range(rank)]
        column = indices[self.axis]
        indices_in_panel = [column % self.width]
        if self.step_axis is not None:
            indices_in_panel.append(indices[self.step_axis] % self.group)
            indices[self.step_axis] = indices[self.step_axis] // self.group
        del indices[self.axis]
        return AffineMap(rank, 0, (column // self.width, *indices, *indices_in_panel))

    def unpacked_map(self, rank: int) -> AffineMap:
        """Return the map from indices in the panels to the indices of the same element in the tensor of rank `rank`.

        (panel, k, column) -> (k, panel * 16 + column) for panels of 16 columns. With groups of 4 steps k, there is a
        fourth index: (panel, group, column, step) -> (group * 4 + step, panel * 16 + column).
        """
        index_count = rank + 1 + (self.step_axis is not None)
        panel, *others = (AffineExpr.dimension(d) for d in range(index_count))
        column = others[rank - 1]
        tensor_indices: list[AffineExpr] = others[: rank - 1]
        tensor_indices.insert(self.axis, panel * self.width + column)
        if self.step_axis is not None:
            step = others[rank]
            tensor_indices[self.step_axis] = tensor_indices[self.step_axis] * self.group + step
        return AffineMap(index_count, 0, tuple(tensor_indices))


@dataclass(frozen=True)
class Panels:
    """Tensor that a dispatch function unpacks from an argument, which stores its elements in panels.

    Attributes:
        argument: The argument, which has one dimension more than the tensor, or two more with groups.
        layout: The layout of the tensor in the argument.
    """

    argument: BlockArgument
    layout: Layout

    def strides(self) -> list[int]:
        """Return the stride along each dimension of the tensor within a panel.

        A panel has a few adjacent columns with all their rows. A group is some neighbours along `layout.step_axis`,
        usually steps of K, that are contiguous in each column. Strides are in elements, with two exceptions: along
        `layout.axis` (columns) and `layout.step_axis` (groups of steps), they count groups. Without groups, that is
        the same. Examples:

            [K, N] stored as [N / 16, K, 16]                   [16, 1]
            [K, N] stored as [N / 16, K / 4, 16, 4]            [16, 1], which are 64 and 4 elements
            [H, K, N] stored as [N / 16, H, K / 4, 16, 4]      [16 * K, 16, 1]
        """
        layout = self.layout
        strides: list[int] = []
        # From the innermost dimension outwards, without the columns, whose stride is 1 group.
        units = layout.width  # distance of neighbours along `dim`, in groups
        other_dims = [d for d in range(len(self._middle_sizes) + 1) if d != layout.axis]
        for dim, size in zip(reversed(other_dims), reversed(self._middle_sizes), strict=True):
            strides.insert(0, units if dim == layout.step_axis else units * layout.group)
            units *= size
        strides.insert(layout.axis, 1)
        return strides

    @property
    def panel_stride(self) -> int:
        """The number of elements of a panel, from one panel to the next."""
        return prod(self._middle_sizes) * self.layout.width * self.layout.group

    @property
    def _middle_sizes(self) -> Sequence[int]:
        """The sizes of the argument's dimensions between panels and columns: (H, K / 4) for [N / 16, H, K / 4, 16, 4].

        They are the sizes of the tensor's dimensions without the one that is cut into panels. The dimension
        `layout.step_axis` counts groups: K / 4, not K.
        """
        assert isinstance(self.argument.type, TensorType)
        inner_dims = 1 if self.layout.step_axis is None else 2  # columns, and steps of a group
        return self.argument.type.get_shape()[1:-inner_dims]


def into_panels(value: SSAValue, layout: Layout) -> list[Operation]:
    """Build the operations that pack a tensor of static sizes into panels; the last one returns the panels.

    Zeros are appended along the panels' dimension where its size is no multiple of the width of a panel.
    """
    assert isinstance(value.type, TensorType)
    panels_type, ops = layout.type_of(value.type), list[Operation]()
    shape = list(value.type.get_shape())
    padding = -shape[layout.axis] % layout.width  # up to the next multiple of the width
    if padding:
        shape[layout.axis] += padding
        ops = padded(value, [padding if d == layout.axis else 0 for d in range(len(shape))], shape)
        value = ops[-1].results[0]
    return [*ops, *_copy(value, panels_type, reads=layout.unpacked_map(len(shape)))]


def padded(value: SSAValue, high: Sequence[int | SSAValue], shape: Sequence[int]) -> list[Operation]:
    """Build the operations that append zeros to a tensor: `high[d]` of them along dimension d, at its end.

    The last operation returns the padded tensor, whose sizes are `shape`.
    """
    assert isinstance(value.type, TensorType)
    zero = arith.ConstantOp(zero_attribute(value.type.element_type))
    block = Block(arg_types=[IndexType()] * len(shape))
    block.add_op(tensor.YieldOp(zero.result))
    dynamic = [h for h in high if isinstance(h, SSAValue)]
    static = [h if isinstance(h, int) else DYNAMIC_INDEX for h in high]
    type_ = TensorType(value.type.element_type, shape)
    nothing_before = [0] * len(shape)
    return [zero, tensor.PadOp(value, [], dynamic, Region(block), nothing_before, static, type_)]


def from_panels(value: SSAValue, result: TensorType[Attribute], layout: Layout) -> list[Operation]:
    """Build the operations that unpack a tensor from its panels; the last one returns the tensor."""
    return _copy(value, result, reads=layout.packed_map(result.get_num_dims()))


def panels_of(value: SSAValue) -> Panels | None:
    """Return the panels that a value of a dispatch function is unpacked from; None if no argument has it in panels.

    A panel has a few adjacent columns with all their rows: [K, N] in panels of 16 columns is an argument of the shape
    [N / 16, K, 16], which a generic reads at [n floordiv 16, k, n mod 16] to yield the element [k, n].
    """
    value = source_of(value)
    if not isinstance(value, OpResult) or value.op.name != GENERIC:
        return None
    generic = structured(value.op)
    argument = _copied_argument(generic)
    if argument is None or not isinstance(argument.type, TensorType) or not argument.type.has_static_shape():
        return None
    # The last map is that of the written tensor: element [k, n] must be written at [k, n].
    rank = len(generic.iterators)
    reads, writes = generic.maps[:2]
    if writes != AffineMap.identity(rank):
        return None
    # The argument must be read at the `packed_map` of a layout, such as [n // 16, k, n % 16].
    layouts = (layout for layout in _layouts(rank, argument.type.get_shape()) if reads == layout.packed_map(rank))
    return next((Panels(argument, layout) for layout in layouts), None)


def _copied_argument(generic: Structured) -> BlockArgument | None:
    """Return the argument of the dispatch function that a generic copies; None for a generic that does not copy one."""
    first_op = generic.block.first_op
    is_copy = isinstance(first_op, YieldOp) and first_op.operands[0] is generic.block.args[0]
    has_one_input = len(generic.inputs) == 1
    argument = generic.inputs[0] if has_one_input and is_copy else None
    return argument if isinstance(argument, BlockArgument) else None


def _layouts(rank: int, shape: Sequence[int]) -> list[Layout]:
    """Return the layouts under which panels of the shape `shape` can store a tensor of rank `rank`.

    Without groups, panels have one dimension more than the tensor: [N / 16, K, 16]. With groups of steps, they have two
    dimensions more: [N / 16, K / 4, 16, 4].
    """
    if len(shape) == rank + 1:
        return [Layout(axis, width=shape[-1]) for axis in range(rank)]
    if len(shape) != rank + 2:
        return []
    pairs = [(axis, step_axis) for axis in range(rank) for step_axis in range(rank) if axis != step_axis]
    return [Layout(axis, width=shape[-2], group=shape[-1], step_axis=step_axis) for axis, step_axis in pairs]


def _copy(value: SSAValue, result: TensorType[Attribute], reads: AffineMap) -> list[Operation]:
    """Build a generic that copies elements of a tensor; the last operation returns the copy, of type `result`.

    `reads` is the map from an index of the result to the index in `value`.
    """
    empty = tensor.EmptyOp([], result)
    body = Block(arg_types=[result.element_type] * 2)
    body.add_op(YieldOp(body.args[0]))
    maps = ArrayAttr([AffineMapAttr(reads), AffineMapAttr(AffineMap.identity(reads.num_dims))])
    loops = ArrayAttr([IteratorTypeAttr(IteratorType.PARALLEL)] * reads.num_dims)
    return [empty, GenericOp([value], [empty.results[0]], Region(body), maps, loops, [result])]
