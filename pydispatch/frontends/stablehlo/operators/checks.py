"""Conversions of the checks in StableHLO test programs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i64
from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.tracer import Convert, Results, StablehloTracer
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects.check import dialect as check
from pydispatch.operations.shapes import full

_CALL_ATOL, _CALL_ULP = 1e-3, 3
"""Default tolerances of checks that are custom calls, those of StableHLO's interpreter: a difference, and a difference
in units of the last place."""


def compare(
    tracer: StablehloTracer, kind: type[check.CheckOp], lhs: Tensor, rhs: Tensor, properties: dict[str, Any]
) -> None:
    """Emit a check that two tensors are equal or close.

    It compares them in boundary types, those of a program's arguments and results: unlike types within the program,
    these have unsigned and complex elements.
    kind: class of the check that is emitted. properties: its tolerances, by name.
    """
    if lhs.dtype != rhs.dtype or lhs.rank != rhs.rank:
        raise tracer.b.fail(f"the two sides of a check have one type, got {lhs} and {rhs}")
    # Equate the shapes: `as_shape` states sizes in another way, and compares them at run time where that is needed.
    rhs = tracer.b.as_shape(rhs, lhs.shape)
    lhs = tracer.b.as_shape(lhs, rhs.shape)
    sides = [tracer.b.to_boundary(side) for side in (lhs, rhs)]
    absent_device: list[Any] = []  # the optional first operand of the other checks, which ExpectCloseOp lacks
    operands: list[Any] = list(sides) if kind is check.ExpectCloseOp else [absent_device, *sides]
    tracer.b.add(kind(operands=operands, properties=properties))


def _expect(
    kind: type[check.CheckOp], tolerances: Sequence[str], tracer: StablehloTracer, op: Operation, *operands: Tensor
) -> Results:
    """Convert a check of two tensors.

    With the property `value`, a constant, the last operand is compared with it; without, the last two operands are
    compared. An operand before them, which names a device, is not used.

    kind: class of the check that is emitted. tolerances: names of the properties that it takes over.
    """
    checked, expected = (operands[-1], tracer.constant(op)) if "value" in op.properties else operands[-2:]
    properties = {name: value for name, value in op.properties.items() if name in tolerances}
    compare(tracer, kind, checked, expected, properties)
    return ()


_equal = partial(_expect, check.ExpectEqOp, ())
"""Conversion of a check that two tensors are equal."""
_almost_equal = partial(_expect, check.ExpectAlmostEqOp, ("atol", "rtol"))
"""Conversion of a check that two tensors are equal up to the tolerances of the operation."""
ROWS: dict[str, Convert] = {
    "check.expect_almost_eq": _almost_equal,
    "check.expect_almost_eq_const": _almost_equal,
    "check.expect_close": partial(_expect, check.ExpectCloseOp, ("max_ulp_difference", "min_ulp_difference")),
    "check.expect_eq": _equal,
    "check.expect_eq_const": _equal,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""


# -- custom calls


def _called(kind: type[check.CheckOp], tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Convert a custom call that is a check: its target is, for example, `check.expect_eq`.

    kind: class of the check for floats and complex numbers; integers and booleans are compared exactly.
    """
    if len(operands) != 2:
        raise tracer.b.fail(f"a check compares 2 tensors, got {len(operands)}")
    lhs, rhs = operands
    used = kind if lhs.dtype.is_float or lhs.dtype.is_complex else check.ExpectEqOp
    compare(tracer, used, lhs, rhs, _tolerances(used, op))
    return ()


def _tolerances(kind: type[check.CheckOp], op: Operation) -> dict[str, Any]:
    """Return the properties of a check of class `kind` by name, from the attributes of a custom call or defaults."""
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


def _truth(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Convert `check.eq`, whose result is whether two tensors are almost equal.

    The emitted check fails the call if they are not, so that the result is always true.
    """
    _called(check.ExpectAlmostEqOp, tracer, op, *operands)
    return [full(tracer.b, value=True, shape=(), dtype=tracer.dtype(op))]


TARGETS: dict[str, Convert] = {
    "check.eq": _truth,
    "check.expect_almost_eq": partial(_called, check.ExpectAlmostEqOp),
    "check.expect_almost_eq_const": partial(_called, check.ExpectAlmostEqOp),
    "check.expect_close": partial(_called, check.ExpectCloseOp),
    "check.expect_eq": partial(_called, check.ExpectEqOp),
    "check.expect_eq_const": partial(_called, check.ExpectEqOp),
}
"""Conversions of custom calls that are checks, by target."""
