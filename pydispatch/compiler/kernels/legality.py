"""Legality of fusion: the operations that code generation can put into one dispatch.

A dispatch is a set of loop nests over its results. The elements of an operand are computed where they are used. An
operation may therefore join a dispatch if that repeats no work. There are three such cases:

- elementwise operations over one iteration space;
- reductions, with the operations before them;
- rows: reductions over inner dimensions of one outer space, with the users of their results. A row is the elements that
  a reduction combines to one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from pydispatch.compiler.analysis import reasons
from pydispatch.compiler.analysis.in_place import overwritten_values
from pydispatch.compiler.analysis.kinds import inputs_of
from pydispatch.compiler.kernels.matmul.chain import Chain, chain_of
from pydispatch.compiler.kernels.matmul.legality import judge_contraction
from pydispatch.compiler.kernels.matmul.match import is_contraction
from pydispatch.compiler.kernels.ops.cost import is_expensive
from pydispatch.compiler.kernels.ops.generics import cannot_lower, generic_of
from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.compiler.tensor_ops.rule import Update
from pydispatch.errors import CompileError
from pydispatch.ir.affine_maps import dims_in, is_identity
from pydispatch.ir.dialects.pyd.ordered import OrderedOp
from pydispatch.ir.op_info import Cost, info_of
from pydispatch.ir.structured import GENERIC, Structured, structured

ONE_WORKGROUP = 16384
"""Elements up to which a single workgroup may compute a dispatch alone: a second dispatch would cost more."""


def why_not(group: Sequence[Operation], has_chain_kernel: Callable[[Chain], bool] | None = None) -> str | None:
    """Return why the operations of `group` cannot be one dispatch, as a sentence; None if they can.

    A contraction, such as a matrix product, has rules of its own. Other groups are judged by the rules of loop nests,
    which compute an element of an operand where it is read. So exp(x) + 1 is one dispatch, but exp(x) and a window that
    reads each element of it several times are not.

    Args:
        group: The operations, in topological order.
        has_chain_kernel: Returns whether all targets have a kernel for a chain: two contractions with row-wise
            operations between them (`matmul/chain.py`), such as attention. None if no chain may be one dispatch.
    """
    if has_chain_kernel is not None and (chain := chain_of(group)) is not None and has_chain_kernel(chain):
        return _reason_against_chain(chain)
    # Groups with a contraction, or with an operation that cannot be lowered.
    try:
        generics = {o: generic_of(o) for o in group if o.name == GENERIC}
    except CompileError as error:
        return error.message
    verdict = judge_contraction(group)
    if verdict.has_contraction:
        return verdict.reason
    # Contractions of other forms than `judge_contraction` knows.
    if any(is_contraction(g.op) and _has_data_reuse(g) for g in generics.values()):
        return reasons.UNKNOWN_CONTRACTION if len(group) > 1 else None
    return (
        _reason_against_updates(group)
        or _reason_against_rows(group, generics)
        or _reason_against_recomputation(group, generics)
        or _reason_against_spaces(group, generics)
    )


def _reason_against_chain(chain: Chain) -> str | None:
    """Return why a chain cannot be one dispatch; None if it can.

    It can if the three dispatches that could replace it are legal: the first product, the row-wise operations and the
    second product. Operations that gather rows of a factor by an index tensor are not judged: the kernel does the same
    gathering when it packs the factor.
    """
    parts = ([op for op in part if op not in chain.gathers] for part in chain.parts)
    return next((reason for part in parts if (reason := why_not(part)) is not None), None)


def space_of(op: Operation) -> tuple[int, ...] | None:
    """Return the iteration space of an elementwise operation: its sizes without those of 1, -1 for a dynamic one.

    Return None for another operation. Any set of operations with equal spaces may be one dispatch.
    """
    if len(op.results) != 1 or not isinstance(op.results[0].type, TensorType):
        return None
    if op.name == GENERIC:
        generic = structured(op)
        reads_in_order = all(is_identity(m) for m in generic.maps if m.results)  # a map without results reads a scalar
        if cannot_lower(generic) or not generic.is_parallel or not reads_in_order:
            return None
        captured = inputs_of(op)[len(op.operands) :]  # values from outside that the body reads
        return None if any(isinstance(v.type, TensorType) for v in captured) else _shape(op.results[0])
    rule = rule_of(op)
    if not info_of(op).elementwise or op.regions or _is_free(op):  # a free operation is copied into its readers
        return None
    # A view reads at other indices than it writes, some rules read elements several times, and an update needs the
    # memory of its destination.
    is_plain = rule is None or not (rule.view or rule.rereads or isinstance(rule, Update))
    return _shape(op.results[0]) if is_plain else None


def _has_data_reuse(generic: Structured) -> bool:
    """Return whether two inputs are each indexed by a parallel dimension that the other lacks, as in a matrix product.

    In the sum over k of A[i, k] * B[k, j], B lacks i, and A lacks j. Each element is then used many times, and plain
    loops would reload it.
    """
    input_maps = generic.maps[: len(generic.inputs)]  # without those of the outputs
    maps = [map for map, v in zip(input_maps, generic.inputs, strict=True) if isinstance(v.type, TensorType)]
    parallel_dims = [dims_in(map) & set(generic.out_dims) for map in maps]  # of each input
    return any(first - second and second - first for first in parallel_dims for second in parallel_dims)


def _reason_against_updates(group: Sequence[Operation]) -> str | None:
    """Return why an update in place or a recurrence (`OrderedOp`) prevents one dispatch; None if none does.

    The destination of an update must not be computed in the group, and other operations of the group must not read the
    memory that it overwrites. The results of updates and recurrences must not be read in the group.
    """
    members = set(group)
    read = {value for op in group for value in inputs_of(op)}
    for op in group:
        rule = rule_of(op)
        if isinstance(rule, Update) and _producer(op.operands[rule.destination], members) is not None:
            return reasons.DESTINATION.format(op.name)
        if isinstance(rule, Update) and _is_overwritten_value_read(op, group):
            return reasons.OVERWRITTEN.format(op.name)
        if not isinstance(rule, Update) and not isinstance(op, OrderedOp):
            continue
        if any(result in read for result in op.results):
            return (reasons.WRITTEN if isinstance(rule, Update) else reasons.ORDERED).format(op.name)
    return None


def _is_overwritten_value_read(update: Operation, group: Sequence[Operation]) -> bool:
    """Return whether another operation of the group reads a value whose memory an update of its barrier overwrites.

    Here, an update of %b overwrites the memory of %a, which the barrier shares:

        %b = util.optimization_barrier %a
        %c = update of %b
        %d = other operation on %a

    Readers of %b are checked elsewhere.
    """
    barrier_operands = [value for value in overwritten_values(update) if value not in update.operands]
    return any(value in inputs_of(op) for value in barrier_operands for op in group if op is not update)


def _producer(value: SSAValue, members: Set[Operation]) -> Operation | None:
    """Return the operation of the group `members` that computes a value, looking through views.

    Return None if there is none, or if it is free to duplicate.
    """
    while isinstance(value, OpResult) and value.op in members:
        if _is_free(value.op):
            return None
        if not _is_view(value.op):
            return value.op
        value = value.op.operands[0]
    return None


def _is_update(op: Operation) -> bool:
    """Return whether an operation updates an operand in place, such as an insertion of a slice."""
    return isinstance(rule_of(op), Update)


def _is_view(op: Operation) -> bool:
    """Return whether the result of an operation is a view of its first operand, such as a reshape."""
    rule = rule_of(op)
    return rule is not None and rule.view


def _is_free(op: Operation) -> bool:
    """Return whether an operation costs nothing to duplicate, such as a constant."""
    return info_of(op).cost is Cost.FREE


def _shape(value: SSAValue) -> tuple[int, ...]:
    """Return the sizes of a tensor without those of 1; -1 for a dynamic size."""
    assert isinstance(value.type, TensorType)
    return tuple(-1 if n < 0 else n for n in value.type.get_shape() if n != 1)


def _reason_against_rows(group: Sequence[Operation], generics: dict[Operation, Structured]) -> str | None:
    """Return why reductions prevent one dispatch; None if they do not.

    A row is the elements that a reduction combines to one: the row sums s of x, an f32[64, 100], have 64 rows. All
    reductions must have the same rows, and users of their results must read one value in each row: x[i, j] / s[i] may
    join the sums, s[j] * s[i] may not. `generics` has the operations of the group that are a `linalg.generic`.
    """
    # All reductions must have results of one shape: that of the rows.
    reductions = [g for g in generics.values() if g.reduced_loops]
    spaces = {_shape(g.op.results[0]) for g in reductions}
    if len(spaces) > 1:
        shown = " and ".join(sorted(_spell(s) for s in spaces))
        return reasons.different_rows(shown)
    if not reductions:
        return None
    # Check each operand with one value per row: a reduction's result, or that of an operation of equal shape on it.
    members = set(group)
    producers_of_row_values = _producers_of_row_values(group, reductions)
    for op in group:
        for index, value in enumerate(op.operands):
            producer = _producer(value, members) if isinstance(value.type, TensorType) else None
            if producer not in producers_of_row_values:
                continue
            is_view = isinstance(value, OpResult) and value.op is not producer  # `_producer` looks through views
            reason = _reason_not_one_value_per_row(op, index, generics.get(op), value, is_view)
            if reason:
                return reason
    return None


def _producers_of_row_values(group: Sequence[Operation], reductions: Sequence[Structured]) -> set[Operation]:
    """Return the reductions, and the operations of the group on their results that compute one value for each row."""
    members = set(group)
    producers = {g.op for g in reductions}
    row_shapes = {_shape(op.results[0]) for op in producers}  # the shape of a tensor with one element for each row
    for op in group:  # in topological order: producers before their users
        returns_tensor = bool(op.results) and isinstance(op.results[0].type, TensorType)
        has_element_per_row = returns_tensor and _shape(op.results[0]) in row_shapes
        if has_element_per_row and any(_producer(v, members) in producers for v in op.operands):
            producers.add(op)
    return producers


def _reason_not_one_value_per_row(
    op: Operation, index: int, generic: Structured | None, value: SSAValue, is_view: bool
) -> str | None:
    """Return why `op` does not read one value of an operand in each of its rows; None if it does.

    The operand has one value for each row of a reduction. The outermost parallel loops of `op` must index it: a
    workgroup that computes whole rows then needs only the values of its own rows. With row sums s and loops (i, j),
    s[i] is allowed, s[j] is not (`INNER`), nor is s[i + j] (`WINDOW_OF_ROWS`), nor a sum over i of s[i]
    (`REDUCED_AGAIN`).

    Args:
        op: The reader of the operand.
        index: Position of the operand.
        generic: `op` as a structured operation; None if it is none.
        value: The operand, with one element for each row.
        is_view: Whether the operand is a view of the reduction's result.
    """
    if _is_view(op) or _is_free(op):  # computed in its readers, which are judged instead
        return None
    # Elementwise operations and updates read an element at the indices of the element that they compute.
    if generic is None:
        if info_of(op).elementwise or _is_update(op):
            return None
        return reasons.NO_ROW.format(op.name)
    map = generic.maps[index]
    if not _is_projection(map):
        return reasons.RESHAPED_ROWS if is_view else reasons.WINDOW_OF_ROWS
    return _reason_against_row_loops(generic, map, value)


def _reason_against_row_loops(generic: Structured, map: AffineMap, value: SSAValue) -> str | None:
    """Return why the loops that index an operand with one value per row are not the outermost; None if they are.

    `map` has a loop, or a constant, for each axis of the operand `value`.
    """
    indexing_dims = [e.position for e in map.results if isinstance(e, AffineDimExpr)]
    # The loops that index the operand, each with the size of its axis. Those of an axis of size 1 number no rows.
    extents = dict(zip(indexing_dims, _extents(value, map), strict=True))
    row_dims = [d for d in indexing_dims if extents[d] != 1]
    if generic.reduced_loops and any(d in generic.reduced_loops for d in row_dims):
        return reasons.REDUCED_AGAIN
    parallel_dims = [d for d in range(len(generic.iterators)) if d not in generic.reduced_loops]
    # Without row dimensions, all elements of `op` read a single value. If there were several workgroups, each of them
    # would compute the value again.
    if not row_dims:
        has_rows = any(d not in extents or extents[d] != 1 for d in parallel_dims)
        sizes = [-1 if n is None else n for n in generic.extents if n != 1]
        return reasons.ONE_ROW if has_rows and not _fits_one_workgroup(value, sizes) else None
    return None if _rows_are_outermost(row_dims, parallel_dims, extents) else reasons.INNER


def _rows_are_outermost(row_dims: Sequence[int], parallel_dims: Sequence[int], extents: Mapping[int, int]) -> bool:
    """Return whether the dimensions that number rows are the first parallel ones, in order.

    A workgroup then computes whole rows. Dimensions that index an axis of size 1 of the operand may be in between. For
    parallel dimensions (0, 1, 2), the row dimensions (0, 1) are outermost, (1, 0) and (1, 2) are not, and (0, 2) are
    only if dimension 1 indexes an axis of size 1.

    Args:
        row_dims: Dimensions that index the operand, in the order of its axes.
        parallel_dims: All parallel dimensions of the reader.
        extents: Dimension that indexes an axis of the operand -> size of the axis.
    """
    outer_dims = parallel_dims[: parallel_dims.index(row_dims[-1]) + 1]
    are_in_order = list(row_dims) == [d for d in parallel_dims if d in row_dims]
    return are_in_order and all(d in extents for d in outer_dims)


def _fits_one_workgroup(value: SSAValue, sizes: Sequence[int]) -> bool:
    """Return whether a reduction to a single value may be in one dispatch with elements that read the value.

    One workgroup then does all the work, so that the dispatch may have at most `ONE_WORKGROUP` elements. There is no
    such limit if the value has a row dimension, such as a batch, that happens to have size 1.

    Args:
        value: The result of the reduction, with one element.
        sizes: Sizes of the dispatch; -1 if dynamic.
    """
    assert isinstance(value.type, TensorType)
    has_row_dimension = value.type.get_num_dims() > 0
    is_static = all(size >= 0 for size in sizes)
    return has_row_dimension or (is_static and prod(sizes) <= ONE_WORKGROUP)


def _is_projection(map: AffineMap) -> bool:
    """Return whether each result of a map is a dimension or a constant."""
    return all(isinstance(e, AffineDimExpr | AffineConstantExpr) for e in map.results)


def _extents(value: SSAValue, map: AffineMap) -> list[int]:
    """Return the sizes of the axes of a value that `map` indexes by a dimension; -1 if dynamic.

    For f32[8, 1, 16] and (d0, d1) -> (d0, 0, d1) they are [8, 16].
    """
    assert isinstance(value.type, TensorType)
    shape = value.type.get_shape()
    return [n for n, e in zip(shape, map.results, strict=True) if isinstance(e, AffineDimExpr)]


def _reason_against_recomputation(group: Sequence[Operation], generics: dict[Operation, Structured]) -> str | None:
    """Return why one dispatch would compute an expensive element repeatedly; None if it would not.

    An operand is computed where it is read, so that y[i, j] = x[i, j] + exp(v[j]) would compute each exp(v[j]) for
    every i. In y[i, j] = x[i, j] + exp(v[i]), each exp(v[i]) is computed once, before the loop over j. `generics` has
    the `linalg.generic` operations of the group.
    """
    members = set(group)

    def is_computed_at_cost(value: SSAValue, reader: Operation) -> bool:
        """Return whether another, expensive operation of the group computes an operand, and is no reduction."""
        producer = _producer(value, members) if isinstance(value.type, TensorType) else None
        if producer is None or producer is reader or not is_expensive(producer):
            return False
        # `_reason_against_rows` has checked the readers of reductions.
        return producer not in generics or not generics[producer].reduced_loops

    for op in group:
        if _is_view(op) or _is_free(op):
            continue
        rule = rule_of(op)
        costly_operands = [index for index, value in enumerate(op.operands) if is_computed_at_cost(value, op)]
        if costly_operands and rule is not None and rule.rereads:
            return reasons.REREAD.format(op.name)
        # Other operations than generics read each element once.
        for index in costly_operands if op in generics else ():
            if reason := _reason_repeatedly_read(generics[op], index):
                return reason
    return None


def _reason_repeatedly_read(generic: Structured, index: int) -> str | None:
    """Return why elements of operand `index` of a generic would be computed repeatedly; None if they would not."""
    map = generic.maps[index]
    if not _is_projection(map):
        return reasons.WINDOWS
    indexing_loops = dims_in(map)
    if _are_outermost(indexing_loops, generic.extents):  # loop-invariant: each element is computed once per row
        return None
    # Each iteration of a loop that does not index the operand computes the element again.
    other_extents = [extent for loop, extent in enumerate(generic.extents) if loop not in indexing_loops]
    return reasons.BROADCAST if any(extent != 1 for extent in other_extents) else None


def _are_outermost(dims: Set[int], extents: Sequence[int | None]) -> bool:
    """Return whether the loops `dims` are the outermost ones of a nest, not counting loops of one iteration.

    With `extents` (8, 1, 100), the loops {0}, {0, 1} and {0, 2} are outermost, {2} is not. `extents` has the number of
    iterations of each loop, outermost first; None if dynamic.
    """
    loops = [d for d, extent in enumerate(extents) if extent != 1]
    outermost = loops[: sum(d in dims for d in loops)]  # as many loops as are in `dims`
    return all(d in dims for d in outermost)


def _reason_against_spaces(group: Sequence[Operation], generics: dict[Operation, Structured]) -> str | None:
    """Return why the results of the group do not share one iteration space or its rows; None if they do.

    f32[64, 100] and its row sums, f32[64], may be results of one dispatch: a workgroup computes rows of both. Results
    f32[64, 100] and f32[32, 200] may not (`different_sizes`), nor f32[64, 100] and its column sums, f32[100]
    (`other_rows`). Results that operations of the group read are not compared. `generics` has the `linalg.generic`
    operations of the group.
    """
    # Free operations and views are part of their readers; an update is a nest of its own.
    members = set(group)
    stored_ops = [op for op in group if not (_is_free(op) or _is_view(op) or _is_update(op))]
    shapes = {
        _shape(result)
        for op in stored_ops
        for result in op.results
        if isinstance(result.type, TensorType) and all(use.operation not in members for use in result.uses)
    }
    # The shape of reductions, with one element for each row: `_reason_against_rows` has checked that all reductions
    # have one shape. `full_spaces` are the shapes of results that have the inner dimensions, too.
    row_spaces = {_shape(g.op.results[0]) for g in generics.values() if g.reduced_loops}
    full_spaces = {s for s in shapes if s not in row_spaces}
    if len(full_spaces) > 1:
        return reasons.different_sizes(" and ".join(sorted(_spell(s) for s in full_spaces)))
    for space in full_spaces:
        for rows in row_spaces:
            if space[: len(rows)] != rows:
                return reasons.other_rows(_spell(rows), _spell(space))
    return None


def _spell(shape: tuple[int, ...]) -> str:
    """Return a shape as messages show it: (2, -1) is "2x?"."""
    return "x".join("?" if n < 0 else str(n) for n in shape) or "one element"
