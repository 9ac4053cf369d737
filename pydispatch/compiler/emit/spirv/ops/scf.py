"""scf.while; other control flow is in `shaders/control_flow.py`."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.kernel_ir.kernel import MOST
from pydispatch.compiler.kernel_ir.readers import integer


def _while(emitter: FunctionEmitter, op: Operation) -> None:
    with emitter.iterations.inside(integer(op, MOST, 0) or None):
        _repeat(emitter, op)


def _repeat(emitter: FunctionEmitter, op: Operation) -> None:
    code, m = emitter.code, emitter.m
    before, after = op.regions[0], op.regions[1]
    arguments = list(before.blocks[0].args)
    roots = emitter.roots(op.operands)
    types = emitter.part_types(arguments)
    initial, came_from = emitter.parts(op.operands), code.label
    head, test, inside, again, done = (m.id() for _ in range(5))
    phis = [m.id() for _ in types]
    code.branch(head)
    code.start(head)
    slot = len(code.lines)
    code.do("LoopMerge", done, again, 0)
    code.branch(test)
    code.start(test)
    emitter.take(arguments, phis, roots)

    def condition(end: Operation) -> None:
        # The values are the same on both ways out, and the condition's block dominates both.
        for argument, result, operand in zip(after.blocks[0].args, op.results, end.operands[1:], strict=True):
            emitter.define(argument, emitter.values[operand])
            emitter.define(result, emitter.values[operand])
        code.branch_if(emitter.get(end.operands[0]), inside, done)

    emitter.region(before, condition)
    code.start(inside)
    ends = emitter.yielded(after, list(roots) if roots else None)
    code.branch(again)
    code.start(again)
    code.branch(head)
    tail, code.lines = code.lines[slot:], code.lines[:slot]
    for type_, phi, start, end in zip(types, phis, initial, ends, strict=True):
        code.phi(type_, phi, [(start, came_from), (end, again)])
    code.lines += tail
    code.start(done)


ROWS: dict[str, Lowering] = {"scf.while": _while}
