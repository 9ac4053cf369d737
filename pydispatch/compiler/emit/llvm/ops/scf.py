"""scf and cf: structured control flow becomes blocks and phis at once, so that LLVM has nothing to promote."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import cf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from pydispatch.compiler.emit.llvm.body import Phi
from pydispatch.compiler.emit.llvm.extremes import order_of
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.loops import Loop, kept_whole, known_lanes
from pydispatch.compiler.emit.llvm.ops.calls import stop_on_failure
from pydispatch.compiler.emit.llvm.types import int_constant, scalar
from pydispatch.compiler.emit.llvm.values import components, unflatten
from pydispatch.compiler.kernel_ir.readers import attribute, integer, integers


def result_phis(f: FunctionEmitter, results: list[SSAValue] | tuple[SSAValue, ...]) -> list[Phi]:
    """Phis for results whose block is opened later: only their names exist; `place` puts them."""
    return [f.body.detached_phi(type_) for result in results for type_ in components(result.type)]


def place(f: FunctionEmitter, phis: list[Phi], results: list[SSAValue] | tuple[SSAValue, ...]) -> None:
    """Put the phis at the start of the current block and defines the results."""
    rest = iter(phis)
    for result in results:
        mine = [next(rest) for _ in components(result.type)]
        for phi in mine:
            f.body.place_phi(phi)
        f.define(result, unflatten([phi.name for phi in mine], result.type))


def branches(f: FunctionEmitter, op: Operation, regions: list[tuple[str, Region]], after: str) -> None:
    """Regions of which one runs, each after its label; their yields meet at `after`."""
    phis = result_phis(f, list(op.results))

    def leave(terminator: Operation) -> None:
        f.edge(phis, terminator.operands)
        f.body.br(after)

    for label, region in regions:
        f.body.start(label)
        if region.blocks:
            f.region(region, leave)
        else:
            f.body.br(after)
    f.body.start(after)
    place(f, phis, list(op.results))


def _if(f: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.if`, whose else region may be absent."""
    has_else = bool(op.regions[1].blocks)
    then, other, after = (f.body.new_label(hint) for hint in ("then", "else", "endif"))
    f.body.cond_br(f.get(op.operands[0]), then, other if has_else else after)
    regions = [(then, op.regions[0])] + ([(other, op.regions[1])] if has_else else [])
    branches(f, op, regions, after)


def _index_switch(f: FunctionEmitter, op: Operation) -> None:
    cases = integers(op, "cases")
    labels = [f.body.new_label("case") for _ in cases]
    default, after = f.body.new_label("default"), f.body.new_label("endswitch")
    table = " ".join(f"i64 {case}, label %{label}" for case, label in zip(cases, labels, strict=True))
    f.body.terminate(f"switch i64 {f.get(op.operands[0])}, label %{default} [ {table} ]")
    branches(f, op, [(default, op.regions[0]), *zip(labels, op.regions[1:], strict=True)], after)


def _execute_region(f: FunctionEmitter, op: Operation) -> None:
    inside, after = f.body.new_label("region"), f.body.new_label("endregion")
    f.body.br(inside)
    branches(f, op, [(inside, op.regions[0])], after)


def _for(f: FunctionEmitter, op: Operation) -> None:
    """Lower an `scf.for` with its loop-carried values."""
    lower, upper, step, *inits = op.operands
    unsigned = attribute(op, "unsignedCmp") is not None
    bounds = (f.get(lower), f.get(upper), f.get(step))
    block = op.regions[0].blocks[0]
    orders = [order_of(f, argument) for argument in block.args[1:]]
    starts = [f.flat([init]) if order is None else [order.integer_of(f, f.get(init))]
              for init, order in zip(inits, orders, strict=True)]  # fmt: skip
    loop = Loop(f, bounds, scalar(lower.type), "ult" if unsigned else "slt")
    loop.begin()
    f.define(block.args[0], loop.counter)
    phis: list[Phi] = []
    for argument, order, start in zip(block.args[1:], orders, starts, strict=True):
        mine = f.join([argument]) if order is None else [f.body.phi(order.integer)]
        if order is not None:
            f.define(argument, mine[0].name)
        for phi, operand in zip(mine, start, strict=True):
            phi.incoming.append((operand, loop.before))
        phis += mine
    results = [f.values[argument] for argument in block.args[1:]]
    loop.enter()

    def leave(terminator: Operation) -> None:
        f.edge(phis, terminator.operands)

    f.region(op.regions[0], leave)
    has_product = any(inner.name == "pyd.contract" for inner in block.ops)
    loop.end(kept_whole(f) if has_product else known_lanes(f, op.results))
    for result, value, order in zip(op.results, results, orders, strict=True):
        f.define(result, value if order is None else order.float_of(f, str(value)))


