"""The functions of numbers that kernels may call, with one handler (emitter of a call) each."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from pydispatch import patterns
from pydispatch.errors import CompileError
from pydispatch.kernels import functions
from pydispatch.kernels.arithmetic import TypeMismatch, binary, cast, is_float, joined
from pydispatch.kernels.collectives import COLLECTIVES
from pydispatch.kernels.entities import (
    FLOATS,
    INTEGERS,
    UNSIGNED,
    Entity,
    Known,
    Literal,
    MemoryRef,
    Scalar,
    TupleValue,
    described,
)
from pydispatch.kernels.writer import Writer
from pydispatch.patterns.types import DType


class CallContext(Protocol):
    """Interface of the code generator of a kernel that is passed to the handlers of calls (`Handler`).

    A handler evaluates and checks the arguments of its call by these methods, and emits operations by `writer`. The
    generators `Phases` and `TileKernel` implement the interface, by their base classes `Numbers` and `Expressions`. An
    entity is the value of an expression while the kernel is compiled, such as a `Scalar` for an SSA value.
    """

    writer: Writer  # emitter of MLIR text into the current region
    read: set[str]  # names of the views whose elements the kernel reads; handlers of atomics add to it
    collective_rule: str  # end of an error about a misplaced collective: "all invocations ... come to it together, ..."
    checks: bool  # whether the kernel is compiled for a checked run, in which indices are compared with sizes
    imports: dict[str, str]  # symbol → MLIR declaration of a function that is linked at load time
    prints: list[Any]  # `prints.PrintedLine` of each call of `print`, to which its handler adds

    def error(self, node: ast.AST, message: str, note: str) -> CompileError:
        """Return a CompileError at a node. note: the remedy."""

    def evaluate(self, node: ast.expr) -> Entity:
        """Emit the operations of an expression, and return its value."""

    def as_number(self, node: ast.AST, entity: Entity) -> Scalar | Literal:
        """Return a value as a number; raise CompileError for tuples, views, tiles and Python objects."""

    def condition(self, node: ast.expr, entity: Entity | None = None) -> Scalar | Literal:
        """Return a condition as an i1 or a bool literal. entity: the value of `node`, if it is evaluated already."""

    def converted(self, node: ast.AST, entity: Entity, type: str, what: str) -> Scalar:
        """Convert a value to the type of its destination, which `what` names in messages."""

    def number_or_error(self, node: ast.AST, make: Callable[[], T]) -> T:
        """Return make(), which emits or computes a number; its TypeMismatch becomes a CompileError at the node."""

    def folding(self, node: ast.AST, make: Callable[[], Literal]) -> Literal:
        """Return make(), a number known at compile time; its arithmetic errors become a CompileError at the node."""

    def indices(self, node: ast.expr, memory: MemoryRef, entity: Entity | None = None) -> str:
        """Return the indices of an element of `memory` as MLIR text, such as `%i, %j`.

        node: the index, or a tuple of indices. entity: its value, if it is evaluated already.
        """

    def record_write(self, node: ast.AST, memory: MemoryRef) -> None:
        """Record that the kernel writes a memory, if it is a view."""

    def position(self, node: ast.AST, kind: str, axis: int) -> Entity:
        """Return an id or size along an axis.

        kind: "global" or "local" (index of the invocation in the whole grid or in its workgroup), "group" (index of the
        workgroup), "size" (invocations of a workgroup) or "grid" (number of workgroups).
        """


T = TypeVar("T")  # result of the function passed to number_or_error
Handler = Callable[[CallContext, ast.Call, list[Entity]], Entity]
"""Function handler(context, call, its evaluated arguments) that emits a call and returns its result."""

UNARY = {
    **{
        getattr(math, name): name
        for name in (
            "exp",
            "expm1",
            "log",
            "log1p",
            "log2",
            "log10",
            "sqrt",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "acosh",
            "atanh",
            "erf",
            "erfc",
            "floor",
            "ceil",
            "trunc",
            "cbrt",
            "exp2",
        )
        if hasattr(math, name)  # Python 3.10 has no cbrt and exp2
    },
    **{
        getattr(patterns, name): name
        for name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sin", "cos", "erf", "floor", "ceil")
    },
    math.fabs: "absf",
}
"""Functions of one float → names of the operations of the dialect math."""
TESTS = {getattr(math, name): name for name in ("isnan", "isinf", "isfinite")}
"""Tests of one float → names of the operations of the dialect math, which give conditions."""
BINARY = {math.atan2: "math.atan2", math.copysign: "math.copysign", math.fmod: "arith.remf"}
"""Functions of two floats → names of their operations."""
FACTORS = {math.degrees: 180 / math.pi, math.radians: math.pi / 180}
"""Functions of one float that multiply it → the factor."""


def _signature_of(context: CallContext, node: ast.Call) -> str:
    """Return the remedy for a call with a wrong number of arguments: the function with the names of its parameters."""
    called = context.evaluate(node.func)
    try:
        names = inspect.signature(called.value).parameters if isinstance(called, Known) else ()
    except (TypeError, ValueError):  # a function of C without a signature
        names = ()
    return f"write {ast.unparse(node.func)}({', '.join(names)})" if names else "help() shows what it takes"


def check_count(
    context: CallContext, node: ast.Call, arguments: list[Entity], min_count: int, max_count: int | None = None
) -> None:
    """Raise CompileError unless a call has min_count to max_count arguments without keywords; without max_count,
    exactly min_count.
    """
    max_count = min_count if max_count is None else max_count
    if node.keywords:
        raise context.error(
            node.keywords[0].value,
            f"{ast.unparse(node.func)}: arguments have no names in kernels",
            "give them in order",
        )
    if not min_count <= len(arguments) <= max_count:
        expected = str(min_count) if min_count == max_count else f"{min_count} to {max_count}"
        raise context.error(
            node,
            f"{ast.unparse(node.func)} takes {expected} argument{'s' * (max_count != 1)}, got {len(arguments)}",
            _signature_of(context, node),
        )


def number(context: CallContext, node: ast.AST, entity: Entity) -> Scalar | Literal:
    """Return an argument that must be a number. Raise CompileError for any other entity."""
    return context.as_number(node, entity)


def unary(
    context: CallContext, node: ast.Call, arguments: list[Entity], name: str, result_type: str | None = None
) -> Entity:
    """Emit a function of one float, or compute it if its argument is known.

    name: the operation of the math dialect, which is also the name of the function in Python's math, if that has it.
    result_type: type of the result; None for that of the argument.
    """
    check_count(context, node, arguments, min_count=1)
    x = number(context, node.args[0], arguments[0])
    if isinstance(x, Literal):
        function = getattr(math, name, None)
        if function is not None:
            value = x.value
            return context.folding(node, lambda: Literal(function(value) if result_type else float(function(value))))
        x = cast(context.writer, x, "f32")  # such as for rsqrt, which Python's math lacks
    if not is_float(x.type):
        raise context.error(node, f"{ast.unparse(node.func)} of {x.type}", "convert it first: pydispatch.f32(...)")
    return context.writer.value(f"math.{name} {x.name} : {x.type}", result_type or x.type)


def of_two(context: CallContext, node: ast.Call, arguments: list[Entity], function: Callable[..., float]) -> Entity:
    """Emit `function`, a key of `BINARY`, of two floats, or compute it if both are known."""
    check_count(context, node, arguments, min_count=2)
    a, b = (number(context, operand, entity) for operand, entity in zip(node.args, arguments, strict=True))
    if isinstance(a, Literal) and isinstance(b, Literal):
        values = a.value, b.value
        return context.folding(node, lambda: Literal(function(*values)))
    type = joined(a, b, ast.unparse(node.func))
    if not is_float(type):
        raise context.error(node, f"{ast.unparse(node.func)} of {type}", "convert it first: pydispatch.f32(...)")
    x, y = cast(context.writer, a, type), cast(context.writer, b, type)
    return context.writer.value(f"{BINARY[function]} {x.name}, {y.name} : {type}", type)


def scaled(context: CallContext, node: ast.Call, arguments: list[Entity], factor: float) -> Entity:
    """Emit the product of a float and a number that is known at compile time."""
    check_count(context, node, arguments, min_count=1)
    x = number(context, node.args[0], arguments[0])
    if isinstance(x, Scalar) and not is_float(x.type):
        raise context.error(node, f"{ast.unparse(node.func)} of {x.type}", "convert it first: pydispatch.f32(...)")
    return binary(context.writer, "*", x, Literal(factor))


def axis_of(context: CallContext, node: ast.Call, arguments: list[Entity]) -> int:
    """Return the axis that the only argument of a call states. Raise CompileError unless it is 0, 1 or 2."""
    check_count(context, node, arguments, min_count=1, max_count=1)
    axis = arguments[0]
    if not isinstance(axis, Literal) or axis.value not in (0, 1, 2) or isinstance(axis.value, bool):
        raise context.error(
            node,
            f"{ast.unparse(node.func)}: expected 0, 1 or 2 as the axis, got {described(axis)}",
            "0 runs along the last dimension",
        )
    return int(axis.value)


def minmax(context: CallContext, node: ast.Call, arguments: list[Entity], symbol: str) -> Entity:
    """Emit the largest (symbol "max") or smallest ("min") of two or more numbers, or of the items of one tuple."""
    if len(arguments) == 1 and isinstance(arguments[0], TupleValue):
        arguments = list(arguments[0].items)
    if len(arguments) < 2:
        raise context.error(
            node, f"{symbol} takes at least 2 arguments, got {len(arguments)}", "give numbers to choose from"
        )
    # Nodes of the operands, for messages: the whole call, if its only argument is a tuple of numbers.
    operands = node.args if len(node.args) == len(arguments) else [node] * len(arguments)
    result = number(context, operands[0], arguments[0])
    for operand, argument in zip(operands[1:], arguments[1:], strict=True):
        result = binary(context.writer, symbol, result, number(context, operand, argument))
    return result


def absolute(context: CallContext, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Emit the absolute value of a number."""
    check_count(context, node, arguments, min_count=1)
    x = number(context, node.args[0], arguments[0])
    if isinstance(x, Literal):
        return Literal(abs(x.value))
    if x.type in UNSIGNED:
        return x
    if is_float(x.type):
        return context.writer.value(f"math.absf {x.name} : {x.type}", x.type)
    # The absolute value of a signed integer is max(x, -x).
    negative = context.number_or_error(node, lambda: binary(context.writer, "-", Literal(0), x))
    return minmax(context, node, [x, negative], "max")


