"""Loop versioning on CPUs: a loop over the columns of a tile gets a version for tiles that lie inside of their arrays.

    parallel (i, j) in (0..8, 0..32) { if start + j <u n { y[i, start + j] = x[i, start + j] } }

is vectorized with masks, which are computed by comparisons of 64-bit indices for each vector. It becomes

    if start <=u start + 31 and start + 31 <u n { the loop without comparisons } else { the loop as it was }

Causal attention takes 0.77 to 0.83 of the time (examples/python_kernels/flash_attention.py, AMD EPYC Zen 4).
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import BoolAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, OpResult, Region, SSAValue

from pydispatch.compiler.kernel_ir.build import Build, Entry, known
from pydispatch.compiler.kernel_ir.outer_loops.lanes import is_inside
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES
from pydispatch.ir.core.walk import walk

MOST_OPERATIONS = 64
"""Operations in the body of a loop, up to which there are two versions of it."""

FEWEST_COLUMNS = 16
"""Steps of the last axis that fill a vector."""

Comparison = tuple[arith.CmpiOp, SSAValue]
"""A comparison `start + column <u size`, and `start`."""


def separate_full_tiles(function: FuncOp) -> None:
    """Add to each parallel loop with comparisons of columns a version in which all of them hold, in place."""
    entry = Entry(function)
    for loop in [op for op in walk(function) if isinstance(op, scf.ParallelOp)]:
        columns = known(loop.upperBound[-1])
        is_unit_loop = known(loop.lowerBound[-1]) == 0 and known(loop.step[-1]) == 1 and not loop.initVals
        if not is_unit_loop or not isinstance(columns, int) or columns < FEWEST_COLUMNS:
            continue
        comparisons = list(_column_comparisons(loop))
        if comparisons and sum(1 for _ in walk(loop.body.block)) <= MOST_OPERATIONS:
            _add_full_version(entry, loop, columns, comparisons)


def _column_comparisons(loop: scf.ParallelOp) -> Iterator[Comparison]:
    """Yield the comparisons in a loop body whose `start` and `size` are the same in all iterations."""
    block = loop.body.block
    column = block.args[-1]
    for op in block.ops:
        if isinstance(op, arith.CmpiOp) and INT_PREDICATES[op.predicate.value.data] == "ult":
            total = op.lhs.owner
            if isinstance(total, arith.AddiOp) and column in total.operands and _is_invariant(op.rhs, block):
                left, right = total.operands
                start = right if left is column else left
                if _is_invariant(start, block):
                    yield op, start


def _is_invariant(value: SSAValue, block: Block) -> bool:
    """Return whether a value is defined outside of a block."""
    return not is_inside(value.op, block) if isinstance(value, OpResult) else value.owner is not block


def _add_full_version(entry: Entry, loop: scf.ParallelOp, columns: int, comparisons: list[Comparison]) -> None:
    """Replace a loop by a branch between a version in which all comparisons hold, and the loop."""
    build = Build.before(entry, loop)
    is_full = _is_full(build, columns, comparisons)
    copies: dict[SSAValue, SSAValue] = {}  # values of the loop -> those of the version
    full_loop = loop.clone(copies)
    for comparison, _ in comparisons:
        copy = copies[comparison.result].owner
        assert isinstance(copy, arith.CmpiOp)
        truth = arith.ConstantOp(BoolAttr.from_bool(True))
        full_loop.body.block.insert_op_before(truth, copy)
        copy.result.replace_all_uses_with(truth.result)
        copy.detach()
        copy.erase()
    full, partial = Block(), Block()
    build.op(scf.IfOp(is_full, [], Region(full), Region(partial)))
    loop.detach()
    for block, version in ((full, full_loop), (partial, loop)):
        inside = build.inside(block)
        inside.insert(version)
        inside.end()


def _is_full(build: Build, columns: int, comparisons: list[Comparison]) -> SSAValue:
    """Emit whether comparisons hold in all columns, and return it, an i1.

    They do if the last column is below `size`, and the sum that is its index does not wrap around.
    """
    is_full: SSAValue | None = None
    for start, size in dict.fromkeys((start, comparison.rhs) for comparison, start in comparisons):
        last = build.let(arith.AddiOp(start, build.value(columns - 1)))
        for holds in (build.compare("ule", start, last), build.compare("ult", last, size)):
            is_full = holds if is_full is None else build.let(arith.AndIOp(is_full, holds))
    assert is_full is not None, "there is a comparison"
    return is_full
