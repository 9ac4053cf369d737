"""Handlers of operations that navigate between handles, and of those that run sequences on many operations.

A handler gets the interpreter, the operation `op` of the transform script to execute, and `env`: value of the script →
list of operations, values or parameters that it denotes. It adds the results of `op` to `env`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import IsolatedFromAbove

from pydispatch.compiler.match.transform.index import MatcherIndex
from pydispatch.compiler.match.transform.interpret import Env, Handler, Interpreter, NoMatch, reject
from pydispatch.compiler.match.transform.matchers import with_function_aliases
from pydispatch.errors import CompileError
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.transform.syntax import strings_of
from pydispatch.ir.structured import as_structured


def _match(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `structured.match`: find operations by name, interface, attributes, and types of operands and result.

    The result, in `env`, is a handle of the matching operations inside of those of the operand, each once, in order.
    A condition that `op` does not state is not checked. With a `filter_result_type`, an operation must have one result,
    of this type.
    """
    names = with_function_aliases(strings_of(op.ops))
    matches: dict[Operation, None] = {}
    for root in interpreter.ops(op, env):
        for candidate in walk(root):
            if candidate is root or (names and candidate.name not in names):
                continue
            # "LinalgOp" is the only interface that is checked.
            if op.interface is not None and op.interface.data == "LinalgOp" and as_structured(candidate) is None:
                continue
            if op.op_attrs is not None and not _has_attributes(candidate, op.op_attrs.data):
                continue
            if op.filter_result_type is not None and [r.type for r in candidate.results] != [op.filter_result_type]:
                continue
            if op.filter_operand_types is not None and not _has_operand_types(candidate, op.filter_operand_types.data):
                continue
            matches[candidate] = None
    env[op.results[0]] = list(matches)


def _has_attributes(op: Operation, wanted: Any) -> bool:
    """Return whether an operation has these attributes with these values."""
    return all(op.properties.get(k, op.attributes.get(k)) == v for k, v in wanted.items())


def _has_operand_types(op: Operation, wanted: Sequence[Attribute]) -> bool:
    """Return whether the operands of an operation have the types `wanted`, in order. A single type is meant for all."""
    types = [v.type for v in op.operands]
    return types == (list(wanted) * len(types) if len(wanted) == 1 else list(wanted))


