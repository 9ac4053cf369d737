"""Operations of the `check` dialect as records of a host program."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.host.rules import tensor_rules
from pydispatch.compiler.host.straight import unsupported
from pydispatch.formats.program.program import Program
from pydispatch.formats.program.steps import CheckKind
from pydispatch.ir.core.locations import location_of


def add_check(program: Program, op: Operation, function: str) -> int:
    """Add an operation of the `check` dialect to the program's table of checks, and return its index there.

    Raises CompileError for an unknown operation.

    Args:
        program: The program.
        op: The operation, such as check.expect_almost_eq.
        function: Name of the host function that contains it, for reports.
    """
    name = op.name.removeprefix("check.").upper()
    if name not in CheckKind.__members__:
        raise unsupported(op, supported=tensor_rules())
    atol, rtol = getattr(op, "tolerance", (0.0, 0.0))  # absolute and relative; only approximate comparisons have them
    location = location_of(op)
    return program.add_check(CheckKind[name], str(location) if location else "", function, atol, rtol)
