"""All-reduce within a workgroup: combines the partial results of its invocations, for all of them.

With shuffles, each warp combines its partial results in registers, and stores the result in an array in workgroup
memory, whose elements every invocation combines in order. Without shuffles, all partial results are combined in
workgroup memory by a tree of radix 8. The order of combination depends only on the number of invocations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.kernel_ir.build import Build, Index, create
from pydispatch.compiler.kernel_ir.combiners import combined
from pydispatch.compiler.kernel_ir.hazards import SEVERAL_INVOCATIONS, Accesses, Key
from pydispatch.compiler.kernel_ir.simt.shuffle import DOWN, INDEX, shuffle
from pydispatch.compiler.kernel_ir.simt.workgroup import Workgroup
from pydispatch.compiler.kernel_ir.types import bit_width, is_float
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of

WORKGROUP = IntegerAttr(3, 64)
"""The memory space of workgroup memory."""

RADIX = 8
"""Number of partial results that one invocation combines in a step of the tree."""


def combine_partials(
    workgroup: Workgroup, loop: Operation, ops: list[Operation], values: list[SSAValue]
) -> list[SSAValue]:
    """Insert the combination of the partial results of all invocations before `loop`, and return the results.

    Every invocation has the results. There are three ways:

    - Without shuffles, a tree in workgroup memory.
    - With shuffles (exchanges of registers within a warp), but not whole warps: each invocation reads all partial
      results from workgroup memory.
    - With whole warps: shuffles combine the partial results of each warp. One warp passes its result on by a shuffle,
      several warps combine theirs in workgroup memory.

    Args:
        workgroup: The rewriter of the entry point.
        loop: The reduction.
        ops: For each result, the operation of its reduction that combines two values. Copies of it combine the partial
            results.
        values: For each result, the partial result of this invocation.
    """
    reduction = _AllReduce(workgroup, loop, ops)
    has_shuffles = workgroup.machine.warp > 0
    if not has_shuffles:
        return [reduction.in_tree(index, value) for index, value in enumerate(values)]
    count = workgroup.invocation_count
    lanes = min(workgroup.machine.warp, count)  # lanes of a warp
    # Shuffles halve a warp in each step, so that all its lanes must be there, and their number be a power of two.
    are_warps_whole = count % lanes == 0 and lanes & (lanes - 1) == 0
    if not are_warps_whole:  # an element of each invocation
        return reduction.in_array(values, count=count, position=workgroup.invocation())
    build = workgroup.build(loop)
    warp_results = [_combine_in_warp(build, op, value, lanes) for op, value in zip(ops, values, strict=True)]
    if count == lanes:  # one warp: all lanes read the result of lane 0
        return [shuffle(build, value, mode=INDEX, offset=0, lanes=lanes) for value in warp_results]
    # An element of each warp, which lane 0 writes (`position=None`).
    return reduction.in_array(warp_results, count=count // lanes, position=None)


def _combine_in_warp(build: Build, op: Operation, value: SSAValue, lanes: int) -> SSAValue:
    """Insert shuffles that combine the values of the `lanes` invocations of a warp by copies of `op`.

    `lanes` is a power of two. Return a value that is the result of the warp in lane 0; other lanes have partial ones.
    """
    distance = lanes // 2
    while distance:  # lane i combines its value with lane i + distance
        value = combined(build, op, value, shuffle(build, value, mode=DOWN, offset=distance, lanes=lanes))
        distance //= 2
    return value


@dataclass(frozen=True)
class _AllReduce:
    """Combination of partial results through arrays in workgroup memory.

    Attributes:
        workgroup: The rewriter of the entry point.
        loop: The reduction, before which operations are inserted.
        ops: For each result, the operation that combines two values.
    """

    workgroup: Workgroup
    loop: Operation
    ops: list[Operation]

    def in_array(self, values: list[SSAValue], *, count: int, position: SSAValue | None) -> list[SSAValue]:
        """Insert the combination of `count` partial results of each value, and return the results.

        There is an array for each result. Every invocation combines its elements in order.

        Args:
            values: For each result, the partial result of this invocation, or of its warp.
            count: Elements of an array.
            position: Index of the elements that this invocation writes; None for the number of its warp, whose lane 0
                alone writes.
        """
        workgroup, build = self.workgroup, self.workgroup.build(self.loop)
        arrays = _scratch_arrays(workgroup, values, count)
        keys = self._overwrite(arrays)
        # Each invocation, or lane 0 of each warp, stores its partial results.
        if position is None:
            is_first_of_warp, warp_index = _warp_position(build, workgroup.invocation(), workgroup.machine.warp)
            inner = build.when(is_first_of_warp)
            _store_partials(inner, values, arrays, warp_index)
            inner.end()
        else:
            _store_partials(build, values, arrays, position)
        # After a barrier, every invocation loads and combines all of them.
        workgroup.barrier(build)
        results = [
            _combine_loaded(build, op, [_load_partial(build, array, n, value.type) for n in range(count)])
            for op, value, array in zip(self.ops, values, arrays, strict=True)
        ]
        workgroup.hazards.record(Accesses(reads=keys), by=SEVERAL_INVOCATIONS)
        return results

    def in_tree(self, index: int, value: SSAValue) -> SSAValue:
        """Insert the combination of the partial results of all invocations by a tree of radix `RADIX`; return the
        result.

        The invocations store their partial results in an array of workgroup memory. Each step combines 8 elements into
        one. With 128 invocations, invocation i of the first 16 combines the elements i, i + 16, ..., i + 112, and
        stores the result in element i; then invocations 0 and 1 combine 8 of these 16 each. Every invocation combines
        the 2 elements that remain, so that all have the result.

        Args:
            index: Ordinal of the result; results of different ordinals use different memory.
            value: The partial result of this invocation.
        """
        workgroup, build, op = self.workgroup, self.workgroup.build(self.loop), self.ops[index]
        invocation, count, type_ = workgroup.invocation(), workgroup.invocation_count, value.type
        array = _scratch(workgroup, index, type_, count)
        keys = self._overwrite([array])
        _store_partial(build, value, array, invocation)
        while count > RADIX and count % RADIX == 0:  # the first `count` elements are partial results
            workgroup.barrier(build)
            count //= RADIX
            inner = build.when(build.compare("slt", invocation, count))
            # In this step only invocation i reads and overwrites element i: there is no barrier between the two.
            partials = _Partials(array, type_, invocation, length=RADIX, stride=count)
            _store_partial(inner, _combine_partials(inner, op, partials), array, invocation)
            inner.end()
        workgroup.barrier(build)
        total = _combine_partials(build, op, _Partials(array, type_, first=0, length=count, stride=1))
        workgroup.hazards.record(Accesses(reads=keys), by=SEVERAL_INVOCATIONS)
        return total

    def _overwrite(self, arrays: list[SSAValue]) -> set[Key]:
        """Insert a barrier if the memory of arrays may still be read, and return the keys of their accesses."""
        keys: set[Key] = {array.owner for array in arrays}  # the operation of an allocation is its key
        self.workgroup.write_scratch(self.loop, set(keys))
        return keys


def _store_partials(build: Build, values: Sequence[SSAValue], arrays: Sequence[SSAValue], position: SSAValue) -> None:
    """Insert the stores of the partial results of an invocation, each at `position` of its array."""
    for array, value in zip(arrays, values, strict=True):
        _store_partial(build, value, array, position)


def _combine_loaded(build: Build, op: Operation, partials: Sequence[SSAValue]) -> SSAValue:
    """Insert the combination of loaded partial results, in order, by copies of `op`; return the result."""
    total, *others = partials
    for other in others:
        total = combined(build, op, total, other)
    return total


def _warp_position(build: Build, invocation: SSAValue, warp: int) -> tuple[SSAValue, SSAValue]:
    """Return whether an invocation is the first of its warp, an i1, and the number of its warp.

    `invocation` is the number of the invocation; `warp`, the invocations of a warp, is a power of two.
    """
    first = build.compare("eq", build.binary(arith.AndIOp, invocation, warp - 1), 0)
    return first, build.binary(arith.ShRUIOp, invocation, warp.bit_length() - 1)


class _Partials(NamedTuple):
    """Partial results that one invocation combines: the elements `first`, `first + stride`, ... of an array.

    Attributes:
        array: The array in workgroup memory.
        type: Type of a partial result.
        first: Index of the first partial result.
        length: Number of partial results.
        stride: Distance between the indices of two successive partial results.
    """

    array: SSAValue
    type: Attribute
    first: Index
    length: int
    stride: int


def _combine_partials(build: Build, op: Operation, partials: _Partials) -> SSAValue:
    """Insert the combination of partial results, in order, by copies of the operation `op`; return the result."""
    array, type_, first, length, stride = partials
    total = _load_partial(build, array, first, type_)
    is_small_float = is_float(type_) and bit_width(type_) < 32
    if not is_small_float:
        for part in range(1, length):
            position = build.plus(first, part * stride)
            total = combined(build, op, total, _load_partial(build, array, position, type_))
        return total

    def step(inner: Build, part: SSAValue, carried: list[SSAValue]) -> list[SSAValue]:
        """Combine the carried value with the partial result number `part`, by a copy of `op`."""
        position = inner.plus(first, inner.times(part, stride))
        return [combined(inner, op, carried[0], _load_partial(inner, array, position, type_))]

    # Small floats get a loop, since each combination takes about a hundred instructions.
    return build.loop(1, length, 1, [total], step)[0]


def _scratch_arrays(workgroup: Workgroup, values: Sequence[SSAValue], count: int) -> list[SSAValue]:
    """Return an array in workgroup memory for `count` partial results of the type of each value.

    Reductions use two sets of arrays in turn: two in a row do not share memory, and need no barrier in between.
    """
    workgroup.reductions += 1
    parity = workgroup.reductions % 2
    return [_scratch(workgroup, (index, parity), value.type, count) for index, value in enumerate(values)]


def _scratch(workgroup: Workgroup, key: object, type_: Attribute, count: int) -> SSAValue:
    """Return an array in workgroup memory for `count` partial results, allocated once for each key, count and type.

    Integers that would share bytes or be padded, such as an i1 or an i24, have i32 elements (`_has_odd_width`). `key`
    tells apart arrays that are used at the same time, such as the ordinal of the result.
    """
    element = IntegerType(32) if _has_odd_width(type_) else type_
    scratch_key = (element, count, key)
    if scratch_key not in workgroup.scratch:
        workgroup.scratch[scratch_key] = workgroup.alloc_at_entry(memref.AllocOp([], [], _array_type(element, count)))
    return workgroup.scratch[scratch_key]


@lru_cache(256)
def _array_type(element: Attribute, count: int) -> MemRefType:
    """Return the memref type of an array of `count` elements in workgroup memory; cached, since few are used often."""
    return MemRefType(element, [count], memory_space=WORKGROUP)


def _has_odd_width(type_: Attribute) -> bool:
    """Return whether a type is an integer that would share bytes or be padded in memory, such as an i1 or an i24.

    It is stored as an i32 if it has at most 32 bits; wider ones are refused.
    """
    return isinstance(type_, IntegerType) and type_.width.data not in (8, 16, 32, 64, 128)


def _store_partial(build: Build, value: SSAValue, array: SSAValue, position: SSAValue) -> None:
    """Insert the store of an invocation's partial result at `position` of an array in workgroup memory.

    Raises:
        CompileError: The type cannot be stored there.
    """
    if _has_odd_width(value.type):
        if bit_width(value.type) > 32:
            raise CompileError(f"a reduction of {value.type} cannot be distributed", location_of(build.origin))
        value = build.make(arith.ExtUIOp, (value,), IntegerType(32))
    build.insert(create(memref.StoreOp, build.origin.location, (value, array, position), ()))


def _load_partial(build: Build, array: SSAValue, position: Index, type_: Attribute) -> SSAValue:
    """Insert the load of the partial result at `position` of an array, and return it as `type_`.

    An integer of odd width, such as an i1, is stored as an i32 (`_scratch`), and truncated to its type.
    """
    assert isinstance(array.type, MemRefType)
    value = build.make(memref.LoadOp, (array, build.value(position)), array.type.element_type)
    return build.make(arith.TruncIOp, (value,), type_) if _has_odd_width(type_) else value
