"""Sinking of reshapes below the operations that read their results.

Keys and values of attention that several heads share are repeated by a broadcast and a reshape. With the reshape below
the product, the repeated tensor needs no memory: the product and the operations on its result iterate over groups of
heads. Values are unchanged; only their indices differ.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.analysis.sizes import reassociation as groups_of
from pydispatch.compiler.fusion.build import reassociation
from pydispatch.compiler.fusion.maps import defining_copy, generic_like
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC, Structured, structured
from pydispatch.ir.values import shape_of

Shapes = dict[int, list[int]]
"""For each loop that is split: the sizes of the loops that replace it, outermost first."""


def collapse_after(op: Operation) -> SSAValue | None:
    """Make a generic read the source of a collapse_shape, with more loops, and collapse its result instead.

    Example: `y = exp(collapse_shape(x))`, with x of [4, 3, 64] and y of [12, 64], becomes `collapse_shape(exp(x))`.
    The loop of 12 iterations is split into loops of 4 and 3. Other operands that this loop indexes are expanded.

    Return the collapsed result; None if a size is dynamic, or no input is a collapse_shape that this applies to.
    """
    generic = structured(op)
    if len(op.results) != 1 or any(n < 0 for v in generic.operands for n in shape_of(v)):
        return None
    sizes_of_loop: Shapes = {}  # loop → the sizes that its dimension had before the collapse: {0: [4, 3]}
    # The first input that is a suitable collapse_shape decides; `_loops_collapsed` returns {} for others.
    for value, map_ in zip(generic.inputs, generic.maps, strict=False):
        sizes_of_loop = sizes_of_loop or _loops_collapsed(generic, value, map_)
    if not sizes_of_loop or not _can_split_loops(generic, sizes_of_loop):
        return None
    # Each loop becomes `loop_counts[loop]` new loops, `dims[loop]`.
    loop_counts = [len(sizes_of_loop[loop]) if loop in sizes_of_loop else 1 for loop in range(len(generic.iterators))]
    dims = _consecutive_groups(loop_counts)
    # Old loop -> its first new loop: for a loop that is not split, the only one. A split loop is replaced below, by all
    # of its new loops.
    new_loops: list[AffineExpr] = [AffineExpr.dimension(group[0]) for group in dims]
    # Each operand is expanded where a collapsed loop indexes it, and indexed by the new loops.
    operands, maps = [], []
    sizes: list[list[int]] = []  # for each dimension of the current operand, the sizes that it is expanded to
    for value, map_ in zip(generic.operands, generic.maps, strict=True):
        sizes, indices = [], list[AffineExpr]()
        for size, index in zip(shape_of(value), map_.results, strict=False):
            if isinstance(index, AffineDimExpr) and index.position in sizes_of_loop:
                sizes.append(sizes_of_loop[index.position])
                indices += [AffineExpr.dimension(d) for d in dims[index.position]]
            else:
                sizes.append([size])
                indices.append(index.replace_dims_and_symbols(new_loops, []))
        operands.append(_expanded(op, value, sizes))
        maps.append(AffineMap(sum(loop_counts), 0, tuple(indices)))
    kinds = [kind for kind, count in zip(generic.iterators, loop_counts, strict=True) for _ in range(count)]
    n = len(generic.inputs)
    new = generic_like(
        op, op.detach_region(0), inputs=operands[:n], outputs=operands[n:], maps=maps, iterators=kinds, loops=new_loops
    )
    # The result is collapsed to its old shape. The output is the last operand, so that `sizes` now are the result's.
    properties = {"reassociation": reassociation(_consecutive_groups([len(group) for group in sizes]))}
    collapse = tensor.CollapseShapeOp(operands=[new], result_types=[op.results[0].type], properties=properties)
    return insert_before(collapse, op)


def _loops_collapsed(generic: Structured, value: SSAValue, map_: AffineMap) -> Shapes:
    """Return the loops of `generic` over dimensions that a collapse_shape has combined, with the sizes before it.

    An input collapsed from [4, 3, 64] to [12, 64] and read at (d0, d1) gives {0: [4, 3]}. Return an empty dict unless
    the input `value` is a collapse_shape of another generic's result.

    Args:
        generic: The reader.
        value: Its input.
        map_: The indexing map of the input.
    """
    reshape = value.owner
    if not isinstance(reshape, Operation) or reshape.name != "tensor.collapse_shape":
        return {}
    source = reshape.operands[0]
    if not isinstance(source.owner, Operation) or source.owner.name != GENERIC:
        return {}
    if 1 in shape_of(source):
        return {}  # the rules of maps.py drop dimensions of size 1 instead
    if generic.contracts and not _is_repeated(source):
        # A product is faster with one collapsed loop. It is split only if that saves the memory of a repeated operand,
        # such as the keys of an attention with fewer key heads than query heads.
        return {}
    shapes: Shapes = {}
    for group, index in zip(groups_of(reshape), map_.results, strict=True):
        if len(group) > 1:
            if not isinstance(index, AffineDimExpr):  # such as d0 + d1: no loop of its own can be split
                return {}
            shapes[index.position] = [shape_of(source)[d] for d in group]
    return shapes


def _is_repeated(value: SSAValue) -> bool:
    """Return whether a tensor is a broadcast of another one."""
    copy = defining_copy(value)
    return copy is not None and len(dims_in(copy.maps[0])) < len(copy.iterators)  # a loop does not index the source


def _can_split_loops(generic: Structured, split: Shapes) -> bool:
    """Return whether loops can be split: parallel ones that index tensors only by themselves, without arithmetic, and
    that no linalg.index reads.

    split: the loops, with the sizes of the loops that replace each.
    """
    if any(generic.iterators[loop] != "parallel" for loop in split):
        return False
    if any(inner.name == "linalg.index" and inner.dim.value.data in split for inner in walk(generic.block)):  # type: ignore[attr-defined]
        return False
    # An index such as d0 + d1 or 2 * d0 would need arithmetic on the new loops.
    computed_indices = [r for m in generic.maps for r in m.results if not isinstance(r, AffineDimExpr)]
    return not any(split.keys() & r.used_dims() for r in computed_indices)


def _expanded(op: Operation, value: SSAValue, sizes: list[list[int]]) -> SSAValue:
    """Insert an expand_shape of a value before `op`, and return its result; the value itself if nothing is expanded.

    sizes: for each dimension of the value, the sizes of the dimensions that it is expanded to.
    """
    if all(len(group) == 1 for group in sizes):
        return value
    assert isinstance(value.type, TensorType)
    assert [prod(group) for group in sizes] == list(shape_of(value))
    shape = [n for group in sizes for n in group]
    type_ = TensorType(value.type.element_type, shape)
    groups = reassociation(_consecutive_groups([len(group) for group in sizes]))
    return insert_before(tensor.ExpandShapeOp(value, [], groups, shape, type_), op)


def _consecutive_groups(lengths: list[int]) -> list[list[int]]:
    """Return consecutive integers from 0 on in groups of these lengths: [1, 2] gives [[0], [1, 2]]."""
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    return [list(range(start, start + n)) for start, n in zip(starts, lengths, strict=True)]