def select(context: CallContext, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Emit `where(condition, a, b)`; with a known condition, return the operand that it selects, in its own type."""
    check_count(context, node, arguments, min_count=3)
    condition = context.condition(node.args[0], arguments[0])
    a, b = number(context, node.args[1], arguments[1]), number(context, node.args[2], arguments[2])
    if isinstance(condition, Literal):
        return a if condition.value else b
    type = joined(a, b, "where")
    x, y = cast(context.writer, a, type), cast(context.writer, b, type)
    return context.writer.value(f"arith.select {condition.name}, {x.name}, {y.name} : {type}", type)


def fused(context: CallContext, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Emit `fma(a, b, c)`, a fused multiply-add, in the float type that its three operands join to."""
    check_count(context, node, arguments, min_count=3)
    a, b, c = (number(context, operand, entity) for operand, entity in zip(node.args, arguments, strict=True))
    product = Scalar("", joined(a, b, "fma"))  # stands for a * b: only its type is used, to join it with that of c
    type = joined(c, product, "fma")
    if not is_float(type):
        raise context.error(node, f"fma of {type}", "write a * b + c")
    x, y, z = (cast(context.writer, operand, type).name for operand in (a, b, c))
    return context.writer.value(f"math.fma {x}, {y}, {z} : {type}", type)


def bits(context: CallContext, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Emit `bitcast(value, dtype)`, which reinterprets the bits of a number. Types of other widths raise
    CompileError.
    """
    check_count(context, node, arguments, min_count=2)
    x, target = number(context, node.args[0], arguments[0]), arguments[1]
    if not isinstance(x, Scalar) or not isinstance(target, Known) or not isinstance(target.value, DType):
        raise context.error(node, "bitcast takes a value and a type", "write pydispatch.bitcast(x, pydispatch.i32)")
    widths = {**FLOATS, **INTEGERS, "index": 0}  # index has no width: it is only cast to itself
    if widths.get(x.type) != widths.get(target.value.name, 0):
        raise context.error(
            node, f"bitcast of {x.type} to {target.value.name}: their widths differ", "use a type of the same width"
        )
    # Integers of one width, signed and unsigned, have the same type in MLIR: nothing is emitted, only the type that the
    # generator knows changes.
    if x.type == target.value.name or (x.type in INTEGERS and target.value.name in INTEGERS):
        return Scalar(x.name, target.value.name)
    return context.writer.value(f"arith.bitcast {x.name} : {x.type} to {target.value.name}", target.value.name)


def ceil_divide(context: CallContext, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Emit `cdiv(a, b)`: a / b rounded up, for integers."""
    check_count(context, node, arguments, min_count=2)
    a, b = number(context, node.args[0], arguments[0]), number(context, node.args[1], arguments[1])
    type = joined(a, b, "cdiv")
    if type not in INTEGERS:
        raise context.error(node, f"cdiv of {type}", "cdiv takes whole numbers; of floats write pydispatch.ceil(a / b)")
    if isinstance(a, Literal) and isinstance(b, Literal):
        return context.folding(node, lambda: Literal(-(-a.value // b.value)))
    x, y = cast(context.writer, a, type), cast(context.writer, b, type)
    operation = "arith.ceildivui" if type in UNSIGNED else "arith.ceildivsi"
    return context.writer.value(f"{operation} {x.name}, {y.name} : {type}", type)


def length(context: CallContext, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Return the length of a tuple, or the size of the first dimension of a view."""
    check_count(context, node, arguments, min_count=1)
    if isinstance(arguments[0], TupleValue):
        return Literal(len(arguments[0].items))
    if isinstance(arguments[0], MemoryRef) and arguments[0].shape:
        return arguments[0].shape[0]
    remedy = "views and tuples have one"
    if isinstance(arguments[0], MemoryRef):
        name = ast.unparse(node.args[0])
        remedy = f"a view without dimensions has one element, {name}[()]"
    raise context.error(node, f"len of {described(arguments[0])}", remedy)


def zipped(context: CallContext, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Return `zip(...)` of tuples, as a tuple of tuples."""
    return TupleValue(tuple(map(TupleValue, zip(*_items(context, node, arguments), strict=True))))


def enumerated(context: CallContext, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Return `enumerate(...)` of a tuple, as a tuple of pairs."""
    (items,) = _items(context, node, arguments[:1])  # the items of each tuple: here of one
    check_count(context, node, arguments, min_count=1)
    return TupleValue(tuple(TupleValue((Literal(i), item)) for i, item in enumerate(items)))


def _items(context: CallContext, node: ast.Call, arguments: list[Entity]) -> list[tuple[Entity, ...]]:
    """Return the items of each tuple that `zip` or `enumerate` is called with.

    Raise CompileError unless all arguments are tuples of the same length, so that zip's `strict` has no effect; and for
    any other keyword.
    """
    for keyword in node.keywords:
        if keyword.arg != "strict":
            name = ast.unparse(node.func)
            raise context.error(keyword.value, f"{name} has no '{keyword.arg}' in kernels", "leave it out")
    tuples = [argument.items for argument in arguments if isinstance(argument, TupleValue)]
    if len(tuples) < len(arguments) or len({len(items) for items in tuples}) != 1:
        listed = " and ".join(map(described, arguments)) or "nothing"
        raise context.error(
            node, f"{ast.unparse(node.func)} of {listed}", "give tuples of one length; loop over range(...) for numbers"
        )
    return tuples


def convert(context: CallContext, node: ast.Call, arguments: list[Entity], type: str) -> Entity:
    """Emit the conversion of a number to a type, as in `pydispatch.i32(value)`."""
    check_count(context, node, arguments, min_count=1)
    value = number(context, node.args[0], arguments[0])
    try:
        return cast(context.writer, value, type)
    except TypeMismatch as error:
        raise context.error(node, error.args[0], error.args[1]) from None


def _id_handler(kind: str) -> Handler:
    """Return a handler of a function such as global_id. `kind` is "global", "local", "group", "size" or "grid"."""
    return lambda context, node, arguments: context.position(node, kind, axis_of(context, node, arguments))


def _handler(handler: Callable[..., Entity], *more: Any) -> Handler:
    """Return a `Handler` that calls handler(context, node, arguments, *more)."""
    return lambda context, node, arguments: handler(context, node, arguments, *more)


def _refuse_nested_collective(context: CallContext, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Raise CompileError for a collective, such as group_sum, within an expression.

    A collective that is a statement of its own never gets here: it is lowered where the kernel is split into phases.
    """
    name = ast.unparse(node.func)
    remedy = "put it between statements"
    if "group_" in name:
        remedy = f"write it in a line of its own, as in 'total = {name}(value)'"
    elif "shared" in name:
        remedy = "give it a line of its own, as in 'tile = pydispatch.shared(64, pydispatch.f32)'"
    raise context.error(node, f"{name} is a statement of its own in a kernel: {context.collective_rule}", remedy)


TABLE: dict[Any, Handler] = {
    **{function: _handler(unary, name) for function, name in UNARY.items()},
    **{function: _handler(unary, name, "i1") for function, name in TESTS.items()},
    **{function: _handler(of_two, function) for function in BINARY},
    **{function: _handler(scaled, factor) for function, factor in FACTORS.items()},
    functions.global_id: _id_handler("global"),
    functions.local_id: _id_handler("local"),
    functions.group_id: _id_handler("group"),
    functions.group_size: _id_handler("size"),
    functions.grid_size: _id_handler("grid"),
    functions.where: select,
    functions.fma: fused,
    functions.bitcast: bits,
    functions.cdiv: ceil_divide,
    **dict.fromkeys(COLLECTIVES, _refuse_nested_collective),
    builtins.max: lambda context, node, arguments: minmax(context, node, arguments, "max"),
    builtins.min: lambda context, node, arguments: minmax(context, node, arguments, "min"),
    patterns.maximum: lambda context, node, arguments: minmax(context, node, arguments, "max"),
    patterns.minimum: lambda context, node, arguments: minmax(context, node, arguments, "min"),
    builtins.abs: absolute,
    builtins.len: length,
    builtins.zip: zipped,
    builtins.enumerate: enumerated,
}
"""Handlers by function. None of these functions reads memory: equal arguments give equal results."""

REMEDIES: dict[Any, str] = {
    builtins.int: "write pydispatch.i32(...)",
    builtins.float: "write pydispatch.f32(...)",
    builtins.bool: "compare with 0",
    builtins.breakpoint: "kernel.checked()(...) with arrays of the CPU, and kernel.python(...), stop there",
    **dict.fromkeys((builtins.range, functions.range), "range is for the head of a for"),
    builtins.sum: "add in a loop, or use pydispatch.group_sum",
    builtins.round: "write pydispatch.floor(x + 0.5)",
    math.pow: "write a ** b",
    math.hypot: "write math.sqrt(a * a + b * b)",
    **dict.fromkeys((math.gamma, math.lgamma), "kernels have no gamma function: compute it outside"),
}
"""Functions that kernels do not have → remedy: what to write instead."""
