"""Splitting of large reductions with few results into two: partial results in parallel, and a reduction of these.

How a reduction is split depends only on its sizes and the CPUs that are compiled for, so that results do not depend on
the number of workers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, TensorType
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.analysis.sizes import dynamic_sizes
from pydispatch.compiler.fusion.build import affine_maps, iterator_types, reassociation, rewrite_loops
from pydispatch.compiler.fusion.split_choice import Shares, choose_split_loop, never
from pydispatch.compiler.kernels.matmul.match import is_contraction
from pydispatch.compiler.kernels.matmul.results import starts_at_zero
from pydispatch.ir.core.rewriting import replace_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.op_info import Grouping, identity_of, info_of
from pydispatch.ir.structured import structured
from pydispatch.ir.values import shape_of

# Reductions over short, non-adjacent runs of memory (`_innermost_loop_of_short_runs`).
MOST_IN_RUN, FEWEST_RUNS = 64, 64
"""Maximum number of elements of a run, and minimum number of runs."""


def split_reductions(function: Operation, reassociate: bool = True, shares: Shares = never) -> None:
    """Split the reductions of a host function in place where this gives more parallel work, or longer runs of memory.

    Args:
        function: The host function.
        reassociate: Whether floats may be added in another order.
        shares: Returns whether a product by a matrix of so many bytes is split, so that each worker reads a part of it.
    """
    for op in list(walk(function)):
        if op.name == "linalg.generic" and op.parent is not None:  # an earlier split may have replaced it
            _split_reduction(cast(GenericOp, op), reassociate, shares)


def _split_reduction(op: GenericOp, reassociate: bool, shares: Shares) -> None:
    """Split one reduction if the operation that combines two values allows it and its sizes make it worthwhile.

    One of its loops becomes two, over parts and over the steps of a part. A first generic computes a result for each
    part, a second reduces these. The sum of 2^20 elements becomes 64 sums of 2^14 elements, and the sum of these 64.

    Args:
        op: The reduction.
        reassociate: Whether floats may be added in another order.
        shares: Returns whether a product by a matrix of so many bytes is split, so that each worker reads a part of it.
    """
    combine = combiner(op)
    if combine is None or (info_of(combine).grouping is Grouping.ROUNDED and not reassociate):
        return  # ROUNDED: another grouping of the steps may round to another result
    identity = _initial_value_of_parts(op, combine)
    if identity is None:
        return
    if (inner := _innermost_loop_of_short_runs(op)) is not None:
        # The first reduction reads contiguous rows instead of short runs, and has a result for each step of the
        # innermost loop; the second reduces these. The first may be split once more below.
        op = _split_off(op, combine, identity, inner)
    choice = choose_split_loop(op, shares)
    if choice is None:
        return
    # The parts have equally many steps. A generic of its own reduces the steps that remain; its result becomes the
    # initial value of the reduction of all other steps, which is `op` from here on.
    loop, parts = choice
    remainder = structured(op).extent(loop) % parts
    if remainder:
        op = _peel_remainder(op, loop, remainder)
        combine = cast(Operation, combiner(op))  # the new `op` has a copy of the body: find the operation in this copy
    partials = _reduce_parts(op, loop, parts, identity)
    _reduce_partials(op, combine, partials, axis=0)


def _initial_value_of_parts(op: GenericOp, combine: Operation) -> IntegerAttr | FloatAttr | None:
    """Return the value with which the reduction of each part begins: the identity of `combine`; None without one.

    It is 0.0 instead of -0.0 for products that begin with 0.0: kernels of products overwrite sums that start at 0.0.
    The sign of a partial sum that is zero does not show in the result, which starts at 0.0, too.
    """
    identity = identity_of(combine, combine.results[0].type)
    if identity is not None and combine.name == "arith.addf" and is_contraction(op) and starts_at_zero(op.outputs[0]):
        return FloatAttr(0.0, cast(AnyFloat, combine.results[0].type))
    return identity


def _reduce_parts(op: GenericOp, loop: int, parts: int, identity: IntegerAttr | FloatAttr) -> SSAValue:
    """Insert a generic that reduces each part of a loop by itself, and return its results, [parts, *shape of results].

    The loop becomes a parallel loop over the parts, which has its number, and a reduction loop over the steps of a part
    after it. Example: the sum of [1000, 16] over loop 0 in 8 parts reads its input as [8, 125, 16], and has the results
    [8, 16].

    Args:
        op: The reduction, before which the generic is inserted.
        loop: The loop that is split.
        parts: The number of parts, which divides the loop's size.
        identity: Identity of the operation that combines two values, with which each part begins.
    """
    generic = structured(op)
    inputs: list[SSAValue] = []
    new_maps: list[AffineMap] = []
    for value, map_ in zip(generic.inputs, generic.maps[:-1], strict=True):  # the last map is that of the output
        inputs.append(_expanded(op, value, map_, loop, parts))
        new_maps.append(_map_over_parts(map_, loop, is_split=True))
    initial = _initial_partials(op, identity, [parts, *shape_of(op.outputs[0])])
    result_map = _map_over_parts(generic.maps[-1], loop, is_split=False)
    new_maps.append(AffineMap(result_map.num_dims, 0, (AffineExpr.dimension(loop), *result_map.results)))
    return rewrite_loops(
        op, [*inputs, initial], new_maps, [*generic.iterators[:loop], "parallel", *generic.iterators[loop:]]
    )


def _initial_partials(op: GenericOp, identity: IntegerAttr | FloatAttr, shape: Sequence[int]) -> SSAValue:
    """Insert a tensor before `op` whose elements are `identity`, and return it. shape: the shape of the result of `op`
    with one static size more.
    """
    out_type = op.outputs[0].type
    assert isinstance(out_type, TensorType)
    sizes = dynamic_sizes(op.outputs[0], op)
    element = insert_before(arith.ConstantOp(identity), op)
    return insert_before(tensor.SplatOp(element, sizes, TensorType(out_type.element_type, shape)), op)


def _reduce_partials(op: GenericOp, combine: Operation, partials: SSAValue, axis: int) -> None:
    """Replace a reduction by a reduction of its partial results along one axis.

    Partial results [64, 16] with the axis 0 are reduced to the result [16]. The initial values are those of `op`.

    combine: the operation of its body that combines two values. axis: the dimension that the result lacks.
    """
    out_type = op.outputs[0].type
    assert isinstance(out_type, TensorType)
    rank = len(out_type.get_shape())
    body = Block(arg_types=[out_type.element_type] * 2)
    total = combine.clone({combine.operands[0]: body.args[0], combine.operands[1]: body.args[1]})
    body.add_ops([total, YieldOp(total.results[0])])
    result_map = AffineMap(rank + 1, 0, tuple(AffineExpr.dimension(i) for i in range(rank + 1) if i != axis))
    kinds = ["reduction" if i == axis else "parallel" for i in range(rank + 1)]
    reduction = GenericOp(
        [partials], [op.outputs[0]], Region(body), affine_maps([AffineMap.identity(rank + 1), result_map]),
        iterator_types(kinds), [out_type],
    )  # fmt: skip
    result = insert_before(reduction, op)
    replace_op(op, result)


def _innermost_loop_of_short_runs(op: GenericOp) -> int | None:
    """Return the innermost loop of a reduction over many short, non-adjacent runs of memory; None for others.

    An example is the sum over the channels of a group and all pixels of an image [pixels, groups, channels]. If the
    loop (channels) is split off, whole rows [groups, channels] are reduced.
    """
    generic = structured(op)
    loops = [i for i, kind in enumerate(generic.iterators) if kind == "reduction"]
    sizes = [n or 0 for n in generic.extents]
    if len(loops) < 2 or is_contraction(op) or not generic.maps[-1].results:
        return None
    # Loops in the order of the dimensions of the first input, outermost first.
    memory_order = [e.position for e in generic.maps[0].results if isinstance(e, AffineDimExpr)]
    reads_alike = all(m == generic.maps[0] for m in generic.maps[1:-1])
    if not memory_order or len(memory_order) != len(generic.maps[0].results) or not reads_alike:
        return None
    # `inner`: the loop over adjacent elements. `outer`: the other reduced loops, outermost first.
    inner = memory_order[-1]
    outer = [i for i in memory_order if i in loops and i != inner]
    if inner not in loops or not outer:
        return None
    # Runs are not adjacent if a loop that is not reduced, such as groups, is between `inner` and the innermost of the
    # other reduced loops, such as pixels.
    loops_between = memory_order[memory_order.index(outer[-1]) + 1 : -1]
    has_gaps = any(i not in loops for i in loops_between)
    is_short = 1 < sizes[inner] <= MOST_IN_RUN and math.prod(sizes[i] for i in outer) >= FEWEST_RUNS
    return inner if has_gaps and is_short else None


def _split_off(op: GenericOp, combine: Operation, identity: IntegerAttr | FloatAttr, loop: int) -> GenericOp:
    """Split a loop off a reduction: compute a partial result for each of its steps, and reduce these afterwards.

    Replace `op` by the second reduction, and return the first, the generic of the partial results. Example: the sum of
    an input [1024, 32, 8] over loops 0 and 2 has the result [32]. With loop 2 split off, the first reduction sums over
    loop 0 and has the result [32, 8]; the second sums that over its last dimension.

    Args:
        op: The reduction.
        combine: The operation of its body that combines two values.
        identity: Identity element of `combine` as an attribute: 0 for a sum.
        loop: Number of the loop.
    """
    generic = structured(op)
    initial = _initial_partials(op, identity, [*shape_of(op.outputs[0]), generic.extent(loop)])
    result_map = AffineMap(generic.maps[-1].num_dims, 0, (*generic.maps[-1].results, AffineExpr.dimension(loop)))
    kinds = ["parallel" if i == loop else kind for i, kind in enumerate(generic.iterators)]
    new_maps = [*generic.maps[:-1], result_map]
    partials = rewrite_loops(op, [*op.inputs, initial], new_maps, iterators=kinds)
    _reduce_partials(op, combine, partials, axis=len(result_map.results) - 1)
    return cast(GenericOp, partials.owner)


def _peel_remainder(op: GenericOp, loop: int, remainder: int) -> GenericOp:
    """Replace a reduction by two: of the last `remainder` steps of `loop`, and of the steps before them.

    The reduction of the last steps runs first. Its result is the initial value of the other reduction, which is
    returned.
    """
    generic = structured(op)
    divisible = generic.extent(loop) - remainder
    peeled = _insert_reduction_of_steps(op, loop, first=divisible, count=remainder, output=op.outputs[0])
    main = _insert_reduction_of_steps(op, loop, first=0, count=divisible, output=peeled.results[0])
    replace_op(op, main.results[0])
    return main


def _insert_reduction_of_steps(op: GenericOp, loop: int, first: int, count: int, output: SSAValue) -> GenericOp:
    """Insert a reduction like `op`, but over some steps of a loop only, before `op`, and return it.

    Args:
        op: The reduction. It remains in place; the caller removes it.
        loop: Number of the loop, which no sliding window reads.
        first: First step.
        count: Number of steps.
        output: Initial values of the result.
    """
    generic = structured(op)
    inputs: list[SSAValue] = []
    for value, map_ in zip(generic.inputs, generic.maps[:-1], strict=True):  # the last map is that of the output
        is_sliced = [isinstance(e, AffineDimExpr) and e.position == loop for e in map_.results]
        if any(is_sliced):
            shape = shape_of(value)
            sizes = [count if sliced else n for sliced, n in zip(is_sliced, shape, strict=True)]
            starts = [first if sliced else 0 for sliced in is_sliced]
            value = insert_before(tensor.ExtractSliceOp.from_static_parameters(value, starts, sizes), op)
        inputs.append(value)
    return cast(GenericOp, rewrite_loops(op, [*inputs, output], generic.maps).owner)


def combiner(op: GenericOp) -> Operation | None:
    """Return the operation of a reduction's body that combines an element with the accumulator.

    Return None in these cases:

    - The body uses the accumulator in any other way.
    - The body reads loop indices, which change when the loop is split.
    - The operation must not be regrouped.
    """
    body = op.body.block
    terminator = body.last_op
    reads_loop_indices = any(inner.name == "linalg.index" for inner in walk(op.body))
    if len(op.results) != 1 or terminator is None or reads_loop_indices:
        return None
    combine = terminator.operands[0].owner  # the operation that computes the yielded value
    if not isinstance(combine, Operation) or combine.parent is not body or info_of(combine).grouping is Grouping.FIXED:
        return None
    # Nothing but `combine` reads the accumulator, and nothing but the terminator reads the result of `combine`.
    accumulator, new_accumulator = body.args[-1], combine.results[0]
    is_read_by_combine_only = accumulator in combine.operands and accumulator.uses.get_length() == 1
    return combine if is_read_by_combine_only and new_accumulator.uses.get_length() == 1 else None


def _map_over_parts(map_: AffineMap, loop: int, *, is_split: bool) -> AffineMap:
    """Return an indexing map adapted to the split of `loop` into two loops, over parts and over steps of a part.

    A loop of 1,000 steps becomes loop number `loop` over, say, 8 parts, and `loop + 1` over 125 steps each. The numbers
    of later loops increase by one. With `loop` 0, (d0, d1) -> (d0, d1) becomes (d0, d1, d2) -> (d0, d1, d2), and
    without `is_split` (d0, d1) -> (d1) becomes (d0, d1, d2) -> (d2).

    is_split: whether the operand was reshaped, so that the dimension that `loop` indexes became two, [parts, steps],
    one for each of the new loops. The result of the reduction has no such dimension.
    """
    moved = [AffineExpr.dimension(dim if dim < loop else dim + 1) for dim in range(map_.num_dims)]
    results: list[AffineExpr] = []
    for expr in map_.results:
        if is_split and isinstance(expr, AffineDimExpr) and expr.position == loop:
            results += [AffineExpr.dimension(loop), AffineExpr.dimension(loop + 1)]
        else:
            results.append(expr.replace_dims_and_symbols(moved, []))
    return AffineMap(map_.num_dims + 1, 0, tuple(results))


def _expanded(op: Operation, value: SSAValue, map_: AffineMap, loop: int, parts: int) -> SSAValue:
    """Insert a reshape of an operand before `op` that expands the dimension that `loop` indexes to [parts, steps].

    With 8 parts, [1000, 16] becomes [8, 125, 16]. Return the result, or the operand itself if `loop` indexes none of
    its dimensions.

    parts: number of parts, a divisor of the loop's size.
    """
    shape = list(shape_of(value))
    groups: list[list[int]] = []
    expanded_shape: list[int] = []
    for n, expr in zip(shape, map_.results, strict=False):
        is_split = isinstance(expr, AffineDimExpr) and expr.position == loop
        first_dim = len(expanded_shape)
        expanded_shape += [parts, n // parts] if is_split else [n]
        groups.append(list(range(first_dim, len(expanded_shape))))
    if len(expanded_shape) == len(shape):  # no dimension is split
        return value
    assert isinstance(value.type, TensorType)
    type_ = TensorType(value.type.element_type, expanded_shape)
    return insert_before(tensor.ExpandShapeOp(value, [], reassociation(groups), expanded_shape, type_), op)
