"""Loads that LLVM vectorizes as interleaved groups, such as those of `x[2 * lane]` and `x[2 * lane + 1]`."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith, memref
from xdsl.ir import Block, Operation, OpResult, SSAValue

from pydispatch.compiler.kernel_ir.build import constant_or_value
from pydispatch.ir.op_info import info_of

INTERLEAVED = (2, 3, 4)
"""Strides of loads that LLVM vectorizes as interleaved groups."""


def interleaved_loads(block: Block, stride_of: Callable[[SSAValue], int | None]) -> set[Operation]:
    """Return the loads of a block that read `x[s * lane + k]` for all k below s; LLVM shuffles vectors for them.

    Lanes are the iterations of the loop that run together as elements of vectors. The loads `x[2 * lane]` and `x[2 *
    lane + 1]` have the stride 2 and the offsets 0 and 1: both are returned. Either of them alone is not.

    Args:
        block: Body of a loop.
        stride_of: Returns the difference of an index between a lane and the next; None if it is not a constant.
    """
    # (memref, stride, value numbers of the indices, the last without its offset) -> constant offset -> loads.
    groups: dict[tuple[SSAValue, int, tuple[int, ...]], dict[int, list[Operation]]] = {}
    numbering = _Numbering()
    for op in block.ops:
        if not isinstance(op, memref.LoadOp) or not op.indices:
            continue
        *outer, last = op.indices
        stride = stride_of(last)
        # An outer index of unknown stride, None, counts as uniform: if it is not, the loads are slower, not wrong.
        has_uniform_outer = not any(stride_of(index) for index in outer)
        if stride is not None and stride in INTERLEAVED and has_uniform_outer:
            base, offset = _split_offset(last)
            key = op.memref, stride, tuple(map(numbering.of, (*outer, base)))
            groups.setdefault(key, {}).setdefault(offset, []).append(op)
    # Loads are interleaved if their offsets are as many successive numbers as the stride.
    loads = set[Operation]()
    for (_, stride, _), loads_at in groups.items():
        offsets = sorted(loads_at)
        if offsets == list(range(offsets[0], offsets[0] + stride)):
            loads.update(*loads_at.values())
    return loads


def _split_offset(index: SSAValue) -> tuple[SSAValue, int]:
    """Return (value, constant) whose sum is an index: the operands of an addition of a constant, else (index, 0)."""
    if isinstance(index, OpResult) and isinstance(index.op, arith.AddiOp):
        for value, other in (index.op.operands, reversed(index.op.operands)):
            if isinstance(offset := constant_or_value(other), int):
                return value, offset
    return index, 0


class _Numbering:
    """Table of value numbers: two values have the same number only if they are known to be equal.

    These are equal constants of one type, and the results of equal pure operations whose operands have the same
    numbers, such as two computations of 2 * i.
    """

    def __init__(self) -> None:
        self._numbers: dict[SSAValue, int] = {}  # value -> its number
        self._by_key: dict[object, int] = {}  # key of a value, equal for equal values (`_key`) -> its number

    def of(self, value: SSAValue) -> int:
        """Return the value number of `value`, which it shares with all values that are known to be equal to it."""
        value_number = self._numbers.get(value)
        if value_number is None:
            value_number = self._numbers[value] = self._by_key.setdefault(self._key(value), len(self._by_key))
        return value_number

    def _key(self, value: SSAValue) -> object:
        """Return a key for `_by_key`, equal for equal constants and for results that pure operations compute alike."""
        if isinstance(constant := constant_or_value(value), int):
            return constant, value.type
        # A block argument, and a result that may change, such as a load's, equals only itself.
        if not isinstance(value, OpResult) or not info_of(value.op).is_pure or value.op.regions:
            return value
        op = value.op
        properties = tuple(sorted((name, str(attribute)) for name, attribute in op.properties.items()))
        return op.name, value.type, value.index, tuple(map(self.of, op.operands)), properties
