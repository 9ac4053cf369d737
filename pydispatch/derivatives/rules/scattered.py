"""Derivatives of scatters: assignments and additions at positions that an array holds."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.derivatives.cotangents import Cotangents, Rule
from pydispatch.graph.dtypes import BOOL, I64
from pydispatch.graph.sizes import product
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects.iree_linalg_ext.indexing import ScatterOp
from pydispatch.operations import elementwise, gathers, reductions, scatters, shapes
from pydispatch.operations.formulas import Element, formula
from pydispatch.programs.trace import Trace


def _scatter(cotangents: Cotangents, op: Operation) -> None:
    """Add the cotangents of the slices and of the tensor x that they are scattered into.

    If slices are added to x, x has the cotangent of the result, and each slice that of the elements it was added to. If
    slices replace elements of x, the cotangent of x is that of the result, with 0 in place of the slices; a slice has
    that of its elements, but 0 if a later slice has replaced it. Slices at positions outside of x are not written, and
    have 0. Raise CompileError for any other combination of elements.

    If the result has the cotangent [a, b, c, d], and three slices of one element are at the positions 2, 2 and 9, the
    cotangents are: for a sum [a, b, c, d] of x and [c, c, 0] of the slices; for a replacement [a, b, 0, d] and
    [0, c, 0].
    """
    assert isinstance(op, ScatterOp)
    trace = cotangents.trace
    slices, x = op.inputs[0], op.outputs[0]
    indices, of_result = cotangents.program_tensor(op.inputs[1]), cotangents.of(op.results[0])
    assert of_result is not None
    depth = indices.shape[-1]  # number of indexed axes of x, which are its first ones; a dynamic one is refused
    # Whether slices are added (`is_sum`) or replace elements (`replaces`); anything else is refused. The body computes
    # the new element of x from that of a slice (`new`) and the one before (`old`).
    new, old = op.body.block.args
    *body, end = op.body.block.ops
    is_sum = len(body) == 1 and body[0].name == "arith.addf" and set(body[0].operands) == {new, old}
    replaces = end.operands[0] is new
    if not (is_sum or replaces) or not isinstance(depth, int):
        raise cotangents.refuse("an assignment that combines elements otherwise than by a sum")

    # The cotangent of x; for each slice the cotangents of the elements at its position, and whether the slice has an
    # effect on these elements (`is_effective`, one bool for each slice).
    of_slices = gathers.take_nd(trace, of_result, indices, batch=0)
    if is_sum:
        cotangents.add(x, of_result)
        is_effective = _is_inside(trace, indices, of_result)
    else:
        zeros = cotangents.zeros(slices)
        of_x = scatters.scatter_leading(trace, of_result, indices, zeros, depth, combine=lambda s, old, new: new)
        cotangents.add(x, of_x)
        is_effective = _is_last(trace, indices, of_result)

    # The cotangents of the slices: those of the elements, or 0 for slices without effect.
    trailing_ones = [1] * (of_slices.rank - is_effective.rank)
    mask = shapes.reshape(trace, is_effective, (*is_effective.shape, *trailing_ones))
    chosen = formula(trace, lambda is_chosen, d: is_chosen.where(d, 0.0), mask, of_slices)
    cotangents.add(slices, shapes.reshape(trace, chosen, cotangents.program_tensor(slices).shape))


def _is_inside(trace: Trace, indices: Tensor, x: Tensor) -> Tensor:
    """Return a tensor of booleans: for each slice, whether its position is within x.

    indices: positions of the slices; the last axis has one index for each leading axis of x, the other axes count the
        slices.
    """

    def is_still_inside(is_inside_so_far: Element, index: Element, size: Element) -> Element:
        """Return whether the indices of a slice along the axes so far, and the one along this axis, are within x."""
        return is_inside_so_far & ~(index < 0) & (index < size)

    inside = shapes.full(trace, value=True, shape=indices.shape[:-1], dtype=BOOL)
    for axis, indices_along in enumerate(gathers.index_columns(trace, indices)):
        size = reductions.size_as(trace, x.shape[axis], indices_along.dtype)
        inside = formula(trace, is_still_inside, inside, indices_along, size)
    return inside


def _is_last(trace: Trace, indices: Tensor, x: Tensor) -> Tensor:
    """Return a tensor of booleans: for each slice, whether the result of the scatter has its elements.

    That is the case if its position is within x and no later slice has the same one. indices: see `_is_inside`.
    """
    slices_shape, depth = indices.shape[:-1], indices.shape[-1]
    assert isinstance(depth, int)
    slice_count = product(slices_shape)
    own_numbers = shapes.reshape(trace, shapes.iota(trace, (slice_count,), axis=0, dtype=I64), slices_shape)
    none = shapes.full(trace, -1, x.shape[:depth], I64)  # -1: no slice has this position
    scattered = shapes.reshape(trace, own_numbers, (*slices_shape, *[1] * depth))
    # Each slice scatters its number, and a later slice replaces an earlier one at its position.
    last = scatters.scatter_leading(trace, none, indices, scattered, depth, combine=lambda s, old, new: new)
    last_at_own_position = gathers.take_nd(trace, last, indices, batch=0)
    return elementwise.compare(trace, "eq", last_at_own_position, own_numbers)


SCATTER_RULES: dict[str, Rule] = {"iree_linalg_ext.scatter": _scatter}
"""Name of an operation → its derivative."""
