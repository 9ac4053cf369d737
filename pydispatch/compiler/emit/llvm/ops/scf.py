"""scf and cf: structured control flow becomes blocks and phis at once, so that LLVM has nothing to promote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects import cf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from pydispatch.compiler.emit.llvm.body import Phi
from pydispatch.compiler.emit.llvm.extremes import Order, order_of
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.loops import Loop, is_rolled_in_products, loop_metadata
from pydispatch.compiler.emit.llvm.ops.calls import stop_on_failure
from pydispatch.compiler.emit.llvm.types import int_constant, scalar
from pydispatch.compiler.emit.llvm.values import Value, components, unflatten
from pydispatch.compiler.kernel_ir.kernel import UNROLLED
from pydispatch.compiler.kernel_ir.readers import attribute, integer, integers


def result_phis(emitter: FunctionEmitter, results: list[SSAValue] | tuple[SSAValue, ...]) -> list[Phi]:
    """Return phis for the results of an operation: one for a scalar, several for a memref.

    They have names, so that edges can be added. `place_result_phis` inserts them in a block that begins later.
    """
    return [emitter.body.detached_phi(type_) for result in results for type_ in components(result.type)]


def place_result_phis(
    emitter: FunctionEmitter, phis: list[Phi], results: list[SSAValue] | tuple[SSAValue, ...]
) -> None:
    """Insert the phis that `result_phis` returned at the start of the current block, and define the results by them."""
    remaining = iter(phis)
    for result in results:
        result_parts = [next(remaining) for _ in components(result.type)]
        for phi in result_parts:
            emitter.body.place_phi(phi)
        emitter.define(result, unflatten([phi.name for phi in result_parts], result.type))


def branches(emitter: FunctionEmitter, op: Operation, regions: list[tuple[str, Region]], after: str) -> None:
    """Emit the regions of `op`, of which one runs, and begin the block `after`, where all of them continue.

    The values that the regions yield are joined to the results of `op`. `regions` has the label of the first block and
    the region of each branch; the caller has emitted the branch to these labels.
    """
    phis = result_phis(emitter, list(op.results))

    def leave(terminator: Operation) -> None:
        """Emit the end of a region: add its values to `phis`, those of the results, and branch to `after`."""
        emitter.add_edge(phis, terminator.operands)
        emitter.body.br(after)

    for label, region in regions:
        emitter.body.start(label)
        if region.blocks:
            emitter.region(region, leave)
        else:  # the region is absent, and there are no results
            emitter.body.br(after)
    emitter.body.start(after)
    place_result_phis(emitter, phis, list(op.results))


def _if(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.if`, whose else region may be absent."""
    has_else = bool(op.regions[1].blocks)
    then, other, after = (emitter.body.new_label(hint) for hint in ("then", "else", "endif"))
    emitter.body.cond_br(emitter.get(op.operands[0]), then, other if has_else else after)
    regions = [(then, op.regions[0])] + ([(other, op.regions[1])] if has_else else [])
    branches(emitter, op, regions, after)


