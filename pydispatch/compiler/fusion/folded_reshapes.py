"""Folding of two reshapes into one or none, for `simplify.py`. Values are unchanged; only their indices differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.analysis.kinds import producer_of_kind
from pydispatch.compiler.analysis.sizes import sizes_of
from pydispatch.compiler.fusion.build import reassociation
from pydispatch.compiler.tensor_ops.terms import multiply
from pydispatch.ir.values import shape_of


def fold_inverse_reshape(op: Operation) -> SSAValue | None:
    """Fold a collapse_shape of an expand_shape, or the reverse, that restores the type and the sizes of the source.

    Both stay where dynamic sizes may differ: an expand_shape after a collapse_shape may choose other factors, and the
    call has to check that the reshape between has as many elements as the source.
    """
    inverse = {"tensor.expand_shape": "tensor.collapse_shape", "tensor.collapse_shape": "tensor.expand_shape"}
    inner = producer_of_kind(op.operands[0], inverse[op.name])
    if inner is None or inner.operands[0].type != op.results[0].type:
        return None
    source_sizes, between_sizes, sizes = map(sizes_of, (inner.operands[0], op.operands[0], op.results[0]))
    # Sizes are symbolic terms, and `multiply` gives the number of elements: equal terms are equal at run time.
    is_certain = source_sizes == sizes and multiply(source_sizes) == multiply(between_sizes)
    return inner.operands[0] if is_certain else None


def fold_reshape_of_reshape(op: Operation) -> SSAValue | None:
    """Fold two reshapes of static sizes to one, and return its result, if a single expand_shape or collapse_shape
    suffices.

    A single reshape changes the rank: the reshapes of [2, 4, 6] to [8, 6] and then to [48] become one to [48]. The
    reshapes of [2, 4, 6] to [8, 6] and then to [8, 2, 3] stay: the function returns None.
    """
    inner = producer_of_kind(op.operands[0], "tensor.expand_shape", "tensor.collapse_shape")
    if inner is None:
        return None
    source, type_ = inner.operands[0], cast("TensorType[Attribute]", op.results[0].type)
    old, new = shape_of(source), shape_of(op.results[0])
    if any(n < 0 for n in (*old, *new)) or len(old) == len(new):
        return None
    is_expansion = len(old) < len(new)
    groups = _groups(old, new) if is_expansion else _groups(new, old)
    if groups is None:
        return None
    if is_expansion:
        return insert_before(tensor.ExpandShapeOp(source, [], reassociation(groups), list(new), type_), op)
    properties = {"reassociation": reassociation(groups)}
    return insert_before(tensor.CollapseShapeOp(operands=[source], result_types=[type_], properties=properties), op)


def _groups(few: Sequence[int], many: Sequence[int]) -> list[list[int]] | None:
    """Return the groups of a reshape: for each size of `few`, the axes of `many` whose sizes have this product.

    Groups consist of adjacent axes, in order, and contain all axes. Return None if there are no such groups.

    - [8, 6] and [2, 4, 6] give [[0, 1], [2]]; [4, 4] and [2, 8] give None.
    - An axis of size 1 joins the group before it as long as enough axes are left for the other sizes of `few`: [2, 1]
      and [2, 1, 1] give [[0, 1], [2]].
    - An empty `few`, the shape of a scalar, has no groups: the axes of `many` then all have size 1.

    Args:
        few: Static shape with fewer dimensions.
        many: Static shape with more dimensions and the same number of elements.
    """
    groups: list[list[int]] = []
    axis = 0  # the next axis of `many`
    for index, size in enumerate(few):
        sizes_left = len(few) - index - 1  # each needs an axis of its own
        group: list[int] = []
        product = 1
        while axis < len(many):
            takes_unit = many[axis] == 1 and len(many) - axis > sizes_left
            if group and product >= size and not takes_unit:
                break
            group.append(axis)
            product *= many[axis]
            axis += 1
        if not group or product != size:
            return None
        groups.append(group)
    return groups if axis == len(many) or not few else None
