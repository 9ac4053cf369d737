"""Conversions of the `interpreter` dialect of StableHLO's tests, and of checks of values that its probes recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import cf
from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.operators.checks import compare
from pydispatch.frontends.stablehlo.tracer import Convert, Results, StablehloTracer
from pydispatch.frontends.stablehlo.types import shape_of
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects.check import dialect as check
from pydispatch.operations import control, shapes
from pydispatch.operations.formulas import formula

MAX_RECORDED_ITERATIONS = 32
"""Iterations of a loop whose values probes may record. The loop carries a tensor for each: compile time grows."""


def _probe(tracer: StablehloTracer, op: Operation, x: Tensor) -> Results:
    """Record the operand under the probe's name, for checks in the same block, and return it.

    The operation that contains the block is recorded too: checks elsewhere must not read the value.
    """
    tracer.probes.setdefault(_name(op), []).append((op.parent_op(), x))
    return x


def _name(op: Operation) -> str:
    """Return the name of the probe that an operation is or that it checks."""
    name: Any = op.properties["probe_id"]
    return str(name.data)


def _serialized_equal(tracer: StablehloTracer, op: Operation, expected: Tensor) -> Results:
    """Emit a check that the operand equals a tensor that a probe recorded.

    The attribute `iteration` is the index, from 0, among the tensors under the probe's name, in the order of execution.
    """
    recorded, iteration = tracer.probes.get(_name(op), []), tracer.integer(op, "iteration")
    if iteration >= len(recorded):
        raise tracer.b.fail(
            f"probe '{_name(op)}' has seen {len(recorded)} value(s) here, so iteration {iteration} has none"
        )
    parent, value = recorded[iteration]  # parent: the operation whose region has the probe
    if parent is not op.parent_op():
        raise tracer.b.fail(f"probe '{_name(op)}' is in a branch, a called function or a loop within a loop",
                            "probe a value of this block or of the body of one of its loops")  # fmt: skip
    compare(tracer, check.ExpectEqOp, value, expected, properties={})
    return ()


# -- probes of loops


def probes_of_loop(loop: Operation) -> list[Operation]:
    """Return the probes in the body of a loop that record values for checks after the loop."""
    checked = {_name(other) for other in _checks_after_loop(loop)}
    body = loop.regions[1].blocks.first
    inner_ops = [] if body is None else body.ops
    return [inner for inner in inner_ops if inner.name == "interpreter.probe" and _name(inner) in checked]


def _checks_after_loop(loop: Operation) -> list[Operation]:
    """Return the checks of probed values in the block that contains `loop`, where checks of the loop's probes are."""
    block = loop.parent_block()
    return [] if block is None else [other for other in block.ops if other.name == "check.expect_serialized_eq"]


def _values_needed(tracer: StablehloTracer, loop: Operation, name: str) -> int:
    """Return how many values the probes `name` in a loop must record for the checks after it, from its start on.

    The attribute `iteration` of a check is an index into all values under this name. Values that probes recorded before
    the loop have the lowest indices, so their number is subtracted.
    """
    last = max(tracer.integer(other, "iteration") for other in _checks_after_loop(loop) if _name(other) == name)
    if last >= MAX_RECORDED_ITERATIONS:
        raise tracer.b.fail(
            f"a check names iteration {last} of probe '{name}', and a loop records the first {MAX_RECORDED_ITERATIONS}",
            "check an earlier iteration, or a result of the loop",
        )
    return max(0, last + 1 - len(tracer.probes.get(name, [])))


def _slots(tracer: StablehloTracer, op: Operation, probes: Sequence[Operation]) -> list[tuple[Operation, int]]:
    """Return the slots of a loop `op`: (probe, iteration) for each value that the loop has to record for checks after
    it, in the order of execution.

    Iterations count from 0. Checks number the values of all probes of one name: the first 3 values of two such probes a
    and b are (a, 0), (b, 0), (a, 1).
    """
    needed = {name: _values_needed(tracer, op, name) for name in map(_name, probes)}
    slots: list[tuple[Operation, int]] = []
    for iteration in range(max(needed.values())):
        for probe in probes:
            if needed[_name(probe)] > 0:
                needed[_name(probe)] -= 1
                slots.append((probe, iteration))
    return slots


