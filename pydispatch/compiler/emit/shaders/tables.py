"""Constant tables of kernels: globals with a value."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.function import ShaderFunction
from pydispatch.compiler.emit.shaders.values import signed
from pydispatch.compiler.kernel_ir.readers import attribute, symbol
from pydispatch.compiler.kernel_ir.types import bit_width, is_float


def table_values(emitter: ShaderFunction[Any], op: Operation, element: Attribute, width: int, count: int) -> list[Any]:
    """Return the `count` elements of a global that becomes a constant table.

    Floats are `float`; integers are signed numbers of `width` bits or those of the element type, whichever are fewer;
    truth values are 0 or 1. Arrays of shaders have at least one element: an empty table has one zero, which no
    invocation reads.

    Args:
        emitter: The emitter of a function that reads the table.
        op: The global.
        element: Type of the elements.
        width: Bits of the register of an element.
        count: Number of the elements, at least 1.

    Raises:
        CompileError: The global is not constant.
    """
    values = attribute(op, "initial_value")
    if attribute(op, "constant") is None or not isinstance(values, DenseIntOrFPElementsAttr):
        raise emitter.error(
            f"global '{symbol(op, 'sym_name')}' is not a constant with a value",
            "workgroups share no state: use a binding for data that kernels write",
        )
    data = list(values.get_values()) or [0]
    data = data * count if len(data) == 1 else data  # a splat states one value for all elements
    if is_float(element):
        return [float(value) for value in data]
    bits = min(bit_width(element), width)
    if bits == 1:  # a truth value, which may be stored as -1
        return [int(value) & 1 for value in data]
    return [signed(int(value), bits) for value in data]
