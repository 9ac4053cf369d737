"""Collapsing of several dimensions of structured operations into one, with the reshapes before and after."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.analysis.kinds import size_operands
from pydispatch.compiler.fusion.build import reassociation, rewrite_loops
from pydispatch.ir.core.rewriting import replace_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import structured
from pydispatch.ir.values import shape_of

DimGroups = list[list[int]]
"""For each dimension of the collapsed tensor, the adjacent dimensions of the original tensor."""


def move_below_readers(expand: tensor.ExpandShapeOp, groups: DimGroups) -> None:
    """Move a tensor.expand_shape below the elementwise operations that read it, as long as it has a single reader.

    These operations then read the collapsed tensor, and fuse with the operation that computes it.

    Args:
        expand: The reshape.
        groups: For each dimension of its operand, the dimensions of its result.
    """
    sunk: tensor.ExpandShapeOp | None = expand
    while sunk is not None:
        sunk = _move_below_reader(sunk, groups)


def _move_below_reader(expand: tensor.ExpandShapeOp, groups: DimGroups) -> tensor.ExpandShapeOp | None:
    """Move a tensor.expand_shape below the elementwise generic that is its only reader.

    The generic then iterates over the dimensions of the operand of the expand_shape, its other operands are collapsed
    to them, and its result is expanded. With the groups [[0], [1, 2]],

        %e = tensor.expand_shape %x : 4x6 into 4x2x3
        %y = generic over (d0, d1, d2): %e[d0, d1, d2] + %b[d1, d2]

    becomes

        %c = tensor.collapse_shape %b : 2x3 into 6
        %z = generic over (d0, d1): %x[d0, d1] + %c[d1]
        %y = tensor.expand_shape %z : 4x6 into 4x2x3

    Return the new expand_shape. Return None if there is no such reader, if it does not read and write elements at the
    same index, or if one of its operands has only a part of a group's dimensions.

    groups: for each dimension of the operand, the dimensions of the result.
    """
    user = _only_elementwise_reader(expand)
    if user is None:
        return None
    generic = structured(user)
    # The result is expanded with the groups of %e, so that both must be indexed alike: a transposed result is not
    # moved.
    is_read_in_order = generic.maps[generic.operands.index(expand.result)] == generic.maps[-1]
    if not is_read_in_order:
        return None
    # For each operand, inputs and output, the groups whose dimensions it has: [1] for %b.
    operand_groups = [g for map_ in generic.maps if (g := _groups_of_map(map_, groups)) is not None]
    if len(operand_groups) < len(generic.maps):  # an operand has only a part of a group, which cannot be collapsed
        return None
    # The new generic has one loop for each group: %x replaces %e, and the other operands are collapsed.
    operands = [
        expand.src if value is expand.result else _collapsed_operand(user, value, own_groups, groups)
        for value, own_groups in zip(generic.operands, operand_groups, strict=True)
    ]
    maps = [AffineMap(len(groups), 0, tuple(map(AffineExpr.dimension, own_groups))) for own_groups in operand_groups]
    collapsed_result = rewrite_loops(user, operands, maps, ["parallel"] * len(groups))
    return replace_by_expanded(user, collapsed_result, groups, expand.dynamic_output_shape)


def replace_by_expanded(
    op: Operation, collapsed_result: SSAValue, groups: DimGroups, dynamic_sizes: Sequence[SSAValue] = ()
) -> tensor.ExpandShapeOp:
    """Replace the result of `op` by `collapsed_result`, expanded to the same shape, and return the expand_shape.

    Args:
        op: The operation that is replaced.
        collapsed_result: The elements of its result, with fewer dimensions.
        groups: For each dimension of `collapsed_result`, the dimensions of the result of `op`.
        dynamic_sizes: The sizes of the dynamic dimensions of the result of `op`, in order.
    """
    type_ = op.results[0].type
    assert isinstance(type_, TensorType)
    expand = tensor.ExpandShapeOp(
        collapsed_result, list(dynamic_sizes), reassociation(groups), list(type_.get_shape()), type_
    )
    insert_before(expand, op)
    replace_op(op, expand.results[0])
    return expand


def _only_elementwise_reader(expand: tensor.ExpandShapeOp) -> GenericOp | None:
    """Return the elementwise generic in the same block that is the only reader of a reshape; None without one."""
    uses = list(expand.result.uses)
    user = uses[0].operation if len(uses) == 1 else None
    if not isinstance(user, GenericOp) or user.parent is not expand.parent or len(user.results) != 1:
        return None
    generic = structured(user)
    writes_in_order = generic.maps[-1] == AffineMap.identity(len(shape_of(expand.result)))
    if set(generic.iterators) != {"parallel"} or not writes_in_order:
        return None
    if any(inner.name == "linalg.index" for inner in walk(user.body)):  # it reads the index of a loop that disappears
        return None
    return user


def _collapsed_operand(user: GenericOp, value: SSAValue, operand_groups: list[int], groups: DimGroups) -> SSAValue:
    """Return an operand of a generic with the dimensions of each group collapsed to one, inserted before the generic.

    With the groups [[0, 1], [2]] and an operand [8][2][3] that is indexed by (d2, d0, d1), `operand_groups` is [1, 0],
    and the result is [8][6].

    Args:
        user: The generic.
        value: The operand.
        operand_groups: Indices in `groups` of the groups that the operand's dimensions form, in the operand's order.
        groups: For each loop of the collapsed generic, the dimensions that it replaces.
    """
    axes_of_groups, next_axis = [], 0
    for group in operand_groups:
        axes_of_groups.append(consecutive(next_axis, len(groups[group])))
        next_axis += len(groups[group])
    return collapse_axes(user, value, axes_of_groups)


def collapse_axes(op: Operation, value: SSAValue, groups: DimGroups) -> SSAValue:
    """Return a tensor with the axes of each group collapsed to one, inserted before `op`; a scalar as it is.

    groups: for each dimension of the result, the adjacent axes of the tensor; several axes must have static sizes.
    """
    if len(groups) == len(shape_of(value)):
        return value
    assert isinstance(value.type, TensorType)
    shape = value.type.get_shape()  # has DYNAMIC_INDEX for a dynamic size, as the new type needs it
    return collapsed(op, value, groups, [math.prod(shape[axis] for axis in axes) for axes in groups])


def _groups_of_map(map_: AffineMap, groups: DimGroups) -> list[int] | None:
    """Return the positions in `groups` of the groups of dimensions that a map consists of, in the order of its results.

    The groups [[0, 1], [2]] and the map to (d2, d0, d1) give [1, 0]. Return None if the map has only a part of a group,
    or an index that is no dimension.
    """
    map_groups: list[int] = []
    # -1: an index that is no dimension, which is in no group, so that the search below fails.
    remaining_dims = [r.position if isinstance(r, AffineDimExpr) else -1 for r in map_.results]
    while remaining_dims:
        next_group = next((i for i, group in enumerate(groups) if remaining_dims[: len(group)] == group), None)
        if next_group is None:
            return None
        map_groups.append(next_group)
        remaining_dims = remaining_dims[len(groups[next_group]) :]
    return map_groups


def consecutive(start: int, count: int) -> list[int]:
    """Return `count` consecutive numbers from `start` on."""
    return list(range(start, start + count))


def collapsed(op: Operation, value: SSAValue, groups: DimGroups, shape: list[int]) -> SSAValue:
    """Return a tensor with the dimensions of each group collapsed into one.

    If the tensor is the expand_shape of a tensor of that shape, the result is its source. Fills and empty tensors are
    created in that shape; others get a reshape.

    Args:
        op: The operation before which new ones are inserted.
        value: The tensor.
        groups: For each dimension of the result, the adjacent dimensions of the tensor that it combines, at least one.
        shape: The sizes of the result, in order; DYNAMIC_INDEX for a dynamic one.
    """
    assert isinstance(value.type, TensorType)
    type_ = TensorType(value.type.element_type, shape)
    owner = value.owner
    # The source of an expand_shape has the same elements in the same order: of this type, it is the collapsed tensor.
    if isinstance(owner, tensor.ExpandShapeOp) and owner.src.type == type_:
        return owner.src
    if isinstance(owner, Operation) and owner.name in ("tensor.empty", "tensor.splat"):
        dims = size_operands(owner)  # unchanged: callers collapse no dynamic dimension with others
        is_empty = owner.name == "tensor.empty"
        new = tensor.EmptyOp(dims, type_) if is_empty else tensor.SplatOp(owner.operands[0], dims, type_)
        return insert_before(new, op)
    properties = {"reassociation": reassociation(groups)}
    return insert_before(tensor.CollapseShapeOp(operands=[value], result_types=[type_], properties=properties), op)
