"""Lowering of elements of `linalg.generic` results, with loops over the reduced dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.dialects.builtin import AnyFloat, IntegerAttr
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.sums import LoopLevel, emit_sum_nest, levels_of
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
        # The loops must compute all elements. With a constant index they would compute only those at index 0.
        for size, expression in zip(shape_of(generic.outputs[index]), map.results, strict=True):
            if size != 1 and not isinstance(expression, AffineDimExpr):
                dimension = "dynamic dimension" if size < 0 else f"dimension of size {size}"
                return f"the map of result {index}, {map}, has index 0 alone for a {dimension}"
    if any(map.num_symbols for map in generic.maps):
        return "its maps have symbols"
    loops_of_results = [dims_in(map) for map in generic.output_maps]
    first_loops = loops_of_results[0] if loops_of_results else set()
    reduces = any(i not in first_loops for i, kind in enumerate(generic.iterators) if kind != "parallel")
    if reduces and any(loops != first_loops for loops in loops_of_results):
        return "it reduces into results with different dimensions"
    return ""


def structured_of(elements: Elements, op: Operation) -> Structured:
    """Return a `linalg.generic` as a structured operation, created once per kernel."""
    generic = elements.cached_for(op, generic_of)
    assert isinstance(generic, Structured)
    return generic


def loop_sizes(elements: Elements, generic: Structured) -> list[Index]:
    """Return the sizes of all loops of a generic, in their order, derived from the sizes of the operands.

    If one operand has a static size for a loop, and another one a dynamic size, the static size is returned.
    """
    sizes: list[Index | None] = [None] * len(generic.iterators)
    for value, map in zip(generic.operands, generic.maps, strict=True):
        if elements.flat is not None and map.results:  # all tensors are accessed as one dimension of `flat` elements
            return [elements.flat] * len(sizes)
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

    The body computes the elements of all results at this point. `Elements.define` records them in `build`, so that
    later calls of `Elements.at` return them without another computation.
    """
    generic = structured_of(elements, value.op)
    if elements.flat is not None:
        return _flat_element(elements, build, generic, value, indices)
    # The index of each loop that is a dimension of the result, by the inverse of the output map; None for other loops.
    point: list[Index | None] = [None] * len(generic.iterators)
    for index, expression in zip(indices, generic.output_maps[value.index].results, strict=True):
        if isinstance(expression, AffineDimExpr):
            point[expression.position] = index
    if generic.is_parallel:
        results = _elements_at(elements, build, generic, point)
    else:
        results = reduce_at(elements, build, generic, point)
    any_index = 0  # for loops that the map of no result reads
    full_point = [any_index if p is None else p for p in point]
    for result, map, element in zip(value.op.results, generic.output_maps, results, strict=True):
        elements.define(build, result, evaluate(build, map, full_point), element)
    return results[value.index]


def _flat_element(
    elements: Elements, build: Builder, generic: Structured, value: OpResult, indices: Sequence[Index]
) -> SSAValue:
    """Do the work of `element_of_generic` where `elements.flat` is set: all loops have the index of the tensors."""
    results = body_at(elements, build, generic, list(indices) * max(1, len(generic.iterators)))
    for result, element in zip(value.op.results, results, strict=True):
        elements.define(build, result, indices, element)
    return results[value.index]


def _elements_at(elements: Elements, build: Builder, generic: Structured, point: list[Index | None]) -> list[SSAValue]:
    """Emit the elements of all results of a generic without reductions at `point`, and return them.

    `point` has the index of each loop. It is None for a loop that the map of the requested result does not read, where
    another result has more dimensions. Such a loop must have the size 1, so that its index is 0.
    """
    if None in point:
        sizes = loop_sizes(elements, generic)
        for dim, index in enumerate(point):
            if index is None and sizes[dim] != 1:
                raise unsupported(generic.op, f"dimension d{dim} is parallel, and a result does not have it")
    return body_at(elements, build, generic, [0 if index is None else index for index in point])


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
    if elements.flat is not None:  # all tensors but those of rank 0 are accessed as one dimension, with the same index
        return elements.at(build, operand, list(point[:1]) if map.results else [])
    indices = evaluate(build, map, point)
    for dim, result in enumerate(map.results):
        if not has_exact_bounds(result):  # such as (d0 + d1) mod 4: whether it is in bounds was not checked before
            indices[dim] = build.clamp(indices[dim], elements.dims(operand)[dim])
    return elements.at(build, operand, indices)


def reassociable(generic: Structured) -> frozenset[Operation]:
    """Return the operations of a body that combine a float accumulator with a new value and may be reassociated.

    In out += x[i], the operation is the addition. The accumulator and the result of the operation must have no other
    uses: these would see partial sums, which depend on the order of the additions.
    """
    terminator = generic.block.last_op
    assert terminator is not None
    ops: list[Operation] = []
    for index, value in enumerate(terminator.operands):
        accumulator = generic.block.args[len(generic.inputs) + index]
        if not isinstance(value, OpResult) or not isinstance(value.type, AnyFloat):
            continue
        if info_of(value.op).grouping is Grouping.FIXED:  # another order has another result, as for subtractions
            continue
        is_only_use = len(list(accumulator.uses)) == 1 and accumulator in value.op.operands
        if is_only_use and len(list(value.uses)) == 1:
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
    outer, inner = generic.reduced_loops[-2:]
    steps = sizes[inner]
    is_short = isinstance(steps, int) and 1 < steps < SHORT_LOOP_STEPS
    if not is_short or sizes[outer] == 1:  # with a size of 1 there is no second loop to merge
        return False
    loops_of_inputs = [
        _loops_of_axes(map)
        for index, map in enumerate(generic.maps[: len(generic.inputs)])
        if generic.block.args[index].uses and {outer, inner} & dims_in(map)
    ]
    are_adjacent = all((outer, inner) in pairwise(loops) for loops in loops_of_inputs)
    return are_adjacent and any(loops[-1] == inner for loops in loops_of_inputs)


