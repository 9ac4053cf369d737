"""Simplification of the maps of `linalg.generic`, so that dispatches form well: one function for each rewrite.

Generics read the sources of copies, and loops and dimensions of size 1 are dropped. Values are unchanged; only their
indices differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.analysis.destinations import slice_of
from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.analysis.kinds import KEPT_ORDER
from pydispatch.compiler.analysis.sizes import dynamic_sizes
from pydispatch.compiler.fusion.build import affine_maps, generic_op, indices_over, iterator_types, reassociation
from pydispatch.ir.affine_maps import is_permutation
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC, Structured, structured
from pydispatch.ir.values import reordered_type, shape_of

# -- copies


def defining_copy(value: SSAValue) -> Structured | None:
    """Return the generic that defines `value` if it only copies elements of another tensor; None for other values.

    Each index into that tensor is a loop or a constant, and no loop occurs twice, as in a transposition or a broadcast.
    """
    op = value.owner
    if not isinstance(op, Operation) or op.name != GENERIC or len(op.operands) != 2:
        return None
    generic = structured(op)
    block = generic.block
    terminator = block.last_op
    yields_input = terminator is not None and terminator is block.first_op and terminator.operands[0] is block.args[0]
    reads_one_tensor = len(generic.inputs) == 1 and isinstance(generic.inputs[0].type, TensorType)
    if not yields_input or not reads_one_tensor or generic.has_reduction_loops:
        return None
    return generic if is_permutation(generic.maps[1]) and _is_selection(generic.maps[0]) else None


def _is_selection(map_: AffineMap) -> bool:
    """Return whether each result of a map is a dimension or a constant, and no dimension occurs twice."""
    dims = [e.position for e in map_.results if isinstance(e, AffineDimExpr)]
    constants = sum(isinstance(e, AffineConstantExpr) for e in map_.results)
    return len(dims) == len(set(dims)) and len(dims) + constants == len(map_.results)


def read_through_copies(op: Operation) -> SSAValue | None:
    """Make a generic read the sources of copies instead of the copies, and return its new result.

    If t[i, j] = x[j, i] is a transposing copy, a generic that reads t[d0, d1] then reads x[d1, d0].

    A copy is skipped only if the operands still state the sizes of all loops: `linalg.generic` infers the size of a
    loop from a dimension that the loop indexes by itself. A broadcast b[i, j] = x[j] may be the only operand with such
    a dimension for the loop i. Return None if no copy can be skipped.
    """
    generic = structured(op)
    inputs, maps = list(generic.inputs), list(generic.maps)
    for operand_index, value in enumerate(generic.inputs):
        copy = defining_copy(value)
        if copy is None:
            continue
        source_map = _map_of_source(copy, maps[operand_index])
        # KEPT_ORDER: a pass chose an order in which elements along the last dimension are contiguous. The copy is not
        # skipped if the source has another index in its last dimension.
        if KEPT_ORDER in op.attributes and source_map.results[-1:] != maps[operand_index].results[-1:]:
            continue
        trial_inputs, trial_maps = list(inputs), list(maps)
        trial_inputs[operand_index], trial_maps[operand_index] = copy.inputs[0], source_map
        if _state_loop_sizes([*trial_inputs, *generic.outputs], trial_maps):
            inputs, maps = trial_inputs, trial_maps
    if inputs == list(generic.inputs) or len(op.results) != 1:
        return None
    return generic_like(op, op.detach_region(0), inputs, generic.outputs, maps, generic.iterators)


def _map_of_source(copy: Structured, map_: AffineMap) -> AffineMap:
    """Return the map from the loops of a copy's reader to the index in the copy's source.

    map_: the reader's map to the index in the copy.
    """
    source_map, copy_map = copy.maps
    # A copy writes its result with a permutation of its loops. So the reader's index in the copy has one expression
    # for each of these loops. For a copy t[d1, d0] that is read at t[i, j], d1 is i and d0 is j.
    index_of_loop = {
        cast(AffineDimExpr, loop).position: index for loop, index in zip(copy_map.results, map_.results, strict=True)
    }
    copy_loops = [index_of_loop[loop] for loop in range(len(copy.iterators))]
    return AffineMap(map_.num_dims, 0, tuple(r.replace_dims_and_symbols(copy_loops, []) for r in source_map.results))


def _state_loop_sizes(operands: Sequence[SSAValue], maps: Sequence[AffineMap]) -> bool:
    """Return whether each loop directly indexes a dimension of an operand, which then states its size."""
    indexing_loops = {
        index.position
        for value, map_ in zip(operands, maps, strict=True) if isinstance(value.type, TensorType)
        for index in map_.results if isinstance(index, AffineDimExpr)
    }  # fmt: skip
    return len(indexing_loops) == maps[0].num_dims


def pad_without_unit_dimensions(op: Operation) -> SSAValue | None:
    """Rewrite a padding to pad its tensor without dimensions of size 1; return the result in the old shape.

    Return None if the tensor has no such dimension, if one of them is padded, or if the padding is dynamic or of
    several values.
    """
    pad = cast(tensor.PadOp, op)
    source_shape, result_shape = shape_of(pad.source), shape_of(pad.result)
    unit_dims = [d for d, n in enumerate(source_shape) if n == 1]
    unit_dims_of_result = [d for d, n in enumerate(result_shape) if n == 1]
    if not unit_dims or unit_dims != unit_dims_of_result or not has_static_uniform_padding(pad):
        return None
    other_dims = [d for d, n in enumerate(result_shape) if n != 1]
    return _with_units(op, padded(pad, _without_units(op, pad.source), other_dims), pad.result)


def padded(pad: tensor.PadOp, source: SSAValue, dims: Sequence[int]) -> SSAValue:
    """Insert a padding of the tensor `source` with the amounts and value of `pad`, before `pad`; return the result.

    Args:
        pad: The padding, of static widths.
        source: A tensor that has some dimensions of the result of `pad`, in any order.
        dims: For each dimension of `source`, the dimension of the result of `pad` whose widths it has.
    """
    low, high = ([int(n) for n in a.get_values()] for a in (pad.static_low, pad.static_high))
    region, old_block = Region(Block(arg_types=[IndexType()] * len(dims))), pad.region.block
    for inner in old_block.ops:
        region.block.add_op(inner.clone())
    type_ = reordered_type(pad.result, dims)
    new_low, new_high = [low[d] for d in dims], [high[d] for d in dims]
    return insert_before(tensor.PadOp(source, [], [], region, new_low, new_high, type_), pad)


def has_static_uniform_padding(pad: tensor.PadOp) -> bool:
    """Return whether padding widths are static, all padding has one value, and `nofold` does not forbid folding."""
    has_static_widths = not pad.low and not pad.high
    # The region yields a value from outside: it has no other operation, and does not yield an index, its argument.
    ops = list(pad.region.block.ops)
    has_one_value = len(ops) == 1 and not isinstance(ops[0].operands[0], BlockArgument)
    return has_static_widths and has_one_value and pad.nofold is None


# -- size 1


def drop_unit_dimensions(op: Operation) -> SSAValue | None:
    """Rewrite a generic without dimensions of size 1 and loops of one iteration; return its result in the old shape.

    A generic over (d0, d1) of sizes 1 and 8 reads x[d0, d1] of [1][8]. It becomes a generic over (d0) of size 8 that
    reads x[d0] of [8]. Reshapes of the operands precede the new generic, and a reshape to [1][8] follows it.

    Return None in these cases:

    - There is nothing to drop.
    - A loop of one iteration indexes a dynamic dimension by itself: the call has to check that its size is 1.
    - An operand of dynamic sizes would need a slice, or a slice would have a dynamic size.
    - The operands would no longer state the sizes of all loops: `linalg.generic` infers the size of a loop from a
      dimension that the loop indexes by itself.
    """
    generic = structured(op)
    if len(op.results) != 1 or not any(1 in shape_of(v) for v in generic.operands):
        return None
    dims_of_unit_loops = [dims for dims, n in zip(generic.loop_dims, generic.extents, strict=True) if n == 1]
    if any(shape_of(dim.tensor)[dim.axis] < 0 for dims in dims_of_unit_loops for dim in dims):
        return None
    other_loops = [i for i, n in enumerate(generic.extents) if n != 1]
    new_loops = indices_over(other_loops, len(generic.iterators))  # for each old loop; a dropped loop is always 0
    extents = [generic.extents[i] for i in other_loops]
    maps: list[AffineMap] = []
    slices: list[dict[int, int]] = []  # for each operand, the number of leading elements of the axes to slice
    for value, map_ in zip(generic.operands, generic.maps, strict=True):
        # The index of each dimension whose size is not 1: over the old loops, then over the remaining ones.
        old_indices = [r for r, n in zip(map_.results, shape_of(value), strict=False) if n != 1]
        indices = [r.replace_dims_and_symbols(new_loops, []) for r in old_indices]
        leading_counts = _leading_counts(old_indices, indices, extents)
        is_dynamic = None in leading_counts.values() or -1 in shape_of(value)
        if leading_counts and is_dynamic:  # the slice would need sizes at run time
            return None
        maps.append(AffineMap(len(other_loops), 0, tuple(indices)))
        slices.append(cast("dict[int, int]", leading_counts))
    if not _state_loop_sizes(generic.operands, maps):
        return None
    operands = [
        _leading_elements(op, _without_units(op, value), sizes)
        for value, sizes in zip(generic.operands, slices, strict=True)
    ]
    body, n, iterators = op.detach_region(0), len(generic.inputs), [generic.iterators[i] for i in other_loops]
    new = generic_like(op, body, operands[:n], operands[n:], maps, iterators, loops=new_loops)
    return _with_units(op, new, op.results[0])


def _leading_counts(
    old_indices: Sequence[AffineExpr], new_indices: Sequence[AffineExpr], extents: Sequence[int | None]
) -> dict[int, int | None]:
    """Return axis → number of leading elements that a generic without loops of one iteration reads along an axis.

    An index 2 * y + i whose loop y has one iteration becomes i. A dimension that a loop indexes by itself must have the
    size of the loop: only as many leading elements of the dimension remain as loop i has iterations.

    Args:
        old_indices: Index of each axis over the loops of the generic.
        new_indices: The same indices over the remaining loops.
        extents: Iterations of each remaining loop; None if unknown.
    """
    return {
        axis: extents[new.position]
        for axis, (old, new) in enumerate(zip(old_indices, new_indices, strict=True))
        if isinstance(new, AffineDimExpr) and not isinstance(old, AffineDimExpr)
    }


def _leading_elements(op: Operation, value: SSAValue, sizes: Mapping[int, int]) -> SSAValue:
    """Return a slice, inserted before `op`, of the leading elements of a static tensor along some axes.

    sizes: axis → number of elements.
    """
    shape = shape_of(value)
    if all(shape[axis] == n for axis, n in sizes.items()):  # the slice would be the whole tensor
        return value
    assert isinstance(value.type, TensorType)
    new_shape, rank = [sizes.get(axis, n) for axis, n in enumerate(shape)], len(shape)
    type_ = TensorType(value.type.element_type, new_shape)
    return insert_before(tensor.ExtractSliceOp(value, [0] * rank, new_shape, [1] * rank, type_), op)


def elementwise_without_unit_dimensions(op: Operation) -> SSAValue | None:
    """Compute an elementwise operation without dimensions of size 1, and return its result in the old shape.

    Return None if no dimension has size 1, or if a tensor operand has another shape than the result.
    """
    result = op.results[0]
    if len(op.results) != 1 or op.regions or not isinstance(result.type, TensorType):
        return None
    if 1 not in shape_of(result):
        return None
    if any(isinstance(v.type, TensorType) and shape_of(v) != shape_of(result) for v in op.operands):
        return None
    new = type(op).create(
        operands=[_without_units(op, v) for v in op.operands],
        result_types=[TensorType(result.type.element_type, [n for n in result.type.get_shape() if n != 1])],
        properties=op.properties, attributes=op.attributes,
    )  # fmt: skip
    return _with_units(op, insert_before(new, op), result)


def slice_without_unit_dimensions(op: Operation) -> SSAValue | None:
    """Rewrite a slice to read its source without dimensions of size 1, and return the slice in the old shape.

    The slice of [1][8][1][16] at the offsets [0, 2, 0, 0] with the sizes [1, 1, 1, 16] becomes a slice of [8][16] at
    [2, 0] with the sizes [1, 16]. Its type is [16], without any dimension of size 1; a reshape restores the old shape.

    Return None in these cases:

    - Neither tensor nor slice has such a dimension.
    - The slice's offset along such a dimension of the tensor is not known to be 0.
    - A dynamic size of the slice is 1 by the type of the result.
    """
    slice_, source, shape = slice_of(op), shape_of(op.operands[0]), shape_of(op.results[0])
    # For each dimension of the source: whether it has size 1 and the slice takes all of it, from offset 0.
    is_whole_unit = [
        n == size == stride == 1 and offset == 0
        for n, offset, size, stride in zip(source, *slice_.components, strict=True)
    ]
    takes_all_units_whole = is_whole_unit.count(True) == source.count(1)
    if 1 not in (*source, *shape) or not takes_all_units_whole:
        return None
    # The slice of the source without these dimensions, and the reshape of its result.
    offsets, sizes, strides = (
        [entry for entry, is_dropped in zip(row, is_whole_unit, strict=True) if not is_dropped]
        for row in slice_.components
    )  # fmt: skip
    result = op.results[0].type
    assert isinstance(result, TensorType)
    type_ = TensorType(result.element_type, [n for n in result.get_shape() if n != 1])
    # An extract_slice drops only dimensions whose size operand is the static 1. Here a dynamic size operand may belong
    # to a dimension that is 1 by the type of the result.
    if sum(size != 1 for size in sizes) != type_.get_num_dims():
        return None
    squeezed = _without_units(op, op.operands[0])
    new_slice = tensor.ExtractSliceOp(squeezed, offsets, sizes, strides, type_)
    return _with_units(op, insert_before(new_slice, op), op.results[0])


def _unit_groups(shape: Sequence[int]) -> list[list[int]]:
    """Partition the dimensions of a shape into groups of adjacent ones with one size other than 1 each.

    (1, 4, 1, 8) gives [[0, 1, 2], [3]]; a shape of ones gives no group.
    """
    groups: list[list[int]] = []
    leading: list[int] = []  # dimensions of size 1 before the first other one, whose group they join
    for d, n in enumerate(shape):
        if n != 1:
            groups.append([*leading, d])
            leading = []
        elif groups:
            groups[-1].append(d)
        else:
            leading.append(d)
    return groups


def _without_units(op: Operation, value: SSAValue) -> SSAValue:
    """Return a tensor without its dimensions of size 1: a reshape, or a new splat or empty tensor, before `op`."""
    shape = shape_of(value)
    if 1 not in shape:
        return value
    assert isinstance(value.type, TensorType)
    type_ = _type_without_units(value.type)
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == "tensor.empty":
        return insert_before(tensor.EmptyOp(list(owner.operands), type_), op)
    if isinstance(owner, Operation) and owner.name == "tensor.splat":
        return insert_before(tensor.SplatOp(owner.operands[0], list(owner.operands[1:]), type_), op)
    properties = {"reassociation": reassociation(_unit_groups(shape))}
    collapse = tensor.CollapseShapeOp.create(operands=[value], result_types=[type_], properties=properties)
    return insert_before(collapse, op)


@lru_cache(maxsize=1024)
def _type_without_units(type_: TensorType[Attribute]) -> TensorType[Attribute]:
    """Return a tensor type without its dimensions of size 1, from a cache: a model has few different types."""
    return TensorType(type_.element_type, [n for n in type_.get_shape() if n != 1])


def _with_units(op: Operation, value: SSAValue, like: SSAValue) -> SSAValue:
    """Insert a reshape before `op` that adds the dimensions of size 1 that the type of `like` has, and return it."""
    if value.type == like.type:
        return value
    shape, dims = shape_of(like), dynamic_sizes(value, op)
    type_, groups = cast("TensorType[Attribute]", like.type), reassociation(_unit_groups(shape))
    properties = {"reassociation": groups, "static_output_shape": _sizes(type_.get_shape())}
    expand = tensor.ExpandShapeOp.create(operands=[value, *dims], result_types=[type_], properties=properties)
    return insert_before(expand, op)


@lru_cache(maxsize=1024)
def _sizes(shape: tuple[int, ...]) -> DenseArrayBase[Any]:
    """Return the sizes of a shape as an attribute, from a cache."""
    return DenseArrayBase.from_list(i64, shape)


# -- building


def _replace_loop_indices(body: Region, new_loops: Sequence[AffineExpr]) -> None:
    """Make linalg.index operations of a body return indices of other loops.

    new_loops: for each old loop, the new one, or the constant 0 for a loop of one iteration that was dropped.
    """
    for op in [inner for inner in walk(body) if inner.name == "linalg.index"]:
        new_loop = new_loops[cast("IntegerAttr[IndexType]", op.properties["dim"]).value.data]
        if isinstance(new_loop, AffineDimExpr):
            op.properties["dim"] = IntegerAttr(new_loop.position, 64)
        else:
            zero = insert_before(arith.ConstantOp.from_int_and_width(0, IndexType()), op)
            op.results[0].replace_all_uses_with(zero)
            erase_op(op)


def generic_like(
    op: Operation, body: Region, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue], maps: Sequence[AffineMap],
    iterators: Sequence[str], loops: Sequence[AffineExpr] | None = None, insertion_point: Operation | None = None,
) -> SSAValue:  # fmt: skip
    """Insert a generic with the attributes of `op` and other operands, maps and loops; return its result.

    Args:
        op: The generic.
        body: Body of the new generic; it may be the body of `op`, detached from it.
        inputs, outputs: Operands of the new generic.
        maps: Indexing maps of the new generic.
        iterators: "parallel" or "reduction" for each loop of the new generic.
        loops: For each loop of `op`, the index over the new loops that replaces it in linalg.index operations of the
            body; None if the loops are the same.
        insertion_point: The operation before which it is inserted; by default `op`.
    """
    if loops is not None:
        _replace_loop_indices(body, loops)
    new = generic_op(inputs, outputs, body, affine_maps(maps), iterator_types(iterators), [outputs[0].type])
    new.attributes.update(op.attributes)
    result = insert_before(new, insertion_point or op)
    result.name_hint = op.results[0].name_hint
    return result
