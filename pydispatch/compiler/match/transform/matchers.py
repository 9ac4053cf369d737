"""Handlers of the operations in matchers: each inspects the program and may reject it with a reason.

A handler gets the interpreter, the operation `op` of the transform script to execute, and `env`: value of the script →
list of operations, values or parameters that it denotes. It adds the results of `op` to `env`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.match.graph import expressions
from pydispatch.compiler.match.graph.dag import DagPattern
from pydispatch.compiler.match.graph.expressions import ScalarBody
from pydispatch.compiler.match.graph.facts import cast_problem, size_of
from pydispatch.compiler.match.graph.matches import Mismatch
from pydispatch.compiler.match.graph.search import match_dag
from pydispatch.compiler.match.transform.interpret import (
    NOTHING_AGREES,
    STRUCTURE_AGREES,
    Env,
    Handler,
    Interpreter,
    NoMatch,
    reject,
)
from pydispatch.ir.dialects.transform.syntax import strings_of
from pydispatch.ir.functions import FUNCTIONS


def with_function_aliases(names: list[str]) -> set[str]:
    """Return names of operations as a set. If one is the name of a function operation, add those of all dialects.

    The function that a script calls "func.func" may be a "util.func" in the program.
    """
    has_function = any(name in FUNCTIONS for name in names)
    return {*names, *FUNCTIONS} if has_function else set(names)


def _operation_name(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `match.operation_name`: reject an operation whose name is none of those stated."""
    names = with_function_aliases(strings_of(op.op_names))
    for target in interpreter.ops(op, env):
        if target.name not in names:
            reject(f"expected {' or '.join(sorted(names))}, got {target.name}", target, depth=NOTHING_AGREES)


