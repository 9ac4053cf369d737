"""Facts about a cubin, CUDA machine code in an ELF file: its architecture, its kernels and their parameters.

Nothing outside the bytes is read. The layouts are those of nvcc 13 and its predecessors: the architecture is
in e_flags, and the section `.nv.info.<kernel>` is a list of attributes (format u8, attribute u8, size or value u16,
then the bytes of format 4).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pydispatch.errors import ArtifactError
from pydispatch.formats.elf.reader import LOCAL, REL, STT_FUNCTION, UNDEFINED, ElfError, ElfFile, identity

MACHINE = 190
"""e_machine of CUDA."""

_ENTRY = 0x10
"""Bit in st_other that marks a kernel."""
_SIZED = 4
"""Format of an attribute whose header has the size of the value after it; headers of other formats have the value."""
_SIZE_SHIFT = 18
"""Lowest bit of a parameter's size, in bytes, in the last word of the parameter's attribute."""
_PARAMETER, _MAX_THREADS, _REQUIRED_THREADS = 0x17, 0x05, 0x10
"""Attributes: a parameter, .maxntid, .reqntid."""


@dataclass(frozen=True)
class CubinEntry:
    """Kernel of a cubin, a CUDA object file, with what a launch needs.

    Attributes:
        name: Name of the kernel.
        parameters: Sizes of the parameters, in bytes.
        required: Required block size in threads (.reqntid); None if not stated.
        maximum: Maximum block size in threads (.maxntid); None if not stated.
    """

    name: str
    parameters: tuple[int, ...]
    required: tuple[int, int, int] | None = None
    maximum: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class Cubin:
    """Metadata of a cubin, a CUDA object file.

    Attributes:
        architecture: Compute capability, 80 for sm_80.
        entries: The kernels.
        relocatable: Whether it must be linked before it can run, as the output of nvcc -rdc.
    """

    architecture: int
    entries: tuple[CubinEntry, ...]
    relocatable: bool = False

    @property
    def target(self) -> str:
        """Name of the architecture, such as "sm_90"."""
        return f"sm_{self.architecture}"

    def entry(self, name: str) -> CubinEntry | None:
        """Return the kernel `name`; None if the cubin has no such kernel."""
        return next((entry for entry in self.entries if entry.name == name), None)


def is_cubin(data: bytes | memoryview) -> bool:
    """Return whether the bytes start with the header of an ELF file for CUDA."""
    ident = identity(data)
    return ident is not None and ident.machine == MACHINE


def read(data: bytes | memoryview, name: str = "the cubin") -> Cubin:
    """Read the metadata of a cubin; raise ArtifactError, with `name` for the file, if the bytes are no valid cubin."""
    with _translated_errors(data, name):
        elf = ElfFile(data)
        # Up to CUDA 12 the lowest byte of e_flags is the architecture, since then (ABI version 8) the second one.
        architecture = elf.flags >> 8 & 0xFF if elf.abi_version >= 8 else elf.flags & 0xFF
        entries = tuple(_read_entry(elf, function) for function in _functions(elf, kernels=True))
        return Cubin(architecture, entries, relocatable=elf.type == REL)


def functions(data: bytes | memoryview, name: str = "the cubin") -> list[str]:
    """Return the names of the device functions that other code may call; raise ArtifactError for a broken cubin."""
    with _translated_errors(data, name):
        return _functions(ElfFile(data), kernels=False)


@contextmanager
def _translated_errors(data: bytes | memoryview, name: str) -> Iterator[None]:
    """Raise ArtifactError, which names the file and the remedy, for bytes of another kind and for errors of ElfFile."""
    if not is_cubin(data):
        raise ArtifactError(f"{name} is no cubin: it does not begin as an ELF file for CUDA")
    try:
        yield
    except ElfError as error:
        raise ArtifactError(f"{name} is a broken cubin: {error}; build it anew with nvcc -cubin") from error


def _functions(elf: ElfFile, kernels: bool) -> list[str]:
    """Return the names of the defined global functions, in the order of the file.

    kernels: True for the kernels alone, False for the device functions, which are no kernels.
    """
    names = []
    for symbol in elf.symbols():
        is_global_function = symbol.kind == STT_FUNCTION and symbol.binding != LOCAL
        is_defined = symbol.section != UNDEFINED
        is_kernel = bool(symbol.other & _ENTRY)
        if is_global_function and is_defined and is_kernel == kernels:
            names.append(symbol.name)
    return names


def _read_entry(elf: ElfFile, name: str) -> CubinEntry:
    """Read the parameter sizes and block size limits of a kernel from its section .nv.info.

    The section is a sequence of attributes: a byte for the format, a byte that names the attribute, and two bytes that
    are the value, or in the format _SIZED the number of bytes of the value that follows. A kernel without the section
    has no parameters and no limits. Raises ElfError for an attribute that is cut off.
    """
    sizes: dict[int, int] = {}  # by the index of the parameter: attributes have any order
    threads: dict[int, tuple[int, int, int]] = {}  # _MAX_THREADS or _REQUIRED_THREADS → threads in x, y and z
    section = elf.section_named(f".nv.info.{name}")
    data = elf.content(section) if section is not None else memoryview(b"")
    at = 0  # offset of the next attribute
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != _SIZED:
            continue  # no value follows this header: in other formats, the last two bytes are the value
        if size > len(data) - at:
            raise ElfError(f"an attribute of '{name}' is cut off")
        value, at = data[at : at + size], at + size
        if attribute == _PARAMETER and size == 12:
            # Words that are not read, index of the parameter, offset, flags with the size in the bits from _SIZE_SHIFT.
            _, ordinal, _, size_and_flags = struct.unpack("<IHHI", value)
            sizes[ordinal] = size_and_flags >> _SIZE_SHIFT
        elif attribute in (_MAX_THREADS, _REQUIRED_THREADS) and size == 12:
            x, y, z = struct.unpack("<III", value)
            threads[attribute] = (x, y, z)
    parameters = tuple(sizes[ordinal] for ordinal in sorted(sizes))
    return CubinEntry(name, parameters, threads.get(_REQUIRED_THREADS), threads.get(_MAX_THREADS))
