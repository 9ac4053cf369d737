"""Lowering of elements of `linalg.generic` results, with loops over the reduced dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat, IntegerAttr
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.sums import LoopLevel, levels_of, nest
from pydispatch.compiler.kernels.ops.tensors import unsupported
from pydispatch.ir.affine_maps import dims_in, has_exact_bounds, is_projection
from pydispatch.ir.op_info import Grouping, info_of
from pydispatch.ir.structured import Structured, structured
from pydispatch.ir.values import shape_of


def generic_of(op: Operation) -> Structured:
    """Return a `linalg.generic` as a structured operation.

    Raises:
        CompileError: Its maps cannot be lowered to loops.
    """
    generic = structured(op)
    if reason := cannot_lower(generic):
        raise unsupported(op, reason)
    return generic


def cannot_lower(generic: Structured) -> str:
    """Return why a generic cannot be lowered to loops; "" if it can."""
    return generic.fact(_problem)


def _problem(generic: Structured) -> str:
    """Return why a generic cannot be lowered to loops; "" if it can. `cannot_lower` caches the result.

    Each dimension of a result must be one loop, except for dimensions of size 1, whose index may be 0: (d0, d1, d2) ->
    (d1, d0) is such a map, (d0, d1) -> (d0 + d1) is not. Maps must have no symbols. The results of a reduction must
    depend on the same loops.
    """
    for index, map in enumerate(generic.output_maps):
        if not is_projection(map):
            return f"the map of result {index}, {map}, is no projected permutation"
        # The loops compute all elements of a result: none keeps its initial value.
        shape = shape_of(generic.outputs[index])
        partial = [n for n, e in zip(shape, map.results, strict=True) if n != 1 and not isinstance(e, AffineDimExpr)]
        if partial:
            dimension = "dynamic dimension" if partial[0] < 0 else f"dimension of size {partial[0]}"
            return f"the map of result {index}, {map}, has index 0 alone for a {dimension}"
    if any(m.num_symbols for m in generic.maps):
        return "its maps have symbols"
    # The loops that each result depends on.
    sets = [dims_in(m) for m in generic.output_maps]
    first = sets[0] if sets else set()
    reduces = any(i not in first for i, kind in enumerate(generic.iterators) if kind != "parallel")
    if any(s != first for s in sets) and reduces:
        return "it reduces into results with different dimensions"
    return ""


def view_of(elements: Elements, op: Operation) -> Structured:
    """Return `generic_of(op)`, which `elements` caches for the time of a kernel."""
    generic = elements.cached_for(op, generic_of)
    assert isinstance(generic, Structured)
    return generic


def loop_sizes(elements: Elements, generic: Structured) -> list[Index]:
    """Return the sizes of all loops of a generic, in their order, derived from the sizes of the operands.

    A static size is preferred if operands have both for the same loop.
    """
    sizes: list[Index | None] = [None] * len(generic.iterators)
    for value, map in zip(generic.operands, generic.maps, strict=True):
        if elements.flat is not None and map.results:
            return [elements.flat] * len(sizes)  # tensors are accessed as one dimension: one loop over all elements
        for position, result in enumerate(map.results):
            if isinstance(result, AffineDimExpr) and not isinstance(sizes[result.position], int):
                sizes[result.position] = elements.dims(value)[position]
    for dim, size in enumerate(sizes):
        if size is None:
            raise unsupported(generic.op, f"no operand has the size of dimension d{dim}")
    return sizes  # type: ignore[return-value]


def element_of_generic(elements: Elements, build: Builder, value: OpResult, indices: Sequence[Index]) -> SSAValue:
    """Emit the computation of the element of `value`, a result of a generic, at `indices`, and return it.

    The output map of the result is inverted to get the index of each parallel loop: the element [3, %j] of a result
    with the map (d0, d1, d2) -> (d1, d0) is computed at d0 = %j, d1 = 3, with a loop over d2, which is reduced.

    The body computes the elements of all results at this point. They are remembered in `build`, so that `Elements.at`
    returns them without another computation.
    """
    generic = view_of(elements, value.op)
    if elements.flat is not None:  # tensors are accessed as one dimension, whose index stands for that of each loop
        results = body_at(elements, build, generic, list(indices) * max(1, len(generic.iterators)))
        for result, element in zip(value.op.results, results, strict=True):
            elements.define(build, result, indices, element)
        return results[value.index]
    # The inverse of the output map: each loop that is a dimension of the result has its index, a reduced loop None.
    point: list[Index | None] = [None] * len(generic.iterators)
    for index, expression in zip(indices, generic.output_maps[value.index].results, strict=True):
        if isinstance(expression, AffineDimExpr):
            point[expression.position] = index
    if generic.is_parallel:
        results = _parallel(elements, build, generic, point)
    else:
        results = reduce_at(elements, build, generic, point)
    # No output map reads a reduced loop, so that any index serves there.
    full = [0 if p is None else p for p in point]
    for result, map, element in zip(value.op.results, generic.output_maps, results, strict=True):
        elements.define(build, result, evaluate(build, map, full), element)
    return results[value.index]


def _parallel(elements: Elements, build: Builder, generic: Structured, point: list[Index | None]) -> list[SSAValue]:
    """Emit the elements of all results of a generic without reductions at `point`, and return them.

    `point` has the index of each loop; None for a loop along which the requested result has no dimension. The size of
    such a loop must be 1.
    """
    if any(p is None for p in point):  # results of different ranks: a dimension of size 1 is known all the same
        sizes = loop_sizes(elements, generic)
        for dim, p in enumerate(point):
            if p is None and sizes[dim] != 1:
                raise unsupported(generic.op, f"dimension d{dim} is parallel, and a result does not have it")
    return body_at(elements, build, generic, [0 if p is None else p for p in point])


def body_at(
    elements: Elements,
    build: Builder,
    generic: Structured,
    point: Sequence[Index],
    carried: Sequence[SSAValue] | None = None,
) -> list[SSAValue]:
    """Emit the body at one point of the iteration space, and return the values that it yields, one for each result.

    Args:
        elements: Tensors of the kernel.
        build: Receives the code.
        generic: The generic.
        point: Index of each loop.
        carried: For a step of a reduction, the accumulator of each result; None to read the output operands at `point`.
    """
    # The value of each argument that the body reads: an accumulator, or an element of an operand.
    mapping: dict[SSAValue, SSAValue] = {}
    for index, argument in enumerate(generic.block.args):
        if not argument.uses:
            continue
        if index >= len(generic.inputs) and carried is not None:
            mapping[argument] = carried[index - len(generic.inputs)]
        else:
            mapping[argument] = _operand(elements, build, generic.operands[index], generic.maps[index], point)
    may_reassociate = carried is not None and elements.reassociate  # only the steps of a reduction
    reassociated = reassociable(generic) if may_reassociate else frozenset[Operation]()
    return clone_block(elements, build, generic.block, mapping, point, reassociable=reassociated)


def _operand(elements: Elements, build: Builder, operand: SSAValue, map: AffineMap, point: Sequence[Index]) -> SSAValue:
    """Emit the read of an operand at a point of the loops, and return it.

    Args:
        elements: Tensors of the kernel.
        build: Receives the code.
        operand: The tensor, or a scalar of the dispatch function.
        map: Indices of the loops -> indices of the operand.
        point: Index of each loop.
    """
    from xdsl.dialects.builtin import TensorType

    if not isinstance(operand.type, TensorType):
        return elements.scalar(operand)
    if elements.flat is not None:  # every tensor has one dimension, and one loop index stands for all of them
        return elements.at(build, operand, list(point[:1]) if map.results else [])
    indices = evaluate(build, map, point)
    for dim, result in enumerate(map.results):
        if not has_exact_bounds(result):  # such as (d0 + d1) mod 4: whether it is in bounds was not checked before
            indices[dim] = build.clamp(indices[dim], elements.dims(operand)[dim])
    return elements.at(build, operand, indices)


def reassociable(generic: Structured) -> frozenset[Operation]:
    """Return the operations of a body that combine an accumulator with a new float, and allow regrouping, as sums do.

    The accumulator and the result of the operation must have no other uses: they would show the order.
    """
    last = generic.block.last_op
    assert last is not None
    ops: list[Operation] = []
    for index, value in enumerate(last.operands):
        argument = generic.block.args[len(generic.inputs) + index]
        if not isinstance(value, OpResult) or not isinstance(value.type, AnyFloat):
            continue
        if info_of(value.op).grouping is Grouping.FIXED:
            continue
        if len(list(argument.uses)) == 1 and argument in value.op.operands and len(list(value.uses)) == 1:
            ops.append(value.op)
    return frozenset(ops)


SHORT_LOOP_STEPS = 512
"""Number of iterations below which an innermost loop is merged with the loop around it: a short loop hardly fills
vectors and unrolled copies of the body. A longer loop gains little."""


def _merges_innermost_loops(generic: Structured, sizes: Sequence[Index]) -> bool:
    """Return whether one loop is to visit the index pairs of the two innermost reduced dimensions.

    The merged loop is longer, and so fills vectors. For out[i] += x[i, j, k] with 16 indices j and 8 indices k, it has
    128 iterations, and iteration n reads x[i, n / 8, n mod 8], which are neighbours in memory.

    The innermost dimension must have fewer than `SHORT_LOOP_STEPS` steps. In each input that depends on either
    dimension, the two must be adjacent axes in this order, and in at least one input they must be the last axes.

    Args:
        generic: The reduction.
        sizes: Size of each loop of the generic.
    """
    if len(generic.reduced_loops) < 2:
        return False
    high, low = generic.reduced_loops[-2:]
    steps = sizes[low]
    is_short = isinstance(steps, int) and 1 < steps < SHORT_LOOP_STEPS
    if not is_short or sizes[high] == 1:  # with a size of 1 there is no second loop to merge
        return False
    is_contiguous = False  # whether an input has the two dimensions as its last axes
    for index, map in enumerate(generic.maps[: len(generic.inputs)]):
        if not generic.block.args[index].uses or not {high, low} & dims_in(map):
            continue
        positions = [r.position if isinstance(r, AffineDimExpr) else -1 for r in map.results]
        windows = [r for r in map.results if not isinstance(r, AffineDimExpr)]  # indices such as i + k
        if windows or high not in positions or positions[positions.index(high) + 1 :][:1] != [low]:
            return False
        is_contiguous = is_contiguous or positions[-1] == low
    return is_contiguous


def reduce_at(elements: Elements, build: Builder, generic: Structured, point: Sequence[Index | None]) -> list[SSAValue]:
    """Emit the loops over the reduced dimensions around the body, and return the results of the reduction.

    For out[i] += x[i, k] at i = %i, with 100 indices k:

        %sum = scf.for %k = 0 to 100 iter_args(%s = out[%i]) { yield %s + x[%i, %k] }

    The loops run in order. Long sums of floats are computed in blocks of up to 4096 elements, whose sums are then added
    up, for a smaller rounding error. If the two innermost loops are merged, one counter runs over both. On GPUs, the
    invocations of a workgroup may share the steps instead (`Elements.distribute`).

    Args:
        elements: Tensors of the kernel.
        build: Receives the loops.
        generic: The reduction.
        point: Index of each loop of the generic; None for reduced ones.

    Raises:
        CompileError: A loop that no result has is parallel, and has several iterations.
    """
    # `distribute`, which kernels for GPUs set, may emit the reduction instead of the loops below.
    elements.emitted_reductions.append((generic.op, build))
    distributed = None if elements.distribute is None else elements.distribute(elements, build, generic, point)
    if distributed is not None:  # computed by all invocations of a workgroup
        return distributed
    # A loop that indexes no result is reduced. If its kind is "parallel", it may have only one iteration.
    sizes = loop_sizes(elements, generic)
    for dim in generic.reduced_loops:
        if generic.iterators[dim] == "parallel" and sizes[dim] != 1:
            raise unsupported(generic.op, f"dimension d{dim} is parallel, and no result has it")
    return _sequential_reduction(elements, build, generic, sizes, origin=[0 if p is None else p for p in point])


def _sequential_reduction(
    elements: Elements, build: Builder, generic: Structured, sizes: Sequence[Index], origin: Sequence[Index]
) -> list[SSAValue]:
    """Emit the loops of a reduction and of its companion, if any, and return the results of the reduction.

    A companion is a second reduction that the same loops compute: its carried values follow those of the first one. Its
    results are stored in it.

    Args:
        elements: Tensors of the kernel.
        build: Receives the loops.
        generic: The reduction.
        sizes: Size of each of its loops.
        origin: Index of each loop; 0 for reduced ones.
    """
    # The initial values: elements of the outputs, whose maps read no reduced loop, so that any index serves there.
    own_initial = [
        elements.at(build, output, evaluate(build, map, origin))
        for output, map in zip(generic.outputs, generic.output_maps, strict=True)
    ]  # fmt: skip
    own_count = len(own_initial)
    companion = elements.take_companion(generic.op)
    loops = _ReductionLoops(
        generic.reduced_loops, tuple(sizes), has_merged_innermost=_merges_innermost_loops(generic, sizes)
    )

    def body(inner: Builder, index_of_loop: Mapping[int, Index], carried: list[SSAValue]) -> list[SSAValue]:
        """Emit one iteration of the reduction and of its companion; return their carried values, in this order."""
        full = loops.point(inner, origin, index_of_loop)
        new_values = body_at(elements, inner, generic, full, carried[:own_count])
        if companion is None:
            return new_values
        outermost = full[generic.reduced_loops[0]]  # a reduction with a companion has only this reduced loop
        return [*new_values, *companion.step(inner, outermost, carried[own_count:])]

    # The loops: blocked for float sums, else one for each count. Float sums of the companion are not blocked.
    summed = are_sums(elements, generic)
    counts = loops.counts(build)
    levels = levels_of(counts) if any(summed) else [LoopLevel(loop) for loop in range(len(counts))]
    initial = own_initial if companion is None else [*own_initial, *companion.initial(build)]
    results = nest(build, levels, counts, summed, initial, body)
    if companion is not None:
        companion.results = results[own_count:]
    return results[:own_count]


@dataclass(frozen=True)
class _ReductionLoops:
    """The loops that are emitted for the reduced dimensions of a generic.

    Attributes:
        dims: The reduced dimensions, outermost first.
        sizes: Size of each dimension of the generic, reduced or not.
        has_merged_innermost: Whether one loop visits the pairs of indices of the last two of `dims`.
    """

    dims: Sequence[int]
    sizes: tuple[Index, ...]
    has_merged_innermost: bool

    def counts(self, build: Builder) -> list[Index]:
        """Return the number of iterations of each loop, outermost first."""
        counts = [self.sizes[dim] for dim in self.dims]
        if self.has_merged_innermost:
            counts[-2:] = [build.times(counts[-2], counts[-1])]
        return counts

    def point(self, build: Builder, origin: Sequence[Index], index_of_loop: Mapping[int, Index]) -> list[Index]:
        """Return the index of each dimension of the generic in an iteration.

        Args:
            build: Receives the division of the index of the loop that two dimensions share, if one is merged.
            origin: The index of each dimension that is not reduced; other entries are replaced.
            index_of_loop: Number of a loop, from the outermost on -> its index.
        """
        point = list(origin)
        for loop, index in index_of_loop.items():
            point[self.dims[loop]] = index
        if self.has_merged_innermost:
            high, low = self.dims[-2:]
            point[high], point[low] = build.divmod(index_of_loop[len(self.dims) - 2], self.sizes[low])
        return point


def integer_of(op: Operation, name: str) -> int:
    """Return the value of an integer attribute of an operation."""
    attribute = op.properties.get(name, op.attributes.get(name))
    assert isinstance(attribute, IntegerAttr)
    return int(attribute.value.data)


def are_sums(elements: Elements, generic: Structured) -> list[bool]:
    """Return, for each result of a generic, whether it is a sum of floats that may be reassociated."""
    last = generic.block.last_op
    assert last is not None
    if not elements.reassociate:
        return [False] * len(last.operands)
    additions = reassociable(generic)
    return [isinstance(v, OpResult) and v.op in additions and v.op.name == "arith.addf" for v in last.operands]