def _foreach(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `foreach`: run the body for each position of the handles, and concatenate the yielded handles."""
    lists = [env[v] for v in op.operands]
    if len({len(values) for values in lists}) > 1:
        interpreter.fail(
            op, f"the handles hold different numbers of things: {', '.join(str(len(values)) for values in lists)}"
        )
    block = op.body.block
    gathered: list[list[Any]] = [[] for _ in op.results]
    for items in zip(*lists, strict=True):  # one item of each handle
        arguments = {argument: [item] for argument, item in zip(block.args, items, strict=True)}
        yielded = interpreter.block(block, {**env, **arguments})
        for handle, values in zip(gathered, yielded, strict=False):
            handle += values
    env.update(zip(op.results, gathered, strict=True))


def _foreach_match(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `foreach_match`: for each operation, run the first matcher that accepts it and then its action.

    Matchers and actions are named sequences of the spec, in pairs. The operations are those inside of the operations
    that operand 0 denotes, or with `restrict_root` these alone. Result 0 is operand 0 again, without the operations
    that actions have erased; result i + 1 gathers, over all matches, what the actions yield at position i.
    """
    roots, is_restricted = interpreter.ops(op, env), op.restrict_root is not None
    # The pairs, which are checked before any is run, and an index of the matchers that an operation may satisfy.
    matchers = [interpreter.sequence(op, m) for m in op.matchers.data]
    actions = [interpreter.sequence(op, a) for a in op.actions.data]
    pairs = list(zip(matchers, actions, strict=True))
    for matcher, action in pairs:
        _check_action(interpreter, matcher, action)
        interpreter.report.declare(f"@{matcher.sym_name.data}")
    index = MatcherIndex(interpreter, matchers)
    extras = [env[v] for v in op.operands[1:]]  # further handles, which matchers take and may yield to their actions
    # The operations, inner ones before those around them.
    gathered: list[list[Any]] = [[] for _ in op.results[1:]]
    for root in roots:
        candidates = [root] if is_restricted else [inner for inner in _post_order(root) if inner is not root]
        for candidate in candidates:
            if interpreter.is_erased(candidate):  # by an action for an earlier operation
                continue
            results = _match_and_act(interpreter, index, pairs, candidate, extras)
            # An action may yield fewer or more handles than `foreach_match` has results; surplus ones are dropped.
            for handle, values in zip(gathered, results, strict=False):
                handle += values
    # The results, and reports of the matchers that accepted nothing.
    env[op.results[0]] = roots = [root for root in roots if not interpreter.is_erased(root)]
    visited = roots if is_restricted else (inner for root in roots for inner in walk(root) if inner is not root)
    _report_near_misses(interpreter, matchers, visited, index)
    env.update(zip(op.results[1:], gathered, strict=True))


def _match_and_act(
    interpreter: Interpreter, index: MatcherIndex, pairs: Sequence[tuple[Any, Any]], candidate: Operation,
    extras: list[list[Any]],
) -> Sequence[list[Any]]:  # fmt: skip
    """Run the action of the first matcher that accepts an operation, and return what it yields; () without one.

    Args:
        interpreter: The interpreter.
        index: Index of the matchers.
        pairs: Pairs (matcher, action).
        candidate: The operation.
        extras: Further handles, which matchers take.
    """
    for ordinal in index.candidates(candidate):
        matcher, action = pairs[ordinal]
        yielded = _run_matcher(interpreter, matcher, candidate, extras)
        if yielded is not None:
            interpreter.report.match(f"@{matcher.sym_name.data}", candidate, f"@{action.sym_name.data}")
            return _run_action(interpreter, action, yielded)
        index.record_rejection(ordinal, candidate)
    return ()


def _check_action(interpreter: Interpreter, matcher: Any, action: Any) -> None:
    """Raise an error unless an action takes the types that its matcher yields."""
    yielded_types, taken_types = list(matcher.function_type.outputs.data), list(action.function_type.inputs.data)
    if yielded_types != taken_types:
        interpreter.fail(
            action, f"the matcher @{matcher.sym_name.data} gives ({', '.join(map(str, yielded_types))}), its "
            f"action @{action.sym_name.data} takes ({', '.join(map(str, taken_types))})",
            "let the action take exactly what the matcher yields",
        )  # fmt: skip


def _run_matcher(
    interpreter: Interpreter, matcher: Any, op: Operation, extras: list[list[Any]]
) -> list[list[Any]] | None:
    """Run a matcher on an operation, and return the handles that it yields.

    If it does not match, report the miss, and return None. extras: further handles that the matcher takes.
    """
    try:
        return interpreter.call(matcher, [[op], *extras])
    except NoMatch as miss:
        interpreter.report.miss(f"@{matcher.sym_name.data}", op, miss.mismatch)
        return None


def _run_action(interpreter: Interpreter, action: Any, handles: list[list[Any]]) -> list[list[Any]]:
    """Run an action on the handles that its matcher yielded, and return the handles that it yields.

    Raises CompileError if an operation of it does not match.
    """
    try:
        return interpreter.call(action, handles)
    except NoMatch as miss:
        interpreter.fail(action, f"the action @{action.sym_name.data} said no: {miss.mismatch.reason}",
                 "what may say no belongs into the matcher")  # fmt: skip


def _report_near_misses(
    interpreter: Interpreter, matchers: list[Any], visited: Iterable[Operation], index: MatcherIndex
) -> None:
    """Report near misses of matchers without matches: run the first `MOST_EXPLAINED` of them again.

    The index had ruled out most operations without running the matchers. A matcher that fails records its reason in
    `interpreter.report`.

    Args:
        interpreter: The interpreter.
        matchers: All matchers.
        visited: Operations on which the matchers are tried.
        index: Index of the matchers, which knows what they require of the operation itself.
    """
    unmatched = set(interpreter.report.unmatched)
    explained = [(i, m) for i, m in enumerate(matchers) if f"@{m.sym_name.data}" in unmatched][:MOST_EXPLAINED]
    if not explained:
        return
    for candidate in visited:
        for ordinal, matcher in explained:
            if index.may_match_at(candidate, ordinal):
                # The further parameters of a matcher get handles without operations, at which it may fail.
                no_handles: list[list[Any]] = [[] for _ in matcher.body.block.args[1:]]
                _run_matcher(interpreter, matcher, candidate, extras=no_handles)


MOST_EXPLAINED = 8
"""Maximum number of unmatched matchers that one `foreach_match` explains; each is run again on all operations."""


def _post_order(root: Operation) -> list[Operation]:
    """Return `root` and the operations in it, nested operations before the enclosing one."""
    order: list[Operation] = []
    pending: list[tuple[Operation, bool]] = [(root, False)]  # (operation, whether those in it were pushed)
    while pending:
        op, is_expanded = pending.pop()
        if is_expanded or not op.regions:
            order.append(op)
            continue
        pending.append((op, True))
        inside = [child for region in op.regions for block in region.blocks for child in block.ops]
        pending += [(child, False) for child in reversed(inside)]
    return order


def _include(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `include`: run another sequence; a mismatch yields empty handles if failures are suppressed."""
    sequence = interpreter.sequence(op, op.target)
    try:
        yielded = interpreter.call(sequence, [env[v] for v in op.operands])
    except NoMatch:
        if op.failures is None or op.failures.data != "suppress":
            raise
        yielded = [[] for _ in op.results]
    if len(yielded) != len(op.results):
        interpreter.fail(op, f"@{sequence.sym_name.data} yields {len(yielded)} handle(s), {len(op.results)} are wanted")
    env.update(zip(op.results, yielded, strict=True))


def _constant(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `param.constant`: bind the result to the attribute that `op` states."""
    env[op.results[0]] = [op.value]


def _operands(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `get_operand`: bind the result to the selected operands of each operation of the handle."""
    env[op.results[0]] = [
        v for target in interpreter.ops(op, env) for v in _pick(op, list(target.operands), "operand", target)
    ]


def _results(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `get_result`: bind the result to the selected results of each operation of the handle."""
    env[op.results[0]] = [
        v for target in interpreter.ops(op, env) for v in _pick(op, list(target.results), "result", target)
    ]


def _pick(op: Any, values: list[SSAValue], kind: str, target: Operation) -> list[SSAValue]:
    """Return the values at the positions that `op` states; reject `target` if it does not have them.

    values, kind: the operands or results of `target`; "operand" or "result", for the message.
    """
    picked = op.positions(len(values))  # None if a position is out of range
    if picked is None:
        stated = ", ".join(str(v) for v in op.properties["positions"].get_values())
        reject(f"{target.name} has {len(values)} {kind}(s), asked for number {stated}", target)
    return [values[i] for i in picked]


def _defining(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `get_defining_op`: yield the operations that define the values of a handle, each once."""
    producers: list[Operation] = []
    for value in env[op.operands[0]]:
        if not isinstance(value, SSAValue):
            interpreter.fail(op, f"'{op.name}' needs a handle of values")
        if not isinstance(value.owner, Operation):
            reject(f"%{value.name_hint or 'value'} is an argument, not the result of an operation", op=None)
        producers.append(value.owner)
    env[op.results[0]] = list(dict.fromkeys(producers))


def _producer(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `get_producer_of_operand`: yield the operations that define operands, one for each operand."""
    producers = []
    for target in interpreter.ops(op, env):
        for value in _pick(op, list(target.operands), "operand", target):
            if not isinstance(value.owner, Operation):
                reject(f"an operand of {target.name} is an argument, not the result of an operation", target)
            producers.append(value.owner)
    env[op.results[0]] = producers


def _consumers(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `get_consumers_of_result`: yield the operations that use a result, each once."""
    users: dict[Operation, None] = {}
    for target in interpreter.ops(op, env):
        for value in _pick(op, list(target.results), "result", target):
            users.update(dict.fromkeys(use.operation for use in value.uses))
    env[op.results[0]] = list(users)


def _parent(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `get_parent_op`: find the n-th ancestor with the stated name and isolation, by default the first.

    Ancestors that are not as stated do not count. The result, in `env`, is a handle of the ancestors of all operations
    of the operand, each once. An operation without such an ancestor is rejected: the matcher fails.
    """
    name = op.attributes.get("op_name")
    names = with_function_aliases([name.data]) if name is not None else set()
    is_isolated = "isolated_from_above" in op.attributes
    nth = op.attributes.get("nth_parent")
    count = nth.value.data if isinstance(nth, IntegerAttr) else 1
    parents: dict[Operation, None] = {}
    for target in interpreter.ops(op, env):
        ancestors = [a for a in _ancestors(target) if _is_as_stated(a, names, is_isolated)]
        if len(ancestors) < count:
            reject(f"{target.name} has no such operation around it", target)
        parents[ancestors[count - 1] if count > 0 else target] = None  # ancestor 0 is the operation itself
    env[op.results[0]] = list(parents)


def _ancestors(op: Operation) -> Iterator[Operation]:
    """Yield the operations around `op`, inner ones first."""
    parent = op.parent_op()
    while parent is not None:
        yield parent
        parent = parent.parent_op()


def _is_as_stated(op: Operation, names: set[str], is_isolated: bool) -> bool:
    """Return whether `op` has one of the names, unless there are none, and is isolated from above if `is_isolated`."""
    if names and op.name not in names:
        return False
    return not is_isolated or op.has_trait(IsolatedFromAbove)


def _nearest_symbol_table(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `get_nearest_symbol_table`: yield the innermost module that each operation is, or is in; each once."""
    modules: dict[Operation, None] = {}
    for target in interpreter.ops(op, env):
        parent: Operation | None = target
        while parent is not None and not isinstance(parent, ModuleOp):
            parent = parent.parent_op()
        if parent is None:
            raise CompileError(f"there is no module around {target.name}")
        modules[parent] = None
    env[op.results[0]] = list(modules)


def _merge(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `merge_handles`: bind the result to the items of all handles, with `deduplicate` each once."""
    items = [item for handle in op.operands for item in env[handle]]
    env[op.results[0]] = list(dict.fromkeys(items)) if op.deduplicate is not None else items


def _split(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `split_handle`: yield a handle for each item; there must be as many items as results."""
    held = env[op.operands[0]]
    if len(held) != len(op.results):
        interpreter.fail(op, f"the handle holds {len(held)} operation(s), {len(op.results)} are wanted")
    env.update((r, [x]) for r, x in zip(op.results, held, strict=True))


def _count(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `num_associations`: yield the number of items of a handle."""
    env[op.results[0]] = [IntegerAttr(len(env[op.operands[0]]), 64)]


def _cast(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `transform.cast`, which passes a handle on as one of a more specific type.

    If the type of the result names an operation, `!transform.op<"linalg.matmul">`, reject handles that have another
    one. `with_function_aliases` adds the other names of the same operation: `func.func` is `util.func`, too.
    """
    type = op.results[0].type
    name_attribute = getattr(type, "operation", None)  # of `!transform.op`
    wanted = getattr(name_attribute, "data", None)
    for target in env[op.operands[0]]:
        if wanted is not None and target.name not in with_function_aliases([wanted]):
            reject(f"expected {wanted}, got {target.name}", target)
    env[op.results[0]] = env[op.operands[0]]


HANDLERS: dict[str, Handler] = {
    "transform.structured.match": _match,
    "transform.foreach": _foreach,
    "transform.foreach_match": _foreach_match,
    "transform.include": _include,
    "transform.param.constant": _constant,
    "transform.get_operand": _operands,
    "transform.get_result": _results,
    "transform.get_defining_op": _defining,
    "transform.get_producer_of_operand": _producer,
    "transform.get_consumers_of_result": _consumers,
    "transform.get_parent_op": _parent,
    "transform.util.get_nearest_symbol_table": _nearest_symbol_table,
    "transform.iree.get_nearest_symbol_table": _nearest_symbol_table,
    "transform.merge_handles": _merge,
    "transform.split_handle": _split,
    "transform.num_associations": _count,
    "transform.cast": _cast,
}
"""Name of an operation of a transform sequence → function that executes it."""
