"""A module of TOSA → a program with its public functions."""

from __future__ import annotations

import re

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from pydispatch.errors import CompileError
from pydispatch.frontends.graph.builder import Builder, Input
from pydispatch.frontends.tosa.operators import TABLE
from pydispatch.frontends.tosa.operators.variables import declare
from pydispatch.frontends.tosa.tracer import Tracer
from pydispatch.frontends.tosa.types import dtype_of, shape_of
from pydispatch.ir.core.locations import SourceLoc, location_of
from pydispatch.ir.dialects.tosa.control import VariableOp


def translated(module: ModuleOp) -> ModuleOp:
    """The program of a module: each of its public functions, with those that they call inside."""
    for op in module.ops:
        if not isinstance(op, func.FuncOp | VariableOp):
            raise CompileError(f"'{op.name}' is not supported beside functions of a TOSA program", location_of(op))
    b = Builder(_filename(module))
    tracer = Tracer(b, module, TABLE)
    for op in module.walk():
        if isinstance(op, VariableOp):
            declare(tracer, op)
    functions = [op for op in module.ops if isinstance(op, func.FuncOp) and _is_public(op)]
    if not functions:
        raise CompileError("this TOSA program has no public function", location_of(module))
    for function in functions:
        with b.at(function):
            _trace(b, tracer, function)
    return b.module


def _is_public(op: func.FuncOp) -> bool:
    return op.body.blocks.first is not None and (op.sym_visibility is None or op.sym_visibility.data != "private")


def _trace(b: Builder, tracer: Tracer, function: func.FuncOp) -> None:
    name = function.sym_name.data
    results = tracer.call(name, b.begin(_inputs(function)))
    declared = function.function_type.outputs.data
    if len(results) != len(declared):
        raise b.fail(f"{len(results)} value(s) are returned, but @{name} has {len(declared)} result(s)")
    checked = [tracer.checked(tensor, type) for tensor, type in zip(results, declared, strict=True)]
    b.finish(name, {f"result{number}": tensor for number, tensor in enumerate(checked)})


def _inputs(function: func.FuncOp) -> list[Input]:
    place = location_of(function)
    found: list[Input] = []
    for number, argument in enumerate(function.body.block.args):
        dtype, shape = dtype_of(argument.type, place), shape_of(argument.type)
        if shape is None:
            raise CompileError(f"argument {number} of @{function.sym_name.data} is {argument.type}, which has no rank",
                               place, "state the rank: tensor<?x?xf32>")  # fmt: skip
        hint = argument.name_hint or ""
        taken = not re.fullmatch(r"[A-Za-z_]\w*", hint) or any(hint == given.name for given in found)
        sizes = tuple(f"d{number}_{axis}" if n is None else n for axis, n in enumerate(shape))
        found.append(Input(f"arg{number}" if taken else hint, dtype, sizes))
    return found


def _filename(module: Operation) -> str:
    places = (op.location for op in module.walk())
    return next((place.source.filename for place in places if isinstance(place, SourceLoc)), "<module>")
