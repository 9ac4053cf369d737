"""Conversion of checks that compare with an attribute to checks that compare with a constant value."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Operation

from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.ir.dialects.check import dialect as check


def _against_value(op: Operation, build: Build) -> None:
    """Replace a check against a constant attribute by one against a constant tensor."""
    assert isinstance(op, check.ExpectEqConstOp | check.ExpectAlmostEqConstOp)
    constant = build.add(arith.ConstantOp(op.value)).result
    device = [] if op.device is None else [op.device]
    properties = {name: value for name, value in op.properties.items() if name in ("atol", "rtol")}
    kind = check.ExpectEqOp if isinstance(op, check.ExpectEqConstOp) else check.ExpectAlmostEqOp
    build.add(kind(operands=[device, op.lhs, constant], properties=properties, attributes=dict(op.attributes)))
    build.replace()


ROWS: dict[str, Row] = {
    "check.expect_eq_const": _against_value,
    "check.expect_almost_eq_const": _against_value,
}
"""Name of an operation → function that replaces it."""
