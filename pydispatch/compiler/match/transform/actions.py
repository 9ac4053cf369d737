"""Handlers of the operations in actions: imports, calls that replace matches, and clean-up.

A handler gets the interpreter, the operation `op` of the transform script to execute, and `env`: value of the script →
list of operations, values or parameters that it denotes. It adds the results of `op` to `env`.
"""

from __future__ import annotations

import sys
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.match.edit import cleanup
from pydispatch.compiler.match.edit.calls import Inserter, call_in_place
from pydispatch.compiler.match.edit.symbols import import_symbol, symbol_of, table_of
from pydispatch.compiler.match.graph.view import GraphView
from pydispatch.compiler.match.report import OUTSIDE, function_of
from pydispatch.compiler.match.transform.interpret import Env, Handler, Interpreter
from pydispatch.compiler.match.transform.matchers import Absent
from pydispatch.ir.functions import FUNCTIONS
from pydispatch.suggestions import nearest


def _import(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `import_symbol`: copy a symbol of the spec into each module of the handle, a list of operations.

    The result, in `env`, is a handle of the operations that have the symbol in these modules. A handle with another
    operation than a module is an error.
    """
    name = op.symbol.root_reference.data
    imported = []
    for module in interpreter.ops(op, env):
        if not isinstance(module, ModuleOp):
            interpreter.fail(op, f"symbols are imported into a module, this handle holds {module.name}",
                     "get it with transform.util.get_nearest_symbol_table")  # fmt: skip
        imported.append(
            import_symbol(
                name, source=interpreter.top_level, program=module, imported=interpreter.imported, spec_op=op,
                if_undefined=op.if_undefined is not None, force=op.force_import is not None,
            )
        )  # fmt: skip
    env[op.results[0]] = imported


def _insertion_point(interpreter: Interpreter, op: Any, env: Env) -> Operation:
    """Return the operation before or after which `op` inserts a call: the only one of its handle `insertion_point`.

    Raises CompileError for another number, or an operation that is not inside of a function.
    """
    anchors = interpreter.operations_of(op, env[op.insertion_point[0]])
    if len(anchors) != 1:
        interpreter.fail(op, f"a call is put at one operation, this handle holds {len(anchors)}")
    if anchors[0].name in FUNCTIONS or function_of(anchors[0]) == OUTSIDE:
        interpreter.fail(op, f"a call is put inside of a function, this handle holds {anchors[0].name}",
                 "name the operation that matched, or the one that makes the last input")  # fmt: skip
    return anchors[0]


def _cast_and_call(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `cast_and_call`: call a function at the insertion point and replace the outputs by its results.

    A handle of the spec denotes values of the program, such as the inputs of a match. The result of the operation, in
    `env`, is a handle of the call.
    """
    anchor = _insertion_point(interpreter, op, env)
    function = _function(interpreter, op, env)
    inserter = Inserter(anchor, after=op.insert_after is not None)
    outputs = [v for handle in op.outputs for v in env[handle]]
    # An output tensor of the pattern that the program lacks (`Absent`) is passed as an empty tensor. It has the dynamic
    # sizes of the first output.
    inputs = [
        inserter.empty(v.type, outputs[0] if outputs else None) if isinstance(v, Absent) else v
        for handle in op.inputs
        for v in env[handle]
    ]
    for value in (*inputs, *outputs):
        if not isinstance(value, SSAValue):
            interpreter.fail(op, "the inputs and outputs of a call are values, this handle holds operations",
                     "get them with transform.get_operand and transform.get_result")  # fmt: skip
    # The call.
    for value in outputs:
        interpreter.forget_users(value)  # the view caches nodes of the users, whose operands the call replaces
    # The spec permits casts between static and dynamic sizes by stating a conversion.
    conversions = [o for block in op.conversions.blocks for o in block.ops]
    converts_sizes = any(o.name.startswith("transform.type_conversion.") for o in conversions)
    with_func = op.name == "transform.func.cast_and_call"
    call = call_in_place(
        function, symbol_of(function), inputs, outputs, inserter, op, with_func=with_func, converts_sizes=converts_sizes
    )
    env[op.results[0]] = [call]


def _function(interpreter: Interpreter, op: Any, env: Env) -> Operation:
    """Return the function of the program that `op` calls: by name, or the only operation of a handle.

    A function of this name that only the spec has is copied into the program.
    """
    if op.function_name is not None:
        name = op.function_name.root_reference.data
        symbols = table_of(interpreter.program)
        if name in symbols:
            return symbols[name]
        return import_symbol(
            name, source=interpreter.top_level, program=interpreter.program, imported=interpreter.imported, spec_op=op
        )
    held = interpreter.operations_of(op, env[op.function[0]])
    if len(held) != 1 or held[0].name not in FUNCTIONS:
        interpreter.fail(op, f"a function is called, this handle holds {', '.join(h.name for h in held) or 'nothing'}")
    return held[0]


def _dce(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `apply_dce`: erase unused operations.

    `interpreter.view`, the cached data-flow graph of the program, stays valid: no remaining operation reads an erased
    one.
    """
    for target in interpreter.ops(op, env):
        cleanup.eliminate_dead(target)


def _cse(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `apply_cse`: eliminate common subexpressions in each operation of the handle."""
    for target in interpreter.ops(op, env):
        cleanup.eliminate_common(target)
    interpreter.view = GraphView()  # the old view caches nodes of operations whose operands have changed


def _patterns(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `apply_patterns`: apply the sets of patterns that its body names to each operation of the handle.

    Only canonicalization is supported. With the attribute `apply_cse`, eliminate common subexpressions afterwards.
    """
    pattern_sets = [inner for block in op.body.blocks for inner in block.ops]
    for target in interpreter.ops(op, env):
        for pattern_set in pattern_sets:
            if pattern_set.name != "transform.apply_patterns.canonicalization":
                interpreter.fail(pattern_set, f"'{pattern_set.name}' is not a set of patterns that is known",
                         "known: transform.apply_patterns.canonicalization")  # fmt: skip
            cleanup.canonicalize(target)
        if "apply_cse" in op.attributes:
            cleanup.eliminate_common(target)
    interpreter.view = GraphView()  # the old view caches nodes of the program, which has changed


def _pass(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `apply_registered_pass`: run a pass of `cleanup.PASSES` on each operation of the handle, in place.

    The result is a handle of the same operations.
    """
    name = op.pass_name.data
    if name not in cleanup.PASSES:
        hint = nearest(name, cleanup.PASSES, most=2)
        interpreter.fail(op, f"there is no pass '{name}'" + (f" ({hint})" if hint else ""),
                 f"passes: {', '.join(cleanup.PASSES)}")  # fmt: skip
    for target in interpreter.ops(op, env):
        cleanup.PASSES[name](target)
    interpreter.view = GraphView()  # the old view caches nodes of the program, which the pass changed
    if op.results:
        env[op.results[0]] = env[op.operands[0]]


def _annotate(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `annotate`: set an attribute on each operation of the handle.

    Its value is the one number or text in the second handle; without a second handle, a unit attribute.
    """
    value: Attribute = UnitAttr()
    if len(op.operands) == 2:
        held = env[op.operands[1]]
        if len(held) != 1 or not isinstance(held[0], Attribute):
            interpreter.fail(op, "the value of an annotation is one number or text")
        value = held[0]
    for target in interpreter.ops(op, env):
        target.attributes[op.name_.data] = value


def _print(interpreter: Interpreter, op: Any, env: Env) -> None:
    """Execute `print`: print the operations of the handles, or the whole program, to stderr."""
    from pydispatch import ir

    title = op.attributes.get("name")
    if isinstance(title, StringAttr):
        print(f"[[[ {title.data} ]]]", file=sys.stderr)
    if not op.operands:
        print(ir.print_module(interpreter.program), end="", file=sys.stderr)
    for value in op.operands:
        for item in env[value]:
            print(ir.print_module(item) if isinstance(item, Operation) else str(item), file=sys.stderr)


HANDLERS: dict[str, Handler] = {
    "transform.util.import_symbol": _import,
    "transform.iree.import_symbol": _import,
    "transform.util.cast_and_call": _cast_and_call,
    "transform.func.cast_and_call": _cast_and_call,
    "transform.apply_dce": _dce,
    "transform.apply_cse": _cse,
    "transform.apply_patterns": _patterns,
    "transform.apply_registered_pass": _pass,
    "transform.annotate": _annotate,
    "transform.print": _print,
}
"""Name of an operation of a transform sequence → function that executes it."""
