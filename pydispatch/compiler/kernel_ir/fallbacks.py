"""Fallbacks of imports (`hal.import.fallback = @f`): a function of the module that runs if the import is missing."""

from __future__ import annotations

from collections.abc import Callable, Collection

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr, UnitAttr, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region

from pydispatch.compiler.kernel_ir.calls import import_symbol, is_declaration, is_import
from pydispatch.compiler.kernel_ir.readers import attribute, op_name, symbol
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.pyd.dialect import ImportAvailableOp
from pydispatch.ir.functions import CALLS

FALLBACK = "hal.import.fallback"
"""Attribute of the declaration of an external function: the function of the module to call if it is missing."""


def resolve_fallbacks(module: ModuleOp, provided: Callable[[], Collection[str]]) -> ModuleOp:
    """Return a copy of a module in which fallbacks are resolved; the module itself if it has none.

    An external function states its fallback by `hal.import.fallback = @f`: a function of the module with a body. Calls
    of a statically linked function become calls of its fallback if no object defines it. An import, which is resolved
    when the program is loaded, becomes optional, and each call tests at run time whether it was found:

        %y = call @sine(%x)

    becomes, if @sine is an import with the fallback @f,

        %y = scf.if (@sine was found) { call @sine(%x) } else { call @f(%x) }

    Args:
        module: The module.
        provided: Returns the symbols that the objects of the target define; called only if needed.

    Raises:
        CompileError: A fallback has another type than its function or no body, or calls the function; or the function
            has a body itself.
    """
    if not any(attribute(op, FALLBACK) is not None for op in module.body.block.ops):
        return module
    copy = module.clone()
    for new, old in zip(walk(copy), walk(module), strict=True):
        set_location(new, old)
    functions = {op.sym_name.data: op for op in copy.body.block.ops if isinstance(op, FuncOp)}
    # Redirect the calls of each declaration with a fallback.
    for declaration in list(functions.values()):
        if attribute(declaration, FALLBACK) is None:
            continue
        fallback = _fallback_of(declaration, functions)
        if is_import(declaration):
            declaration.attributes["hal.import.optional"] = UnitAttr()
            for call in _calls_of(copy, declaration):
                _guard(call, fallback)
        elif import_symbol(declaration) not in provided():  # linked statically, and no object defines it
            for call in _calls_of(copy, declaration):
                call.properties["callee"] = SymbolRefAttr(fallback.sym_name)
    return copy


def _fallback_of(declaration: FuncOp, functions: dict[str, FuncOp]) -> FuncOp:
    """Return the fallback that the declaration of an external function states.

    functions: name -> function of the module.

    Raises:
        CompileError: The function has a body, or the fallback has none, has another type, or calls the function.
    """
    name, fallback_name = declaration.sym_name.data, symbol(declaration, FALLBACK)
    fallback = functions.get(fallback_name)
    problem = None
    if not is_declaration(declaration):
        problem = f"'@{name}' has a body and needs no fallback"
    elif fallback is None or is_declaration(fallback):
        bodies = ", ".join(f"@{n}" for n, f in functions.items() if not is_declaration(f)) or "none"
        problem = f"the fallback '@{fallback_name}' of '@{name}' is no function with a body; there are: {bodies}"
    elif fallback.function_type != declaration.function_type:
        types = fallback.function_type, declaration.function_type
        problem = f"the fallback '@{fallback_name}' is {types[0]}, '@{name}' is {types[1]}"
    elif any(op_name(op) in CALLS and symbol(op, "callee") == name for op in walk(fallback)):
        problem = f"the fallback '@{fallback_name}' calls '@{name}', which it stands in for"
    if problem is not None:
        raise CompileError(problem, location_of(declaration))
    assert fallback is not None
    return fallback


def _calls_of(module: ModuleOp, declaration: FuncOp) -> list[Operation]:
    """Return the calls in `module` of the function that `declaration` declares."""
    name = declaration.sym_name.data
    return [op for op in walk(module) if op_name(op) in CALLS and symbol(op, "callee") == name]


def _guard(call: Operation, fallback: FuncOp) -> None:
    """Replace a call by `scf.if available { call } else { call of the fallback }`."""
    types = [result.type for result in call.results]
    available = ImportAvailableOp(properties={"callee": call.properties["callee"]}, result_types=[i1])
    call_of_import, call_of_fallback = call.clone(), call.clone()
    call_of_fallback.properties["callee"] = SymbolRefAttr(fallback.sym_name)
    # A branch on `available`, which is true if the import was found; both regions yield the results of their call.
    blocks = [Block([op, scf.YieldOp(*op.results)]) for op in (call_of_import, call_of_fallback)]
    branch = scf.IfOp(available.result, types, Region(blocks[0]), Region(blocks[1]))
    for op in (available, call_of_import, call_of_fallback, branch):
        set_location(op, call)
    # The branch takes the place of the call.
    block = call.parent
    assert block is not None
    block.insert_ops_before([available, branch], call)
    for old, new in zip(call.results, branch.results, strict=True):
        old.replace_all_uses_with(new)
    call.detach()
    call.erase()