def _loops_of_axes(map: AffineMap) -> list[int]:
    """Return the loop that indexes each axis; [] if the index of an axis is computed, such as i + k, or constant."""
    loops = [axis.position for axis in map.results if isinstance(axis, AffineDimExpr)]
    return loops if len(loops) == len(map.results) else []


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
    elements.emitted_reductions.append((generic.op, build))
    # Kernels for GPUs set `distribute`, which lets all invocations of a workgroup compute the reduction if it can.
    distributed = None if elements.distribute is None else elements.distribute(elements, build, generic, point)
    if distributed is not None:
        return distributed
    # A loop that indexes no result is reduced. If its kind is "parallel", it may have only one iteration.
    sizes = loop_sizes(elements, generic)
    for dim in generic.reduced_loops:
        if generic.iterators[dim] == "parallel" and sizes[dim] != 1:
            raise unsupported(generic.op, f"dimension d{dim} is parallel, and no result has it")
    return _sequential_reduction(elements, build, generic, sizes, origin=[0 if p is None else p for p in point])


def initial_values(elements: Elements, build: Builder, generic: Structured, point: Sequence[Index]) -> list[SSAValue]:
    """Emit and return the initial value of each result of a reduction: elements of its outputs.

    `point` has the index of each loop; those of reduced loops are not used.
    """
    return [
        elements.at(build, output, evaluate(build, map, point))
        for output, map in zip(generic.outputs, generic.output_maps, strict=True)
    ]


def _sequential_reduction(
    elements: Elements, build: Builder, generic: Structured, sizes: Sequence[Index], origin: Sequence[Index]
) -> list[SSAValue]:
    """Emit the loops of a reduction and of its companion, if any, and return the results of the reduction.

    A companion is a second reduction that the same loops compute. Its carried values follow those of the first one, and
    its results are stored in `companion.results`.

    Args:
        elements: Tensors of the kernel.
        build: Receives the loops.
        generic: The reduction.
        sizes: Size of each of its loops.
        origin: Index of each loop; 0 for reduced ones.
    """
    own_initial = initial_values(elements, build, generic, origin)
    own_count = len(own_initial)
    companion = elements.take_companion(generic.op)
    loops = _ReductionLoops(
        generic.reduced_loops, tuple(sizes), has_merged_innermost=_merges_innermost_loops(generic, sizes)
    )

    def step(inner: Builder, index_of_loop: Mapping[int, Index], carried: list[SSAValue]) -> list[SSAValue]:
        """Emit one iteration of the reduction and of its companion, and return the next carried values of both.

        The first `own_count` carried values are those of the reduction.
        """
        point = loops.point(inner, origin, index_of_loop)
        new_values = body_at(elements, inner, generic, point, carried[:own_count])
        if companion is None:
            return new_values
        (reduced_loop,) = generic.reduced_loops  # a reduction with a companion has only one
        return [*new_values, *companion.step(inner, point[reduced_loop], carried[own_count:])]

    # One loop for each count. Float sums have loops over blocks of steps, too (`levels_of`), for a smaller rounding
    # error. `is_sum` has no entries for the values of the companion, which are carried without blocks.
    is_sum = are_sums(elements, generic)
    counts = loops.counts(build)
    levels = levels_of(counts) if any(is_sum) else [LoopLevel(loop) for loop in range(len(counts))]
    initial = own_initial if companion is None else [*own_initial, *companion.initial(build)]
    results = emit_sum_nest(build, levels, counts, is_sum, initial, step)
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
            build: Receives the division of a merged loop's index by the size of the inner dimension.
            origin: The index of each dimension that is not reduced; other entries are replaced.
            index_of_loop: Number of a loop, 0 for the outermost one -> its index.
        """
        point = list(origin)
        for loop, index in index_of_loop.items():
            point[self.dims[loop]] = index
        if self.has_merged_innermost:  # index n of the last loop is for the indices n / size and n mod size
            outer, inner = self.dims[-2:]
            last_loop = len(self.dims) - 2
            point[outer], point[inner] = build.divmod(index_of_loop[last_loop], self.sizes[inner])
        return point


def integer_of(op: Operation, name: str) -> int:
    """Return the value of an integer attribute of an operation."""
    attribute = op.properties.get(name, op.attributes.get(name))
    assert isinstance(attribute, IntegerAttr)
    return int(attribute.value.data)


def are_sums(elements: Elements, generic: Structured) -> list[bool]:
    """Return, for each result of a generic, whether it is a sum of floats that may be reassociated."""
    terminator = generic.block.last_op
    assert terminator is not None
    if not elements.reassociate:
        return [False] * len(terminator.operands)
    ops = reassociable(generic)  # of sums, products, ...
    return [isinstance(v, OpResult) and v.op in ops and v.op.name == "arith.addf" for v in terminator.operands]
