"""Distribution of the iterations of a parallel loop over invocations.

The invocation of row-major iteration p is p modulo the number of invocations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from pydispatch.compiler.kernel_ir.build import Build, Index, constant_or_value, create, move
from pydispatch.compiler.kernel_ir.readers import operands_of
from pydispatch.compiler.kernel_ir.simt.workgroup import Workgroup
from pydispatch.compiler.kernel_ir.types import bit_width
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.walk import walk

Range = tuple[Index, Index, Index]
"""(lower, upper, step) of a counter; `upper` is exclusive, the step is positive."""

WORD_LIMIT = 1 << 31
"""Number of iterations below which their numbers fit into 31 bits: divisions that compute indices from them then have
32-bit operands."""


def steps(build: Build, range_: Range) -> Index:
    """Return the number of iterations of a range; it may be negative for an empty range, if it is no constant."""
    lower, upper, step = range_
    if type(lower) is int and type(upper) is int and type(step) is int:
        return max(0, -(-(upper - lower) // step))  # rounded up
    # The bounds x and x + 8 have a constant distance even if x is a runtime value.
    distance = _constant_distance(upper, lower)
    extent = build.minus(upper, lower) if distance is None else distance
    if step == 1:
        return extent
    if type(extent) is int and type(step) is int:
        return max(0, -(-extent // step))
    return build.binary(arith.CeilDivSIOp, extent, step)


def _constant_distance(upper: Index, lower: Index) -> int | None:
    """Return `upper - lower` if the upper bound is the sum of the lower one and a constant, else None."""
    op = upper.op if isinstance(upper, OpResult) else None
    if isinstance(op, arith.AddiOp):
        for base, added in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            distance = constant_or_value(added)
            if base is lower and type(distance) is int:
                return distance
    return None


def total_of(build: Build, counts: Sequence[Index]) -> Index:
    """Return the product of iteration counts. It is 0 or less if a count is 0 or less.

    A dynamic count may be negative: then the range is empty. If several counts are dynamic, they are clamped to 0,
    because the product of two negative counts would be positive.
    """
    total: Index = 1
    are_several_dynamic = sum(type(count) is not int for count in counts) > 1
    for count in counts:
        total = build.times(total, build.most(count, 0) if are_several_dynamic else count)
    return total


def indices_of(
    build: Build, bounds: Sequence[Range], counts: Sequence[Index], linear: Index, narrow: bool
) -> list[Index]:
    """Return the loop indices of the iteration with the row-major number `linear`, one for each loop of a nest.

    In a nest over 0..5 and 10..12, number 7 is 3 * 2 + 1: it has the indices 3 and 11.

    Args:
        build: The builder.
        bounds: Range of each loop, outermost first.
        counts: Number of iterations of each loop.
        linear: The number of the iteration.
        narrow: Whether the number fits into 31 bits, so that it is divided as an integer of 32 bits.
    """
    indices: list[Index] = []
    quotient = linear
    loops_with_iterations = [loop for loop, count in enumerate(counts) if count != 1]
    # Innermost loop first: the remainder is its iteration, the quotient the number in the nest of the outer loops.
    for loop in reversed(range(len(bounds))):
        lower, _, step = bounds[loop]
        if loop not in loops_with_iterations:
            indices.insert(0, lower)
            continue
        iteration = quotient
        if loop != loops_with_iterations[0]:  # of the outermost one the quotient is the iteration itself
            quotient, iteration = build.divide(quotient, counts[loop], narrow)
        indices.insert(0, build.plus(lower, build.times(iteration, step)))
    return indices


class Element(Protocol):
    """Function that inserts the iteration of a nest of loops at given indices.

    Unrolled loops have several copies of the body. The last copy may move the operations instead of cloning them.
    """

    def __call__(
        self, build: Build, indices: list[SSAValue], carried: list[SSAValue], /, *, may_move: bool
    ) -> list[SSAValue]:
        """Insert the iteration, and return the new carried values.

        Args:
            build: The builder.
            indices: The counter of each loop, outermost first.
            carried: The carried values before the iteration.
            may_move: Whether this is the last copy of the body, which may move its operations instead of cloning them.
        """


class Body(Protocol):
    """Function that inserts one iteration of a loop, or of a nest of loops that are numbered as one."""

    def __call__(self, build: Build, iteration: Index, carried: list[SSAValue], /, *, may_move: bool) -> list[SSAValue]:
        """Insert iteration number `iteration`, and return the new carried values.

        With `may_move` the operations of the body may be moved instead of cloned: the body is not emitted again.
        """


AT_ONCE = 4
"""Unroll factor: iterations of an invocation that follow each other without a test in between, so that several reads of
memory are in flight at once. It is twice as large if no element has more than 16 bits."""

SMALL = 32
"""Maximum number of operations of a loop body that is unrolled. Code grows by the unroll factor, 4 or 8."""


def unroll_factor(workgroup: Workgroup, block: Block) -> int:
    """Return the unroll factor for the loop body `block`: 1 for a large body, or one with regions or copies."""
    if not workgroup.machine.unrolls:
        return 1
    ops = list(block.ops)
    if len(ops) > SMALL or any(op.regions or op.name == "memref.copy" for op in ops[:-1]):
        return 1
    types = [value.type for op in ops for value in op.operands if isinstance(value.type, MemRefType)]
    has_wide_elements = any(bit_width(type_.element_type) > 16 for type_ in types)
    return AT_ONCE if has_wide_elements else 2 * AT_ONCE  # twice as many loads of half the bytes


def distribute(
    workgroup: Workgroup,
    op: Operation,
    bounds: Sequence[Range],
    carried: Sequence[SSAValue],
    element: Element,
    unroll: int,
) -> list[SSAValue]:
    """Insert the iterations of this invocation before `op`, and return the carried values after them.

    Iterations have row-major numbers: the last dimension varies fastest. Of n invocations, number i runs the iterations
    i, i + n, i + 2n and so on. With 4 invocations and the ranges 0..5 and 0..2, invocation 1 runs the iterations 1, 5
    and 9, which have the indices (0, 1), (2, 1) and (4, 1).

    The carried values are separate in each invocation: the caller combines those of all invocations.

    Args:
        workgroup: The rewriter of the entry point.
        op: The parallel loop or the `memref.copy` that is distributed. The caller removes it afterwards.
        bounds: Range of each dimension, outermost first.
        carried: Initial carried values, which are partial results of a reduction; empty for other loops.
        element: Inserts the iteration at given indices.
        unroll: Number of successive iterations of an invocation without a test in between; 1: no unrolling.
    """
    build = workgroup.build(op)
    counts = [steps(build, range_) for range_ in bounds]  # iterations of each dimension
    total = total_of(build, counts)
    # `narrow`: whether the divisions that compute indices from iteration numbers have 32-bit operands.
    has_few_iterations = type(total) is int and total < WORD_LIMIT
    narrow = workgroup.divides_in_32_bits or (workgroup.machine.divides_in_words and has_few_iterations)

    def numbered(inner: Build, iteration: Index, values: list[SSAValue], *, may_move: bool) -> list[SSAValue]:
        """Insert, by `element`, the iteration with the row-major number `iteration` in the nest of all `bounds`."""
        indices = indices_of(inner, bounds, counts, iteration, narrow)
        return element(inner, [inner.value(index) for index in indices], values, may_move=may_move)

    return _rounds(build, workgroup.invocation(), total, workgroup.invocation_count, unroll, carried, numbered)


def _rounds(
    build: Build,
    own_index: SSAValue,
    total: Index,
    invocations: int,
    unroll: int,
    carried: Sequence[SSAValue],
    body: Body,
) -> list[SSAValue]:
    """Insert `body` for iterations own_index, own_index + invocations, ... below `total`; return the carried values.

    In a round, each of the `invocations` runs one iteration. A main loop, unrolled by the factor `unroll`, runs rounds
    in which all invocations have work; a second loop runs the remaining iterations. Where one round suffices, there is
    no loop. `own_index` is the number of this invocation.

    With 1000 iterations, 64 invocations and an unroll factor of 4, a step of the main loop has 256 iterations, 4 of
    each invocation. Three steps run the iterations 0 to 767; the second loop runs 768 + own_index, 832 + own_index, ...
    """
    # Constant counts: at most one iteration for each invocation, or equally many for all (that loop is not unrolled).
    values = list(carried)
    if type(total) is int and total <= invocations:
        return values if total <= 0 else _at_most_one(build, own_index, total, invocations, values, body)
    if type(total) is int and total % invocations == 0:
        return _whole_rounds(build, own_index, total // invocations, invocations, values, body)
    # The main loop runs the iterations below `start`.
    start = _end_of_unrolled_rounds(build, total, invocations, unroll)
    if start != 0:
        values = _unrolled_rounds(build, own_index, start, invocations, unroll, values, body)
    # The maximum number of iterations of the second loop: invocation 0 has the most.
    most = -(-(total - start) // invocations) if type(total) is int and type(start) is int else None

    def remaining(inner: Build, iteration: SSAValue, values: list[SSAValue]) -> list[SSAValue]:
        """Insert an iteration after the main loop by `body`, which may move its operations: it is the last copy."""
        return body(inner, iteration, values, may_move=True)

    return build.loop(build.plus(start, own_index), total, invocations, values, remaining, most=most)


def _end_of_unrolled_rounds(build: Build, total: Index, invocations: int, unroll: int) -> Index:
    """Return the number of iterations in whole steps of an unrolled loop over rounds; 0 if the loop is not worth it.

    A step has `unroll` rounds. A dynamic `total` is rounded down to whole steps by a mask, which requires a power of
    two; unroll factors are powers of two.
    """
    is_power_of_2 = invocations & (invocations - 1) == 0
    if unroll == 1 or not is_power_of_2:
        return 0
    step = unroll * invocations
    if isinstance(total, int):
        return total // step * step
    return build.binary(arith.AndIOp, build.most(total, 0), -step)  # -step is the mask of the multiples of `step`


def _whole_rounds(
    build: Build, own_index: SSAValue, rounds: int, invocations: int, values: list[SSAValue], body: Body
) -> list[SSAValue]:
    """Insert a loop over `rounds` rounds in which all invocations have work; return the carried values.

    own_index: linear number of the invocation. values: the initial carried values. body: inserts one iteration.
    """

    def one_round(inner: Build, round_: SSAValue, values: list[SSAValue]) -> list[SSAValue]:
        """Insert, by `body`, iteration round_ * invocations + own_index."""
        return body(inner, inner.plus(inner.times(round_, invocations), own_index), values, may_move=True)

    return build.loop(0, rounds, 1, values, one_round)


def _unrolled_rounds(
    build: Build, own_index: SSAValue, end: Index, invocations: int, unroll: int, values: list[SSAValue], body: Body
) -> list[SSAValue]:
    """Insert a loop over the iterations below `end` that this invocation runs, and return the carried values.

    Invocation `own_index` runs the iterations own_index, own_index + invocations and so on, each of which `body`
    inserts. In a round, each invocation runs one iteration. A step of the loop has `unroll` rounds; `end` is a multiple
    of the iterations of a step, unroll * invocations.
    """

    def several_rounds(inner: Build, base: SSAValue, values: list[SSAValue]) -> list[SSAValue]:
        """Insert, by `body`, the iterations first, first + invocations, ... with first = base + own_index.

        There are `unroll` iterations, without a test in between.
        """
        first = inner.plus(base, own_index)
        # Each round clones the operations of the body: `_rounds` needs the original for the remaining iterations.
        for round_ in range(unroll):
            values = body(inner, inner.plus(first, round_ * invocations), values, may_move=False)
        return values

    return build.loop(0, end, unroll * invocations, values, several_rounds)


def _at_most_one(
    build: Build, own_index: SSAValue, total: int, invocations: int, values: list[SSAValue], body: Body
) -> list[SSAValue]:
    """Insert one iteration for each invocation whose number `own_index` is below `total`; return the carried values.

    `total` is at most `invocations`. The body is inserted once, so that it may be moved.
    """
    if total == invocations:
        return body(build, own_index, values, may_move=True)
    condition, block = build.compare("slt", own_index, total), Block()
    inner = build.inside(block)
    inner.end(body(inner, own_index, values, may_move=True))
    otherwise = Region()
    if values:  # an invocation without an iteration keeps them
        otherwise.add_block(Block())
        build.inside(otherwise.blocks[0]).end(values)
    branch = create(scf.IfOp, build.origin.location, (condition,), [value.type for value in values])
    branch.add_region(Region(block))
    branch.add_region(otherwise)
    build.insert(branch)
    return list(branch.results)


def inline_block(block: Block, build: Build, arguments: Sequence[SSAValue], *, may_move: bool) -> list[SSAValue]:
    """Insert the operations of a block without its terminator, and return the operands of the terminator.

    `arguments` are values for the block's arguments. With `may_move`, operations are moved instead of cloned: the block
    is not used afterwards.
    """
    end = block.last_op
    assert end is not None
    if not may_move:  # clone: the arguments are replaced in the copies only
        values: dict[SSAValue, SSAValue] = dict(zip(block.args, arguments, strict=True))
        for op in block.ops:
            if op is not end:
                clone = op.clone(value_mapper=values)
                for new, old in zip(walk(clone), walk(op), strict=True):
                    set_location(new, old)
                build.insert(clone)
        return [values.get(operand, operand) for operand in end.operands]
    for argument, value in zip(block.args, arguments, strict=True):
        argument.replace_all_uses_with(value)
    first = block.first_op
    if first is not None and first is not end:
        move(first, end, build.insert)
    return list(operands_of(end))
