"""Reductions with any region."""

from __future__ import annotations

from xdsl.ir import Operation, Region

from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import reductions
from pydispatch.frontends.stablehlo.operators.elementwise import BINARY
from pydispatch.frontends.stablehlo.tracer import Convert, Results, Tracer

_SIMPLE = {f"stablehlo.{op}": BINARY[op] for op in ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
           if op in BINARY}  # fmt: skip


def single(region: Region) -> str | None:
    """The function by its name, when a region is one commutative operation on its two arguments."""
    block = region.blocks.first
    if block is None or len(block.args) != 2 or len(block.ops) != 2:
        return None
    op, last = block.ops
    if set(op.operands) != set(block.args) or len(op.operands) != 2 or tuple(last.operands) != tuple(op.results):
        return None
    return _SIMPLE.get(op.name)


def _reduce(t: Tracer, op: Operation, operands: list[Tensor]) -> Results:
    half = len(operands) // 2
    tensors, starts = operands[:half], operands[half:]
    if not tensors or any(x.rank != tensors[0].rank for x in tensors) or any(x.rank for x in starts):
        raise t.b.fail("a reduction takes tensors of one shape, and a single element to begin with for each")
    axes = t.axes(t.numbers(op, "dimensions"), "dimensions", tensors[0].rank)
    combine = t.scalar_function(op.regions[0])
    if not axes:
        return tensors if half else ()
    return reductions.reduce_with(
        t.b, tensors, starts, axes, lambda s, running, elements: combine(s, [*running, *elements])
    )


ROWS: dict[str, Convert] = {"stablehlo.reduce": _reduce}
