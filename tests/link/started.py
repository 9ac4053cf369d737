"""An embedded ELF as a program that Linux starts at a function of it: what the linker made runs on every architecture,
natively or under qemu-user, without a loader in between."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

from pydispatch.formats.elf import reader
from pydispatch.formats.elf.reader import ElfFile
from pydispatch.link.elf.link import MACHINES

BASE = 0x400000


def program(linked: bytes, entry: str) -> bytes:
    """At a fixed address: relocations applied, segments moved, the type changed."""
    file, data = ElfFile(linked), bytearray(linked)
    machine = next(each for each in MACHINES.values() if each.number == file.machine)
    table, size = file.tag(reader.DT_RELA), file.tag(reader.DT_RELASZ) or 0
    for at in range(0, size, 24):
        place, kind, value = struct.unpack("<QQq", file.at((table or 0) + at, 24, "relocation"))
        assert kind == machine.relative
        struct.pack_into("<Q", data, file.offset_of(place, "place", 8), BASE + value)
    start = next(symbol.value for symbol in file.dynamic_symbols() if symbol.name == entry)
    struct.pack_into("<HHIQ", data, 16, 2, file.machine, 1, BASE + start)
    for number in range(len(file.segments)):
        at = 64 + 56 * number + 16
        struct.pack_into("<Q", data, at, BASE + struct.unpack_from("<Q", data, at)[0])
    return bytes(data)


def output(linked: bytes, entry: str, arch: str, folder: Path) -> bytes:
    path = folder / "program"
    path.write_bytes(program(linked, entry))
    path.chmod(0o755)
    emulator = [] if arch == "x86_64" else [shutil.which(f"qemu-{arch}-static") or f"qemu-{arch}"]
    return subprocess.run([*emulator, str(path)], capture_output=True, check=True, timeout=120).stdout
