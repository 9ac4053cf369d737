"""Tensor operations that host code runs by itself: views of memory, copies of whole runs of it, and constants."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.analysis.destinations import Mixed, slice_of
from pydispatch.compiler.analysis.sizes import size_of, term_of
from pydispatch.compiler.kernel_ir.words import bit_width

RESHAPES = (
    "tensor.cast", "tensor.expand_shape", "tensor.collapse_shape", "tensor.reshape", "tensor.bitcast",
    "flow.tensor.reshape", "flow.tensor.bitcast",
)  # fmt: skip
"""The same bytes under another type; operand 0 is the tensor."""

FILLS = ("tensor.empty", "tensor.splat")

HOST = (
    *RESHAPES, *FILLS, "arith.constant", "tensor.dim", "tensor.rank", "tensor.extract", "flow.dispatch",
    "hal.tensor.barrier", "hal.tensor.import", "hal.tensor.export", "util.optimization_barrier",
    "flow.tensor.tie_shape", "flow.tensor.transfer", "flow.tensor.constant", "flow.tensor.dynamic_constant",
)  # fmt: skip


def is_contiguous(op: Operation) -> bool:
    """Whether a `tensor.extract_slice` or `tensor.insert_slice` covers one run of the whole tensor's memory.

    So it is when the strides are 1, and of the dimensions that it does not cover from end to end only one has a size
    other than 1, the outermost of them. Of elements that share bytes the run must begin, and for an insertion end,
    where a byte does, in every call.
    """
    whole = op.operands[0] if op.name == "tensor.extract_slice" else op.operands[1]
    part = slice_of(op)
    assert isinstance(whole.type, TensorType)
    if any(_value(s) != 1 for s in part.strides):
        return False
    open_ended = False  # a dimension further in is not covered from end to end
    for axis in reversed(range(len(part.sizes))):
        if open_ended and _value(part.sizes[axis]) != 1:
            return False
        if not _covers(whole, axis, part.offsets, part.sizes):
            open_ended = True
    bits = bit_width(whole.type.element_type)
    per_byte = 8 // bits if bits in (2, 4) else 1
    return per_byte == 1 or not open_ended or _in_bytes(op, whole.type, per_byte)


def _in_bytes(op: Operation, whole: TensorType[Attribute], per_byte: int) -> bool:
    """Whether a run of packed elements is sure to begin, and for an insertion to end, where a byte does."""
    part = slice_of(op)

    def known(number: int | SSAValue) -> int:
        value = _value(number)
        return value if isinstance(value, int) else 1

    step = 1
    for axis in reversed(range(len(part.offsets))):
        if known(part.offsets[axis]) * step % per_byte:
            return False
        step *= max(1, whole.get_shape()[axis])
    return op.name == "tensor.extract_slice" or prod(map(known, part.sizes)) % per_byte == 0


def _value(n: int | SSAValue) -> object:
    return n if isinstance(n, int) else term_of(n)


def _covers(whole: SSAValue, axis: int, offsets: Mixed, sizes: Mixed) -> bool:
    return _value(offsets[axis]) == 0 and _value(sizes[axis]) == size_of(whole, axis)


def is_view(op: Operation) -> bool:
    """Whether the result has the elements of operand 0 in their order, or a run of them."""
    return op.name in RESHAPES or (op.name == "tensor.extract_slice" and is_contiguous(op))


def stays_on_host(op: Operation) -> bool:
    """Whether host code runs the operation itself, when no dispatch has taken it in."""
    if op.name in HOST or is_view(op) or (op.name == "tensor.insert_slice" and is_contiguous(op)):
        return True
    return not any(isinstance(r.type, TensorType) for r in op.results) or not is_tensor_code(op)


def is_tensor_code(op: Operation) -> bool:
    """Whether the operation computes tensors without side effects."""
    return op.name.startswith(("arith.", "math.", "tensor.", "linalg.", "flow.tensor."))
