"""scf: structured control flow is WGSL's own. cf has no structure and is refused by name."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.values import Root
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Index, Lowering
from pydispatch.compiler.emit.wgsl.words import Name
from pydispatch.compiler.kernel_ir.kernel import MOST
from pydispatch.compiler.kernel_ir.readers import attribute, integer, integers, op_name, operands_of


def _if(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.if`, whose else region may be absent; the condition is made uniform if a region has a barrier."""
    roots: list[Root | None] = []
    results, (operand,) = op.results, operands_of(op)
    condition = emitter.get(operand)
    if emitter.uniformity.has_barrier(op):
        condition = emitter.agreed(condition, operand, "bool")
    made = emitter.choose(
        condition,
        lambda: emitter.yielded(op.regions[0], roots),
        lambda: emitter.yielded(op.regions[1], roots),
        emitter.part_types(results),
    )
    emitter.take(results, made, roots or [None] * len(results))


def _index_switch(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.index_switch` to a sequence of conditions, which suits few cases and 64-bit selectors."""
    cases, selector = integers(op, "cases"), emitter.get(op.operands[0])
    if emitter.uniformity.has_barrier(op):
        selector = emitter.agreed(selector, op.operands[0], emitter.index_type)
    results, roots = list(op.results), list[Root | None]()
    types = emitter.part_types(results)

    def way(number: int) -> list[Name]:
        if number == len(cases):
            return emitter.yielded(op.regions[0], roots)
        case = emitter.idx(cases[number])
        here = emitter.let(f"{selector} == {case}" if emitter.index_width == 32 else f"all({selector} == {case})")
        region = op.regions[number + 1]
        return emitter.choose(here, lambda: emitter.yielded(region, roots), lambda: way(number + 1), types)

    emitter.take(results, way(0), roots or [None] * len(results))


def _execute_region(emitter: FunctionEmitter, op: Operation) -> None:
    roots: list[Root | None] = []
    parts = emitter.yielded(op.regions[0], roots)
    emitter.take(list(op.results), parts, roots or [None] * len(op.results))


def _for(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.for` with its loop-carried values; the bounds are made uniform if its body has a barrier."""
    lower, upper, step, *inits = operands_of(op)
    block, width = op.regions[0].block, emitter.width(lower.type)
    arguments, roots = list(block.args[1:]), emitter.roots(inits)
    bounds: list[Index] = [emitter.index(lower), emitter.index(upper), emitter.index(step)]
    if emitter.uniformity.has_barrier(op):
        for number, value in enumerate((lower, upper, step)):
            bound = bounds[number]
            if isinstance(bound, Name):
                bounds[number] = emitter.agreed(bound, value, emitter.type(lower.type))

    def body(counter: Name, carried: list[Name]) -> list[Name]:
        emitter.define(block.args[0], counter)
        emitter.take(arguments, carried, roots)
        return emitter.yielded(op.regions[0], list(roots) if roots else None)

    carried = list(zip(emitter.part_types(arguments), emitter.parts(inits), strict=True))
    most, is_unsigned = integer(op, MOST, -1), attribute(op, "unsignedCmp") is not None
    first, last, by = bounds
    made = emitter.loop((first, last, by), carried, body, width, is_unsigned, None if most < 0 else most)
    emitter.take(list(op.results), made, roots)


def _while(emitter: FunctionEmitter, op: Operation) -> None:
    before, after = op.regions[0], op.regions[1]
    arguments = list(before.blocks[0].args)
    inner = list(after.blocks[0].args)
    roots = emitter.roots(op.operands)
    held = [
        emitter.var(t, v, "c") for t, v in zip(emitter.part_types(arguments), emitter.parts(op.operands), strict=True)
    ]
    results = [emitter.var(type_) for type_ in emitter.part_types(inner)]
    emitter.take(arguments, held, roots)
    ends: list[Root | None] = []
    has_barrier = emitter.uniformity.has_barrier(op)

    def condition(end: Operation) -> None:
        test = emitter.get(end.operands[0])
        ends.extend(emitter.roots(end.operands[1:]))
        emitter.assign(results, emitter.parts(end.operands[1:]))
        if has_barrier:
            test = emitter.agreed(test, None, "bool")
        emitter.do(f"if !{test} {{ break; }}")

    with emitter.iterations.inside(integer(op, MOST, 0) or None):
        emitter.do("loop {")
        with emitter.scope():
            emitter.region(before, condition)
            emitter.take(inner, results, ends)
            emitter.assign(held, emitter.yielded(after, list(roots) if roots else None))
        emitter.do("}")
    emitter.take(list(op.results), results, ends)


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
