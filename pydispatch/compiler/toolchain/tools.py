"""The toolchain of a process: C to objects and bitcode, objects to embedded ELF files."""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydispatch.compiler.toolchain import cache, clang, linker, programs
from pydispatch.compiler.toolchain.clang import ARCHES, GPU_ARCHES, require
from pydispatch.compiler.toolchain.linker import UndefinedSymbolsError
from pydispatch.compiler.toolchain.programs import MAX_BITCODE_LLVM, MIN_CLANG, MIN_LLD, Tool, ToolchainError
from pydispatch.link.elf.link import VERSION as LINKER_VERSION

__all__ = ["ARCHES", "GPU_ARCHES", "Toolchain", "ToolchainError", "UndefinedSymbolsError", "find"]


class Toolchain:
    """C compilers and linkers of this machine: clang for objects and for bitcode, ld.lld, and the built-in linker.

    `find` returns the object of the process, by which the compiler compiles C and links objects. Each tool is looked up
    when it is first used. The methods may be called from any thread.
    """

    def __init__(self) -> None:
        """Begin with no tool looked up."""
        self._lock = threading.RLock()
        self._found: dict[str, list[Tool]] = {}  # kind of tool, "clang" or "ld.lld" -> tools, preferred ones first

    def describe(self) -> dict[str, str]:
        """Describe the tools in use: keys `clang`, `clang (bitcode)`, `linker`, `lld`, `cache`; each value names
        version, origin and path, or states what is missing.
        """
        return {
            "clang": _shown(lambda: self.clang("obj")),
            "clang (bitcode)": _shown(lambda: self.clang("bc")),
            # The built-in linker returns None for what it cannot link, which ld.lld then links.
            "linker": "ld.lld" if programs.lld_is_named() else f"{LINKER_VERSION} of pydispatch, else ld.lld",
            "lld": _shown(self.lld),
            "cache": str(cache.directory() or "none: no folder can be written"),
        }

    def fingerprint(self) -> str:
        """Return a text with the versions of the clang for objects and the clang for bitcode.

        Paths are left out, so that equal tools in different folders produce equal artifacts.

        The text changes whenever the compilers' output may. Artifacts state it as a producer.
        """
        versions = (".".join(map(str, self.clang(emit).version)) for emit in ("obj", "bc"))
        return "clang {} bitcode {}".format(*versions)

    def clang(self, emit: str) -> Tool:
        """Return the compiler of objects (`obj`) or of bitcode (`bc`). Raises ToolchainError that states what to
        install.
        """
        compilers = self._tools("clang", programs.clangs)
        if not compilers:
            raise ToolchainError(f"no clang >= {MIN_CLANG} on PATH; {programs.INSTALL}")
        for tool in compilers:
            if emit == "obj" or tool.version[0] <= MAX_BITCODE_LLVM:
                return tool
        raise ToolchainError(
            f"clang {compilers[0]} writes bitcode newer than LLVM {MAX_BITCODE_LLVM} reads; {programs.INSTALL}"
        )

    def lld(self) -> Tool:
        """Return the preferred ld.lld. Raises ToolchainError that states what to install."""
        linkers = self._tools("ld.lld", programs.llds)
        if not linkers:
            raise ToolchainError(f"no ld.lld >= {MIN_LLD} on PATH; {programs.INSTALL}")
        return linkers[0]

    def _tools(self, name: str, look: Callable[[], list[Tool]]) -> list[Tool]:
        """Return the tools of a kind, preferred ones first. `look` finds them when they are first needed.

        name: key of the kind.
        """
        with self._lock:
            if name not in self._found:
                self._found[name] = look()
            return self._found[name]

    def compile_c(self, source: Path | bytes, *, arch: str, emit: str = "obj", **options: Any) -> bytes:
        """Compile C: `pydispatch.compiler.toolchain.clang.compile_c` with the preferred compiler for `emit`."""
        require(emit, ("bc",) if arch in GPU_ARCHES else ("obj", "bc"), "emit")
        return clang.compile_c(self.clang(emit), source, arch=arch, emit=emit, **options)

    def link_shared(
        self,
        objects: Sequence[bytes | Path],
        *,
        arch: str,
        exports: Sequence[str],
        archives: Sequence[bytes] = (),
        labels: Sequence[str] = (),
    ) -> bytes:
        """Link objects into an embedded ELF: a freestanding shared object that exports only `exports`.

        The file has DT_HASH, section headers, RELRO, no executable stack and no build id; the same input gives the same
        bytes. It is not cached (a link takes less than 1 ms).

        Args:
            objects: ELF objects or archives of them, as bytes or files.
            arch: Architecture of the objects.
            exports: Symbols that the shared object exports.
            archives: Objects that are linked only if they define a symbol that is still missing, such as the device
                library.
            labels: Names of the objects in errors; by default "object0.o" and so on. Files have their paths instead.

        Raises:
            UndefinedSymbolsError: A symbol or an export is not defined.
            ToolchainError: The link fails for another reason.
            ValueError: The architecture is unknown, or an export is no C identifier.
        """
        require(arch, ARCHES, "arch")
        for name in exports:
            if not re.fullmatch(r"[A-Za-z_.$][\w.$]*", name):
                raise ValueError(f"export {name!r}: expected a C identifier")
        labelled = _labelled(objects, labels)
        lazy = [(f"devlib{index}.o", data) for index, data in enumerate(archives)]
        # None if the built-in linker does not support an object.
        linked = None if programs.lld_is_named() else linker.link_own(labelled, lazy, exports, arch)
        return linker.link_with_lld(self.lld(), labelled, lazy, exports, arch) if linked is None else linked


def _labelled(objects: Sequence[bytes | Path], labels: Sequence[str]) -> list[tuple[str, bytes]]:
    """Return objects with their names in errors: the path of a file; the label of others, or "object0.o" and so on."""
    labels_of_all = [*labels, *(f"object{index}.o" for index in range(len(labels), len(objects)))]
    return [
        (label, item) if isinstance(item, bytes) else (os.fspath(item), item.read_bytes())
        for label, item in zip(labels_of_all, objects, strict=True)
    ]


def _shown(tool: Callable[[], Tool]) -> str:
    """Return version, origin and path of the tool that `tool` returns, or the message of its ToolchainError."""
    try:
        return str(tool())
    except ToolchainError as error:
        return error.message


@functools.cache
def _toolchain() -> Toolchain:
    """Return the toolchain of this process, which is created on first use."""
    return Toolchain()


def find() -> Toolchain:
    """Return the toolchain of this process."""
    return _toolchain()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_toolchain.cache_clear)  # a thread that is not in the child may have its lock
