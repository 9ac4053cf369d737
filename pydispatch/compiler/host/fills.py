"""Tensors that no dispatch computes: constants, splats, and uninitialised memory."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Operation

from pydispatch.compiler.analysis.types import dtype_of
from pydispatch.compiler.host.commands import HostTensor, Storage
from pydispatch.compiler.host.constants import splat_word
from pydispatch.compiler.host.straight import Straight
from pydispatch.errors import CompileError
from pydispatch.formats.program.opcodes import buffer_bytes, element_bits
from pydispatch.formats.program.program import BufferKind, Opcode
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.op_info import listed

FILL_FROM_BYTES = 4096
"""Minimum size of a splat constant that each call fills in. Smaller ones are stored in the artifact, which spares each
call a command."""


def constant(straight: Straight, op: Operation) -> None:
    """Lower a constant: a scalar to a register, a large splat to a fill, other tensors to stored constants.

    A splat is a tensor whose elements are equal. `dense<1.0> : tensor<1024xf32>` has `FILL_FROM_BYTES`: it becomes a
    fill of new memory with a pattern of 4 bytes in each call. `dense<1.0> : tensor<4xf32>` is stored in the artifact.
    """
    result = op.results[0]
    if not isinstance(result.type, TensorType):
        straight.scalars.lower(op, straight.registers)
        return
    if not list(result.uses):  # its elements need not be stored in the artifact
        return
    value = op.properties["value"]
    dtype = dtype_of(result.type.element_type, location_of(op))
    # The result may be a tensor<?xf32>; then the type of the value has the sizes.
    value_type = getattr(value, "type", None)
    static_type = value_type if isinstance(value_type, TensorType) else result.type
    shape = static_type.get_shape()
    dims = tuple(straight.function.constant(d) for d in shape)
    count = math.prod(shape)
    word = splat_word(value, dtype)  # the bits of its element; None if it is no splat
    if word is not None and buffer_bytes(count, dtype) >= FILL_FROM_BYTES:
        tensor = straight.new_tensor(dims, dtype)
        # Elements of 2 or 4 bits are filled by bytes: `splat_word` returns a byte of several copies of the element.
        pattern_bytes = max(1, element_bits(dtype) // 8)
        straight.commands.fill(tensor, straight.function.constant(word), pattern_bytes)
    else:
        index = straight.constants.index_of(value, static_type, op)
        tensor = HostTensor(Storage(BufferKind.CONSTANT, index=index), dims, dtype)
    straight.put(result, tensor)


def splat(straight: Straight, op: Operation) -> None:
    """Lower tensor.splat to a fill. Raises CompileError for elements of more than 64 bits."""
    result = op.results[0]
    assert isinstance(result.type, TensorType)
    dtype = dtype_of(result.type.element_type, location_of(op))
    tensor = straight.new_tensor(straight.shape(result.type, op.operands[1:], op), dtype)
    register = straight.registers[op.operands[0]]
    bits = element_bits(dtype)
    if bits > 64:
        raise CompileError(f"'{op.name}' of {result.type.element_type} is not supported in host code", location_of(op),
                           "elements of up to 64 bits can be filled in")  # fmt: skip
    if bits < 8:
        register = _repeated_in_byte(straight, register, bits)
    elif result.type.element_type == IntegerType(1):  # a register may have it sign-extended; in memory, true is 1
        register = straight.function.unary(Opcode.ZEXT, register, width=1)
    straight.commands.fill(tensor, register, pattern_bytes=max(1, bits // 8))
    straight.put(result, tensor)


def _repeated_in_byte(straight: Straight, register: int, bits: int) -> int:
    """Emit the computation of a byte that repeats an element of 2 or 4 bits, and return its register.

    register: the element, in its low bits.
    """
    function = straight.function
    all_bits = (1 << bits) - 1
    repeat = 0xFF // all_bits  # 0b01010101 for 2 bits, 0b00010001 for 4
    value = function.binary(Opcode.AND, register, function.constant(all_bits))
    return function.binary(Opcode.MUL, value, function.constant(repeat))


def empty(straight: Straight, op: Operation) -> None:
    """Lower tensor.empty to uninitialised memory."""
    result = op.results[0]
    assert isinstance(result.type, TensorType)
    dtype = dtype_of(result.type.element_type, location_of(op))
    straight.put(result, straight.new_tensor(straight.shape(result.type, op.operands, op), dtype))


ROWS: dict[str, Callable[[Straight, Operation], None]] = {
    **dict.fromkeys(listed(lambda info: info.constant), constant),
    "tensor.splat": splat,
    "tensor.empty": empty,
    "flow.tensor.empty": empty,
    "flow.tensor.alloca": empty,
}
"""Name of an operation → function that lowers it."""
