"""Memory that a kernel allocates, of a shape that is known when it is compiled."""

from __future__ import annotations

import ast
import math
from typing import Any

from pydispatch.kernels import functions
from pydispatch.kernels.calls import CallContext, Handler
from pydispatch.kernels.entities import Entity, Known, Literal, MemoryRef, TupleValue, described
from pydispatch.patterns.types import DType

WORKGROUP_MEMORY = "#gpu.address_space<workgroup>"
"""MLIR address space of memory that the invocations (threads) of a workgroup share."""
PRIVATE_MEMORY = "#gpu.address_space<private>"
"""MLIR address space of memory that each invocation has for itself."""
MAX_PRIVATE_ELEMENTS = 256
"""Maximum number of elements of one private array: larger ones do not fit into an invocation's registers on any
device."""


def declared(
    context: CallContext, node: ast.Call, arguments: list[Entity], name: str, space: str = WORKGROUP_MEMORY
) -> MemoryRef:
    """Return the memory that a call such as `shared((16, 16), f32)` declares. The caller allocates it.

    Raise CompileError unless the arguments are a shape that is known at compile time, and an element type.

    Args:
        context: Context of the call, for errors.
        node: The call.
        arguments: Its evaluated arguments.
        name: SSA name that the memory gets.
        space: MLIR address space of the memory.
    """
    # The arguments: a shape and an element type, an object of Python (`Known`).
    called = ast.unparse(node.func).rpartition(".")[2]
    if len(arguments) != 2 or not isinstance(arguments[1], Known) or not isinstance(arguments[1].value, DType):
        raise context.error(
            node, f"{called} takes a shape and a type", f"write pydispatch.{called}((16, 16), pydispatch.f32)"
        )
    # The sizes, which are literals; one size may be passed without a tuple.
    shape = arguments[0].items if isinstance(arguments[0], TupleValue) else (arguments[0],)
    sizes: list[Literal] = []
    for extent in shape:
        if not isinstance(extent, Literal) or not isinstance(extent.value, int) or extent.value < 1:
            raise context.error(
                node.args[0],
                f"the shape of {called} memory is known when the kernel is compiled, got {described(extent)}",
                "use numbers, pydispatch.group_size(...) or pydispatch.static parameters",
            )
        sizes.append(extent)
    dtype = arguments[1].value.name
    type = f"memref<{''.join(f'{size.value}x' for size in sizes)}{dtype}, {space}>"
    return MemoryRef(name, dtype, tuple(sizes), type, is_private=space == PRIVATE_MEMORY)


def element_count(memory: MemoryRef) -> int:
    """Return the number of elements of memory whose shape is known when the kernel is compiled."""
    return math.prod(int(size.value) for size in memory.shape if isinstance(size, Literal))


def _private(context: CallContext, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Emit the allocation of `private(shape, dtype)`: memory that each invocation has for itself."""
    memory = declared(context, node, arguments, context.writer.fresh(), PRIVATE_MEMORY)
    count = element_count(memory)
    if count > MAX_PRIVATE_ELEMENTS:
        raise context.error(
            node,
            f"{count} elements of one invocation; at most {MAX_PRIVATE_ELEMENTS} are allocated at once",
            "use workgroup memory, or let more invocations share the work",
        )
    context.writer.line(f"{memory.name} = memref.alloca() : {memory.type}")
    context.writer.has_effects = True  # so that the code is not executed where the call is not
    return memory


TABLE: dict[Any, Handler] = {functions.private: _private}
"""Function that kernels call -> handler that emits its operations."""
