"""FatELF: several ELF files, one per machine, in one file (`.sos`). Version 1 of the format, as IREE's tool writes it.

Little-endian. A header of 8 bytes `{u32 magic, u16 version, u8 record count, u8 reserved}`, then records of 24
`{u16 machine, u8 osabi, u8 osabi version, u8 word size, u8 byte order, u8[2] reserved, u64 offset, u64 size}`, then the
ELF files at multiples of 4096 bytes. word size: 1 for 32 bits, 2 for 64; byte order: 0 big, 1 little (an ELF header
writes the latter as 2 and 1).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from pydispatch._core import elf as core_elf
from pydispatch.errors import ArtifactError, InvalidArgumentError
from pydispatch.formats.elf.reader import DYN, MACHINES, identity, is_elf

MAGIC = 0x1F0E70FA
"""First four bytes of a file, as a little-endian integer."""
VERSION = 1
"""The version of the format that is read and written."""
MAX_RECORDS = 255  # the count has 8 bits
PAGE = 4096  # ELF files start at multiples of this many bytes
OSABIS = {0: "none", 3: "linux", 255: "standalone"}
"""EI_OSABI of an ELF header → name of the operating system, a part of target names (`FatElfRecord.target`)."""

_HEADER = struct.Struct("<IHBB")
"""Header of a file: magic, version, number of records, reserved."""
_RECORD = struct.Struct("<HBBBBBBQQ")
"""Record: machine, OS ABI, its version, word size, byte order, two reserved bytes, offset and size of the ELF file."""


@dataclass(frozen=True)
class FatElfRecord:
    """Record of a FatELF file for one of the ELF files in it: its target, and where it is.

    Attributes:
        machine, osabi, osabi_version: Copies of these fields of the ELF file's header.
        word_size: 1 for 32 bits, 2 for 64.
        byte_order: 0 for big, 1 for little endian.
        reserved: Bytes without a meaning.
        offset: Offset of the ELF file, in bytes.
        size: Size of the ELF file, in bytes.
    """

    machine: int
    osabi: int
    osabi_version: int
    word_size: int
    byte_order: int
    reserved: tuple[int, int]
    offset: int
    size: int

    @property
    def machine_name(self) -> str:
        """Name of the architecture, such as "x86_64"."""
        return MACHINES.get(self.machine, f"machine{self.machine}")

    @property
    def target(self) -> str:
        """Return a name of the target for messages and file names, such as "x86_64_none_lp64le"."""
        bits = {1: "lp32", 2: "lp64"}.get(self.word_size, f"word{self.word_size}")
        order = {0: "be", 1: "le"}.get(self.byte_order, f"order{self.byte_order}")
        return f"{self.machine_name}_{OSABIS.get(self.osabi, f'osabi{self.osabi}')}_{bits}{order}"

    @property
    def key(self) -> tuple[int, int, int, int]:
        """Return the fields that identify the target: `join` refuses two files for which they are equal.

        The operating system of a loadable file is left out, because the loader takes the first loadable file of its
        machine, whatever system it is for.
        """
        osabi = 0 if self.is_loadable else self.osabi
        return (self.machine, osabi, self.word_size, self.byte_order)

    @property
    def is_loadable(self) -> bool:
        """Return whether the loader takes the ELF file on its machine: a 64-bit, little-endian file for a known OS."""
        return self.word_size == 2 and self.byte_order == 1 and self.osabi in OSABIS


def is_fatelf(data: bytes | memoryview) -> bool:
    """Return whether bytes start as a FatELF file does."""
    return len(data) >= 4 and bytes(data[:4]) == MAGIC.to_bytes(4, "little")


def read(data: bytes | memoryview) -> list[FatElfRecord]:
    """Return the records of a FatELF file in order; raise ArtifactError if the file is broken."""
    size = len(data)
    if not is_fatelf(data):
        raise ArtifactError("not a FatELF file: it does not start with FA 70 0E 1F")
    if size < _HEADER.size:
        raise ArtifactError(f"the FatELF file is cut off after {size} bytes; its header has {_HEADER.size}")
    _, version, count, _ = _HEADER.unpack_from(data)
    if version != VERSION:
        raise ArtifactError(f"the FatELF file has version {version}; version {VERSION} can be read")
    end = _HEADER.size + _RECORD.size * count
    if end > size:
        raise ArtifactError(f"the FatELF file is cut off: {count} records need {end} bytes, it has {size}")
    return [_record(data, i, end) for i in range(count)]


def _record(data: bytes | memoryview, index: int, records_end: int) -> FatElfRecord:
    """Return the record with an index; raise ArtifactError if its ELF file is not between the records, which end at
    `records_end`, and the end of the file."""
    machine, osabi, abi_version, word, order, reserved1, reserved2, offset, length = _RECORD.unpack_from(
        data, _HEADER.size + _RECORD.size * index
    )
    size = len(data)
    if offset < records_end or length == 0 or offset > size or length > size - offset:
        raise ArtifactError(
            f"record {index} of the FatELF file covers {length} bytes at {offset}; the file has {size}, "
            f"and the records end at {records_end}"
        )
    return FatElfRecord(
        machine=machine,
        osabi=osabi,
        osabi_version=abi_version,
        word_size=word,
        byte_order=order,
        reserved=(reserved1, reserved2),
        offset=offset,
        size=length,
    )


def _describe(name: str, data: bytes) -> FatElfRecord:
    """Return the record of an ELF shared object, with offset 0; raise InvalidArgumentError for other files.

    `name` names the file in messages.
    """
    # A whole ELF header, of a class and byte order that exist.
    if not is_elf(data):
        what = "a FatELF file itself: split it first" if is_fatelf(data) else "not an ELF file"
        raise InvalidArgumentError(f"{name} is {what}")
    ident = identity(data)
    if ident is None:
        raise InvalidArgumentError(f"{name} is cut off after {len(data)} bytes, in its ELF header")
    file_class, order, osabi, osabi_version, kind, machine = ident
    if file_class not in (1, 2) or order not in (1, 2):
        raise InvalidArgumentError(
            f"{name} has ELF class {file_class} and byte order {order}; expected 1 or 2 for each"
        )
    if kind != DYN:
        raise InvalidArgumentError(
            f"{name} is of ELF type {kind}, expected {DYN} (a shared object): link it with -shared"
        )
    return FatElfRecord(
        machine=machine,
        osabi=osabi,
        osabi_version=osabi_version,
        word_size=file_class,
        byte_order=1 if order == 1 else 0,  # an ELF header has 2 for big endian, FatELF 0
        reserved=(0, 0),
        offset=0,
        size=len(data),
    )


def join(files: Sequence[tuple[str, bytes]]) -> bytes:
    """Combine ELF files into one FatELF file; the same inputs give the same bytes.

    The file has the header, a record for each ELF file, and the ELF files at multiples of 4096 bytes, with zeros in
    between. For two files of 5000 and 100 bytes: header and records from 0 to 56, the ELF files at 4096 and 12288.

    Args:
        files: Pairs (name for messages, ELF file), in the order of the records.

    Raises:
        InvalidArgumentError: A file is not an ELF shared object, two files are for the same machine, or there are
            none or more than 255 files.
    """
    if not files:
        raise InvalidArgumentError("nothing to join: expected at least one ELF file")
    if len(files) > MAX_RECORDS:
        raise InvalidArgumentError(f"{len(files)} files to join; a FatELF file has room for {MAX_RECORDS}")
    # The records (`table`) and the ELF files (`body`), which begin at `start`. The key of a record is what the loader
    # compares with the machine.
    taken: dict[tuple[int, int, int, int], str] = {}  # key of a record → name and target of its file
    start = _round_up(_HEADER.size + _RECORD.size * len(files))  # of the first file
    offset = start  # of the next file
    table = bytearray(_HEADER.pack(MAGIC, VERSION, len(files), 0))
    body = bytearray()
    for name, data in files:
        record = _describe(name, data)
        if record.key in taken:
            raise InvalidArgumentError(
                f"{name} for {record.target} and {taken[record.key]} are for the same machine; the loader would never "
                f"see {name}"
            )
        taken[record.key] = f"{name} for {record.target}"
        body += bytes(offset - start - len(body)) + data  # zeros up to `offset`, then the file
        table += _RECORD.pack(
            record.machine, record.osabi, record.osabi_version, record.word_size, record.byte_order,
            *record.reserved, offset, record.size,
        )  # fmt: skip
        offset += _round_up(len(data))
    return bytes(table) + bytes(start - len(table)) + bytes(body)


def _round_up(size: int) -> int:
    """Return a size, rounded up to whole pages."""
    return -(-size // PAGE) * PAGE


def select(data: bytes | memoryview, machine: str | None = None) -> memoryview:
    """Return the ELF file that the loader would choose; raise ArtifactError if no record fits.

    Args:
        data: A FatELF file, or a plain ELF file, which is returned unchanged.
        machine: "x86_64", "aarch64" or "riscv64"; None for the machine of this process.
    """
    machine = machine or core_elf.host_machine()
    view = memoryview(data)
    if not is_fatelf(view):
        return view
    records = read(view)
    for record in records:
        if record.machine_name == machine and record.is_loadable:
            return view[record.offset : record.offset + record.size]
    targets = ", ".join(record.target for record in records) or "none at all"
    raise ArtifactError(f"no record for {machine}; the FatELF file has {targets}")


def split(data: bytes | memoryview) -> list[tuple[str, memoryview]]:
    """Return pairs (target name, ELF file) in record order; the second record of a target gets the suffix `_2`, ..."""
    view = memoryview(data)
    files: list[tuple[str, memoryview]] = []
    counts: dict[str, int] = {}  # of records so far, by target
    for record in read(view):
        counts[record.target] = counts.get(record.target, 0) + 1
        suffix = f"_{counts[record.target]}" if counts[record.target] > 1 else ""
        files.append((record.target + suffix, view[record.offset : record.offset + record.size]))
    return files


def dump(data: bytes | memoryview) -> str:
    """Return the header and records of a FatELF file as text: numbers in decimal and hexadecimal, and their names.

    A line is `  machine: 62 / 3E = x86_64`. Raises ArtifactError for a broken file.
    """
    records = read(data)
    _, version, count, reserved = _HEADER.unpack_from(data)
    lines = [f"magic: {MAGIC:X}", f"version: {version}", f"records: {count}", f"reserved: {reserved}"]
    for i, record in enumerate(records):
        lines += [
            f"record[{i}]: {record.target}",
            f"  machine: {record.machine} / {record.machine:X} = {record.machine_name}",
            f"  osabi: {record.osabi} / {record.osabi:X} = {OSABIS.get(record.osabi, 'unknown')}",
            f"  osabi_version: {record.osabi_version} / {record.osabi_version:X}",
            f"  word_size: {record.word_size} = {({1: '32-bit', 2: '64-bit'}).get(record.word_size, 'unknown')}",
            f"  byte_order: {record.byte_order} = {({0: 'big', 1: 'little'}).get(record.byte_order, 'unknown')}",
            f"  reserved: {record.reserved[0]} {record.reserved[1]}",
            f"  offset: {record.offset} / {record.offset:X}",
            f"  size: {record.size} / {record.size:X}",
        ]
    return "\n".join(lines)
