"""Conversions of the checks in StableHLO test programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i64
from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.tracer import Convert, Results, StablehloTracer
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects import check
from pydispatch.operations.shapes import full

_CALL_ATOL, _CALL_ULP = 1e-3, 3
"""Default tolerances of checks that are custom calls: those of StableHLO's interpreter."""


def _compare(
    tracer: StablehloTracer, kind: type[check.CheckOp], lhs: Tensor, rhs: Tensor, properties: dict[str, Any]
) -> None:
    """Emit a check of two tensors, in their boundary types."""
    if lhs.dtype != rhs.dtype or lhs.rank != rhs.rank:
        raise tracer.b.fail(f"the two sides of a check have one type, got {lhs} and {rhs}")
    rhs = tracer.b.as_shape(rhs, lhs.shape)
    lhs = tracer.b.as_shape(lhs, rhs.shape)
    sides = [tracer.b.to_boundary(side) for side in (lhs, rhs)]
    operands: list[Any] = list(sides) if kind is check.ExpectCloseOp else [[], *sides]
    tracer.b.add(kind(operands=operands, properties=properties))


def _equal(tracer: StablehloTracer, op: Operation, operands: list[Tensor]) -> Results:
    _compare(tracer, check.ExpectEqOp, *_sides(tracer, op, operands), {})
    return ()


def _almost_equal(tracer: StablehloTracer, op: Operation, operands: list[Tensor]) -> Results:
    tolerances = {name: value for name, value in op.properties.items() if name in ("atol", "rtol")}
    _compare(tracer, check.ExpectAlmostEqOp, *_sides(tracer, op, operands), tolerances)
    return ()


def _close(tracer: StablehloTracer, op: Operation, operands: list[Tensor]) -> Results:
    _compare(tracer, check.ExpectCloseOp, *_sides(tracer, op, operands), dict(op.properties))
    return ()


def _sides(tracer: StablehloTracer, op: Operation, operands: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the checked tensor and the expected one: the second operand, or the constant in `value`."""
    if "value" in op.properties:
        return operands[-1], tracer.constant(op)
    return operands[-2], operands[-1]


def _probe(tracer: StablehloTracer, op: Operation, operands: list[Tensor]) -> Results:
    """Record the operand under the probe's name, for checks in the same function, and return it."""
    name: Any = op.properties["probe_id"]
    tracer.probes.setdefault(name.data, []).append((op.parent_op(), operands[0]))
    return operands


def _serialized_equal(tracer: StablehloTracer, op: Operation, operands: list[Tensor]) -> Results:
    """Emit a check of the value that a probe recorded."""
    name: Any = op.properties["probe_id"]
    recorded, iteration = tracer.probes.get(name.data, []), tracer.integer(op, "iteration")
    if iteration >= len(recorded):
        raise tracer.b.fail(
            f"probe '{name.data}' has seen {len(recorded)} value(s) here, so iteration {iteration} has none"
        )
    parent, value = recorded[iteration]
    if parent is not op.parent_op():
        raise tracer.b.fail(f"probe '{name.data}' is in a loop or a branch, whose values are not kept",
                       "probe what the loop passes on, or check in its body")  # fmt: skip
    _compare(tracer, check.ExpectEqOp, value, operands[0], {})
    return ()


def _run_parallel(tracer: StablehloTracer, op: Operation, operands: list[Tensor]) -> Results:
    """Raise CompileError for a run of several processes."""
    raise tracer.b.fail(
        "'interpreter.run_parallel' runs functions in several processes, and a program runs in one",
        "call the function, if its collective operations have groups of one participant",
    )


ROWS: dict[str, Convert] = {
    "check.expect_almost_eq": _almost_equal,
    "check.expect_almost_eq_const": _almost_equal,
    "check.expect_close": _close,
    "check.expect_eq": _equal,
    "check.expect_eq_const": _equal,
    "check.expect_serialized_eq": _serialized_equal,
    "interpreter.probe": _probe,
    "interpreter.run_parallel": _run_parallel,
}


# -- custom calls


def _called(kind: type[check.CheckOp]) -> Callable[[StablehloTracer, Operation, list[Tensor]], Results]:
    """Return the conversion of a custom call that is named like a check."""

    def convert(tracer: StablehloTracer, op: Operation, operands: list[Tensor]) -> Results:
        if len(operands) != 2:
            raise tracer.b.fail(f"a check compares 2 tensors, got {len(operands)}")
        is_exact = kind is not check.ExpectEqOp and operands[0].dtype.is_integer
        lhs, rhs = operands
        _compare(tracer, check.ExpectEqOp if is_exact else kind, lhs, rhs, {} if is_exact else _tolerances(kind, op))
        return ()

    return convert


def _tolerances(kind: type[check.CheckOp], op: Operation) -> dict[str, Any]:
    """Return the properties of a check from the attributes of a custom call."""
    attributes: Any = op.attributes
    if kind is check.ExpectAlmostEqOp:
        stated = attributes.get("tolerance")
        return {"atol": FloatAttr(stated.value.data if isinstance(stated, FloatAttr) else _CALL_ATOL, f32)}
    if kind is check.ExpectCloseOp:
        most, least = (attributes.get(f"{word}_ulp_difference") for word in ("max", "min"))
        return {"max_ulp_difference": most or IntegerAttr(_CALL_ULP, i64)} | (
            {} if least is None else {"min_ulp_difference": least}
        )  # fmt: skip
    return {}


def _truth(tracer: StablehloTracer, op: Operation, operands: list[Tensor]) -> Results:
    """Convert `check.eq`: emit the check, which fails the call, and return true."""
    is_exact = bool(operands) and not (operands[0].dtype.is_float or operands[0].dtype.is_complex)
    _called(check.ExpectEqOp if is_exact else check.ExpectAlmostEqOp)(tracer, op, operands)
    return [full(tracer.b, True, (), tracer.dtype(op))]


TARGETS: dict[str, Callable[[StablehloTracer, Operation, list[Tensor]], Results]] = {
    "check.eq": _truth,
    "check.expect_almost_eq": _called(check.ExpectAlmostEqOp),
    "check.expect_almost_eq_const": _called(check.ExpectAlmostEqOp),
    "check.expect_close": _called(check.ExpectCloseOp),
    "check.expect_eq": _called(check.ExpectEqOp),
    "check.expect_eq_const": _called(check.ExpectEqOp),
}
"""Conversions of custom calls that are checks, by target."""
