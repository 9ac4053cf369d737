"""Handlers of `match.structured` operations: they inspect the loops, operands and body of a structured operation.

A handler gets the interpreter, the operation `op` of the transform script to execute, and `env`: value of the script →
list of operations, values or parameters that it denotes. It adds the results of `op` to `env`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.match.graph import expressions
from pydispatch.compiler.match.transform.interpret import NOTHING_AGREES, Env, Handler, Interpreter, reject
from pydispatch.ir.affine_maps import is_permutation, is_projected_permutation
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.transform.syntax import strings_of
from pydispatch.ir.structured import Structured, as_structured


def _structured(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `match.structured`: run its body with the operation of the program as argument, and bind its results to
    the handles that the body yields.

    The matcher rejects an operation of the program that is not structured: no loops and indexing maps are known for it.
    A body that yields too few or too many handles is an error of the spec: CompileError.
    """
    root = interpreter.one(op, env)
    if as_structured(root) is None:
        # Reports show the rejections that got furthest. This one has the lowest rank: not even the operation agrees.
        reject(f"expected a structured operation, got {root.name}", root, depth=NOTHING_AGREES)
    block = op.body.block
    inner = {**env, block.args[0]: [root]}
    yielded = interpreter.block(block, inner)
    if len(yielded) != len(op.results):
        interpreter.fail(op, f"the body yields {len(yielded)} handle(s), '{op.name}' has {len(op.results)} result(s)")
    env.update(zip(op.results, yielded, strict=True))


def _structured_root(interpreter: Interpreter, op: Any, env: Env) -> tuple[Operation, Structured]:
    """Return the only operation that the first operand of `op` denotes, and its view as a structured operation (loops,
    indexing maps, body); reject one that is not structured.
    """
    root = interpreter.one(op, env)
    view = as_structured(root)
    if view is None:
        reject(f"expected a structured operation, got {root.name}", root, depth=NOTHING_AGREES)
    return root, view


def _count_handler(count_of: Callable[[Structured], int]) -> Handler:
    """Return a handler whose result is a count, such as the number of loops of a structured operation.

    Args:
        count_of: Function that returns the count for a structured operation.
    """

    def handler(interpreter: Interpreter, op: Any, env: Env) -> None:
        """Bind the result of `op` to the number that `count_of` returns for the matched operation."""
        _, structure = _structured_root(interpreter, op, env)
        env[op.results[0]] = [IntegerAttr(count_of(structure), 64)]

    return handler


