"""Inlining of helper functions into kernels, so that the lowering to invocations sees all barriers and accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region
from xdsl.rewriter import Rewriter

from pydispatch.compiler.kernel_ir.readers import symbol
from pydispatch.compiler.kernel_ir.scan import Ops, ops_by_name
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.walk import walk
from pydispatch.ir.functions import CALLS


def copied(module: ModuleOp) -> ModuleOp:
    """Return a copy of a module whose operations keep their locations."""
    copy = module.clone()
    for new, old in zip(walk(copy), walk(module), strict=True):
        set_location(new, old)
    return copy


def inline_helpers(module: ModuleOp, exports: Sequence[str]) -> dict[str, tuple[FuncOp, Ops]]:
    """Inline all functions with a body into the exports, in place.

    Args:
        module: The module.
        exports: Names of exported functions. Names that `module` does not define are skipped.

    Returns:
        Name of an export -> its function, and the operations of the function by name.

    Raises:
        CompileError: A helper is recursive, or is called with operands of other types.
    """
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp) and op.body.first_block}
    ops_of: dict[str, Ops] = {}
    for name in exports:
        if name in functions:
            _inline_calls(name, functions, callers=[], ops_of=ops_of)
    return {name: (functions[name], ops_of[name]) for name in exports if name in ops_of}


def _inline_calls(name: str, functions: Mapping[str, FuncOp], callers: list[str], ops_of: dict[str, Ops]) -> None:
    """Inline all calls that a function contains, and record its operations in `ops_of`.

    Calls of functions without a body stay. Raises CompileError for a recursive call, and for operands of other types
    than the callee declares.

    Args:
        name: The name of the function.
        functions: All functions that have a body, by name.
        callers: Names of the callers, outermost first: a call of one of them is recursive.
        ops_of: Name -> operations by name, for each function whose calls are inlined already.
    """
    if name in ops_of:
        return
    ops, inlined = ops_by_name(functions[name]), False
    for op in [op for call in CALLS for op in ops.get(call, ())]:
        callee = symbol(op, "callee")
        function = functions.get(callee)
        if function is None:  # a declaration: the call stays
            continue
        _check_call(op, function, [*callers, name])
        # Inline the callee's own calls first: its body is then copied without calls.
        _inline_calls(callee, functions, [*callers, name], ops_of)
        _inline(op, function)
        inlined = True
    ops_of[name] = ops_by_name(functions[name]) if inlined else ops


def _check_call(call: Operation, function: FuncOp, callers: Sequence[str]) -> None:
    """Raise CompileError if a call is recursive, or passes operands of other types than `function` declares.

    `callers` are the names of the functions that contain the call, outermost first.
    """
    callee, operand_types = function.sym_name.data, [operand.type for operand in call.operands]
    if callee in callers:
        raise CompileError(
            f"function '{callee}' calls itself, which cannot be compiled into a kernel for this target",
            location_of(call),
            "write it as a loop",
        )
    if operand_types != list(function.function_type.inputs.data):
        types = ", ".join(map(str, operand_types))
        raise CompileError(
            f"call of '{callee}' with ({types}), declared is {function.function_type}", location_of(call)
        )


def _inline(call: Operation, function: FuncOp) -> None:
    """Replace a call by a copy of the function's body; a body of several blocks becomes an `scf.execute_region`."""
    # Copy the body, with the operands of the call in place of its arguments.
    body = function.body.clone()
    for new, old in zip(walk(body), walk(function.body), strict=True):
        set_location(new, old)
    entry = body.blocks[0]
    for argument, operand in zip(list(entry.args), call.operands, strict=True):
        argument.replace_all_uses_with(operand)
    for argument in reversed(list(entry.args)):
        entry.erase_arg(argument)
    if len(body.blocks) == 1:  # its operations replace the call
        _splice(call, entry)
    else:
        _replace_by_region(call, body)


def _replace_by_region(call: Operation, body: Region) -> None:
    """Replace a call by an `scf.execute_region` of a body whose blocks branch to each other."""
    for block in body.blocks:
        last = block.last_op
        if last is not None and not last.successors:  # a return, which becomes the yield of the region
            end = scf.YieldOp(*last.operands)
            set_location(end, last)
            Rewriter.replace_op(last, end)
    region = scf.ExecuteRegionOp.create(result_types=[r.type for r in call.results], regions=[body])
    set_location(region, call)
    Rewriter.replace_op(call, region)


def _splice(call: Operation, entry: Block) -> None:
    """Move the operations of a single-block body before the call, and replace the call by the returned values."""
    block = call.parent
    assert block is not None
    *operations, terminator = entry.ops
    for op in operations:
        op.detach()
        block.insert_op_before(op, call)
    results = list(terminator.operands)  # the returned values
    terminator.detach()
    terminator.erase()
    for old, new in zip(call.results, results, strict=True):
        old.replace_all_uses_with(new)
    call.detach()
    call.erase()
