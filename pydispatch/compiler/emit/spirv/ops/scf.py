"""scf.while; other control flow is in `shaders/control_flow.py`."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.loops import LoopBlocks
from pydispatch.compiler.kernel_ir.kernel import MOST_ITERATIONS
from pydispatch.compiler.kernel_ir.readers import integer


def _while(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `scf.while`; its attribute `MOST_ITERATIONS` bounds its iterations, which are unknown without it."""
    with emitter.iterations.loop_body(integer(op, MOST_ITERATIONS, default=0) or None):
        _emit_while(emitter, op)


def _emit_while(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `scf.while` to the blocks of a structured loop.

    Its first region, the test, computes the condition from the carried values, and passes values on to the second, the
    body, which yields the next carried values. A memref is carried as several indices (`parts`) into its storage
    (`roots`), which must stay the same.
    """
    test, body = op.regions
    arguments, roots = list(test.block.args), emitter.roots(op.operands)
    types, initial = emitter.part_types(arguments), emitter.parts(op.operands)
    blocks = LoopBlocks(emitter.code)
    phis = [emitter.m.id() for _ in types]
    blocks.begin()
    emitter.define_from_parts(arguments, phis, roots)
    condition, *passed = emitter.region(test).operands  # of scf.condition
    # They need no phis: the test dominates both the body and the code after the loop.
    for argument, result, operand in zip(body.block.args, op.results, passed, strict=True):
        emitter.define(argument, emitter.values[operand])
        emitter.define(result, emitter.values[operand])
    blocks.enter_if(emitter.get(condition))
    following = emitter.yielded(body, list(roots))
    blocks.begin_continue()
    blocks.end(types, phis, initial, following)


ROWS: dict[str, Lowering] = {"scf.while": _while}
"""Name of an operation → function that emits SPIR-V for it."""
