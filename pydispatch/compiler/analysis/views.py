"""Contiguity of slices: slices that cover one contiguous range of memory, or a few."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.analysis.destinations import Mixed, slice_of
from pydispatch.compiler.analysis.sizes import size_of, term_of
from pydispatch.compiler.kernel_ir.words import bit_width

MOST_RUNS = 16
"""Maximum number of contiguous runs of memory in which an insertion into a global is copied. The runtime saves the runs
that it overwrites, to restore them if the call fails, and supports no more of them (procedure/function.c)."""


def is_contiguous(op: Operation, walked: int = 0) -> bool:
    """Return whether a `tensor.extract_slice` or `tensor.insert_slice` covers one run of the whole tensor's memory.

    The whole tensor is the source of an extraction, or the destination of an insertion. A slice is one run if its
    strides are 1, and every dimension outside the innermost partly covered one has size 1. Of a tensor of 4x8x16:

    - the slice 1x3x16 is one run: 3 adjacent rows
    - the slice 2x3x16 is two runs, one for each index of dimension 0: contiguous only with `walked` = 1

    Packed elements, those of 2 or 4 bits, share bytes. A run of them must also begin, and for an insertion end, at a
    byte boundary in every call.

    Args:
        op: The slice operation.
        walked: Number of outermost dimensions that a caller loops over: the result is then whether the slice covers one
            run for each index of these dimensions. It is False for packed elements.
    """
    whole_tensor = op.operands[0] if op.name == "tensor.extract_slice" else op.operands[1]
    covered = slice_of(op)
    assert isinstance(whole_tensor.type, TensorType)
    if any(_known_or_term(s) != 1 for s in covered.strides):
        return False
    axes = range(walked, len(covered.sizes))
    partial_axes = [axis for axis in axes if not _covers(whole_tensor, axis, covered.offsets, covered.sizes)]
    outer_axes = range(walked, partial_axes[-1]) if partial_axes else ()
    if any(_known_or_term(covered.sizes[axis]) != 1 for axis in outer_axes):
        return False
    bits = bit_width(whole_tensor.type.element_type)
    elements_per_byte = 8 // bits if bits in (2, 4) else 1  # an i1 has a byte of its own
    if elements_per_byte == 1:
        return True
    if walked:  # where each run of packed elements begins is not examined: they are refused
        return False
    # Without a partly covered dimension, the slice is the whole tensor, which begins and ends with a byte.
    return not partial_axes or _in_bytes(op, whole_tensor.type, elements_per_byte)


def walked_axes(op: Operation) -> int | None:
    """Return how many outer dimensions the host loops over to copy an insertion; None if the host does not copy it.

    The host copies a `tensor.insert_slice` as contiguous runs of the destination's memory, without a kernel, if

    - the slice is one run: the result is 0
    - the slice is at most MOST_RUNS runs, and the destination is the value of a global. The slice x[:, 2:4] of a 3x8
      tensor is 3 runs, one for each index of dimension 0: the result is 1

    Other insertions are dispatches. For a global, a dispatch would write the whole tensor.
    """
    if is_contiguous(op):
        return 0
    destination = op.operands[1]
    while isinstance(destination.owner, Operation) and destination.owner.name == "tensor.insert_slice":
        destination = destination.owner.operands[1]  # of an earlier insertion into the same tensor
    if not isinstance(destination.owner, Operation) or destination.owner.name != "util.global.load":
        return None
    runs = 1
    for walked, size in enumerate(slice_of(op).sizes, 1):
        known = _known_or_term(size)
        runs *= known if isinstance(known, int) else MOST_RUNS + 1  # a dynamic size has no maximum
        if runs > MOST_RUNS:
            return None
        if is_contiguous(op, walked):
            return walked
    return None


def _in_bytes(op: Operation, whole: TensorType[Attribute], per_byte: int) -> bool:
    """Return whether a run of packed elements is sure to begin, and for an insertion to end, at a byte boundary.

    Packed elements share bytes: a byte holds 2 of i4. The element [i, j] of a 4x6 tensor is number i * 6 + j in memory.
    A slice of i4 with the offsets [1, 2] therefore begins at number 8, a byte boundary, and one with the offsets [1, 3]
    at number 9, in the middle of a byte. The result is True only if each term of the sum is a multiple of `per_byte`.

    Args:
        op: The slice operation.
        whole: Type of the tensor that is sliced, or inserted into.
        per_byte: Number of elements that a byte holds.
    """
    covered = slice_of(op)

    def known(size: int | SSAValue) -> int:
        """Return a constant size or offset; for a dynamic one 1, since it may be no multiple of `per_byte`."""
        value = _known_or_term(size)
        return value if isinstance(value, int) else 1

    step = 1  # distance in memory, in elements, of neighbours along the axis, or a factor of it
    for axis in reversed(range(len(covered.offsets))):
        if known(covered.offsets[axis]) * step % per_byte:
            return False
        size = whole.get_shape()[axis]
        step *= max(1, size)  # a dynamic size may be any number: it adds no factor that is sure to divide
    # Bits after the end of a run are only at risk where the run is written.
    is_read_only = op.name == "tensor.extract_slice"
    return is_read_only or prod(map(known, covered.sizes)) % per_byte == 0


def _known_or_term(n: int | SSAValue) -> object:
    """Return a constant offset, size or stride as an integer, and a dynamic one as a term."""
    return n if isinstance(n, int) else term_of(n)


def _covers(whole: SSAValue, axis: int, offsets: Mixed, sizes: Mixed) -> bool:
    """Return whether a slice is known to cover an axis of the whole tensor from end to end."""
    return _known_or_term(offsets[axis]) == 0 and _known_or_term(sizes[axis]) == size_of(whole, axis)
