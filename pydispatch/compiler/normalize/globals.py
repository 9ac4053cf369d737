"""Conversion of globals of `ml_program` to those of `util`."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.ir.dialects import ml_program
from pydispatch.ir.dialects.util import dialect as util


def _global(op: Operation, build: Build) -> None:
    """Replace `ml_program.global` by a `util.global` with the same name, type and initial value."""
    assert isinstance(op, ml_program.GlobalOp)
    visibility = op.sym_visibility
    if visibility is not None and visibility.data == "nested":
        visibility = StringAttr("private")  # nothing outside of the program refers to it
    global_op = util.GlobalOp(
        properties={
            "sym_name": op.sym_name, "sym_visibility": visibility, "is_mutable": op.is_mutable, "type": op.type,
            "initial_value": op.value,
        },
        attributes=dict(op.attributes),
    )  # fmt: skip
    build.add(global_op)
    build.replace()


def _load(op: Operation, build: Build) -> None:
    """Replace a load of a global variable of `ml_program` by one of `util`."""
    assert isinstance(op, ml_program.GlobalLoadOp | ml_program.GlobalLoadConstOp)
    load = util.GlobalLoadOp(result_types=[op.result.type], properties={"global": op.global_})
    build.replace(build.add(load).result)


def _store(op: Operation, build: Build) -> None:
    """Replace a store into a global variable of `ml_program` by one of `util`."""
    assert isinstance(op, ml_program.GlobalStoreOp)
    build.add(util.GlobalStoreOp(operands=[op.value], properties={"global": op.global_}))
    build.replace()


ROWS: dict[str, Row] = {
    "ml_program.global": _global,
    "ml_program.global_load": _load,
    "ml_program.global_load_const": _load,
    "ml_program.global_store": _store,
}
"""Name of an operation → function that replaces it."""
