"""Atomic operations on elements of views and of workgroup memory, with one handler each."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from pydispatch.kernels import functions
from pydispatch.kernels.arithmetic import is_float
from pydispatch.kernels.calls import CallContext, Handler, check_count
from pydispatch.kernels.entities import UNSIGNED, Entity, MemoryRef, Scalar, described


class Kinds(NamedTuple):
    """Kinds of memref.atomic_rmw that implement one atomic function, by the type of the elements.

    Attributes:
        of_floats: Kind for floats; "" if the function has no floats.
        of_integers: Kind for signed integers.
        of_unsigned: Kind for unsigned integers.
    """

    of_floats: str
    of_integers: str
    of_unsigned: str


KINDS = {
    "add": Kinds("addf", "addi", "addi"), "max": Kinds("maximumf", "maxs", "maxu"),
    "min": Kinds("minimumf", "mins", "minu"), "exchange": Kinds("assign", "assign", "assign"),
    "and": Kinds("", "andi", "andi"), "or": Kinds("", "ori", "ori"), "xor": Kinds("", "xori", "xori"),
}  # fmt: skip
"""Kinds of memref.atomic_rmw, for floats, signed and unsigned integers, by the end of the function's name: "add" is for
`atomic_add`. "" stands for a function that floats lack."""


def _element(context: CallContext, node: ast.Call, arguments: list[Entity]) -> tuple[MemoryRef, str]:
    """Return the memory that an atomic operation updates, and the indices of its element as MLIR text: "%i, %j"."""
    memory = arguments[0]
    if not isinstance(memory, MemoryRef):
        raise context.error(
            node.args[0],
            f"{ast.unparse(node.func)}: expected a view or memory of the workgroup, got {described(memory)}",
            "give the view, then the index, then the value",
        )
    return memory, context.indices(node.args[1], memory, arguments[1])


def _emit(context: CallContext, node: ast.Call, memory: MemoryRef, text: str) -> Scalar:
    """Emit an atomic operation on memory, whose MLIR text is `text`, and return the old element.

    The operation counts as a write of the memory and, if that is a parameter, as a read.
    """
    context.record_write(node, memory)
    if memory.parameter:  # "" for memory of the workgroup
        context.read.add(memory.parameter)
    context.writer.has_effects = True
    return context.writer.value(text, memory.dtype)


def _update(context: CallContext, node: ast.Call, arguments: list[Entity], symbol: str) -> Entity:
    """Emit an atomic read-modify-write such as `atomic_add(view, index, value)`, and return the old element.

    `symbol` is a key of `KINDS`, such as "add". Raise CompileError for wrong arguments, and for a bitwise operation
    ("and", "or", "xor") on floats.
    """
    check_count(context, node, arguments, min_count=3)
    memory, indices = _element(context, node, arguments)
    value = context.converted(node.args[2], arguments[2], memory.dtype, f"an element of '{ast.unparse(node.args[0])}'")
    kinds = KINDS[symbol]
    if is_float(memory.dtype):
        kind = kinds.of_floats
    else:
        kind = kinds.of_unsigned if memory.dtype in UNSIGNED else kinds.of_integers
    if not kind:  # a bitwise operation on floats
        raise context.error(
            node,
            f"{ast.unparse(node.func)} on elements of {memory.dtype}",
            "bits are those of integers: use a view of pydispatch.u32",
        )
    text = f"memref.atomic_rmw {kind} {value.name}, {memory.name}[{indices}] : ({memory.dtype}, {memory.type}) "
    return _emit(context, node, memory, f"{text}-> {memory.dtype}")


def _compare_exchange(context: CallContext, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Emit `atomic_cas(memory, index, expected, value)`, and return the element before."""
    check_count(context, node, arguments, min_count=4)
    memory, indices = _element(context, node, arguments)
    if is_float(memory.dtype):
        raise context.error(
            node,
            f"{ast.unparse(node.func)} on elements of {memory.dtype}",
            "it compares integers: keep the bits in a view of pydispatch.i32, with pydispatch.bitcast",
        )
    what = f"an element of '{ast.unparse(node.args[0])}'"
    expected, value = (
        context.converted(node.args[position], arguments[position], memory.dtype, what) for position in (2, 3)
    )
    operands = f"{expected.name}, {value.name}, {memory.name}[{indices}]"
    return _emit(context, node, memory, f"pyd.compare_exchange {operands} : {memory.dtype}, {memory.type}")


def _handler(symbol: str) -> Handler:
    """Return the handler of an atomic operation; `symbol` is a key of `KINDS`."""
    return lambda context, node, arguments: _update(context, node, arguments, symbol)


TABLE: dict[Any, Handler] = {
    **{getattr(functions, f"atomic_{symbol}"): _handler(symbol) for symbol in KINDS},
    functions.atomic_cas: _compare_exchange,
}
"""Atomic function → handler that emits a call of it."""
