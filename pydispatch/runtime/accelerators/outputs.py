"""Checks of the objects for `out=`: buffers or arrays into which a call writes its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pydispatch.errors import InvalidArgumentError
from pydispatch.runtime.buffer import Buffer

if TYPE_CHECKING:
    from pydispatch._core.arrays import ElementType


def share_memory(one: Buffer, other: Buffer) -> bool:
    """Return whether two buffers share memory: they have one memory object, or ranges of device addresses that overlap.

    Buffers whose blocks have no `address`, or 0, share memory only if they have one memory object.
    """
    if one.memory is other.memory:
        return True
    begin, other_begin = _device_address(one), _device_address(other)
    if not begin or not other_begin or one.device != other.device:
        return False
    return bool(begin < other_begin + other.nbytes and other_begin < begin + one.nbytes)


def _device_address(buffer: Buffer) -> int | None:
    """Return the `address` of the block that has the memory of a buffer; None if there is no such attribute."""
    block = getattr(buffer.memory, "block", None)
    address: int | None = getattr(block, "address", None)
    return address


def _outputs_share_memory(one: Any, other: Any) -> bool:
    """Return whether two outputs, buffers or contiguous arrays, share memory."""
    if isinstance(one, Buffer) and isinstance(other, Buffer):
        return share_memory(one, other)
    # A buffer that the host cannot access has no memory in common with an array.
    arrays = [value.numpy() if isinstance(value, Buffer) and value.is_mapped else value for value in (one, other)]
    return all(isinstance(array, np.ndarray) for array in arrays) and np.may_share_memory(arrays[0], arrays[1])


def check_apart(function: str, outs: Sequence[Any]) -> None:
    """Raise InvalidArgumentError if two outputs share memory.

    function: its name, for the message. outs: one buffer or contiguous array per result; None for no output.
    """
    for i, one in enumerate(outs):
        for k, other in enumerate(outs[:i]):
            if one is not None and other is not None and _outputs_share_memory(one, other):
                raise InvalidArgumentError(
                    f"@{function}: out {k} and out {i} share memory, but results {k} and {i} are different arrays; "
                    "pass separate buffers or arrays"
                )


def check_out(where: str, output: Any, element: ElementType, is_number: bool, shape: tuple[int, ...] | None) -> None:
    """Raise InvalidArgumentError, which begins with `where`, unless an output fits its result.

    The output must be a Buffer, or a contiguous, writable array without a mask, of the element type and shape of the
    result. The output of a number must be None.

    Args:
        where: Begin of the message.
        output: The output that the caller passed; None, which always fits, for no output.
        element: Element type of the result.
        is_number: Whether the result is a number.
        shape: Sizes of the result; None if they are not known yet.
    """
    if output is None:
        return
    if is_number:
        raise InvalidArgumentError(f"{where}: the result is a number; expected None")
    if not isinstance(output, (Buffer, np.ndarray)):
        raise InvalidArgumentError(f"{where}: expected a buffer or an array, got {type(output).__name__}")
    if output.dtype != element.dtype or (shape is not None and output.shape != shape):
        expected_shape = "" if shape is None else f" of shape {shape}"
        raise InvalidArgumentError(
            f"{where}: expected {element.dtype}{expected_shape}, got {output.dtype} of shape {output.shape}"
        )
    if isinstance(output, Buffer):
        return
    if isinstance(output, np.ma.MaskedArray):
        raise InvalidArgumentError(f"{where}: expected an array without a mask; pass x.data")
    if not (output.flags.c_contiguous and output.flags.writeable):
        raise InvalidArgumentError(f"{where}: expected a contiguous, writable array")
