"""Translation of a TOSA module into a program with its public functions."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from pydispatch.errors import CompileError
from pydispatch.frontends.mlir.trace import filename_of, public_functions
from pydispatch.frontends.tosa.operators import TABLE
from pydispatch.frontends.tosa.operators.variables import declare
from pydispatch.frontends.tosa.tracer import TosaTracer
from pydispatch.graph.builder import Builder
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.tosa.control import VariableOp


def translated(module: ModuleOp) -> ModuleOp:
    """Convert a TOSA module to a program, a module of `linalg` operations on tensors.

    It has the public functions, with the functions that they call inlined.

    Results are named `result0`, `result1` and so on, arguments as in the text of the module. Raise CompileError for a
    module without a public function, and for operations that are not supported.
    """
    for op in module.ops:
        if not isinstance(op, func.FuncOp | VariableOp):
            raise CompileError(f"'{op.name}' is not supported beside functions of a TOSA program", location_of(op))
    b = Builder(filename_of(module))
    tracer = TosaTracer(b, module, TABLE)
    declare_variables(tracer, module)  # before the functions, which refer to them
    functions = public_functions(module)
    if not functions:
        raise CompileError("this TOSA program has no public function", location_of(module))
    for function in functions:
        names = [argument.name_hint or "" for argument in function.body.blocks[0].args]  # "": named by its index
        with b.at(function):
            # `begin` starts a public function and returns its arguments, `finish` names it and its results.
            results = tracer.results_of(function, b.begin(tracer.inputs_of(function, names, sizes={})))
            b.finish(function.sym_name.data, {f"result{index}": tensor for index, tensor in enumerate(results)})
    return b.module


def declare_variables(tracer: TosaTracer, module: ModuleOp) -> None:
    """Declare a global of the program for each `tosa.variable` of a module, also those inside of functions."""
    for op in walk(module):
        if isinstance(op, VariableOp):
            declare(tracer, op)
