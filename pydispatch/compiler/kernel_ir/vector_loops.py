"""Parallel loops of known length that LLVM turns into vectors without a loop, and memory for values of their lanes."""

from __future__ import annotations

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from pydispatch.compiler.kernel_ir.build import Build, Index
from pydispatch.compiler.kernel_ir.kernel import WHOLE_VECTORS

LANES = 16
"""Number of iterations that a vector computes: the widest vector of x86, of 512 bits, has 16 elements of 32 bits."""


def emit_lanes(build: Build, lanes: Index, body: Block, marked: int = LANES) -> None:
    """Emit a parallel loop with `lanes` iterations and the body `body`.

    The loop gets the mark `WHOLE_VECTORS`, which states that LLVM can compute it as vectors without a loop, if `lanes`
    is the constant `LANES` or the constant `marked`, which is 1, 2 or 4 times `LANES`.
    """
    loop = build.op(scf.ParallelOp([build.value(0)], [build.value(lanes)], [build.value(1)], Region(body)))
    if lanes in (LANES, marked):
        loop.attributes[WHOLE_VECTORS] = UnitAttr()


def allocated_on_stack(build: Build, type_: Attribute, elements: int) -> SSAValue:
    """Allocate an array of this many elements on the stack of the workgroup's thread, at the entry, and return it."""
    allocation = memref.AllocaOp.get(type_, shape=[elements])
    allocation.location = build.origin.location
    build.entry.insert(allocation)
    return allocation.results[0]
