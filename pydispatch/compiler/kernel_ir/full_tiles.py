"""Loop versioning on CPUs: a loop over the elements of a tile gets a version for tiles that lie inside of their arrays.

    parallel (i, j) in (0..8, 0..32) { if start + j <u n { y[i, start + j] = x[i, start + j] } }

is vectorized with masks, which are computed by comparisons of 64-bit indices for each vector. It becomes

    if start <=u start + 31 and start + 31 <u n { the loop without comparisons } else { the loop as it was }

Comparisons of rows are left out, too: where they remain, LLVM does not vectorize conversions from 8-bit
floats. Causal attention takes 0.77 to 0.83 of the time (examples/python_kernels/flash_attention.py), a product of
scaled 8-bit floats 0.3 (AMD EPYC Zen 4).

Loops that only copy rows whose numbers are loaded get no version. They wait for memory, and with the loads and stores
of whole vectors a gather of rows takes 1.6 times as long as with those under masks (AMD EPYC Zen 4).
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import BoolAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue

from pydispatch.compiler.kernel_ir.bounds import counts_from_0_by_1
from pydispatch.compiler.kernel_ir.build import Build, Entry, Index, constant_or_value
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES
from pydispatch.compiler.kernel_ir.types import is_float
from pydispatch.ir.core.walk import is_defined_outside, walk

MOST_OPERATIONS = 64
"""Maximum number of operations in the body of a loop that gets a second version; more would lengthen the code."""

FEWEST_COLUMNS = 16
"""Minimum iterations along the last axis of a loop that gets a second version: fewer do not fill a vector."""

Comparison = tuple[arith.CmpiOp, SSAValue, int]
"""(comparison, start, steps): an unsigned comparison `start + counter < size` with the counter of an axis of a loop,
which counts from 0 to steps - 1."""


def separate_full_tiles(function: FuncOp) -> None:
    """Add to each parallel loop with comparisons of counters a version in which all of them hold, in place.

    Loops with few or unknown columns (`FEWEST_COLUMNS`) or many operations (`MOST_OPERATIONS`) get no version, nor do
    loops that only copy gathered rows: these are faster with masks.
    """
    entry = Entry(function)
    for loop in [op for op in walk(function) if isinstance(op, scf.ParallelOp)]:
        columns = constant_or_value(loop.upperBound[-1])
        is_unit_loop = not loop.initVals and counts_from_0_by_1(loop)
        has_few_columns = not isinstance(columns, int) or columns < FEWEST_COLUMNS  # or unknown ones
        if not is_unit_loop or has_few_columns or _copies_gathered_rows(loop):
            continue
        comparisons = list(_comparisons(loop))
        if comparisons and sum(1 for _ in walk(loop.body.block)) <= MOST_OPERATIONS:
            _add_full_version(entry, loop, comparisons)


def _copies_gathered_rows(loop: scf.ParallelOp) -> bool:
    """Return whether a loop only copies rows whose numbers it loads, such as `y[i, j] = x[rows[i], j]`.

    The loop computes no floats, and loads at an index that depends on a value that it has loaded. Such a gather waits
    for memory. It is faster with masked loads and stores than with those of whole vectors, so that the caller adds no
    version of the loop without masks.
    """
    from_loads = set[SSAValue]()  # values that depend on loads of the loop
    is_gather = False
    for op in walk(loop.body.block):
        is_load = isinstance(op, memref.LoadOp)
        is_gather = is_gather or (is_load and not from_loads.isdisjoint(op.operands))
        # A branch returns what its yields pass to it.
        if isinstance(op, scf.YieldOp) and isinstance(branch := op.parent_op(), scf.IfOp):
            from_loads.update(
                result for result, value in zip(branch.results, op.operands, strict=True) if value in from_loads
            )
        elif is_load or not from_loads.isdisjoint(op.operands):
            from_loads.update(op.results)
        # Loads, constants and branches give floats without arithmetic; other operations with float results compute.
        computes = not isinstance(op, memref.LoadOp | arith.ConstantOp | scf.IfOp)
        if computes and any(is_float(result.type) for result in op.results):
            return False
    return is_gather


def _comparisons(loop: scf.ParallelOp) -> Iterator[Comparison]:
    """Yield the comparisons `start + counter <u size` of a loop body whose `start` and `size` are loop-invariant.

    In a loop over (i, j) in (0..8, 0..32), the comparison `start + j <u n` gives (the comparison, start, 32): with the
    number of values of its counter, which must be constant. Comparisons in nested regions are not yielded.

    Args:
        loop: A loop whose counters count from 0 by 1, so that its upper bounds are the numbers of their values.
    """
    block = loop.body.block
    steps: dict[SSAValue, Index] = dict(zip(block.args, map(constant_or_value, loop.upperBound), strict=True))
    for op in block.ops:
        if not isinstance(op, arith.CmpiOp) or INT_PREDICATES[op.predicate.value.data] != "ult":
            continue
        total = op.lhs.owner
        if not isinstance(total, arith.AddiOp) or not is_defined_outside(op.rhs, block):
            continue
        for counter, start in (total.operands, reversed(total.operands)):
            count = steps.get(counter)
            if isinstance(count, int) and is_defined_outside(start, block):
                yield op, start, count
                break


def _add_full_version(entry: Entry, loop: scf.ParallelOp, comparisons: list[Comparison]) -> None:
    """Replace a loop by a branch between a version in which all of the comparisons are true, and the loop.

        parallel j in 0..32 { if start + j <u n { y[start + j] = x[start + j] } }

    becomes

        if start <=u start + 31 and start + 31 <u n { parallel j in 0..32 { if true { y[start + j] = x[start + j] } } }
        else { the loop as it was }

    comparisons: at least one, from `_comparisons`.
    """
    build = Build.before(entry, loop)
    is_full = _is_full(build, comparisons)
    full_loop = _without_comparisons(loop, comparisons)
    # The branch takes the place of the loop, which moves into the else block.
    full, partial = Block(), Block()
    build.op(scf.IfOp(is_full, [], Region(full), Region(partial)))
    loop.detach()
    for block, version in ((full, full_loop), (partial, loop)):
        inside = build.inside(block)
        inside.insert(version)
        inside.end()


def _without_comparisons(loop: scf.ParallelOp, comparisons: list[Comparison]) -> scf.ParallelOp:
    """Return a copy of a loop in which each of the comparisons is the constant true."""
    copies: dict[SSAValue, SSAValue] = {}  # value of the loop -> its copy
    copied_loop = loop.clone(copies)
    for comparison, _, _ in comparisons:
        copy = copies[comparison.result].owner
        assert isinstance(copy, arith.CmpiOp)
        truth = arith.ConstantOp(BoolAttr.from_bool(True))
        copied_loop.body.block.insert_op_before(truth, copy)
        copy.result.replace_all_uses_with(truth.result)
        copy.detach()
        copy.erase()
    return copied_loop


def _is_full(build: Build, comparisons: list[Comparison]) -> SSAValue:
    """Emit the condition, an i1, that the comparisons hold in all steps, and return it.

    A comparison is `index < size` with the index `start` in the first step of its loop, `start + steps - 1` in the last
    one. It holds in all steps if the last index is below `size`, and the sum does not wrap around.
    """
    is_full: SSAValue | None = None
    for start, size, steps in dict.fromkeys((start, op.rhs, steps) for op, start, steps in comparisons):
        last = build.let(arith.AddiOp(start, build.value(steps - 1)))
        for holds in (build.compare("ule", start, last), build.compare("ult", last, size)):
            is_full = holds if is_full is None else build.let(arith.AndIOp(is_full, holds))
    assert is_full is not None, "there is a comparison"
    return is_full
