"""Lowering of the host functions of a module to its host program."""

from __future__ import annotations

from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.ir import Operation

from pydispatch.compiler.analysis.interface import argument_names, result_names
from pydispatch.compiler.analysis.types import dtype_of
from pydispatch.compiler.flatten.inline import DERIVED, INITIALIZER
from pydispatch.compiler.host.constants import Constants
from pydispatch.compiler.host.exports import Executables
from pydispatch.compiler.host.globals import Globals
from pydispatch.compiler.host.procedures import ProcedureLowering
from pydispatch.compiler.host.rules import tensor_rules
from pydispatch.compiler.host.segments import is_stop
from pydispatch.compiler.host.straight import Straight
from pydispatch.errors import CompileError
from pydispatch.formats.program.opcodes import buffer_bytes
from pydispatch.formats.program.program import Program
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.functions import FUNCTIONS, RETURNS, symbol_name


def schedule(module: ModuleOp) -> tuple[Program, Constants]:
    """Lower the host functions of a module whose executables are all `hal.executable`.

    Return the host program, and its constants with the arrays that the artifact stores. Host functions become:

    - functions that compute constants from other constants (`DERIVED`): functions that run when the program is loaded;
      their results are constants of the program
    - initializers of globals (`INITIALIZER`): procedures that run when the program is loaded
    - other private functions: nothing, since they are inlined where they are called
    - public functions of one block without stops (`is_straight`): straight-line functions, which callers may call
    - other public functions: procedures, which run straight-line functions between their branches and stops
    """
    program = Program()
    executables = Executables(module, program)
    constants = Constants(program)
    globals = Globals(module, constants)
    functions = [op for op in module.body.block.ops if op.name in FUNCTIONS and op.regions[0].blocks]
    for op in functions:  # first those that compute constants at load: other functions read these constants
        if DERIVED in op.attributes:
            _derivation(op, executables, constants)
    # Then initializers and public functions, in program order.
    for op in functions:
        name = symbol_name(op)
        visibility = op.properties.get("sym_visibility")
        if INITIALIZER in op.attributes:
            procedure = program.add_initializer(name)
        elif visibility is not None and cast(Any, visibility).data == "private":  # inlined, or lowered above
            continue
        elif is_straight(op):
            straight_function(op, executables, constants)
            continue
        else:
            procedure = program.add_procedure(name, str(op.properties["function_type"]))
        ProcedureLowering(op, executables, constants, globals, procedure).lower()
    return program, constants


def _derivation(op: Operation, executables: Executables, constants: Constants) -> None:
    """Lower a function that computes constants from others at load, and add its results to the program's constants.

    Raises CompileError if it has control flow.
    """
    if not is_straight(op):
        raise CompileError(f"function '@{symbol_name(op)}', which derives constants, is not straight", location_of(op))
    straight_function(op, executables, constants, public=False)
    function = executables.program.functions[-1]  # the one that was just added
    types = cast(FunctionType, op.properties["function_type"]).outputs
    lengths = [buffer_bytes(prod(t.get_shape()), dtype_of(t.element_type)) for t in types if isinstance(t, TensorType)]
    constants.derived[symbol_name(op)] = executables.program.add_derived(function, lengths)


def is_straight(op: Operation) -> bool:
    """Return whether a function has one block and no stops, so that it needs no procedure.

    Stops are operations that the host must execute: accesses to globals, read-backs of elements, and checks.
    """
    blocks = op.regions[0].blocks
    return len(blocks) == 1 and not any(is_stop(inner) for inner in op.regions[0].block.ops)


def straight_function(op: Operation, executables: Executables, constants: Constants, public: bool = True) -> None:
    """Lower a function of one block to a straight-line function, and add it to the program of `executables`.

    public: whether users of the program may call it. Raises CompileError if the block does not end with a return.
    """
    type = cast(FunctionType, op.properties["function_type"])
    function = executables.program.add_function(symbol_name(op), str(type), public)
    straight = Straight(function, executables, constants, op, rules=tensor_rules())
    block = op.regions[0].block
    ops = list(block.ops)
    if not ops or ops[-1].name not in RETURNS:
        raise CompileError(f"function '@{function.name}' does not return", location_of(op))
    for value, name in zip(block.args, argument_names(op), strict=True):
        straight.argument(value, name)
    straight.lower(ops[:-1], ops[-1].operands)
    straight.finish(ops[-1].operands, result_names(op))
