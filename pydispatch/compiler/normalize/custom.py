"""Errors for custom operations that remain after patterns were applied: no kernel of the user replaced them."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation

from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.dialects.pyd.custom import CustomOp


def _without_kernel(op: Operation, build: Build) -> None:
    """Raise CompileError: no kernel was given for the custom operation."""
    assert isinstance(op, CustomOp)
    name = op.callee.data
    tensors = ", ".join(
        f"{key.data}: {value.type}"
        for key, value in zip(op.operand_names.data, op.arguments, strict=True)
        if not isinstance(value.type, IndexType)  # an index states a size, which the message leaves out
    )
    results = ", ".join(str(r.type) for r in op.results_)
    raise CompileError(
        f"there is no kernel for the custom operation '{name}' ({tensors}) -> ({results})", location_of(op),
        f'give one: pydispatch.compile(..., kernels={{"{name}": pydispatch.CFunction("kernel.c", "symbol")}})',
    )  # fmt: skip


ROWS: dict[str, Row] = {"pyd.custom": _without_kernel}
"""Name of an operation → function that reports it as an error."""
