"""Inlines all calls between host functions. A host program has no calls.

Fences and buffer views are taken out first, and structured control flow becomes blocks, so that later phases only see
host functions over tensors as lists of blocks.
Initializers become private functions with the attribute `INITIALIZER`.
"""

from __future__ import annotations

from xdsl.dialects import cf
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Operation, Region, SSAValue

from pydispatch.compiler.flatten.branches import lower_branches, simplify
from pydispatch.compiler.flatten.buffer_views import buffer_views_to_tensors
from pydispatch.compiler.flatten.commands import find_commands
from pydispatch.compiler.flatten.fences import remove_fences
from pydispatch.compiler.flatten.globals import fold_globals
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.dialects.util import dialect as util
from pydispatch.ir.functions import CALLS, FUNCTIONS, RETURNS, callee_name, symbol_name

INITIALIZER = "pyd.initializer"
DERIVED = "pyd.derived"
"""The attribute of private functions whose results are constants, see `compiler/constants`."""


def inline_calls(module: ModuleOp) -> None:
    """Rewrites the host functions of `module` in place and drops the private ones.

    CompileError, at the call, for a function that is missing, has no body, or is recursive.
    """
    initializers = _initializers(module)
    functions = {symbol_name(op): op for op in module.body.block.ops if op.name in FUNCTIONS}
    remove_fences(functions)
    buffer_views_to_tensors(functions)
    for function in functions.values():
        lower_branches(function.regions[0])
    find_commands(functions)
    done: set[str] = set()
    for name in functions:
        _inline_into(name, functions, [], done)
    for name, function in functions.items():
        simplify(function.regions[0])
        is_run_by_itself = name in initializers or DERIVED in function.attributes
        if not is_run_by_itself and function.properties.get("sym_visibility") == StringAttr("private"):
            function.detach()
            function.erase(safe_erase=False)
    fold_globals(module)


def _initializers(module: ModuleOp) -> list[str]:
    """Makes functions of the initializers; returns their names."""
    names: list[str] = []
    taken = {symbol_name(op) for op in module.body.block.ops if op.name in FUNCTIONS}
    for op in list(module.body.block.ops):
        if not isinstance(op, util.InitializerOp):
            continue
        initializer: Operation = op
        name = f"initializer_{len(names)}"
        while name in taken:
            name = f"_{name}"
        names.append(name)
        body = op.body
        initializer.detach()
        function = util.FuncOp(
            properties={
                "sym_name": StringAttr(name), "sym_visibility": StringAttr("private"),
                "function_type": FunctionType.from_lists([], []),
            },
            attributes={INITIALIZER: UnitAttr()},
            regions=[Region()],
        )  # fmt: skip
        set_location(function, op)
        body.move_blocks(function.body)
        module.body.block.add_op(function)
        op.erase(safe_erase=False)
    return names


def _inline_into(name: str, functions: dict[str, Operation], callers: list[str], done: set[str]) -> None:
    """Inlines every call in the function `name`, which `callers` are on the way to."""
    if name in done:
        return
    for call in [op for op in functions[name].walk() if op.name in CALLS]:
        callee = _callee(call, functions, [*callers, name])
        _inline_into(callee, functions, [*callers, name], done)
        _replace(call, functions[callee])
    done.add(name)


def _callee(call: Operation, functions: dict[str, Operation], callers: list[str]) -> str:
    name = callee_name(call)
    if name not in functions:
        raise CompileError(
            f"there is no function '@{name}'", location_of(call),
            f"functions: {', '.join('@' + n for n in functions) or 'none'}",
        )  # fmt: skip
    if name in callers:
        way = " → ".join(f"@{n}" for n in [*callers[callers.index(name) :], name])
        raise CompileError(f"'@{name}' calls itself", location_of(call), f"by way of {way}; host code has no recursion")
    blocks = list(functions[name].regions[0].blocks)
    if not blocks:
        raise CompileError(
            f"'@{name}' has no body", location_of(call),
            "host code cannot call external functions; call them in the kernel of a dispatch",
        )  # fmt: skip
    given, taken = [v.type for v in call.operands], [a.type for a in blocks[0].args]
    ends = [block.last_op for block in blocks if block.last_op is not None and block.last_op.name in RETURNS]
    returned = [v.type for v in ends[0].operands] if ends else [r.type for r in call.results]
    for what, here, there in (("arguments", given, taken), ("results", [r.type for r in call.results], returned)):
        if here != there:
            raise CompileError(
                f"the {what} of this call are ({', '.join(map(str, here))}), those of '@{name}' "
                f"({', '.join(map(str, there))})", location_of(call),
            )  # fmt: skip
    return name


def _replace(call: Operation, function: Operation) -> None:
    if len(function.regions[0].blocks) == 1:
        _replace_straight(call, function)
    else:
        _replace_branching(call, function)


def _replace_straight(call: Operation, function: Operation) -> None:
    source, block = function.regions[0].block, call.parent
    assert block is not None
    mapping: dict[SSAValue, SSAValue] = dict(zip(source.args, call.operands, strict=True))
    for op in source.ops:
        if op.next_op is None:
            for result, value in zip(call.results, op.operands, strict=True):
                result.replace_all_uses_with(mapping[value])
            continue
        copy = op.clone(mapping)
        for new, old in zip(copy.walk(), op.walk(), strict=True):
            set_location(new, old)
        block.insert_op_before(copy, call)
    call.detach()
    call.erase()


def _replace_branching(call: Operation, function: Operation) -> None:
    """Inserts the blocks of the function between the two halves of the calling block."""
    block = call.parent
    assert block is not None and call.next_op is not None
    after = block.split_before(call.next_op, arg_types=[r.type for r in call.results])
    for result, argument in zip(call.results, after.args, strict=True):
        argument.name_hint = result.name_hint
        result.replace_all_uses_with(argument)
    call.detach()
    copy = function.regions[0].clone()
    for new, old in zip(copy.walk(), function.regions[0].walk(), strict=True):
        set_location(new, old)
    blocks = list(copy.blocks)
    copy.move_blocks_before(after)
    entry = cf.BranchOp(blocks[0], *call.operands)
    set_location(entry, call)
    block.add_op(entry)
    for inner in blocks:
        last = inner.last_op
        if last is not None and last.name in RETURNS:
            jump = cf.BranchOp(after, *last.operands)
            set_location(jump, last)
            last.detach()
            last.erase()
            inner.add_op(jump)
    call.erase()
