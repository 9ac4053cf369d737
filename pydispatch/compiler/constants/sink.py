"""Sinking of transpositions: operations on a transposed tensor are computed in the original order and transposed after.

Transpositions sink below elementwise operations, concatenations, slices, gathers (such as nearest-neighbour resizing)
and reshapes that add or drop dimensions of size 1. Transpositions that meet cancel out, so that a network whose
convolutions have channels last is transposed only at its ends.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import IndexType, IntegerAttr, TensorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.analysis.destinations import slice_of
from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.fusion.build import reassociation
from pydispatch.compiler.fusion.dim_orders import computed_in, transposed
from pydispatch.compiler.fusion.maps import defining_copy, has_static_uniform_padding, padded, read_through_copies
from pydispatch.ir.affine_maps import is_identity
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.structured import Structured, structured
from pydispatch.ir.values import reordered_type, shape_of


def replace(op: Operation, copy: SSAValue) -> None:
    """Replace the result of `op` by `copy`, a transposed copy of a tensor, and sink this copy below its readers.

    A transposed copy is the result of a generic that only permutes the dimensions of a tensor, its source. Sinking
    below a reader means that the reader computes in the order of the source, and that its result is transposed instead:

        %copy = transpose %source              %r = math.exp %source
        %result = math.exp %copy        →      %result = transpose %r

    The new %result is a transposed copy, too. Sinking is repeated for its readers as far as possible.

    Args:
        op: The operation to replace. Its only result has the type of `copy`.
        copy: The transposed copy.
    """
    pending = [_replace_result(op, copy)]  # transposed copies whose readers are still to be visited
    while pending:
        copy = pending.pop()
        order = _order_of(copy)
        if order is None:  # a copy that does not only permute dimensions
            continue
        for use in list(copy.uses):
            reader = use.operation
            if use.index >= len(reader.operands) or reader.operands[use.index] is not copy:
                continue  # an earlier iteration rewrote this reader
            result = _sink_below(reader, copy, order)
            if result is not None:
                pending.append(result)


def _replace_result(op: Operation, value: SSAValue) -> SSAValue:
    """Replace the single result of `op` by `value`, erase `op`, and return `value`."""
    op.results[0].replace_all_uses_with(value)
    erase_op(op)
    return value


def _order_of(value: SSAValue) -> list[int] | None:
    """Return, for each dimension of a transposed copy's source, the dimension of the copy; None for other tensors.

    A copy [batch, height, width, channels] of a source [batch, channels, height, width] has the order [0, 3, 1, 2].
    """
    copy = defining_copy(value)
    if copy is None:
        return None
    source_map, copy_map = copy.maps
    is_broadcast = len(source_map.results) != len(copy.iterators)  # some loops do not index the source
    if is_broadcast or not is_identity(copy_map):  # no plain permutation
        return None
    return [r.position for r in source_map.results if isinstance(r, AffineDimExpr)]


def _source(copy: SSAValue) -> SSAValue:
    """Return the tensor of which `copy` is a transposed copy."""
    return cast(Operation, copy.owner).operands[0]


def _sink_below(reader: Operation, copy: SSAValue, order: list[int]) -> SSAValue | None:
    """Make a reader of a transposed copy compute in the order of the copy's source, and transpose its result.

    Return the transposed result; None if the reader cannot be rewritten.

    Args:
        reader: The operation that reads the copy. Only operations of the copy's block are rewritten. A `tensor.extract`
            must be in the body of a generic of that block, which is rewritten then.
        copy: The transposed copy.
        order: For each dimension of the copy's source, the dimension of the copy (`_order_of`).
    """
    block = cast(Operation, copy.owner).parent
    if isinstance(reader, tensor.ExtractOp):
        generic = reader.parent_op()
        return _gather(generic, copy, order) if isinstance(generic, GenericOp) and generic.parent is block else None
    if reader.parent is not block:
        return None
    if isinstance(reader, GenericOp):
        return _elementwise(reader, copy)
    # Build `result`, the reader's result in the order of the source. `order` becomes, for each dimension of `result`,
    # the dimension of the reader's result; reshapes change it.
    if isinstance(reader, tensor.ConcatOp):
        result = _concatenated(reader, order)
    elif isinstance(reader, tensor.ExtractSliceOp):
        result = _sliced(reader, copy, order)
    elif isinstance(reader, tensor.ExpandShapeOp):
        order = _order_with_units(reader, order)
        result = _expanded(insertion_point=reader, expand=reader, order=order)
    elif isinstance(reader, tensor.CollapseShapeOp):
        kept_axes = _kept_source_dims(reader)
        if kept_axes is None:
            return None
        order = [kept_axes.index(a) for a in order if a in kept_axes]  # without the dropped dimensions, renumbered
        result = _collapsed(insertion_point=reader, collapse=reader, order=order)
    else:
        return None
    return None if result is None else _replace_result(reader, transposed(result, order, reader))


def _elementwise(user: GenericOp, copy: SSAValue) -> SSAValue | None:
    """Compute an elementwise operation in the order of a transposed copy's source.

    For `%y = add %copy, %v` with %copy a transposed copy of %s, the new operation loops in the order of %s: it reads %s
    by an identity map and %v by a permuted one. The latter costs as much as a transposition, unless %v is a transposed
    copy of the same order, whose source is read instead. If the copy has other readers, it is stored anyway, and the
    rewrite only pays if all operands that the operation reads by an identity map are transposed copies.

    Args:
        user: The operation. It is rewritten only if it has one result and writes it by an identity map.
        copy: The transposed copy that it reads.

    Returns:
        The result as a transposed copy, which replaces the old result; None if the operation does not compute in the
        order of the source.
    """
    generic = structured(user)
    is_elementwise = len(user.results) == 1 and generic.is_parallel and is_identity(generic.maps[-1])
    if not is_elementwise or defining_copy(user.results[0]):  # `user` is itself a copy
        return None
    identity_inputs = [i for i in range(len(generic.inputs)) if is_identity(generic.maps[i])]
    copy_input = next((i for i in identity_inputs if generic.inputs[i] is copy), None)
    pays = len(list(copy.uses)) == 1 or all(_order_of(generic.inputs[i]) is not None for i in identity_inputs)
    if copy_input is None or not pays:
        return None
    # Read the sources of copies instead of the copies, by permuted maps; the loops are in the old order still.
    source, new_result = _source(copy), read_through_copies(user)
    if new_result is None:  # without the copies, no operand would state the size of some loop
        return None
    rewritten = structured(cast(Operation, _replace_result(user, new_result).owner))
    is_copy_skipped = rewritten.inputs[copy_input] is source  # False if only other copies could be skipped
    if not is_copy_skipped:
        return None
    # Reorder the loops, and with them the result, so that the map of the source becomes the identity. computed_in()
    # returns a transposed copy of the new result, in the old order, or None if it changes nothing.
    source_map = rewritten.maps[copy_input]
    result = computed_in(rewritten.op, [r.position for r in source_map.results if isinstance(r, AffineDimExpr)])
    return None if result is None else _replace_result(rewritten.op, result)


def _concatenated(concat: tensor.ConcatOp, order: list[int]) -> SSAValue | None:
    """Concatenate the sources of transposed copies that all have the order `order`; return None for other operands."""
    if any(_order_of(v) != order for v in concat.operands):
        return None
    sources = [_source(v) for v in concat.operands]
    # In the order of the sources: the type of the result, and the axis along which they are concatenated.
    type_, axis = reordered_type(concat.result, order), order.index(concat.dim.value.data)
    return insert_before(tensor.ConcatOp(sources, axis, type_), concat)


def _sliced(op: tensor.ExtractSliceOp, copy: SSAValue, order: list[int]) -> SSAValue | None:
    """Slice the source of a transposed copy; return None if the slice is not static or drops a dimension.

    order: for each dimension of the source, the dimension of the copy.
    """
    slice_ = slice_of(op)
    is_static = all(isinstance(n, int) for row in slice_.components for n in row)  # offsets, sizes and strides
    if not is_static or slice_.sizes != tuple(shape_of(op.result)):
        return None
    # In the source, dimension d has the offset, size and stride of the dimension order[d] of the copy.
    offsets, sizes, strides = ([cast(int, row[d]) for d in order] for row in slice_.components)
    type_ = TensorType(op.result.type.element_type, sizes)
    return insert_before(tensor.ExtractSliceOp(_source(copy), offsets, sizes, strides, type_), op)


def _gather(op: GenericOp, copy: SSAValue, order: list[int]) -> SSAValue | None:
    """Make a generic that reads elements of a transposed copy at computed indices read the copy's source.

    Such a generic is a nearest-neighbour resizing, whose body computes rows and columns. The copy below has the
    dimensions [n, c, h, w] and its source [n, h, w, c], so that `order` is [0, 2, 3, 1]. The body

        %0 = tensor.extract %copy[%n, %c, %row, %column]      in the loops (n, c, h, w)

    becomes

        %0 = tensor.extract %source[%n, %row, %column, %c]    in the loops (n, h, w, c)

    Args:
        op: The generic.
        copy: The transposed copy.
        order: For each dimension of the source, the dimension of the copy (`_order_of`).

    Returns:
        The result as a transposed copy, which replaces the old result; None if the loops stay in the old order.
    """
    generic = structured(op)
    reads = [o for o in generic.block.ops if isinstance(o, tensor.ExtractOp) and o.tensor is copy]
    has_one_result = len(op.results) == 1 and is_identity(generic.maps[-1])
    if not has_one_result or not generic.is_parallel or not reads:
        return None
    # The loops that index the copy become the inner ones, in the order of the source; several reads of one copy usually
    # have the same loops, so that the first one decides.
    loops = list(dict.fromkeys(d for a in order for d in _loops(reads[0].indices[a], generic)))
    for read in reads:  # correct also if computed_in() changes nothing and returns None
        indices = list(read.indices)
        read.operands = [_source(copy), *(indices[a] for a in order)]
    outer_loops = [d for d in range(len(generic.iterators)) if d not in loops]
    result = computed_in(op, [*outer_loops, *loops])
    return None if result is None else _replace_result(op, result)


def _loops(value: SSAValue, generic: Structured) -> list[int]:
    """Return the loop dimensions, ascending, that `value`, an index in the body of a generic, depends on."""
    if isinstance(value, BlockArgument):
        map_ = generic.maps[value.index] if value.block is generic.block else None
        return [] if map_ is None else sorted({d for r in map_.results for d in r.used_dims()})
    owner = value.owner
    if isinstance(owner, Block) or owner.parent is not generic.block:  # a value from outside of the generic
        return []
    if owner.name == "linalg.index":
        return [cast("IntegerAttr[IndexType]", owner.properties["dim"]).value.data]
    return sorted({d for v in owner.operands for d in _loops(v, generic)})


def in_order(op: Operation, value: SSAValue, order: list[int]) -> SSAValue:
    """Return `value` transposed: dimension d of the result is dimension `order[d]` of `value`.

    The order [0, 2, 3, 1] moves the channels of [batch, channels, height, width] to the end. If `value` is padded, or
    reshaped by adding or dropping dimensions of size 1, its source is transposed, and then padded or reshaped. If a
    tensor in the wanted order was transposed to get `value`, this tensor is returned. New operations are inserted
    before `op`.
    """
    owner = value.owner
    if order == sorted(order):
        return value
    if isinstance(owner, tensor.PadOp) and has_static_uniform_padding(owner):
        source = in_order(op, owner.source, order)
        pad_before_op = insert_before(owner.clone(), op).owner  # padded() takes the widths from it; later it is unused
        return padded(cast(tensor.PadOp, pad_before_op), source, order)
    if isinstance(owner, tensor.ExpandShapeOp) and (expanded := _expanded(op, owner, order)) is not None:
        return expanded
    if isinstance(owner, tensor.CollapseShapeOp) and (collapsed := _collapsed(op, owner, order)) is not None:
        return collapsed
    if _order_of(value) == order:  # value is itself a transposed copy, of a tensor in this order
        return _source(value)
    # transposed() takes the inverse of `order`: for each dimension of `value`, the dimension of the result.
    new_dims = [order.index(d) for d in range(len(order))]
    return transposed(value, new_dims, op)


def _collapsed(insertion_point: Operation, collapse: tensor.CollapseShapeOp, order: list[int]) -> SSAValue | None:
    """Create the result of a collapse_shape, transposed, by a collapse_shape of its transposed source.

    Dimension d of the new result is dimension `order[d]` of the old one. Example: the source 8x1x4x6 is collapsed to
    8x4x6, and `order` is [1, 2, 0]. The source is transposed to 1x4x6x8, which is collapsed to 4x6x8.

    Return None unless the collapse_shape only drops dimensions of size 1. New operations are inserted before
    `insertion_point`.
    """
    source_shape, shape, kept = shape_of(collapse.src), shape_of(collapse.result), _kept_source_dims(collapse)
    if kept is None or any(n < 0 for n in source_shape):
        return None
    # The dropped dimensions, all of size 1, are moved to the front and collapsed with the first kept one: [[0, 1], [2],
    # [3]] are the groups of source dimensions in the example.
    dropped = [a for a in range(len(source_shape)) if a not in kept]
    permuted_source = in_order(insertion_point, collapse.src, [*dropped, *(kept[d] for d in order)])
    count = len(dropped)
    groups = [[*range(count + 1)], *([count + axis] for axis in range(1, len(order)))]
    if not order:  # a result of rank 0 has no groups
        groups = []
    type_ = TensorType(collapse.result.type.element_type, [shape[d] for d in order])
    properties = {"reassociation": reassociation(groups)}
    new_collapse = tensor.CollapseShapeOp(operands=[permuted_source], result_types=[type_], properties=properties)
    return insert_before(new_collapse, insertion_point)


def _expanded(insertion_point: Operation, expand: tensor.ExpandShapeOp, order: list[int]) -> SSAValue | None:
    """Create the result of an expand_shape, transposed, by an expand_shape of its transposed source.

    Dimension d of the new result is dimension `order[d]` of the old one. Example: the source 4x6 is expanded to 4x1x6,
    and `order` is [2, 0, 1]. The source is transposed to 6x4, which is expanded to 6x4x1.

    Return None unless the expand_shape only adds dimensions of size 1. New operations are inserted before
    `insertion_point`.
    """
    shape, source_shape = shape_of(expand.result), shape_of(expand.src)
    if any(n < 0 for n in shape):
        return None
    # Axis of the result -> its axis of the source; without added axes.
    source_axis = {axis: dim for dim, axis in enumerate(_expanded_axes(expand))}
    keeps_sizes = all(shape[a] == source_shape[d] for a, d in source_axis.items())
    if not keeps_sizes or any(n != 1 for a, n in enumerate(shape) if a not in source_axis):
        return None
    permuted_source = in_order(insertion_point, expand.src, [source_axis[a] for a in order if a in source_axis])
    # Each source axis begins a group that ends before the next one; added axes at the front join the first group.
    # With source axes A and B and added axes 1, the order 1 A 1 B has the groups [1 A 1] [B].
    # A source of rank 0 has no axes, and no groups.
    source_positions = [axis for axis, a in enumerate(order) if a in source_axis]
    starts = [0, *source_positions[1:]] if source_positions else []
    ends = [*source_positions[1:], len(order)] if source_positions else []
    sizes = [shape[a] for a in order]
    groups = reassociation([list(range(start, end)) for start, end in zip(starts, ends, strict=True)])
    type_ = TensorType(expand.result.type.element_type, sizes)
    return insert_before(tensor.ExpandShapeOp(permuted_source, [], groups, sizes, type_), insertion_point)


def _kept_source_dims(collapse: tensor.CollapseShapeOp) -> list[int] | None:
    """Return, for each dimension of a collapsed tensor, the only source dimension of its group whose size is not 1.

    Return None if a group has several such dimensions.
    """
    source_shape = shape_of(collapse.src)
    kept: list[int] = []
    for group in collapse.reassociation.data:
        axes = [d.value.data for d in group.data]
        kept.append(next((a for a in axes if source_shape[a] != 1), axes[0]))  # any one if all sizes are 1
    # The size of a group is the product of its sizes: that of the kept dimension if all others are 1.
    others_have_size_1 = [source_shape[a] for a in kept] == list(shape_of(collapse.result))
    return kept if others_have_size_1 else None


def _order_with_units(expand: tensor.ExpandShapeOp, order: list[int]) -> list[int]:
    """Return the permutation of an expand_shape's result that corresponds to the permutation `order` of its source.

    The added dimensions, all of size 1, come first. Both permutations have, for each new dimension, the old one. For an
    expansion of 4x6 to 4x1x6 and the order [1, 0], return [1, 2, 0]: the result 1x6x4 is an expansion of 6x4.
    """
    result_axes = _expanded_axes(expand)
    added_axes = [a for a in range(len(shape_of(expand.result))) if a not in result_axes]
    return [*added_axes, *(result_axes[d] for d in order)]


def _expanded_axes(expand: tensor.ExpandShapeOp) -> list[int]:
    """Return, for each dimension of an expand_shape's source, the axis of the result that takes over its size.

    It is the first axis of the dimension's group whose size is not 1, or the first axis of the group if all are 1. For
    an expansion of 4x6 to 4x1x6, return [0, 2].
    """
    shape = shape_of(expand.result)
    groups = [[d.value.data for d in group.data] for group in expand.reassociation.data]
    return [next((a for a in axes if shape[a] != 1), axes[0]) for axes in groups]
