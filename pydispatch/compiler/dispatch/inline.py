"""Calls between host functions → the bodies of what they call. A host program has no calls."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.dispatch.form import HOST_FUNCTIONS, symbol_name
from pydispatch.errors import CompileError
from pydispatch.ir.location import location_of, set_location

CALLS = ("func.call", "util.call")


def inline_calls(module: ModuleOp) -> None:
    """Rewrites the host functions of `module` in place and drops the private ones.

    CompileError, at the call, for a function that is not there, has no body or several blocks, or calls itself.
    """
    functions = {symbol_name(op): op for op in module.body.block.ops if op.name in HOST_FUNCTIONS}
    done: set[str] = set()
    for name in functions:
        _inline_into(name, functions, [], done)
    for function in functions.values():
        if function.properties.get("sym_visibility") == StringAttr("private"):
            function.detach()
            function.erase(safe_erase=False)


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
    reference = call.properties["callee"]
    assert isinstance(reference, SymbolRefAttr)
    name = reference.root_reference.data
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
    if len(blocks) != 1:
        raise CompileError(f"'@{name}' has control flow between blocks", location_of(call),
                           "branches in host code are not supported")  # fmt: skip
    given, taken = [v.type for v in call.operands], [a.type for a in blocks[0].args]
    last = blocks[0].last_op
    returned = [v.type for v in last.operands] if last is not None else []
    for what, here, there in (("arguments", given, taken), ("results", [r.type for r in call.results], returned)):
        if here != there:
            raise CompileError(
                f"the {what} of this call are ({', '.join(map(str, here))}), those of '@{name}' "
                f"({', '.join(map(str, there))})", location_of(call),
            )  # fmt: skip
    return name


def _replace(call: Operation, function: Operation) -> None:
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
