"""Parallel loops of known length that LLVM turns into vectors without a loop, and memory for values of their lanes."""

from __future__ import annotations

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from pydispatch.compiler.kernel_ir.build import Build, Index
from pydispatch.compiler.kernel_ir.kernel import WHOLE_VECTORS

LANES = 16
"""Iterations that one vector computes: elements of 32 bits in the widest vector of x86."""


def emit_lanes(build: Build, lanes: Index, body: Block, marked: int = LANES) -> None:
    """Emit a parallel loop over `lanes` iterations with this body; it is marked `WHOLE_VECTORS` if they are `marked`.

    `marked` is `LANES`, or 2 or 4 times as many.
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
