"""Structured control flow of scf, in every shader language; branches of cf are not structured, and are refused.

`scf.while` is a loop with a test in its middle, which each language writes in its own way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.emit.shaders.loops import CountedLoop, LoopEmitter
from pydispatch.compiler.emit.shaders.values import Index, Root, known
from pydispatch.compiler.kernel_ir.kernel import MOST_ITERATIONS
from pydispatch.compiler.kernel_ir.readers import attribute, integer, integers, op_name, operands_of

Emitter = LoopEmitter[Any]
"""Emitter of a function in any shader language."""


def _if(emitter: Emitter, op: Operation) -> None:
    """Lower an `scf.if`, whose else region may be absent."""
    # Storage of each yielded memref, None for scalars: the first region fills the list, the other must agree.
    roots: list[Root | None] = []
    results, (operand,) = op.results, operands_of(op)
    # If a region contains a barrier, WGSL demands a condition that it knows to be equal in all invocations.
    condition = emitter.as_uniform(op, emitter.get(operand), operand)
    # The runtime values that represent the results: one for a scalar; for a memref its base, dynamic sizes and so on.
    parts = emitter.choose(
        condition,
        then=lambda: emitter.yielded(op.regions[0], roots),
        other=lambda: emitter.yielded(op.regions[1], roots),
        types=emitter.part_types(results),
    )
    emitter.define_from_parts(results, parts, roots)


def _index_switch(emitter: Emitter, op: Operation) -> None:
    """Lower an `scf.index_switch` to nested conditions. A `switch` of the language would exclude 64-bit selectors.

    The cases 2 {A} and 5 {B} and the default {C} become `if i == 2 {A} else { if i == 5 {B} else {C} }`.

    The parts of a result are the runtime values that represent it: a scalar is one, a memref its base index and its
    dynamic offset, sizes and strides.
    """
    cases, (operand,) = integers(op, "cases"), operands_of(op)
    # If a case contains a barrier, WGSL demands a selector that it knows to be equal in all invocations.
    selector = emitter.as_uniform(op, emitter.get(operand), operand)
    # Storage of each yielded memref, None for scalars: the first region fills the list, the others must agree.
    results, roots = list(op.results), list[Root | None]()
    types = emitter.part_types(results)

    def emit_case(index: int) -> list[Any]:
        """Emit the comparison with case `index`, whose else part has the later cases; return the parts of the results.

        Region 0 of `op` is the default, region i + 1 that of case i.
        """
        if index == len(cases):
            return emitter.yielded(op.regions[0], roots)
        is_case = emitter.equals(selector, emitter.index_value(cases[index]))
        region = op.regions[index + 1]
        return emitter.choose(is_case, lambda: emitter.yielded(region, roots), lambda: emit_case(index + 1), types)

    emitter.define_from_parts(results, emit_case(0), roots)


def _execute_region(emitter: Emitter, op: Operation) -> None:
    """Lower an operation whose only region runs once: its code is emitted in place."""
    roots: list[Root | None] = []  # storage of each yielded memref, None for scalars; `yielded` fills the list
    parts = emitter.yielded(op.regions[0], roots)  # the runtime values that represent the results
    emitter.define_from_parts(list(op.results), parts, roots)


def _for(emitter: Emitter, op: Operation) -> None:
    """Lower an `scf.for` with its loop-carried values to a counted loop of the language (`emitter.loop`).

    The parts of a value are the runtime values that represent it: a scalar is one, a memref its base index and its
    dynamic offset, sizes and strides.
    """
    lower, upper, step, *inits = operands_of(op)
    block = op.regions[0].block
    counter_argument, *arguments = block.args
    roots = emitter.roots(inits)  # storage of the carried memrefs, the same in all iterations; None for scalars

    def body(counter: Any, carried: list[Any]) -> list[Any]:
        """Emit an iteration at a counter, from the parts of its carried values to the parts of the next ones."""
        emitter.define(counter_argument, counter)
        emitter.define_from_parts(arguments, carried, roots)
        return emitter.yielded(op.regions[0], list(roots))

    loop = CountedLoop(
        bounds=(_bound(emitter, op, lower), _bound(emitter, op, upper), _bound(emitter, op, step)),
        carried=list(zip(emitter.part_types(arguments), emitter.parts(inits), strict=True)),
        body=body,
        width=emitter.width(lower.type),
        is_unsigned=attribute(op, "unsignedCmp") is not None,
    )
    stated_iterations = integer(op, MOST_ITERATIONS, default=-1)  # an attribute that few loops have
    parts = emitter.loop(loop, most_iterations=None if stated_iterations < 0 else stated_iterations)
    emitter.define_from_parts(list(op.results), parts, roots)


def _bound(emitter: Emitter, loop: Operation, operand: SSAValue) -> Index:
    """Return a bound of a loop: an int, or a runtime value.

    If the loop has barriers, WGSL demands a value that it knows to be equal in all invocations (`as_uniform`).
    """
    value = emitter.int_or_value(operand)
    return value if known(value) else emitter.as_uniform(loop, value, operand)


def _refuse_branch(emitter: Emitter, op: Operation) -> None:
    """Refuse a branch of cf, which has no structure."""
    raise emitter.error(
        f"{op_name(op)} cannot be compiled into a kernel for this target", "write it with scf.if, scf.for and scf.while"
    )


def _assert(emitter: Emitter, op: Operation) -> None:
    """Refuse `cf.assert`, which shaders cannot report."""
    message = getattr(attribute(op, "msg"), "data", "")
    raise emitter.error(
        f"cf.assert cannot be compiled into a kernel for this target ('{message}')",
        "a shader has no way to fail: check on the host, or clamp in the kernel",
    )


ROWS: dict[str, Callable[[Emitter, Operation], None]] = {
    "scf.if": _if,
    "scf.index_switch": _index_switch,
    "scf.execute_region": _execute_region,
    "memref.alloca_scope": _execute_region,
    "scf.for": _for,
    "cf.br": _refuse_branch,
    "cf.cond_br": _refuse_branch,
    "cf.switch": _refuse_branch,
    "cf.assert": _assert,
}
"""Name of an operation → function that emits it through the emitter of a shader language."""