def _operation_empty(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `match.operation_empty`: reject a handle that has an operation."""
    if env[op.operands[0]]:
        reject("expected no operation", op=None)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
"""Predicate of `transform.match.param.cmpi` → function that compares two numbers."""


def _cmpi(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `match.param.cmpi`: compare the numbers of two handles pairwise; reject if one comparison is false."""
    left, right = env[op.operands[0]], env[op.operands[1]]
    if len(left) != len(right):
        reject(f"expected as many numbers on both sides, got {len(left)} and {len(right)}", op=None)
    for a, b in zip(left, right, strict=True):
        if not _COMPARE[op.predicate.data](_integer(interpreter, op, a), _integer(interpreter, op, b)):
            hint = op.operands[0].name_hint
            wanted = f"%{hint or 'value'} {op.predicate.data} {_integer(interpreter, op, b)}"
            reject(f"expected {wanted}, got {_integer(interpreter, op, a)}", op=None)


def _integer(interpreter: Interpreter, op: Operation, param: Any) -> int:
    """Return the value of an integer parameter. Raises CompileError for other parameters."""
    value = param.value.data if isinstance(param, IntegerAttr) else param
    if not isinstance(value, int):
        interpreter.fail(op, f"'{op.name}' compares integers, got {param}")
    return value


# --- iree ---


def pattern_of(interpreter: Interpreter, op: Any) -> DagPattern:
    """Return the pattern of a `cast_compatible_dag_from_root`; it is built once and cached."""
    pattern: DagPattern | None = interpreter.patterns.get(op)
    if pattern is None:
        block = op.body.block
        root = block.last_op
        if root is not None and not root.results and root.operands:  # a terminator: the root defines its operand
            root = root.operands[0].owner
        if not isinstance(root, Operation) or not root.results:
            interpreter.fail(op, "the pattern has no operation", "write the operations to find after ^bb0(...):")
        pattern = interpreter.patterns[op] = DagPattern(block, root)
        if pattern.unused:
            name = pattern.unused[0].name_hint or pattern.unused[0].index
            interpreter.fail(op, f"input %{name} of the pattern is used by no operation above its root",
                     "the root is the last operation; leave the input out")  # fmt: skip
    return pattern


def _dag(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `match.cast_compatible_dag_from_root`: match an operation and its producers with the pattern in the body
    of `op`. Bind the first result to the matched inputs, the second to the outputs.
    """
    pattern = pattern_of(interpreter, op)
    root = interpreter.one(op, env)
    match = match_dag(pattern, root, interpreter.view)
    if isinstance(match, Mismatch):
        raise NoMatch(match)
    if len(op.results) != 2:
        interpreter.fail(op, f"'{op.name}' gives inputs and outputs: 2 results, not {len(op.results)}")
    inputs = []
    for argument, value in zip(pattern.inputs, match.inputs, strict=True):  # None: a destination that the program lacks
        inputs.append(value if value is not None else Absent(argument.type, root))
    env[op.results[0]] = inputs
    env[op.results[1]] = list(match.outputs)


class Absent:
    """Placeholder in a list of matched values: an output tensor of the pattern that the program lacks.

    A call that replaces the match gets an empty tensor in its place.

    Attributes:
        type: Type of the tensor.
        root: Operation of the program that the pattern's root matched.
    """

    def __init__(self, type: Attribute, root: Operation) -> None:
        """Record an output tensor that the program lacks, and the operation that the pattern's root matched."""
        self.type, self.root = type, root


def _type(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `match.cast_compatible_type`: reject values that cannot be cast to a type."""
    for value in env[op.operands[0]]:
        if not isinstance(value, SSAValue):
            interpreter.fail(op, f"'{op.name}' needs a handle of values")
        problem = cast_problem(value.type, op.target_type)
        if problem is not None:
            name = f"%{value.name_hint}" if value.name_hint else "value"
            producer = value.owner if isinstance(value.owner, Operation) else None
            reject(f"{op.operands[0].name_hint or name}: {problem}", producer, depth=STRUCTURE_AGREES)


def _reject_value(reason: str) -> NoReturn:
    """Reject a value whose producers matched; `reason` is for reports."""
    reject(reason, op=None, depth=STRUCTURE_AGREES)


def _tensor_and_dim(interpreter: Interpreter, op: Any, env: Env) -> tuple[SSAValue, int]:
    """Return the only value of the first operand, and the dimension that `op` states; reject a value that is no tensor
    or lacks the dimension.

    The returned dimension is counted from 0. The stated one may be counted from the end: -1 is the last.
    """
    value = interpreter.value(op, env[op.operands[0]])
    if not isinstance(value.type, TensorType):
        _reject_value(f"expected a tensor, got {value.type}")
    rank, dim = len(value.type.get_shape()), op.dim.value.data
    least_rank = dim + 1 if dim >= 0 else -dim
    if rank < least_rank:
        _reject_value(f"expected at least {least_rank} sizes, got {value.type}")
    return value, dim % rank


def _multiple(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `match.dim_is_multiple_of`: reject a tensor unless a size of it is known to be a multiple of a number.

    A dynamic size may have a known divisor, as in `%n * 16`.
    """
    value, dim = _tensor_and_dim(interpreter, op, env)
    size, wanted = size_of(value, dim), op.size.value.data
    if size.static is not None:
        divisor, got = size.static, str(size.static)
    else:
        divisor, got = size.multiple, "a dynamic size"
        if size.multiple != 1:
            got += f" that is a multiple of {size.multiple}"
    if wanted <= 0 or divisor % wanted != 0:
        reason = f"size {dim} of {value.type}: expected a multiple of {wanted}, got {got}"
        _reject_value(reason)


def _bounds(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `match.dim_bounds`: reject a tensor unless a size of it is known to be from `umin` up to `umax`."""
    value, dim = _tensor_and_dim(interpreter, op, env)
    size = size_of(value, dim)
    if op.umin is not None and size.low < op.umin.value.data:
        _reject_value(
            f"size {dim} of {value.type}: expected at least {op.umin.value.data}, known is at least {size.low}"
        )
    if op.umax is not None and (size.high is None or size.high > op.umax.value.data):
        known = "nothing" if size.high is None else f"at most {size.high}"
        reason = f"size {dim} of {value.type}: expected at most {op.umax.value.data}, known is {known}"
        _reject_value(reason)


def _regions(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `match.regions`: reject operations whose regions differ from those of the operation in the body of
    `op`.
    """
    wanted = op.body.block.first_op
    if wanted is None:
        interpreter.fail(op, "the body holds no operation to compare with")
    for root in interpreter.ops(op, env):
        if _regions_of(root) != _regions_of(wanted):
            reject(_region_difference(wanted, root), root, depth=STRUCTURE_AGREES)


def _regions_of(op: Operation) -> list[Any]:
    """Return the keys of an operation's regions, which are equal for regions with the same computation.

    Values that the regions capture from outside are not compared.
    """
    return expressions.region_key(op)


def _region_difference(wanted: Operation, root: Operation) -> str:
    """Return the first difference between the regions of two operations, as messages print it."""
    wanted_block = wanted.regions[0].blocks.first if wanted.regions else None
    root_block = root.regions[0].blocks.first if root.regions else None
    if wanted_block is None or root_block is None or wanted_block.last_op is None or root_block.last_op is None:
        return f"expected {len(wanted.regions)} region(s), got {len(root.regions)}"
    if [a.type for a in wanted_block.args] != [a.type for a in root_block.args]:
        want, got = (", ".join(str(a.type) for a in b.args) for b in (wanted_block, root_block))
        return f"body: expected arguments ({want}), got ({got})"
    wanted_body, root_body = ScalarBody(wanted_block), ScalarBody(root_block)
    wanted_yields, root_yields = wanted_block.last_op.operands, root_block.last_op.operands
    for i, (want_value, got_value) in enumerate(zip(wanted_yields, root_yields, strict=False)):
        if wanted_body.key(want_value) != root_body.key(got_value):  # equal keys are equal computations
            return f"body, result {i}: expected {wanted_body.text(want_value)}, got {root_body.text(got_value)}"
    return f"body: expected {len(wanted_yields)} result(s), got {len(root_yields)}"


def _accept(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute a matcher of lowering configs that accepts every operation, because no operation of a program has one."""
    interpreter.ops(op, env)


HANDLERS: dict[str, Handler] = {
    "transform.match.operation_name": _operation_name,
    "transform.match.operation_empty": _operation_empty,
    "transform.match.param.cmpi": _cmpi,
    "transform.iree.match.cast_compatible_dag_from_root": _dag,
    "transform.iree.match.cast_compatible_type": _type,
    "transform.iree.match.dim_is_multiple_of": _multiple,
    "transform.iree.match.dim_bounds": _bounds,
    "transform.iree.match.regions": _regions,
    "transform.iree.match.has_no_lowering_config": _accept,
}
"""Name of an operation of a transform sequence → function that executes it."""
