"""scf: structured control flow is SPIR-V's own. cf has no structure and is refused by name."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.emit.shaders.values import Root, open_parts
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.kernel_ir.kernel import MOST
from pydispatch.compiler.kernel_ir.readers import attribute, integer, integers, op_name, operands_of


def _types(f: FunctionEmitter, value: SSAValue) -> list[Id]:
    type_ = value.type
    if type(type_) is MemRefType:
        return [f.index_type()] * open_parts(type_)
    return [f.type(type_)]


def _if(f: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.if`, whose else region may be absent."""
    roots: list[Root | None] = []
    results, (condition,) = op.results, map(f.get, operands_of(op))
    types = [t for result in results for t in _types(f, result)]
    made = f.choose(
        condition, lambda: f.yielded(op.regions[0], roots), lambda: f.yielded(op.regions[1], roots), types
    )
    f.take(results, made, roots or [None] * len(results))


def _index_switch(f: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.index_switch` to a sequence of conditions, which suits few cases and 64-bit selectors."""
    cases, selector = integers(op, "cases"), f.get(op.operands[0])
    results, roots = list(op.results), list[Root | None]()
    types = [t for result in results for t in _types(f, result)]

    def way(number: int) -> list[Id]:
        if number == len(cases):
            return f.yielded(op.regions[0], roots)
        here = f.code.let("IEqual", f.m.bool(), selector, f.idx(cases[number]))
        region = op.regions[number + 1]
        return f.choose(here, lambda: f.yielded(region, roots), lambda: way(number + 1), types)

    f.take(results, way(0), roots or [None] * len(results))


def _execute_region(f: FunctionEmitter, op: Operation) -> None:
    roots: list[Root | None] = []
    parts = f.yielded(op.regions[0], roots)
    f.take(list(op.results), parts, roots or [None] * len(op.results))


def _for(f: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.for` with its loop-carried values."""
    lower, upper, step, *inits = operands_of(op)
    less = "SLessThan" if attribute(op, "unsignedCmp") is None else "ULessThan"
    block, width = op.regions[0].block, f.width(lower.type)
    arguments, roots = list(block.args[1:]), f.roots(inits)
    types = [t for a in arguments for t in _types(f, a)]

    def body(counter: Id, carried: list[Id]) -> list[Id]:
        f.define(block.args[0], counter)
        f.take(arguments, carried, roots)
        return f.yielded(op.regions[0], list(roots) if roots else None)

    carried = list(zip(types, f.parts(inits), strict=True))
    bounds, most = (f.index(lower), f.index(upper), f.index(step)), integer(op, MOST, -1)
    made = f.loop(*bounds, carried, body, f.m.int(width), less, width, None if most < 0 else most)
    f.take(list(op.results), made, roots)


def _while(f: FunctionEmitter, op: Operation) -> None:
    with f.iterations.inside(integer(op, MOST, 0) or None):
        _repeat(f, op)


def _repeat(f: FunctionEmitter, op: Operation) -> None:
    code, m = f.code, f.m
    before, after = op.regions[0], op.regions[1]
    arguments = list(before.blocks[0].args)
    roots = f.roots(op.operands)
    types = [t for a in arguments for t in _types(f, a)]
    initial, came_from = f.parts(op.operands), code.label
    head, test, inside, again, done = (m.id() for _ in range(5))
    phis = [m.id() for _ in types]
    code.branch(head)
    code.start(head)
    slot = len(code.lines)
    code.do("LoopMerge", done, again, 0)
    code.branch(test)
    code.start(test)
    f.take(arguments, phis, roots)

    def condition(end: Operation) -> None:
        # The values are the same on both ways out, and the condition's block dominates both.
        for argument, result, operand in zip(after.blocks[0].args, op.results, end.operands[1:], strict=True):
            f.define(argument, f.values[operand])
            f.define(result, f.values[operand])
        code.branch_if(f.get(end.operands[0]), inside, done)

    f.region(before, condition)
    code.start(inside)
    ends = f.yielded(after, list(roots) if roots else None)
    code.branch(again)
    code.start(again)
    code.branch(head)
    tail, code.lines = code.lines[slot:], code.lines[:slot]
    for type_, made, start, end in zip(types, phis, initial, ends, strict=True):
        code.phi(type_, made, [(start, came_from), (end, again)])
    code.lines += tail
    code.start(done)


def _unstructured(f: FunctionEmitter, op: Operation) -> None:
    raise f.error(
        f"{op_name(op)} cannot be compiled into a kernel for this target", "write it with scf.if, scf.for and scf.while"
    )


def _assert(f: FunctionEmitter, op: Operation) -> None:
    message = getattr(attribute(op, "msg"), "data", "")
    raise f.error(
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
