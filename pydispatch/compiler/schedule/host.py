"""The host functions of a module → its host program."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Operation

from pydispatch.compiler.dispatch.form import symbol_name
from pydispatch.compiler.schedule.constants import Constants
from pydispatch.compiler.schedule.exports import Executables
from pydispatch.compiler.schedule.straight import Straight
from pydispatch.errors import CompileError
from pydispatch.formats.program import Program
from pydispatch.ir.location import location_of

RETURNS = ("func.return", "util.return")


def schedule(module: ModuleOp) -> tuple[Program, Constants]:
    """The host program of a module whose executables are all `hal.executable`."""
    program = Program()
    executables = Executables(module, program)
    constants = Constants(program)
    for op in module.body.block.ops:
        if op.name not in ("func.func", "util.func") or not op.regions[0].blocks:
            continue
        visibility = op.properties.get("sym_visibility")
        if visibility is not None and cast(Any, visibility).data == "private":
            continue
        straight_function(op, executables, constants)
    return program, constants


def straight_function(op: Operation, executables: Executables, constants: Constants) -> None:
    """A function of one block becomes one straight function."""
    type = cast(FunctionType, op.properties["function_type"])
    function = executables.program.add_function(symbol_name(op), str(type))
    straight = Straight(function, executables, constants, op)
    block = op.regions[0].block
    ops = list(block.ops)
    if not ops or ops[-1].name not in RETURNS:
        raise CompileError(f"function '@{function.name}' does not return", location_of(op))
    for value in block.args:
        straight.argument(value)
    straight.lower(ops[:-1], ops[-1].operands)
    straight.finish(ops[-1].operands)
