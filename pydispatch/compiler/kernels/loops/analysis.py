"""Analysis of the loop nests of a kernel by trial emission: the code of a nest is emitted once, inspected and
discarded.

A nest has *rows* if its reductions depend on the outer dimensions only. Their loops then run before the inner loops of
the row, and a workgroup computes whole rows.
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.loops.columns import find_column_reductions
from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.loop_nest import LoopNest, RowReduction
from pydispatch.compiler.kernels.loops.row_storage import choose_row_storage
from pydispatch.compiler.kernels.loops.transposition import transposition_of
from pydispatch.compiler.kernels.loops.trial import emit_trial
from pydispatch.compiler.kernels.loops.updates import UpdateStep
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.ir.dialects.pyd.ordered import OrderedOp
from pydispatch.ir.structured import is_reduction


def analyse(frame: Frame, nests: list[LoopNest]) -> list[LoopNest]:
    """Decide how each nest of a kernel is computed: set the fields of the nests, and return the remaining nests.

    A nest is the loops that compute the results of one shape. A trial emits its code into a block that is discarded.

    Set rows, stored values, column reductions and the transposed dimension. Nests of results with one element per row
    are merged into the nest of the rows. Nests keep their order, except that recurrences, which need no analysis, are
    moved to the end.

    Example: a function returns `y[i, j] = x[i, j] - m[i]`, an f32[64, 100], and the row maxima `m`, an f32[64]. In the
    trial of the nest of `y`, the reduction of `m` is emitted inside one of the two loops. So this nest has rows, with
    `outer_rank` 1. The nest of `m` is merged into it: `row_stores` has `m`, and `row_reductions` its reduction.
    """
    recurrences = [nest for nest in nests if isinstance(nest.space, OrderedOp)]
    nests = [nest for nest in nests if not isinstance(nest.space, OrderedOp)]
    for nest in nests:
        _set_rows(frame, nest)
    joined = _join_row_results(frame, nests)
    for nest in joined:
        if nest.by_rows:
            if _set_row_reductions(frame, nest):
                nest.row_storage = choose_row_storage(frame, nest)
        elif not isinstance(nest.space, UpdateStep):
            _set_columns_or_transposition(frame, nest)
    return [*joined, *recurrences]


def _set_rows(frame: Frame, nest: LoopNest) -> None:
    """Set whether a nest has rows, `nest.by_rows`, and how many dimensions count them, `nest.outer_rank`."""
    trial = emit_trial(frame, nest, depth=None)
    # The depth of a builder is its number of enclosing loops. A reduction with fewer than the nest has does not depend
    # on the inner loops: it is one of rows.
    depths = [builder.depth for _, builder in trial.elements.emitted_reductions if builder.depth < len(trial.dims)]
    nest.by_rows = bool(depths)
    # The loops around the innermost of these reductions count the rows. Without rows, only the last loop is inner.
    nest.outer_rank = max(depths) if depths else max(0, len(trial.dims) - 1)


def _set_columns_or_transposition(frame: Frame, nest: LoopNest) -> None:
    """Set the column reductions of a nest without rows, `nest.columns`, or its transposed dimension if it has none."""
    trial = emit_trial(frame, nest, depth=None)
    elements = trial.elements  # which recorded what the nest computes and loads
    if trial.indices:  # a nest over a scalar has none
        nest.columns = find_column_reductions(elements, elements.reduced_elements, trial.indices)
    if not elements.emitted_reductions:
        result_bits = max(bits_of(tensor_type(value).element_type) for value, _ in nest.stores)
        nest.transposition = transposition_of(elements.loads, trial.indices, trial.dims, result_bits)


def _set_row_reductions(frame: Frame, nest: LoopNest) -> bool:
    """Set `nest.row_reductions`, the reductions that run before the inner loops of a row.

    Return False, and set none, if the index of a reduction's result is neither an outer index nor 0.
    """
    trial = emit_trial(frame, nest, depth=nest.outer_rank)
    outer = trial.indices[: nest.outer_rank]
    for value, builder, indices in trial.elements.reduced_elements:
        if builder.depth > nest.outer_rank:
            continue  # it depends on an inner loop, and stays in it
        if any(i not in outer and i != 0 for i in indices):  # a computed index, such as i + 1
            nest.row_reductions.clear()
            return False
        nest_dims = [outer.index(i) if i in outer else -1 for i in indices]  # -1: the index is 0
        nest.row_reductions.append(RowReduction(value, nest_dims))
    return True


def _join_row_results(frame: Frame, nests: list[LoopNest]) -> list[LoopNest]:
    """Merge nests whose results have one element per row into a nest with these rows, and return the remaining nests.

    Row sums of n elements, say, are computed in the loop over rows of a nest over n x m. The reductions of both nests
    then run once per row, and equal ones are emitted once. A nest over n x m that has no rows gets rows: its
    `outer_rank` becomes 1. Its `row_stores` become the row sums.

    Only nests that reduce are merged: the others have no reduction to share. Nests that update a tensor in place are
    not merged, nor are nests with elements of fewer than 8 bits, which iterate over bytes.
    """
    elements = frame.elements
    merged_nests: list[LoopNest] = []
    for nest in sorted(nests, key=lambda n: -len(n.dims(elements))):  # the highest rank first
        # Of several nests with these rows the one of the lowest rank.
        nest_of_rows = next((n for n in reversed(merged_nests) if _has_row_results(elements, nest, of=n)), None)
        if nest_of_rows is None:
            merged_nests.append(nest)
        else:
            nest_of_rows.by_rows, nest_of_rows.outer_rank = True, len(nest.dims(elements))
            nest_of_rows.row_stores += nest.stores
    # The remaining nests, in their original order.
    position = {id(nest): i for i, nest in enumerate(nests)}
    return sorted(merged_nests, key=lambda nest: position[id(nest)])


def _has_row_results(elements: Elements, nest: LoopNest, of: LoopNest) -> bool:
    """Return whether the results of a nest have one element per row of the nest `of`, and it can be merged into it."""
    dims, dims_of_rows = nest.dims(elements), of.dims(elements)
    has_outer_dims = len(dims_of_rows) > len(dims) > 0 and dims_of_rows[: len(dims)] == dims
    has_same_rows = of.outer_rank == len(dims) or not of.by_rows  # a nest without rows gets these
    is_update = isinstance(of.space, UpdateStep) or isinstance(nest.space, UpdateStep)
    if not has_outer_dims or not has_same_rows or is_update:
        return False
    has_whole_bytes = all(bits_of(tensor_type(v).element_type) >= 8 for v, _ in (*nest.stores, *of.stores))
    return has_whole_bytes and any(isinstance(v, OpResult) and _reduces(v) for v, _ in nest.stores)


def _reduces(value: OpResult) -> bool:
    """Return whether a reduction is among the operations that compute a value."""
    pending, visited = [value], set[SSAValue]()
    while pending:
        operand = pending.pop()
        if operand in visited:
            continue
        visited.add(operand)
        if is_reduction(operand.op):
            return True
        pending += [o for o in operand.op.operands if isinstance(o, OpResult) and isinstance(o.type, TensorType)]
    return False