def _while(f: FunctionEmitter, op: Operation) -> None:
    before, after = op.regions[0], op.regions[1]
    head, body, done = (f.body.new_label(hint) for hint in ("while", "do", "endwhile"))
    initial, came_from = f.flat(list(op.operands)), f.body.label
    f.body.br(head)
    f.body.start(head)
    phis = f.join(before.blocks[0].args)
    for phi, operand in zip(phis, initial, strict=True):
        phi.incoming.append((operand, came_from))

    def condition(terminator: Operation) -> None:
        # The values are the same on both ways out, and the condition's block dominates both.
        for argument, result, operand in zip(after.blocks[0].args, op.results, terminator.operands[1:], strict=True):
            f.define(argument, f.values[operand])
            f.define(result, f.values[operand])
        f.body.cond_br(f.get(terminator.operands[0]), body, done)

    f.region(before, condition)
    f.body.start(body)

    def repeat(terminator: Operation) -> None:
        f.edge(phis, terminator.operands)
        metadata = known_lanes(f, op.results)
        f.body.br(head, "" if metadata is None else f", !llvm.loop !{metadata}")

    f.region(after, repeat)
    f.body.start(done)


def _br(f: FunctionEmitter, op: Operation) -> None:
    f.body.br(f.target(op.successors[0], list(op.operands)))


def _cond_br(f: FunctionEmitter, op: Operation) -> None:
    branch = cast(cf.ConditionalBranchOp, op)
    edges = [(branch.then_block, list(branch.then_arguments)), (branch.else_block, list(branch.else_arguments))]
    labels, trampolines = _targets(f, edges)
    f.body.cond_br(f.get(branch.cond), *labels)
    _write_trampolines(f, trampolines)


def _switch(f: FunctionEmitter, op: Operation) -> None:
    switch = cast(cf.SwitchOp, op)
    type_ = scalar(switch.flag.type)
    values = switch.case_values
    cases = [int(value) for value in values.get_values()] if isinstance(values, DenseIntOrFPElementsAttr) else []
    rest = iter(switch.case_operands)
    edges = [(switch.default_block, list(switch.default_operands))]
    for block, count in zip(switch.case_blocks, integers(op, "case_operand_segments"), strict=True):
        edges.append((block, [next(rest) for _ in range(count)]))
    labels, trampolines = _targets(f, edges)
    table = " ".join(
        f"{type_} {int_constant(case, switch.flag.type)}, label %{label}"
        for case, label in zip(cases, labels[1:], strict=True)
    )
    f.body.terminate(f"switch {type_} {f.get(switch.flag)}, label %{labels[0]} [ {table} ]")
    _write_trampolines(f, trampolines)


Edge = tuple[Block, list[SSAValue]]


def _targets(f: FunctionEmitter, edges: list[Edge]) -> tuple[list[str], list[tuple[str, Edge]]]:
    """Labels for the edges. A block that is reached twice gets one edge through a block of its own, as phis need."""
    labels: list[str] = []
    trampolines: list[tuple[str, Edge]] = []
    seen: set[Block] = set()
    for block, operands in edges:
        if block in seen:
            label = f.body.new_label("hop")
            trampolines.append((label, (block, operands)))
            labels.append(label)
        else:
            seen.add(block)
            labels.append(f.target(block, operands))
    return labels, trampolines


def _write_trampolines(f: FunctionEmitter, trampolines: list[tuple[str, Edge]]) -> None:
    for label, (block, operands) in trampolines:
        f.body.start(label)
        f.body.br(f.target(block, operands))


FAILED_ASSERTION = 0x50594409
"""What a workgroup returns whose cf.assert does not hold (PYD_LIBRARY_CODE_FAILED_ASSERTION)."""


def _assert(f: FunctionEmitter, op: Operation) -> None:
    """Leave the workgroup with a failure, where the platform has a status to leave with."""
    if not f.platform.fallible:
        message = attribute(op, "msg")
        text = message.data if isinstance(message, StringAttr) else ""
        raise f.error(
            f"cf.assert cannot be compiled into a kernel for this target ('{text}')",
            "check on the host, or clamp in the kernel",
        )
    condition, code = f.get(op.operands[0]), integer(op, "pyd.code", FAILED_ASSERTION)
    stop_on_failure(f, f.body.let(f"select i1 {condition}, i32 0, i32 {code}"))


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
