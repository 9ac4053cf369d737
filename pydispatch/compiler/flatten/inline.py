"""Inlining of all calls between host functions: a host program has no calls.

Fences and buffer views are removed first, and structured control flow is lowered to blocks. Later phases therefore see
only host functions over tensors, as lists of blocks.

Initializers become private functions with the attribute `INITIALIZER`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import dropwhile

from xdsl.dialects import cf, scf
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from pydispatch.compiler.flatten.branches import lower_branches, simplify
from pydispatch.compiler.flatten.buffer_views import buffer_views_to_tensors
from pydispatch.compiler.flatten.commands import convert_calls_to_commands
from pydispatch.compiler.flatten.fences import remove_fences
from pydispatch.compiler.flatten.globals import fold_globals
from pydispatch.compiler.flatten.loop_arguments import without_invariant_arguments
from pydispatch.compiler.flatten.sliced_products import hoist_sliced_products
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.util import dialect as util
from pydispatch.ir.functions import CALLS, FUNCTIONS, RETURNS, callee_name, symbol_name

INITIALIZER = "pyd.initializer"
"""Attribute of the private functions that initializers of globals become; they run when a program is loaded."""

DERIVED = "pyd.derived"
"""Attribute of private functions whose results become constants, see `compiler/constants`."""

MOST_ADDED_OPERATIONS = 1 << 16
"""Maximum number of operations that inlining may add. More of them compile for minutes and take gigabytes. With a
smaller limit, models that call a block for each of many layers would be refused."""


def inline_calls(module: ModuleOp) -> None:
    """Flatten the host functions of `module` in place: inline their calls, and erase the private functions.

    Afterwards, the functions are public functions, initializers, and functions that compute constants. They are over
    tensors, and contain blocks and branches, but no fences, buffer views, structured control flow or calls of each
    other. Calls of functions without a body have become host commands (`flow.call`), and loads of globals that are
    never stored to have become constants.

    Raise CompileError, at the call, for a function that is missing, has no body, or is recursive; at the function, for
    calls that add more than MOST_ADDED_OPERATIONS.
    """
    initializers = _initializers_to_functions(module)
    functions = {symbol_name(op): op for op in module.body.block.ops if op.name in FUNCTIONS}
    # Rewrite each function by itself: it then has tensors and branches only, and calls host commands or functions with
    # a body.
    remove_fences(functions)
    buffer_views_to_tensors(functions)
    # In structured loops: drop iteration arguments that never change, and multiply slices of a loop-invariant tensor
    # once before the loop instead of in each iteration. Then loops become branches between blocks.
    for function in functions.values():
        for loop in [op for op in function.walk(reverse=True) if isinstance(op, scf.ForOp)]:  # inner loops first
            hoist_sliced_products(without_invariant_arguments(loop))
        lower_branches(function.regions[0])
    convert_calls_to_commands(functions)
    # The functions that stay: calls in them are inlined, and all other functions are erased.
    roots = [name for name, function in functions.items() if name in initializers or not _is_private(function)]
    _require_few_copies(functions, roots)  # before any copy is made
    for name, function in functions.items():
        if name in roots:
            _inline_into(function, functions)
            simplify(function.regions[0])
    for name, function in functions.items():
        if name not in roots:
            erase_op(function, safe_erase=False)
    fold_globals(module)


def _initializers_to_functions(module: ModuleOp) -> list[str]:
    """Convert the initializers of a module to private functions, and return their names in program order.

    The passes that follow then rewrite initializers like any other function. `util.initializer { ... }` becomes
    `util.func private @initializer_0()` with the same body, at the end of the module. The attribute INITIALIZER marks
    the functions that run when a program is loaded.
    """
    names: list[str] = []
    taken = {symbol_name(op) for op in module.body.block.ops if op.name in FUNCTIONS}
    for op in list(module.body.block.ops):
        if not isinstance(op, util.InitializerOp):
            continue
        initializer: Operation = op
        # A name that no function of the module has: further underscores precede it if necessary.
        name = f"initializer_{len(names)}"
        while name in taken:
            name = f"_{name}"
        names.append(name)
        # The function takes over the body, and is added at the end; the initializer is erased.
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


def _is_private(function: Operation) -> bool:
    """Return whether a function is private, and not one that computes constants (`DERIVED`).

    Functions of the latter kind run when a program is loaded, without a call in the module.
    """
    return DERIVED not in function.attributes and function.properties.get("sym_visibility") == StringAttr("private")


def _calls(ops: Iterable[Operation]) -> list[Operation]:
    """Return the calls in operations and their regions."""
    return [inner for op in ops for inner in walk(op) if inner.name in CALLS]


def _require_few_copies(functions: dict[str, Operation], roots: Sequence[str]) -> None:
    """Check every call, and raise CompileError if inlining all calls of `roots` would add too many operations. Nothing
    is copied yet.

    Args:
        functions: Name → function.
        roots: Names of the functions whose calls will be inlined.
    """
    # The number of operations of each function before and after inlining; callees precede callers in `size_after`.
    calls = {name: _calls([function]) for name, function in functions.items()}
    size_before = {name: sum(1 for _ in walk(function)) for name, function in functions.items()}
    size_after: dict[str, int] = {}
    for name in functions:
        _check_and_count(name, functions, calls, size_before, size_after)
    added = sum(size_after[name] - size_before[name] for name in roots)
    if added <= MOST_ADDED_OPERATIONS:
        return
    # The error names the root that grows most, and the function whose copies have the most operations.
    copies = _copies_of_functions(roots, calls, callers_last=list(size_after))
    root = max(roots, key=lambda name: size_after[name] - size_before[name])
    callees = {callee_name(call) for calls_of_function in calls.values() for call in calls_of_function}
    largest = max(sorted(callees), key=lambda name: copies[name] * size_before[name])
    raise CompileError(
        f"inlining the calls of '@{root}' makes {size_after[root]:,} operations of {sum(size_before.values()):,}; "
        f"calls may add {MOST_ADDED_OPERATIONS:,}", location_of(functions[root]),
        f"each call is replaced by a copy of the function, and '@{largest}' is copied {copies[largest]:,} times; "
        "repeat it with scf.for, or pass on the result of one call",
    )  # fmt: skip


def _copies_of_functions(
    roots: Sequence[str], calls: Mapping[str, Sequence[Operation]], callers_last: Sequence[str]
) -> Counter[str]:
    """Return how often the body of each function is in the program after inlining.

    Args:
        roots: Names of the functions whose calls are inlined.
        calls: Name of a function -> the calls in it.
        callers_last: Names of all functions, callees before their callers.
    """
    copies = Counter(roots)
    for name in reversed(callers_last):
        for call in calls[name]:
            copies[callee_name(call)] += copies[name]
    return copies


def _check_and_count(
    root: str,
    functions: dict[str, Operation],
    calls: dict[str, list[Operation]],
    size_before: dict[str, int],
    size_after: dict[str, int],
) -> None:
    """Store in `size_after` the number of operations of `root`, and of each function that it calls, after inlining.

    If @main, of 5 operations, calls @f, of 10, twice, 10 is stored for @f and 25 for @main.

    Raises CompileError for a call of a function that is missing, has no body, is recursive, or has another signature.

    Args:
        root: Name of a function.
        functions: Name → function.
        calls: Name of a function → its calls.
        size_before: Name of a function → number of its operations before inlining.
        size_after: Name of a function → number of its operations after inlining; callees are stored before callers.
    """
    # Depth first: each function on the path, with an iterator over its calls that are not counted yet.
    path = {} if root in size_after else {root: iter(calls[root])}
    while path:
        name, remaining_calls = next(reversed(path.items()))
        call = next(remaining_calls, None)
        if call is None:  # the sizes of all callees are known
            size_after[name] = size_before[name] + sum(size_after[callee_name(inner)] for inner in calls[name])
            del path[name]
        elif (callee := _checked_callee(call, functions, path)) not in size_after:
            path[callee] = iter(calls[callee])


def _inline_into(function: Operation, functions: dict[str, Operation]) -> None:
    """Inline every call in a function, and the calls in the inlined copies. The callees themselves are unchanged.

    This ends because no function is recursive: _require_few_copies() has checked that.
    """
    pending = _calls([function])
    while pending:
        call = pending.pop()
        pending += _calls(_replace(call, functions[callee_name(call)]))


def _checked_callee(call: Operation, functions: dict[str, Operation], callers: Collection[str]) -> str:
    """Return the name of the called function. Raise CompileError if it is missing, has no body, is recursive, or has
    another signature.

    callers: the functions on the current call path, in order.
    """
    name = callee_name(call)
    if name not in functions:
        raise CompileError(
            f"there is no function '@{name}'", location_of(call),
            f"functions: {', '.join('@' + n for n in functions) or 'none'}",
        )  # fmt: skip
    if name in callers:
        # The cycle begins at the caller with this name: of the path @main, @f, @g that calls @f, it is @f, @g, @f.
        cycle = list(dropwhile(lambda caller: caller != name, callers))
        way = " → ".join(f"@{n}" for n in [*cycle, name])
        raise CompileError(f"'@{name}' calls itself", location_of(call), f"by way of {way}; host code has no recursion")
    blocks = list(functions[name].regions[0].blocks)
    if not blocks:
        raise CompileError(
            f"'@{name}' has no body", location_of(call),
            "host code cannot call external functions; call them in the kernel of a dispatch",
        )  # fmt: skip
    _require_signature(call, name, blocks)
    return name


def _require_signature(call: Operation, name: str, blocks: Sequence[Block]) -> None:
    """Raise CompileError unless the types of a call are those of the function. blocks: its body."""
    passed, taken = [v.type for v in call.operands], [a.type for a in blocks[0].args]
    ends = [block.last_op for block in blocks if block.last_op is not None and block.last_op.name in RETURNS]
    # A function without a return never ends: it returns whatever the call expects.
    returned = [v.type for v in ends[0].operands] if ends else [r.type for r in call.results]
    result_types = [r.type for r in call.results]
    for kind, of_call, of_function in (("arguments", passed, taken), ("results", result_types, returned)):
        if of_call != of_function:
            raise CompileError(
                f"the {kind} of this call are ({', '.join(map(str, of_call))}), those of '@{name}' "
                f"({', '.join(map(str, of_function))})", location_of(call),
            )  # fmt: skip


def _replace(call: Operation, function: Operation) -> list[Operation]:
    """Replace a call by a copy of the function; return the copied operations."""
    if len(function.regions[0].blocks) == 1:
        return _replace_straight(call, function)
    return _replace_branching(call, function)


def _replace_straight(call: Operation, function: Operation) -> list[Operation]:
    """Replace a call by a copy of the function's only block; return the copied operations.

    The copy reads the operands of the call in place of the block's arguments. The values that the function returns, as
    copied, replace the results of the call; the return itself is not copied.
    """
    source, block = function.regions[0].block, call.parent
    assert block is not None
    copies: list[Operation] = []
    mapping: dict[SSAValue, SSAValue] = dict(zip(source.args, call.operands, strict=True))
    # Copy each operation before the call, except for the return.
    for op in source.ops:
        if op.next_op is None:  # the return
            for result, value in zip(call.results, op.operands, strict=True):
                result.replace_all_uses_with(mapping[value])
            continue
        copy = op.clone(mapping)  # also adds the results of the copy to `mapping`
        for new, old in zip(walk(copy), walk(op), strict=True):
            set_location(new, old)
        block.insert_op_before(copy, call)
        copies.append(copy)
    erase_op(call)
    return copies


def _replace_branching(call: Operation, function: Operation) -> list[Operation]:
    """Replace a call by copies of the function's blocks; return the copied operations.

    The calling block is split at the call. Its first half branches to the copied entry block, and each copied return to
    the second half, which has an argument for each result of the call: `a; %r = call @f(%x); b` becomes

        ^block:      a; br ^entry(%x)
        ^entry(%p):  ...; br ^after(%v)      the copy of @f, which returns %v
        ^after(%r):  b
    """
    block = call.parent
    assert block is not None
    after = _split_after(call, block)
    # Copy the blocks of the function between the two halves, and branch to the first of them.
    call.detach()
    copy = function.regions[0].clone()
    for new, old in zip(walk(copy), walk(function.regions[0]), strict=True):
        set_location(new, old)
    blocks = list(copy.blocks)
    copy.move_blocks_before(after)
    entry = cf.BranchOp(blocks[0], *call.operands)
    set_location(entry, call)
    block.add_op(entry)
    # Each return becomes a branch to the second half, with the returned values.
    for inner in blocks:
        last = inner.last_op
        if last is not None and last.name in RETURNS:
            jump = cf.BranchOp(after, *last.operands)
            set_location(jump, last)
            erase_op(last)
            inner.add_op(jump)
    call.erase()
    return [op for inner in blocks for op in inner.ops]


def _split_after(call: Operation, block: Block) -> Block:
    """Split a block after a call, and return the second half: its arguments replace the results of the call."""
    assert call.next_op is not None
    after = block.split_before(call.next_op, arg_types=[r.type for r in call.results])
    for result, argument in zip(call.results, after.args, strict=True):
        argument.name_hint = result.name_hint
        result.replace_all_uses_with(argument)
    return after