def while_with_probes(
    tracer: StablehloTracer, op: Operation, operands: Sequence[Tensor], probes: Sequence[Operation]
) -> Results:
    """Convert a loop, and record the values that its probes have in the iterations that checks name.

    A probe in the body names a value, and a check after the loop compares the value of one iteration:

        %3 = interpreter.probe %2, probe_id = "p" : tensor<i32>                           // in the body
        check.expect_serialized_eq %two, probe_id = "p", iter = 1 : tensor<i32>           // after the loop

    The loop carries, after its own tensors, a tensor for each slot and the number of iterations so far. A slot is a
    probe and an iteration; `_slots` lists those that the checks need. Each iteration overwrites its own slots. A loop
    with the variable %i and this check carries (%i, value of p in iteration 0, value of p in iteration 1, count).
    After the loop, the slots are added to `tracer.probes`, in the order of execution. The call fails if the loop has
    fewer iterations than a check names.

    Args:
        tracer: Tracer of the function.
        op: The `stablehlo.while`.
        operands: Initial values of the loop variables.
        probes: The probes in its body that checks after the loop name.

    Returns:
        The final loop variables.
    """
    b, state_count, (condition, body) = tracer.b, len(operands), op.regions
    slots = _slots(tracer, op, probes)
    # Copies of the values that were recorded before the loop: the translation of the body adds to the originals.
    earlier = {name: list(tracer.probes.get(name, [])) for name in map(_name, probes)}

    def holds(carried: list[Tensor]) -> Tensor:
        """Return the truth value that the condition computes for the loop's own tensors."""
        return tracer.region(condition, carried[:state_count])[0]

    def iteration(carried: list[Tensor]) -> list[Tensor]:
        """Emit the body, and store the values of its probes in the slots of this iteration.

        carried: the loop's own tensors, the slots, and the number of the iteration.
        """
        *state, current_iteration = carried
        results = tracer.region(body, state[:state_count])
        # `_stored_at`: the probe's value if the current iteration is that of the slot, else the slot's old content.
        values = [
            _stored_at(b, current_iteration, slot_iteration, tracer.value(probe.results[0]), old)
            for (probe, slot_iteration), old in zip(slots, state[state_count:], strict=True)
        ]
        return [*results, *values, formula(b, lambda v: v + 1, current_iteration)]

    # Run the loop. Slots begin with zeros, which no check reads: each slot is written before the loop ends, or the
    # assertion below fails.
    empty = [shapes.full(b, 0, _static_shape(tracer, probe), tracer.dtype(probe)) for probe, _ in slots]
    *state, iterations = control.while_(b, [*operands, *empty, b.constant(0, I64)], holds, iteration)
    tracer.probes.update(earlier)  # without what the body recorded: those values exist only inside of the loop
    for (probe, n), value in zip(slots, state[state_count:], strict=True):
        # The call fails with this message unless iterations > n.
        _assert_above(b, iterations, n, f"probe '{_name(probe)}' has no value of iteration {n} of the loop")
        tracer.probes[_name(probe)].append((op.parent_op(), value))
    return state[:state_count]


def _stored_at(builder: Builder, current_iteration: Tensor, slot_iteration: int, value: Tensor, old: Tensor) -> Tensor:
    """Return the value of a probe if the current iteration is that of the slot, else the old contents of the slot."""
    return formula(
        builder, lambda new, old, n: n.is_equal(slot_iteration).where(new, old), value, old, current_iteration
    )


def _assert_above(builder: Builder, iterations: Tensor, n: int, message: str) -> None:
    """Fail the call with a message unless the number of iterations is above n."""
    is_above = formula(builder, lambda v: v > n, iterations)
    builder.add(cf.AssertOp(shapes.element(builder, is_above), message))


def _static_shape(tracer: StablehloTracer, probe: Operation) -> list[int]:
    """Return the static shape of a probe in a loop. Raise CompileError for a dynamic one."""
    shape = [n for n in shape_of(probe.results[0].type) if n is not None]
    if len(shape) != len(shape_of(probe.results[0].type)):
        raise tracer.b.fail(f"probe '{_name(probe)}' in a loop is {probe.results[0].type}, of unknown sizes",
                            "probe a tensor of static sizes")  # fmt: skip
    return shape


def _run_parallel(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Raise CompileError for a run of several processes."""
    raise tracer.b.fail(
        "'interpreter.run_parallel' runs functions in several processes, and a program runs in one",
        "call the function, if its collective operations have groups of one participant",
    )


ROWS: dict[str, Convert] = {
    "check.expect_serialized_eq": _serialized_equal,
    "interpreter.probe": _probe,
    "interpreter.run_parallel": _run_parallel,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
