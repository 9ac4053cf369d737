"""Rules that replace `sort`, `topk` and `arg_compare`. A rule gets the operation and a builder.

The tensors are reshaped to rows, and the rows are ordered by merging or by a heap.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, cf, tensor
from xdsl.dialects.builtin import IndexType, TensorType, UnitAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.compiler.normalize.generics import generic
from pydispatch.compiler.normalize.linalg_ext.code import Before, LoopBody, element_of, require_tensors
from pydispatch.compiler.normalize.linalg_ext.merge import first_of_rows, sorted_rows
from pydispatch.compiler.normalize.linalg_ext.rows import (
    MixedSize,
    along_again,
    along_last,
    as_value,
    collapsed_rows,
    expanded_rows,
    size_of,
    sliced_rows,
)
from pydispatch.compiler.normalize.linalg_ext.selection import selects_by_heap, top_of_rows
from pydispatch.compiler.normalize.moves import projection
from pydispatch.ir.core.rewriting import replace_op
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.iree_linalg_ext.ordering import ArgCompareOp, Sort, Topk
from pydispatch.ir.dialects.linalg.regions import IndexOp
from pydispatch.ir.dialects.linalg.structure import Structure, shape_of
from pydispatch.ir.dialects.util.scalars import OptimizationBarrierOp
from pydispatch.ir.op_info import SHOWS_VALUES


def _comparator_of(body: Region) -> Before:
    """Return the function that emits a comparator region.

    The arguments of the region are a pair of elements of each of the first tensors. It may have less pairs than there
    are tensors: the other tensors are ordered with the first ones, but not compared.
    """
    pair_count = len(body.block.args) // 2

    def before(code: LoopBody, lhs: Sequence[SSAValue], rhs: Sequence[SSAValue]) -> SSAValue:
        """Emit whether the element `lhs`, one value of each tensor, precedes `rhs`, by the comparator `body`."""
        pairs = [v for pair in zip(lhs[:pair_count], rhs[:pair_count], strict=True) for v in pair]
        return code.inline(body, pairs)[0]

    return before


def _ordered(
    build: Build, tensors: Sequence[SSAValue], along: int, body: Region, count: MixedSize,
    position_type: Attribute | None = None,
) -> list[SSAValue]:  # fmt: skip
    """Order the tensors together along a dimension, and return the first `count` elements of each.

    The dimension is moved to the end and the others are joined to rows, which are sorted. If `count` is a number less
    than the length of a row, only the first elements are selected, by a heap if `selects_by_heap`.

    Args:
        build: Builder of the code.
        tensors: The tensors, which have one shape.
        along: The dimension.
        body: The comparator, a region that yields whether an element precedes another.
        count: Number of elements along the dimension that the results have.
        position_type: The integer type of a further result, the indices of the elements along the dimension; None for
            no such result.
    """
    if position_type is not None and not selects_by_heap(build, count, size_of(build, tensors[0], along)):
        # Only a heap returns positions: here a tensor of them is ordered together with the others.
        return _ordered(build, [*tensors, _positions(build, tensors[0], along, position_type)], along, body, count)
    # The rows.
    transposed = [along_last(build, t, along) for t in tensors]
    shape = list(shape_of(transposed[0].type))
    outer_sizes = [build.dim(transposed[0], d) for d, n in enumerate(shape[:-1]) if n == DYNAMIC]  # the dynamic ones
    flat = [collapsed_rows(build, t) for t in transposed]
    if isinstance(count, SSAValue) or count == shape[-1]:
        ordered = sorted_rows(build, flat, _comparator_of(body))
    else:
        ordered = _first_of_flat_rows(build, flat, body, count, position_type, is_transposed=along != len(shape) - 1)
    # The results in the shape of the tensors, with `count` elements along the dimension.
    shape[-1] = DYNAMIC if isinstance(count, SSAValue) else count
    dynamic = [*outer_sizes, count] if isinstance(count, SSAValue) else outer_sizes
    rows = [sliced_rows(build, t, count) for t in ordered]
    return [along_again(build, expanded_rows(build, t, shape, dynamic), along) for t in rows]


def _first_of_flat_rows(
    build: Build, tensors: Sequence[SSAValue], body: Region, count: int, position_type: Attribute | None,
    is_transposed: bool,
) -> list[SSAValue]:  # fmt: skip
    """Return tensors whose rows begin with the first `count` elements, in order, of the rows of `tensors`.

    Rows of the results may be longer. The emitted code fails if the rows of `tensors` are shorter than `count`.

    Args:
        build: Builder of the code.
        tensors: The tensors, of shape (rows, n) each, which are ordered together.
        body: The comparator.
        count: Number of elements.
        position_type: Integer type of the last result, the indices of the elements; None for no such result.
        is_transposed: Whether the tensors are transposed views of the program's tensors.
    """
    size = size_of(build, tensors[0], axis=1)
    # If the length of a row is dynamic, an assertion checks it at run time.
    if isinstance(size, SSAValue):
        enough = build.add(arith.CmpiOp(build.index(count), size, "sle")).result
        build.add(cf.AssertOp(enough, f"the first {count} elements are wanted of fewer"))
    if not selects_by_heap(build, count, size):
        return first_of_rows(build, tensors, _comparator_of(body), count)
    if is_transposed:
        # Without memory of its own, the transposition would be fused into the heap's scan of the rows, which would read
        # elements that are far apart.
        tensors = [_contiguous(build, t) for t in tensors]
    *ordered, indices = top_of_rows(build, tensors, body, count, position_type or IndexType())
    return [*ordered, indices] if position_type is not None else ordered


def _contiguous(build: Build, value: SSAValue) -> SSAValue:
    """Return a transposed tensor behind an optimization barrier: dispatch formation does not fuse it with its readers.

    It is therefore written to memory, and its rows can be read as vectors.
    """
    return build.add(OptimizationBarrierOp(operands=[[value]], result_types=[[value.type]])).results[0]


def _sort(op: Operation, build: Build) -> None:
    """Replace a sort; if only the first elements of its results are read, replace it and the slices by a selection.

    If the only uses of `%r = sort %x : tensor<8x100xf32>` along dimension 1 are slices of the first 5 elements,
    `tensor.extract_slice %r[0, 0] [8, 5] [1, 1]`, the first 5 elements of each row are selected instead.
    """
    assert isinstance(op, Sort)
    require_tensors(op)
    tensors = list(op.inputs or op.outputs)  # without inputs, the outputs are sorted
    _require_one_shape(op, build, tensors)
    # How many first elements each use reads; None for a use that is no such slice.
    slices = [use.operation for result in op.results for use in result.uses]
    counts = {_prefix_of(s, op.along) for s in slices}
    if len(counts) != 1 or None in counts:  # no use, slices of different counts, or a use that is no such slice
        build.replace(*_ordered(build, tensors, op.along, op.body, size_of(build, tensors[0], op.along)))
        return
    (count,) = counts
    assert count is not None
    selected = _ordered(build, tensors, op.along, op.body, count)
    for result, value in zip(op.results, selected, strict=True):
        for use in list(result.uses):
            replace_op(use.operation, value)
    build.replace(*selected)


def _require_one_shape(op: Operation, build: Build, tensors: Sequence[SSAValue]) -> None:
    """Add runtime checks that tensors have the shape of the first one; the verifier has compared static sizes."""
    head, *others = tensors
    for index, value in enumerate(others, 1):
        for axis in range(len(shape_of(head.type))):
            expected, size = size_of(build, head, axis), size_of(build, value, axis)
            if isinstance(expected, int) and isinstance(size, int):
                continue
            equal = build.add(arith.CmpiOp(as_value(build, size), as_value(build, expected), "eq"))
            # The runtime puts the two compared values in place of {a} and {b}.
            message = f"'{op.name}': axis {axis} of tensor {index} has {{a}} elements, that of tensor 0 has {{b}}"
            build.add(cf.AssertOp(equal, message)).attributes[SHOWS_VALUES] = UnitAttr()


def _prefix_of(op: Operation, along: int) -> int | None:
    """Return the number n if `op` is a slice of the first n elements along dimension `along`, else None.

    Such a slice has all elements of the other dimensions, a stride of 1, and the rank of its source.
    """
    if not isinstance(op, tensor.ExtractSliceOp) or len(op.operands) != 1:
        return None
    offsets, strides = op.static_offsets.get_values(), op.static_strides.get_values()
    sizes, shape = op.static_sizes.get_values(), shape_of(op.source.type)
    has_other_dims = all(taken == size for d, (taken, size) in enumerate(zip(sizes, shape, strict=True)) if d != along)
    starts_at_first = not any(offsets) and set(strides) == {1}
    has_rank = len(shape_of(op.result.type)) == len(shape)
    count = int(sizes[along])
    is_positive = count > 0  # a dynamic size is negative
    return count if has_other_dims and starts_at_first and has_rank and is_positive else None


def _topk(op: Operation, build: Build) -> None:
    """Replace a top-k by a sort that returns the leading elements, with their indices if there is a second result."""
    assert isinstance(op, Topk)
    require_tensors(op)
    values, *indices = op.inputs
    _require_one_shape(op, build, op.inputs)
    # The second result has the indices of the elements: those that the operation is passed, or else their positions.
    returns_indices = len(op.outputs) == 2
    position_type = element_of(op.outputs[1]) if returns_indices and not indices else None
    count = size_of(build, op.outputs[0], op.along)
    if count == 0:
        build.replace(*op.outputs)
        return
    tensors = [values, *indices] if returns_indices else [values]
    ordered = _ordered(build, tensors, op.along, op.body, count, position_type)
    results = [_converted(build, v, out.type) for v, out in zip(ordered, op.outputs, strict=True)]
    build.replace(*results)


def _positions(build: Build, values: SSAValue, along: int, element: Attribute) -> SSAValue:
    """Return a tensor of the shape of `values` that holds the index of each element along dimension `along`."""
    shape = shape_of(values.type)
    body = LoopBody([element])
    body.finish(body.cast(body.add(IndexOp(along)), element, unsigned=False))
    out = build.empty(TensorType(element, shape), build.dynamic_dims(values))
    structure = Structure((AffineMap.identity(len(shape)),), parallel=(True,) * len(shape))
    return generic(build, structure, inputs=[], outputs=[out], body=body.block)[0]


def _converted(build: Build, value: SSAValue, type_: Attribute) -> SSAValue:
    """Return a tensor of integers with its elements converted to the integer element type of `type_`."""
    assert isinstance(type_, TensorType)
    rank = len(shape_of(type_))
    if element_of(value) != type_.element_type:
        body = LoopBody([element_of(value), type_.element_type])
        body.finish(body.cast(body.block.args[0], type_.element_type, unsigned=False))
        out = build.empty(TensorType(type_.element_type, shape_of(value.type)), build.dynamic_dims(value))
        structure = Structure((AffineMap.identity(rank),) * 2, parallel=(True,) * rank)
        (value,) = generic(build, structure, [value], [out], body.block)
    return value


def _arg_compare(op: Operation, build: Build) -> None:
    """Replace an `arg_compare` by a reduction with two results: the best value and its index, along one dimension.

    The region of the operation yields whether a value is better than the best one so far. The index of a value is the
    element of a second input, or else its position along the dimension plus an optional base.
    """
    assert isinstance(op, ArgCompareOp)
    require_tensors(op)
    rank, element = len(shape_of(op.inputs[0].type)), element_of(op.outputs[1])
    body = LoopBody([*(element_of(v) for v in (*op.inputs, *op.outputs))])
    value, *indices, best, index = body.block.args
    if indices:  # the operation states the index of each value; else it is the position along the dimension
        candidate = body.cast(indices[0], element, unsigned=False)
    else:
        candidate = body.add(IndexOp(op.along))
        if op.index_base is not None:
            candidate = body.plus(candidate, op.index_base)
        candidate = body.cast(candidate, element, unsigned=False)
    # The better of the value and the best one so far, with its index.
    (better,) = body.inline(op.body, [value, best])
    body.finish(body.select(better, value, best), body.select(better, candidate, index))
    outer_dims = projection(rank, [d for d in range(rank) if d != op.along])
    maps = (*(AffineMap.identity(rank) for _ in op.inputs), outer_dims, outer_dims)
    structure = Structure(maps, tuple(d != op.along for d in range(rank)))
    build.replace(*generic(build, structure, list(op.inputs), list(op.outputs), body.block))


ROWS: dict[str, Row] = {
    "iree_linalg_ext.sort": _sort,
    "tm_tensor.sort": _sort,
    "iree_linalg_ext.topk": _topk,
    "iree_linalg_ext.topk_v2": _topk,
    "tm_tensor.topk": _topk,
    "iree_linalg_ext.arg_compare": _arg_compare,
}
"""Name of an operation → function that replaces it."""
