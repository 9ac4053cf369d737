"""scf.while; other control flow is in `shaders/control_flow.py`."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.values import Root
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.words import Name
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

    A memref is carried as several indices (`parts`) into its storage (`roots`), which must stay the same.
    """
    before, after = op.regions  # `before` ends in scf.condition, `after` (the body) in scf.yield
    arguments, roots = list(before.block.args), emitter.roots(op.operands)
    initial = zip(emitter.part_types(arguments), emitter.parts(op.operands), strict=True)
    carried = [emitter.var(type_, value, stem="c") for type_, value in initial]
    body_arguments = list(after.block.args)  # the values that scf.condition passes on: also the results
    results = [emitter.var(type_) for type_ in emitter.part_types(body_arguments)]
    emitter.define_from_parts(arguments, carried, roots)
    with emitter.iterations.loop_body(integer(op, MOST_ITERATIONS, default=0) or None):  # counts its iterations
        emitter.do("loop {")
        with emitter.scope():
            result_roots = _leave_unless_condition(emitter, op, results)
            emitter.define_from_parts(body_arguments, results, result_roots)
            emitter.assign(carried, emitter.yielded(after, roots))
        emitter.do("}")
    emitter.define_from_parts(list(op.results), results, result_roots)


def _leave_unless_condition(emitter: FunctionEmitter, op: Operation, results: list[Name]) -> list[Root | None]:
    """Emit the first region of a `scf.while`: it assigns the results, and leaves the loop if the condition fails.

    Return the storage of results that are memrefs, None for others.
    """
    condition, *passed = emitter.region(op.regions[0]).operands  # of scf.condition
    test = emitter.get(condition)
    roots = emitter.roots(passed)
    emitter.assign(results, emitter.parts(passed))
    if emitter.uniformity.has_barrier(op):  # one value for the workgroup, so that WGSL knows the loop to be uniform
        test = emitter.shared_by_workgroup(test, value=None, type_="bool")  # None: always share it
    emitter.do(f"if !{test} {{ break; }}")
    return roots


ROWS: dict[str, Lowering] = {"scf.while": _while}
"""Name of an operation → function that emits WGSL for it."""