def _bitwidth(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `match.structured.elemental_bitwidth`: bind the result to the width of a value's elements in bits, 64 for
    an index.
    """
    value = interpreter.value(op, env[op.operands[0]])
    type = expressions.element_type(value.type)
    if isinstance(type, IndexType):
        width = 64
    elif isinstance(type, IntegerType):
        width = type.width.data
    elif isinstance(type, AnyFloat):
        width = type.bitwidth
    else:
        reject(f"expected numbers, got {value.type}", op=None)
    env[op.results[0]] = [IntegerAttr(width, 64)]


def _dim(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `match.structured.dim`: check the kinds of the selected loops, and yield their numbers of iterations.

    The attributes `parallel` and `reduction` of `op` require that kind. An unknown number is DYNAMIC.
    """
    root, structure = _structured_root(interpreter, op, env)
    picked = op.positions(len(structure.iterators))  # indices of the selected loops; None if there is no such loop
    if picked is None:
        reject(f"expected more loops than {len(structure.iterators)}", root)
    for kind in ("parallel", "reduction"):
        wrong = next((i for i in picked if kind in op.attributes and structure.iterators[i] != kind), None)
        if wrong is not None:
            reject(f"loop {wrong}: expected {kind}, got {structure.iterators[wrong]}", root)
    if op.results:
        sizes = [DYNAMIC if n is None else n for n in structure.extents]
        env[op.results[0]] = [IntegerAttr(sizes[i], 64) for i in picked]


def _operand_handler(
    values_of: Callable[[Structured], list[SSAValue]], first_map: Callable[[Structured], int], kind: str
) -> Handler:
    """Return the handler of `match.structured.input` or `match.structured.init` (outputs).

    The handler checks the indexing maps of the selected inputs or outputs, and binds each result by its type: to these
    values, to their maps, or to the operations that define them. This line requires that the map of input 0 is a
    projected permutation, such as (d0, d1, d2) -> (d0, d2), and binds %map to the map:

        %map = transform.match.structured.input %root[0] {projected_permutation}
            : (!transform.any_op) -> !transform.affine_map

    Args:
        values_of: Function that returns the inputs or outputs of an operation.
        first_map: Function that returns the position in `Structured.maps` of the map of the first input or output. The
            maps of inputs precede those of outputs.
        kind: "input" or "output", for messages.
    """

    def handler(interpreter: Interpreter, op: Any, env: Env) -> None:
        """Bind each result, by its type, to the selected inputs or outputs, to their maps or to their producers.

        `values_of`, `first_map` and `kind`, arguments of `_operand_handler`, state whether `op` selects inputs or
        outputs. Reject the operation of the program if it has none at a selected position, or if `op` requires a map
        to be a permutation or projected permutation, and it is none.
        """
        root, structure = _structured_root(interpreter, op, env)
        values = values_of(structure)
        picked = op.positions(len(values))  # None if `op` selects a position that is out of range
        if picked is None:
            reject(f"expected more {kind}s than {len(values)}", root)
        # The checks of maps that the attributes select.
        maps = structure.maps[first_map(structure) :]  # of all values, in their order
        for i in picked:
            for flag, holds in (("permutation", is_permutation), ("projected_permutation", is_projected_permutation)):
                if flag in op.attributes and not holds(maps[i]):
                    reject(f"{kind} {i}: expected a {flag.replace('_', ' ')}, got {maps[i]}", root)
        # The results, each by its type.
        for result in op.results:
            if result.type.name == "transform.any_value":
                env[result] = [values[i] for i in picked]
            elif result.type.name == "transform.affine_map":
                env[result] = [maps[i] for i in picked]
            else:
                env[result] = [_producer(values[i], kind, i, root) for i in picked]

    return handler


def _producer(value: SSAValue, kind: str, index: int, root: Operation) -> Operation:
    """Return the operation that defines `value`; reject the operation `root` if no operation does.

    kind, index: "input" or "output" and its position at `root`, for the message.
    """
    if not isinstance(value.owner, Operation):
        reject(f"{kind} {index} is not the result of an operation", root)
    return value.owner


def _result(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `match.structured.result`: bind a handle to the selected results, or to the first user of each.

    A user is an operation that reads the result. The type of the handle decides: `transform.any_value` holds the
    results, any other type the users. For users, reject a result without one, or with several if the operation has the
    attribute `single`:

        %user = transform.match.structured.result %root[0] {single} : (!transform.any_op) -> !transform.any_op
    """
    root, _ = _structured_root(interpreter, op, env)
    picked = op.positions(len(root.results))
    if picked is None:
        reject(f"expected more results than {len(root.results)}", root)
    for result in op.results:
        if result.type.name == "transform.any_value":
            env[result] = [root.results[i] for i in picked]
            continue
        # The users of each selected result; an operation that reads the result twice counts once.
        users = [list(dict.fromkeys(u.operation for u in root.results[i].uses)) for i in picked]
        for i, result_users in zip(picked, users, strict=True):
            if not result_users or ("single" in op.attributes and len(result_users) != 1):
                wanted = "a single user" if "single" in op.attributes else "a user"
                reject(f"result {i}: expected {wanted}, got {len(result_users)}", root)
        env[result] = [result_users[0] for result_users in users]


def _body(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `match.structured.body`: reject the operation if a check fails that the attributes of `op` select.

    - `passthrough`: the yielded values are the elements of the inputs, of all of them in order.
    - `elementwise`: all loops are parallel.
    - `reduction_position = n`: result n is combined with the previous value of its output.
    - `contraction = ["arith.mulf", "arith.addf"]`: the body yields a sum of a product, of these operations.
    """
    root, structure = _structured_root(interpreter, op, env)
    block = structure.body
    if block is None or block.last_op is None:
        reject("the operation has no body", root)
    # One check after the other.
    last = block.last_op
    if "passthrough" in op.attributes:
        is_passthrough = list(last.operands) == list(block.args[: len(structure.inputs)])
        if not is_passthrough:
            reject("body: expected that all inputs are yielded as they are, in order", root)
    if "elementwise" in op.attributes:
        bad = next((i for i in structure.iterators if i != "parallel"), None)
        if bad is not None:
            reject(f"body: expected an elementwise operation, it has a {bad} loop", root)
    position = op.attributes.get("reduction_position")
    if isinstance(position, IntegerAttr):
        _require_reduction(root, structure, int(position.value.data))
    contraction = strings_of(op.attributes.get("contraction"))
    if contraction:
        _require_contraction(root, structure, contraction)


def _require_reduction(root: Operation, structure: Structured, position: int) -> None:
    """Reject the operation `root`, viewed as `structure`, if the result of its body at `position` is not combined with
    the previous value of its output.
    """
    assert structure.body is not None and structure.body.last_op is not None
    yielded = structure.body.last_op.operands
    if position >= len(yielded):
        reject(f"body: expected more than {position} result(s)", root)
    combiner = yielded[position].owner
    argument = structure.body.args[len(structure.inputs) + position]
    if not isinstance(combiner, Operation) or argument not in combiner.operands:
        reject(f"body: result {position} is not combined with what the output holds", root)


def _require_contraction(root: Operation, structure: Structured, names: list[str]) -> None:
    """Reject the operation `root`, viewed as `structure`, unless its body ends with the two operations of `names`.

    `names` is (multiplication, addition), such as ["arith.mulf", "arith.addf"]: the body must yield the result of the
    addition, and an operand of the addition must be the result of the multiplication.
    """
    assert structure.body is not None and structure.body.last_op is not None
    multiply, add = names[0], names[-1]
    yielded = structure.body.last_op.operands[0].owner
    if not isinstance(yielded, Operation) or yielded.name != add:
        got = yielded.name if isinstance(yielded, Operation) else "an argument"
        reject(f"body: expected {add} to be yielded, got {got}", root)
    if not any(isinstance(v.owner, Operation) and v.owner.name == multiply for v in yielded.operands):
        reject(f"body: expected {add} of a {multiply}", root)


HANDLERS: dict[str, Handler] = {
    "transform.match.structured": _structured,
    "transform.match.structured.rank": _count_handler(lambda s: len(s.iterators)),
    "transform.match.structured.num_inputs": _count_handler(lambda s: len(s.inputs)),
    "transform.match.structured.num_inits": _count_handler(lambda s: len(s.outputs)),
    "transform.match.structured.elemental_bitwidth": _bitwidth,
    "transform.match.structured.dim": _dim,
    "transform.match.structured.input": _operand_handler(
        values_of=lambda s: list(s.inputs), first_map=lambda s: 0, kind="input"
    ),
    "transform.match.structured.init": _operand_handler(
        values_of=lambda s: list(s.outputs), first_map=lambda s: len(s.inputs), kind="output"
    ),
    "transform.match.structured.result": _result,
    "transform.match.structured.body": _body,
}
"""Name of an operation of a transform sequence → function that executes it."""