def _index_switch(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `scf.index_switch` to a `switch`: region 0 is the default, region i + 1 that of case i."""
    cases = integers(op, "cases")
    labels = [emitter.body.new_label("case") for _ in cases]
    default, after = emitter.body.new_label("default"), emitter.body.new_label("endswitch")
    table = " ".join(f"i64 {case}, label %{label}" for case, label in zip(cases, labels, strict=True))
    emitter.body.emit(f"switch i64 {emitter.get(op.operands[0])}, label %{default} [ {table} ]")
    branches(emitter, op, [(default, op.regions[0]), *zip(labels, op.regions[1:], strict=True)], after)


def _execute_region(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower an operation whose only region runs once."""
    label, after = emitter.body.new_label("region"), emitter.body.new_label("endregion")
    emitter.body.br(label)
    branches(emitter, op, [(label, op.regions[0])], after)


@dataclass(frozen=True)
class _CarriedValue:
    """Loop-carried value of an `scf.for`: a scalar is one phi, a memref several.

    Attributes:
        argument: The argument of the body.
        order: Set for a float maximum or minimum that is carried as an integer that sorts like the float, because
            machines compare integers faster; it converts between the two.
    """

    argument: SSAValue
    order: Order | None

    def operands(self, emitter: FunctionEmitter, initial: SSAValue) -> list[str]:
        """Return the LLVM operands of the phis for the value before the loop."""
        if self.order is None:
            return emitter.llvm_operands([initial])
        return [self.order.integer_of(emitter, emitter.get(initial))]

    def define_by_phis(self, emitter: FunctionEmitter, initial: list[str], entry_label: str) -> list[Phi]:
        """Emit the phis, which are `initial` before the loop, and define the argument by them."""
        if self.order is None:
            phis = emitter.phis_for([self.argument])
        else:
            phis = [emitter.body.phi(self.order.integer)]
            emitter.define(self.argument, phis[0].name)
        for phi, operand in zip(phis, initial, strict=True):
            phi.incoming.append((operand, entry_label))
        return phis

    def after_loop(self, emitter: FunctionEmitter, value: Value) -> Value:
        """Return the result of the loop from `value`, the phis of the argument."""
        return value if self.order is None else self.order.float_of(emitter, str(value))


def _for(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.for` with its loop-carried values."""
    lower, upper, step, *inits = op.operands
    predicate = "slt" if attribute(op, "unsignedCmp") is None else "ult"
    bounds = (emitter.get(lower), emitter.get(upper), emitter.get(step))
    counter, *arguments = op.regions[0].blocks[0].args
    carried = [_CarriedValue(argument, order_of(emitter, argument)) for argument in arguments]
    starts = [value.operands(emitter, init) for value, init in zip(carried, inits, strict=True)]
    loop = Loop(emitter, bounds, scalar(lower.type), predicate)
    loop.begin()
    emitter.define(counter, loop.counter)
    phis: list[Phi] = []
    for value, start in zip(carried, starts, strict=True):
        phis += value.define_by_phis(emitter, start, loop.before)
    last_values = [emitter.values[argument] for argument in arguments]  # phis, with the last values after the loop
    loop.enter()
    emitter.region(op.regions[0], lambda terminator: emitter.add_edge(phis, terminator.operands))
    keep_rolled, is_unrolled = is_rolled_in_products(emitter, op), attribute(op, UNROLLED) is not None
    loop.end(loop_metadata(emitter, op.results, keep_rolled, unroll_completely=is_unrolled))
    for result, value, last_value in zip(op.results, carried, last_values, strict=True):
        emitter.define(result, value.after_loop(emitter, last_value))


def _while(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `scf.while`: a block for the condition, which every iteration enters, one for the body, one after it.

    The phis of the loop are at the condition: their values are the operands before the first iteration, and those that
    the body yields before later ones. Results are the values that the condition passes on when it ends the loop.
    """
    before, after = op.regions[0], op.regions[1]
    head, body, done = (emitter.body.new_label(hint) for hint in ("while", "do", "endwhile"))
    initial, entry_label = emitter.llvm_operands(list(op.operands)), emitter.body.label  # several for a memref
    emitter.body.br(head)
    emitter.body.start(head)
    phis = emitter.phis_for(before.blocks[0].args)  # as many for each value as `initial` has
    for phi, operand in zip(phis, initial, strict=True):
        phi.incoming.append((operand, entry_label))

    def condition(terminator: Operation) -> None:
        """Emit the end of the condition: a branch to the label `body`, or to `done` after the loop.

        The arguments of the body and the results of the loop are the values that the terminator passes on.
        """
        # They need no phis: the condition's block dominates the body and the block after the loop.
        for argument, result, operand in zip(after.blocks[0].args, op.results, terminator.operands[1:], strict=True):
            emitter.define(argument, emitter.values[operand])
            emitter.define(result, emitter.values[operand])
        emitter.body.cond_br(emitter.get(terminator.operands[0]), body, done)

    emitter.region(before, condition)
    emitter.body.start(body)

    def repeat(terminator: Operation) -> None:
        """Add the values of an iteration to `phis`, and jump to the condition (`head`)."""
        emitter.add_edge(phis, terminator.operands)
        # Whether LLVM may use scalable vectors depends on the types of the carried values, which the results have, too.
        metadata = loop_metadata(emitter, carried=op.results)
        emitter.body.br(head, "" if metadata is None else f", !llvm.loop !{metadata}")

    emitter.region(after, repeat)
    emitter.body.start(done)


def _br(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `cf.br`."""
    emitter.body.br(emitter.target(op.successors[0], list(op.operands)))


def _cond_br(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `cf.cond_br`."""
    branch = cast(cf.ConditionalBranchOp, op)
    edges = [(branch.then_block, list(branch.then_arguments)), (branch.else_block, list(branch.else_arguments))]
    # A trampoline is a block for the second of two edges to one block, which phis could not tell apart.
    labels, trampolines = _targets(emitter, edges)
    emitter.body.cond_br(emitter.get(branch.cond), *labels)
    _write_trampolines(emitter, trampolines)


def _switch(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `cf.switch`, a branch to the block of the case that equals an integer, or to the default block.

    Each edge passes values to the phis of its block. If several edges lead to one block, all but the first go through a
    trampoline: a block that only branches on, because phis need one edge per predecessor.
    """
    switch = cast(cf.SwitchOp, op)
    type_ = scalar(switch.flag.type)
    values = switch.case_values
    cases = [int(value) for value in values.get_values()] if isinstance(values, DenseIntOrFPElementsAttr) else []
    # The edges as (block, values that are passed to it), the default first. `case_operands` has the values of all cases
    # one after the other, and `case_operand_segments` their number for each case.
    remaining = iter(switch.case_operands)
    edges = [(switch.default_block, list(switch.default_operands))]
    for block, count in zip(switch.case_blocks, integers(op, "case_operand_segments"), strict=True):
        edges.append((block, [next(remaining) for _ in range(count)]))
    labels, trampolines = _targets(emitter, edges)  # the label of each edge is that of its block or of its trampoline
    table = " ".join(
        f"{type_} {int_constant(case, switch.flag.type)}, label %{label}"
        for case, label in zip(cases, labels[1:], strict=True)
    )
    emitter.body.emit(f"switch {type_} {emitter.get(switch.flag)}, label %{labels[0]} [ {table} ]")
    _write_trampolines(emitter, trampolines)


Edge = tuple[Block, list[SSAValue]]
"""(target of a branch, values of its arguments)"""


def _targets(emitter: FunctionEmitter, edges: list[Edge]) -> tuple[list[str], list[tuple[str, Edge]]]:
    """Return a label for each edge of a branch, and the trampolines: (label, edge) of blocks that must be emitted.

    Phis need one edge per predecessor. So a second edge to the same block goes through a block that only branches on.
    """
    labels: list[str] = []
    trampolines: list[tuple[str, Edge]] = []
    reached: set[Block] = set()
    for block, operands in edges:
        if block in reached:
            label = emitter.body.new_label("hop")
            trampolines.append((label, (block, operands)))
            labels.append(label)
        else:
            reached.add(block)
            labels.append(emitter.target(block, operands))
    return labels, trampolines


def _write_trampolines(emitter: FunctionEmitter, trampolines: list[tuple[str, Edge]]) -> None:
    """Emit the blocks that `_targets` returned, each of which only branches to the target of its edge.

    They give a block one predecessor for each of several edges to it, as phis need.
    """
    for label, (block, operands) in trampolines:
        emitter.body.start(label)
        emitter.body.br(emitter.target(block, operands))


FAILED_ASSERTION = 0x50594409
"""Status of a workgroup whose cf.assert does not hold (PYD_LIBRARY_CODE_FAILED_ASSERTION)."""


def _assert(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `cf.assert`: return from the workgroup with a failure, if the platform has a status for that."""
    if not emitter.platform.fallible:
        message = attribute(op, "msg")
        text = message.data if isinstance(message, StringAttr) else ""
        raise emitter.error(
            f"cf.assert cannot be compiled into a kernel for this target ('{text}')",
            "check on the host, or clamp in the kernel",
        )
    condition, code = emitter.get(op.operands[0]), integer(op, "pyd.code", FAILED_ASSERTION)
    stop_on_failure(emitter, emitter.body.let(f"select i1 {condition}, i32 0, i32 {code}"))


ROWS: dict[str, Lowering] = {
    "scf.if": _if,
    "scf.index_switch": _index_switch,
    "scf.execute_region": _execute_region,
    "memref.alloca_scope": _execute_region,
    "scf.for": _for,
    "scf.while": _while,
    "cf.br": _br,
    "cf.cond_br": _cond_br,
    "cf.switch": _switch,
    "cf.assert": _assert,
}
"""Name of an operation → function that emits LLVM IR for it."""
