"""scf.while; other control flow is in `shaders/control_flow.py`."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.kernel_ir.kernel import MOST_ITERATIONS
from pydispatch.compiler.kernel_ir.readers import integer


def _while(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `scf.while`; its attribute `MOST_ITERATIONS` bounds its iterations, which are unknown without it."""
    with emitter.iterations.loop_body(integer(op, MOST_ITERATIONS, default=0) or None):
        _emit_while(emitter, op)


def _emit_while(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `scf.while` to a structured loop: header, condition, body, continue and merge blocks.

    Its first region computes the condition from the carried values, and passes values on to the second, the body, which
    yields the next carried values. The blocks branch as follows; the first region may add more blocks to the condition,
    and the second to the body:

        entry -> header -> condition -> body -> continue -> header
                           condition -> merge, where code after the loop is emitted
    """
    code, module = emitter.code, emitter.m
    before, after = op.regions[0], op.regions[1]
    # A memref is carried as several indices (`parts`) into its storage (`roots`), which must stay the same.
    arguments = list(before.blocks[0].args)
    roots = emitter.roots(op.operands)
    types = emitter.part_types(arguments)
    initial, entry_label = emitter.parts(op.operands), code.label
    head_label, test_label, body_label, continue_label, merge_label = (module.id() for _ in range(5))
    phis = [module.id() for _ in types]
    # The header, whose phis of the carried values are inserted below, when the next values are known.
    code.branch(head_label)
    code.start(head_label)
    phi_position = code.phi_position()
    code.do("LoopMerge", merge_label, continue_label, 0)
    # The condition.
    code.branch(test_label)
    code.start(test_label)
    emitter.define_from_parts(arguments, phis, roots)

    def branch_on_condition(end: Operation) -> None:
        """Lower `scf.condition`, the terminator `end`, to a branch to the body (`after`) or to the code after the loop.

        Its first operand is the condition. The others are the arguments of the body, and the results of the loop.
        """
        # No phis are needed: the block of the condition dominates both the body and the code after the loop.
        for argument, result, operand in zip(after.blocks[0].args, op.results, end.operands[1:], strict=True):
            emitter.define(argument, emitter.values[operand])
            emitter.define(result, emitter.values[operand])
        code.branch_if(emitter.get(end.operands[0]), body_label, merge_label)

    emitter.region(before, branch_on_condition)
    # The body.
    code.start(body_label)
    # Memrefs that the body yields must be in the storage of the carried ones.
    next_values = emitter.yielded(after, list(roots) if roots else None)
    code.branch(continue_label)
    code.start(continue_label)
    code.branch(head_label)
    code.insert_phis(
        phi_position,
        [
            (type_, phi, [(before_loop, entry_label), (next_value, continue_label)])
            for type_, phi, before_loop, next_value in zip(types, phis, initial, next_values, strict=True)
        ],
    )
    code.start(merge_label)


ROWS: dict[str, Lowering] = {"scf.while": _while}
"""Name of an operation → function that emits SPIR-V for it."""
