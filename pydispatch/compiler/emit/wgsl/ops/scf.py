"""scf: structured control flow is WGSL's own. cf has no structure and is refused by name."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.values import Root
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Index, Lowering
from pydispatch.compiler.emit.wgsl.words import Name
from pydispatch.compiler.kernel_ir.kernel import MOST
from pydispatch.compiler.kernel_ir.readers import attribute, integer, integers, op_name, operands_of


def _if(f: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.if`, whose else region may be absent; the condition is made uniform if a region has a barrier."""
    roots: list[Root | None] = []
    results, (operand,) = op.results, operands_of(op)
    condition = f.get(operand)
    if f.uniformity.has_barrier(op):
        condition = f.agreed(condition, operand, "bool")
    made = f.choose(
        condition,
        lambda: f.yielded(op.regions[0], roots),
        lambda: f.yielded(op.regions[1], roots),
        f.part_types(results),
    )
    f.take(results, made, roots or [None] * len(results))


def _index_switch(f: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.index_switch` to a sequence of conditions, which suits few cases and 64-bit selectors."""
    cases, selector = integers(op, "cases"), f.get(op.operands[0])
    if f.uniformity.has_barrier(op):
        selector = f.agreed(selector, op.operands[0], f.index_type)
    results, roots = list(op.results), list[Root | None]()
    types = f.part_types(results)

    def way(number: int) -> list[Name]:
        if number == len(cases):
            return f.yielded(op.regions[0], roots)
        case = f.idx(cases[number])
        here = f.let(f"{selector} == {case}" if f.index_width == 32 else f"all({selector} == {case})")
        region = op.regions[number + 1]
        return f.choose(here, lambda: f.yielded(region, roots), lambda: way(number + 1), types)

    f.take(results, way(0), roots or [None] * len(results))


def _execute_region(f: FunctionEmitter, op: Operation) -> None:
    roots: list[Root | None] = []
    parts = f.yielded(op.regions[0], roots)
    f.take(list(op.results), parts, roots or [None] * len(op.results))


def _for(f: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.for` with its loop-carried values; the bounds are made uniform if its body has a barrier."""
    lower, upper, step, *inits = operands_of(op)
    block, width = op.regions[0].block, f.width(lower.type)
    arguments, roots = list(block.args[1:]), f.roots(inits)
    bounds: list[Index] = [f.index(lower), f.index(upper), f.index(step)]
    if f.uniformity.has_barrier(op):
        for number, value in enumerate((lower, upper, step)):
            bound = bounds[number]
            if isinstance(bound, Name):
                bounds[number] = f.agreed(bound, value, f.type(lower.type))

    def body(counter: Name, carried: list[Name]) -> list[Name]:
        f.define(block.args[0], counter)
        f.take(arguments, carried, roots)
        return f.yielded(op.regions[0], list(roots) if roots else None)

    carried = list(zip(f.part_types(arguments), f.parts(inits), strict=True))
    most, is_unsigned = integer(op, MOST, -1), attribute(op, "unsignedCmp") is not None
    first, last, by = bounds
    made = f.loop((first, last, by), carried, body, width, is_unsigned, None if most < 0 else most)
    f.take(list(op.results), made, roots)


def _while(f: FunctionEmitter, op: Operation) -> None:
    before, after = op.regions[0], op.regions[1]
    arguments = list(before.blocks[0].args)
    inner = list(after.blocks[0].args)
    roots = f.roots(op.operands)
    held = [f.var(t, v, "c") for t, v in zip(f.part_types(arguments), f.parts(op.operands), strict=True)]
    results = [f.var(type_) for type_ in f.part_types(inner)]
    f.take(arguments, held, roots)
    ends: list[Root | None] = []
    has_barrier = f.uniformity.has_barrier(op)

    def condition(end: Operation) -> None:
        test = f.get(end.operands[0])
        ends.extend(f.roots(end.operands[1:]))
        f.assign(results, f.parts(end.operands[1:]))
        if has_barrier:
            test = f.agreed(test, None, "bool")
        f.do(f"if !{test} {{ break; }}")

    with f.iterations.inside(integer(op, MOST, 0) or None):
        f.do("loop {")
        with f.scope():
            f.region(before, condition)
            f.take(inner, results, ends)
            f.assign(held, f.yielded(after, list(roots) if roots else None))
        f.do("}")
    f.take(list(op.results), results, ends)


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
