"""Packing of the parameters of CUDA kernels: addresses of bindings and constants, in the layout of each kernel."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pydispatch.formats.ptx.parameters import Parameters, words_of

if TYPE_CHECKING:
    from pydispatch.runtime.accelerators.ptx_parts import KernelEntry


class Packer:
    """Packer of kernel parameters in CUDA's layout: each offset is a multiple of the parameter's size.

    Example:
        Packer(1, [4, 8, 2]) is for one address and constants of 4, 8 and 2 bytes: offsets [0, 8, 16, 24], size 26. In
        the push constants, which are 32-bit words, the constants are word 0, words 1 and 2, and the low half of word 3.

    Attributes:
        bindings: Number of bindings, which are passed as addresses of 8 bytes before the constants.
        offsets: Offset of each parameter in bytes.
        size: Bytes of all parameters.
        pack_into: `struct` function that packs addresses and constants into memory.
        unpack_from: `struct` function that reads the constants from push constants, in which each takes 4 or 8 bytes.
    """

    __slots__ = ("bindings", "offsets", "pack_into", "size", "unpack_from")

    def __init__(self, bindings: int, sizes: Sequence[int]) -> None:
        """Compute the layout.

        bindings: number of bindings. sizes: bytes of each parameter after the bindings: 1, 2, 4 or 8.
        """
        offsets, end, unpack_codes, pack_codes = [], 0, "", ""  # the codes are formats of `struct`; "x" is padding
        address_sizes = [8] * bindings
        for size in (*address_sizes, *sizes):
            start = -(-end // size) * size  # `end` rounded up to a multiple of the size
            pack_codes += "x" * (start - end) + _CODES[size]
            offsets.append(start)
            end = start + size
        for size in sizes:  # in the push constants, a parameter of 1 or 2 bytes is the low part of a 4-byte word
            unpack_codes += _CODES[size] + "x" * max(0, 4 - size)
        self.bindings, self.offsets, self.size = bindings, offsets, end
        self.pack_into: Callable[..., None] = struct.Struct("<" + pack_codes).pack_into
        self.unpack_from: Callable[..., tuple[int, ...]] = struct.Struct("<" + unpack_codes).unpack_from

    def pack(self, addresses: Sequence[int], constants: bytes, first_constant: int = 0) -> bytes:
        """Return the parameters of a dispatch as bytes.

        Args:
            addresses: Addresses of the bindings.
            constants: Push constants of all dispatches of a plan, words of 32 bits.
            first_constant: Index of the dispatch's first word.
        """
        data = bytearray(self.size)
        self.pack_into(data, 0, *addresses, *self.unpack_from(constants, 4 * first_constant))
        return bytes(data)


class DescribedPacker:
    """Packer of kernel parameters in a layout that the program states; has the interface of `Packer`.

    Example:
        The parameters ["constant(0)", "binding(0)", "7 : i32"] are word 0 of the constants at offset 0, the address of
        binding 0 at 8, and the number 7 at 16: size 20. `formats.ptx.parameters` has all forms of such descriptions.

    Attributes:
        offsets: Offset of each parameter in bytes.
        size: Bytes of all parameters.
        unpack_from: `struct` function that reads the constant words of a dispatch from push constants.
    """

    __slots__ = ("_bindings", "_fields", "_struct", "offsets", "size", "unpack_from")

    def __init__(self, parameters: Parameters, bindings: int, constants: int) -> None:
        """Prepare the packing for the layout `parameters`.

        bindings: number of bindings. constants: number of 32-bit words of constants.
        """
        self.offsets, self.size, self._bindings = list(parameters.offsets), parameters.size, bindings
        self._fields, end, codes = parameters.fields, 0, "<"
        # The `struct` format: before each field the bytes of padding since the end of the field before it.
        for field in self._fields:
            codes += f"{field.offset - end}x{_CODES[field.size]}"
            end = field.offset + field.size
        self._struct = struct.Struct(codes + f"{parameters.size - end}x")
        self.unpack_from: Callable[..., tuple[int, ...]] = struct.Struct(f"<{constants}I").unpack_from

    def pack_into(self, memory: bytearray, offset: int, *words: int) -> None:
        """Write the parameters to `memory` from byte `offset` on.

        words: addresses of the bindings, then the words of the constants.
        """
        addresses, constants = words[: self._bindings], words[self._bindings :]
        self._struct.pack_into(memory, offset, *words_of(self._fields, addresses, constants))

    def pack(self, addresses: Sequence[int], constants: bytes, first_constant: int = 0) -> bytes:
        """Return the parameters of a dispatch as bytes.

        Args:
            addresses: Addresses of the bindings.
            constants: Push constants of all dispatches of a plan, words of 32 bits.
            first_constant: Index of the dispatch's first word.
        """
        data = bytearray(self.size)
        self.pack_into(data, 0, *addresses, *self.unpack_from(constants, 4 * first_constant))
        return bytes(data)


def packer_of(entry: KernelEntry) -> Packer | DescribedPacker:
    """Return the packer of a kernel's parameters."""
    if entry.described is not None:
        return DescribedPacker(entry.described, entry.bindings, entry.constants)
    return Packer(entry.bindings, entry.sizes)


_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
"""Format characters of `struct` for unsigned numbers, by size in bytes."""
