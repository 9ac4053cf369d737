"""Collapsing of several dimensions of structured operations into one, with the reshapes before and after."""

from __future__ import annotations

import math

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
    groups_of_operands: list[list[int]] = []
    for map_ in generic.maps:
        operand_groups = _groups_of_map(map_, groups)
        if operand_groups is None:  # the operand has only a part of a group, which cannot be collapsed
            return None
        groups_of_operands.append(operand_groups)
    # The operands over the collapsed dimensions: %x replaces %e, and the other operands are collapsed. The new generic
    # has one loop for each group.
    operands: list[SSAValue] = []
    new_maps: list[AffineMap] = []
    for value, operand_groups in zip(generic.operands, groups_of_operands, strict=True):
        is_expanded = value is expand.result
        operands.append(expand.src if is_expanded else _collapsed_operand(user, value, operand_groups, groups))
        new_maps.append(AffineMap(len(groups), 0, tuple(AffineExpr.dimension(group) for group in operand_groups)))
    # Compute the collapsed result, and expand it.
    collapsed_result = rewrite_loops(user, operands, new_maps, ["parallel"] * len(groups))
    type_ = user.results[0].type
    assert isinstance(type_, TensorType)
    dims = list(expand.dynamic_output_shape)
    result = tensor.ExpandShapeOp(collapsed_result, dims, expand.reassociation, list(type_.get_shape()), type_)
    insert_before(result, user)
    replace_op(user, result.results[0])
    return result


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
    if len(shape_of(value)) == len(operand_groups):  # each of its groups has one dimension
        return value
    axes_of_groups, next_axis = [], 0
    for group in operand_groups:
        axes_of_groups.append(consecutive(next_axis, len(groups[group])))
        next_axis += len(groups[group])
    assert isinstance(value.type, TensorType)
    shape = value.type.get_shape()
    sizes = [math.prod(shape[axis] for axis in axes) for axes in axes_of_groups]
    return collapsed(user, value, axes_of_groups, sizes)


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
