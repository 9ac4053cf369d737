"""scf.while; other control flow is in `shaders/control_flow.py`."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.values import Root
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.kernel_ir.kernel import MOST_ITERATIONS
from pydispatch.compiler.kernel_ir.readers import integer


def _while(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `scf.while`; its carried values and results are variables.

    A scalar has one part, a register. A memref has its dynamic offset, sizes and strides as parts, and its storage as
    root; all memrefs that a variable stands for have the same root.
    """
    before, after = op.regions[0], op.regions[1]
    arguments = list(before.blocks[0].args)
    inner = list(after.blocks[0].args)
    roots = emitter.roots(op.operands)
    carried_variables = [
        emitter.var(t, v, "c") for t, v in zip(emitter.part_types(arguments), emitter.parts(op.operands), strict=True)
    ]
    results = [emitter.var(type_) for type_ in emitter.part_types(inner)]
    emitter.define_from_parts(arguments, carried_variables, roots)
    result_roots: list[Root | None] = []
    has_barrier = emitter.uniformity.has_barrier(op)

    def condition(end: Operation) -> None:
        """Lower the terminator of the first region: assign the results, and leave the loop if the condition fails."""
        test = emitter.get(end.operands[0])
        result_roots.extend(emitter.roots(end.operands[1:]))  # storage of results that are memrefs
        emitter.assign(results, emitter.parts(end.operands[1:]))
        if has_barrier:  # one value for the workgroup, so that WGSL knows the loop to be uniform
            test = emitter.shared_by_workgroup(test, value=None, type_="bool")
        emitter.do(f"if !{test} {{ break; }}")

    with emitter.iterations.inside(integer(op, MOST_ITERATIONS, default=0) or None):
        emitter.do("loop {")
        with emitter.scope():
            emitter.region(before, condition)
            emitter.define_from_parts(inner, results, result_roots)
            emitter.assign(carried_variables, emitter.yielded(after, roots=list(roots) if roots else None))
        emitter.do("}")
    emitter.define_from_parts(list(op.results), results, result_roots)


ROWS: dict[str, Lowering] = {"scf.while": _while}
