"""scf: structured control flow is SPIR-V's own. cf has no structure and is refused by name."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.emit.shaders.values import Root, open_parts
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.kernel_ir.kernel import MOST
from pydispatch.compiler.kernel_ir.readers import attribute, integer, integers, op_name, operands_of


def _types(emitter: FunctionEmitter, value: SSAValue) -> list[Id]:
    type_ = value.type
    if type(type_) is MemRefType:
        return [emitter.index_type()] * open_parts(type_)
    return [emitter.type(type_)]


def _if(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.if`, whose else region may be absent."""
    roots: list[Root | None] = []
    results, (condition,) = op.results, map(emitter.get, operands_of(op))
    types = [t for result in results for t in _types(emitter, result)]
    made = emitter.choose(
        condition, lambda: emitter.yielded(op.regions[0], roots), lambda: emitter.yielded(op.regions[1], roots), types
    )
    emitter.take(results, made, roots or [None] * len(results))


def _index_switch(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.index_switch` to a sequence of conditions, which suits few cases and 64-bit selectors."""
    cases, selector = integers(op, "cases"), emitter.get(op.operands[0])
    results, roots = list(op.results), list[Root | None]()
    types = [t for result in results for t in _types(emitter, result)]

    def way(number: int) -> list[Id]:
        if number == len(cases):
            return emitter.yielded(op.regions[0], roots)
        here = emitter.code.let("IEqual", emitter.m.bool(), selector, emitter.idx(cases[number]))
        region = op.regions[number + 1]
        return emitter.choose(here, lambda: emitter.yielded(region, roots), lambda: way(number + 1), types)

    emitter.take(results, way(0), roots or [None] * len(results))


def _execute_region(emitter: FunctionEmitter, op: Operation) -> None:
    roots: list[Root | None] = []
    parts = emitter.yielded(op.regions[0], roots)
    emitter.take(list(op.results), parts, roots or [None] * len(op.results))


def _for(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.for` with its loop-carried values."""
    lower, upper, step, *inits = operands_of(op)
    less = "SLessThan" if attribute(op, "unsignedCmp") is None else "ULessThan"
    block, width = op.regions[0].block, emitter.width(lower.type)
    arguments, roots = list(block.args[1:]), emitter.roots(inits)
    types = [t for a in arguments for t in _types(emitter, a)]

    def body(counter: Id, carried: list[Id]) -> list[Id]:
        emitter.define(block.args[0], counter)
        emitter.take(arguments, carried, roots)
        return emitter.yielded(op.regions[0], list(roots) if roots else None)

    carried = list(zip(types, emitter.parts(inits), strict=True))
    bounds, most = (emitter.index(lower), emitter.index(upper), emitter.index(step)), integer(op, MOST, -1)
    made = emitter.loop(*bounds, carried, body, emitter.m.int(width), less, width, None if most < 0 else most)
    emitter.take(list(op.results), made, roots)


def _while(emitter: FunctionEmitter, op: Operation) -> None:
    with emitter.iterations.inside(integer(op, MOST, 0) or None):
        _repeat(emitter, op)


def _repeat(emitter: FunctionEmitter, op: Operation) -> None:
    code, m = emitter.code, emitter.m
    before, after = op.regions[0], op.regions[1]
    arguments = list(before.blocks[0].args)
    roots = emitter.roots(op.operands)
    types = [t for a in arguments for t in _types(emitter, a)]
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
    for type_, made, start, end in zip(types, phis, initial, ends, strict=True):
        code.phi(type_, made, [(start, came_from), (end, again)])
    code.lines += tail
    code.start(done)


def _unstructured(emitter: FunctionEmitter, op: Operation) -> None:
    raise emitter.error(
        f"{op_name(op)} cannot be compiled into a kernel for this target", "write it with scf.if, scf.for and scf.while"
    )


def _assert(emitter: FunctionEmitter, op: Operation) -> None:
    message = getattr(attribute(op, "msg"), "data", "")
    raise emitter.error(
        f"cf.assert cannot be compiled into a kernel for this target ('{message}')",
        "a shader has no way to fail: check on the host, or clamp in the kernel",
    )


ROWS: dict[str, Lowering] = {
    "scf.if": _if,
    "scf.index_switch": _index_switch,
    "scf.execute_region": _execute_region,
    "memref.alloca_scope": _execute_region,
    "scf.for": _for,
    "scf.while": _while,
    "cf.br": _unstructured,
    "cf.cond_br": _unstructured,
    "cf.switch": _unstructured,
    "cf.assert": _assert,
}
