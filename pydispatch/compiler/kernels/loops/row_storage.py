"""Storage of values of a row that several of its loops read: the first of these loops stores them.

They are stored in workgroup memory if the row is known to fit, else in the row of a result of the same type that is
written later.
"""

from __future__ import annotations

from math import prod

from xdsl.ir import Attribute, OpResult, SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.loop_nest import LoopNest
from pydispatch.compiler.kernels.loops.trial import Trial, emit_trial
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.cost import is_costly
from pydispatch.compiler.kernels.ops.elements import IndexMap, RowBuffer
from pydispatch.compiler.kernels.ops.tensors import covers, tensor_type

BYTE_BITS = 8
"""Bits of a byte."""


def choose_row_storage(frame: Frame, nest: LoopNest) -> dict[SSAValue, SSAValue | None]:
    """Choose the values of a row that are stored for its later loops, and where; return `LoopNest.row_storage`.

    Candidates are values whose first loop is a reduction that covers the whole row. A result is stored in its own row.
    An expensive value that several loops read is stored in workgroup memory if the row is known to fit, else in the row
    of a result of the same type that the innermost loop alone writes, and in which no value is stored yet. The
    innermost loop overwrites it element by element, so it may read it at the indices of the result only.

    Example: in a softmax, the loop of the sum computes `e = exp(x - maximum)`, and the loop of the result `r = e / sum`
    reads it again. The storage is `{e: None}`, workgroup memory, for rows of up to `Backend.row_bytes`; else `{e: r}`.
    """
    trial = emit_trial(frame, nest, depth=nest.outer_rank)  # the code of the nest as it will be computed
    innermost_loop = trial.levels[-1]  # stores the results; the other builders belong to reductions
    loops = {v: builders for v, builders in _loops_over_row(trial, nest).items() if builders[0] is not innermost_loop}
    results = [value for value, _ in nest.stores]
    free_results = [v for v in results if v not in loops]  # in whose rows no value is stored yet
    row_elements = _static_size(trial.dims[nest.outer_rank :])
    storage: dict[SSAValue, SSAValue | None] = {}
    for value, builders in loops.items():
        bits = bits_of(_element(value))
        if value in results:
            storage[value] = value  # in its own row of the result
        elif len(builders) == 1 or not is_costly(value) or bits < BYTE_BITS:
            continue  # each loop computes it; rows of elements of less than a byte would share bytes
        elif row_elements is not None and row_elements * bits // BYTE_BITS <= frame.backend.row_bytes:
            storage[value] = None  # in workgroup memory
        else:  # in the row of another result, which is written later
            fitting = next((v for v in free_results if _element(v) == _element(value)), None)
            if fitting is not None and _is_read_in_place(trial, value):
                storage[value] = fitting
                free_results.remove(fitting)
    return storage


def _static_size(dims: list[Index]) -> int | None:
    """Return the product of the sizes; None if one of them is dynamic."""
    static_dims = [size for size in dims if isinstance(size, int)]
    return prod(static_dims) if len(static_dims) == len(dims) else None


def _loops_over_row(trial: Trial, nest: LoopNest) -> dict[OpResult, list[Builder]]:
    """Return, for each value that loops of a trial compute for a whole row, the bodies of these loops in order.

    A trial is an emission of the nest that is only analyzed, and then discarded.
    """
    row = trial.indices[: nest.outer_rank]
    bodies: dict[OpResult, list[Builder]] = {}
    for value, builder, indices in trial.elements.computed_elements:
        has_rank_of_nest = len(indices) == len(trial.dims)
        is_in_loop_over_row = builder.depth > nest.outer_rank
        if not isinstance(value, OpResult) or not has_rank_of_nest or not is_in_loop_over_row:
            continue
        if covers(builder, row, indices, trial.dims):  # the loops of the builder visit all elements of the row
            bodies.setdefault(value, []).append(builder)
    return bodies


def _is_read_in_place(trial: Trial, value: SSAValue) -> bool:
    """Return whether the innermost loop of a nest reads a value only at the indices of the elements that it stores.

    The value may then be stored where this loop stores a result: each element is read before it is overwritten. Return
    False, too, if an element of the value is computed between the loops of the nest: the innermost loop might load it
    after it has stored another element there. `trial` is an emission of the nest that is only analyzed.
    """
    innermost_loop = trial.levels[-1]
    for computed, builder, indices in trial.elements.computed_elements:
        if computed is not value:
            continue
        is_in_innermost_loop = innermost_loop in builder.chain()
        is_between_loops = not is_in_innermost_loop and builder in trial.levels
        is_at_other_indices = is_in_innermost_loop and list(indices) != trial.indices
        if is_between_loops or is_at_other_indices:
            return False
    return True


def _element(value: SSAValue) -> Attribute:
    """Return the element type of a tensor."""
    return tensor_type(value).element_type


def allocate_rows(frame: Frame, nest: LoopNest) -> None:
    """Allocate the memory of the values that each row of a nest stores for its later loops, and register it."""
    elements = frame.elements
    dims = nest.dims(elements)
    buffers = dict(nest.stores)
    elements.forget_rows()
    for value, result in nest.row_storage.items():
        if result is not None:  # the buffer of a result has the indices of the value
            elements.row_buffers[value] = RowBuffer(buffers[result], index_map=None, dims=dims)
            continue
        row_dims = dims[nest.outer_rank :]
        size = _static_size(row_dims)
        assert size is not None  # `choose_row_storage` stores dynamic rows in results
        row = elements.fresh(_element(value), size)
        elements.row_buffers[value] = RowBuffer(row, index_map=_offset_in_row(nest.outer_rank, row_dims), dims=dims)


def _offset_in_row(outer_rank: int, row_dims: list[Index]) -> IndexMap:
    """Return the map from indices of a nest to the row-major offset within a row.

    `row_dims` has the sizes of the dimensions of a row, all but the first `outer_rank` ones.
    """
    return lambda build, indices: [build.linear_index(indices[outer_rank:], row_dims)]
