"""scf.while; other control flow is in `shaders/control_flow.py`."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.values import Root
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.kernel_ir.kernel import MOST_ITERATIONS
from pydispatch.compiler.kernel_ir.readers import integer


def _while(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `scf.while` to a WGSL `loop`; its carried values and results are variables.

        var c0: i32 = initial value;
        var r0: i32;                 // the result
        loop {
          ...                        // region "before"
          r0 = value that scf.condition passes on;
          if !test { break; }
          ...                        // region "after", the body, reads r0
          c0 = value that scf.yield passes on;
        }

    `parts` are the WGSL expressions that represent a value: one register of a scalar; the base, and the dynamic offset,
    sizes and strides of a memref. The storage of a memref, its root, is known at compile time and the same in all
    iterations.
    """
    before, after = op.regions[0], op.regions[1]  # `before` ends in scf.condition, `after` (the body) in scf.yield
    # Variables of the carried values, with their initial values, and of the results.
    arguments = list(before.blocks[0].args)
    body_arguments = list(after.blocks[0].args)  # the values that scf.condition passes on: also the results
    roots = emitter.roots(op.operands)
    carried_variables = [
        emitter.var(type_, initial, stem="c")
        for type_, initial in zip(emitter.part_types(arguments), emitter.parts(op.operands), strict=True)
    ]
    results = [emitter.var(type_) for type_ in emitter.part_types(body_arguments)]
    emitter.define_from_parts(arguments, carried_variables, roots)
    result_roots: list[Root | None] = []
    has_barrier = emitter.uniformity.has_barrier(op)

    def condition(end: Operation) -> None:
        """Lower the terminator of the first region: assign the results, and leave the loop if the condition fails."""
        test = emitter.get(end.operands[0])
        result_roots.extend(emitter.roots(end.operands[1:]))  # storage of results that are memrefs
        emitter.assign(results, emitter.parts(end.operands[1:]))
        if has_barrier:  # one value for the workgroup, so that WGSL knows the loop to be uniform
            # None: no value of kernel IR to analyze, so that the test is always shared.
            test = emitter.shared_by_workgroup(test, value=None, type_="bool")
        emitter.do(f"if !{test} {{ break; }}")

    # The loop.
    most_iterations = integer(op, MOST_ITERATIONS, default=0) or None  # None: not known
    with emitter.iterations.loop_body(most_iterations):
        emitter.do("loop {")
        with emitter.scope():
            emitter.region(before, condition)
            emitter.define_from_parts(body_arguments, results, result_roots)
            # yielded() checks that memrefs stay in the storage that `roots` states. It would fill an empty list, hence
            # None if the loop carries no values.
            emitter.assign(carried_variables, emitter.yielded(after, roots=list(roots) if roots else None))
        emitter.do("}")
    emitter.define_from_parts(list(op.results), results, result_roots)


ROWS: dict[str, Lowering] = {"scf.while": _while}
"""Name of an operation → function that emits WGSL for it."""
