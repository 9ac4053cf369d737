"""scf: structured control flow is SPIR-V's own. cf has no structure and is refused by name."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, Region, SSAValue

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.types import Index, Root, open_parts
from pydispatch.compiler.kernel_ir.math.numbers import MOST
from pydispatch.compiler.kernel_ir.readers import attribute, integer, integers, op_name


def yielded(f: FunctionEmitter, region: Region, roots: list[Root | None] | None = None) -> list[Id]:
    """Emits a region and returns the parts of what it yields. roots: where memrefs must lie; filled when empty."""
    found: list[Id] = []

    def leave(end: Operation) -> None:
        operands = list(end.operands)
        if roots is not None:
            if not roots:
                roots.extend(f.roots(operands))
            f.same_roots(roots, operands)
        found.extend(f.parts(operands))

    if region.blocks:
        f.region(region, leave)
    return found


def choose(f: FunctionEmitter, op: Operation, condition: Id) -> None:
    """One of two regions; the second may be absent."""
    roots: list[Root | None] = []
    results = list(op.results)
    types = [t for result in results for t in _types(f, result)]
    made = f.choose(
        condition, lambda: yielded(f, op.regions[0], roots), lambda: yielded(f, op.regions[1], roots), types
    )
    f.take(results, made, roots or [None] * len(results))


def _types(f: FunctionEmitter, value: SSAValue) -> list[Id]:
    type_ = value.type
    if type(type_) is MemRefType:
        return [f.index_type()] * open_parts(type_)
    return [f.type(type_)]


def _if(f: FunctionEmitter, op: Operation) -> None:
    choose(f, op, f.get(op.operands[0]))


def _index_switch(f: FunctionEmitter, op: Operation) -> None:
    """A ladder of conditions: few cases, and 64-bit selectors need nothing more."""
    cases, selector = integers(op, "cases"), f.get(op.operands[0])
    results, roots = list(op.results), list[Root | None]()
    types = [t for result in results for t in _types(f, result)]

    def way(number: int) -> list[Id]:
        if number == len(cases):
            return yielded(f, op.regions[0], roots)
        here = f.code.let("IEqual", f.m.bool(), selector, f.idx(cases[number]))
        region = op.regions[number + 1]
        return f.choose(here, lambda: yielded(f, region, roots), lambda: way(number + 1), types)

    f.take(results, way(0), roots or [None] * len(results))


def _execute_region(f: FunctionEmitter, op: Operation) -> None:
    roots: list[Root | None] = []
    parts = yielded(f, op.regions[0], roots)
    f.take(list(op.results), parts, roots or [None] * len(op.results))


def counted(
    f: FunctionEmitter,
    op: Operation,
    bounds: tuple[Index, Index, Index],
    inits: Sequence[SSAValue],
    less: str = "SLessThan",
    width: int = 0,
) -> None:
    """scf.for and affine.for: one counter and values carried around."""
    block = op.regions[0].blocks[0]
    arguments = list(block.args[1:])
    roots = f.roots(inits)
    types = [t for a in arguments for t in _types(f, a)]
    before = f.looping(f.accesses(op)) if f.together else f.hazards.copy()

    def body(counter: Id, carried: list[Id]) -> list[Id]:
        f.define(block.args[0], counter)
        f.take(arguments, carried, roots)
        return yielded(f, op.regions[0], list(roots) if roots else None)

    carried = list(zip(types, f.parts(inits), strict=True))
    made = f.loop(*bounds, carried, body, f.m.int(width) if width else None, less, width)
    f.hazards.join(before)
    f.take(list(op.results), made, roots)


def _for(f: FunctionEmitter, op: Operation) -> None:
    lower, upper, step, *inits = op.operands
    unsigned = attribute(op, "unsignedCmp") is not None
    bounds = (f.index(lower), f.index(upper), f.index(step))
    counted(f, op, bounds, inits, "ULessThan" if unsigned else "SLessThan", f.width(lower.type))


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
    known_before = f.looping(f.accesses(op)) if f.together else f.hazards.copy()
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
    ends = yielded(f, after, list(roots) if roots else None)
    code.branch(again)
    code.start(again)
    code.branch(head)
    tail, code.lines = code.lines[slot:], code.lines[:slot]
    for type_, made, start, end in zip(types, phis, initial, ends, strict=True):
        code.phi(type_, made, [(start, came_from), (end, again)])
    code.lines += tail
    code.start(done)
    f.hazards.join(known_before)


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
