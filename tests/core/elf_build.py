"""Builds small freestanding shared objects for the loader's tests, with the compiler extra's toolchain."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPILE = ["-std=gnu11", "-O2", "-g0", "-fno-sanitize=undefined", "-fno-stack-protector", "-fPIC"]


def run(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stderr}"


class Builder:
    """Compiles and links into one folder; the same request is built once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, suffix: str, *key: str) -> Path:
        return self.folder / (hashlib.sha256("\0".join(key).encode()).hexdigest()[:16] + suffix)

    def object(self, source: str, machine: str = "x86_64", flags: tuple[str, ...] = (), language: str = "c") -> Path:
        """A relocatable object from C or assembly text."""
        made = self.path(".o", source, machine, language, *flags)
        if not made.exists():
            text = made.with_suffix(".c" if language == "c" else ".s")
            text.write_text(source)
            run(sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-freestanding", *COMPILE, *flags,
                f"-I{ROOT}/csrc/include", "-c", text, "-o", made)  # fmt: skip
        return made

    def link(self, *objects: Path, flags: tuple[str, ...] = ("--hash-style=gnu",), linker: str = "lld") -> Path:
        """A shared object, by zig's ld.lld or by the system's GNU ld (x86_64 only)."""
        made = self.path(".so", linker, *map(str, objects), *flags)
        if not made.exists():
            command = [sys.executable, "-m", "ziglang", "ld.lld"] if linker == "lld" else ["ld"]
            run(*command, "-shared", "-z", "now", *flags, *objects, "-o", made)
        return made

    def library(self, source: str, *flags: str, machine: str = "x86_64", linker: str = "lld") -> bytes:
        """The bytes of a shared object from C text."""
        built = self.link(self.object(source, machine), flags=flags or ("--hash-style=gnu",), linker=linker)
        return built.read_bytes()


def without_sections(data: bytes) -> bytes:
    """Takes the section headers away, as a hard strip does."""
    start = int.from_bytes(data[40:48], "little")
    return data[:40] + bytes(8) + data[48:58] + bytes(6) + data[64:start]


def runner_command(machine: str) -> list[str] | None:
    """The command that runs tests/c/elf/run_library.c on a machine, natively or emulated; None without its emulator.

    The binary is kept in build/ for as long as its sources stay the same. The first one for a foreign machine takes
    half a minute, in which zig builds that machine's C library.
    """
    native = machine == platform.machine()
    emulator = "" if native else shutil.which(f"qemu-{machine}-static") or shutil.which(f"qemu-{machine}")
    if emulator is None:
        return None
    folder = ROOT / "csrc"
    sources = [ROOT / "tests/c/elf/run_library.c", folder / "platform/mem_linux.c",
               *sorted((folder / "base").glob("*.c")), *sorted((folder / "elf").glob("*.c"))]  # fmt: skip
    text = b"".join(p.read_bytes() for p in [*sources, *sorted(folder.rglob("*.h"))])
    binary = ROOT / "build" / "runner" / f"run_library-{machine}-{hashlib.sha256(text).hexdigest()[:16]}"
    if not binary.exists():
        binary.parent.mkdir(parents=True, exist_ok=True)
        compiler = ["gcc"] if native else [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-musl"]
        made = binary.with_suffix(f".new{os.getpid()}")
        run(*compiler, "-static", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{folder}",
            f"-I{folder}/include", *sources, "-o", made)  # fmt: skip
        made.replace(binary)
    return [emulator, str(binary)] if emulator else [str(binary)]
