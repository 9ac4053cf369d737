"""Compilation of C sources to a plugin: an embedded ELF for each architecture, joined into a FatELF file, or a system
library.

A standalone plugin runs without an operating system: it has no C library, no thread-local storage and no writable
globals. Violations are found in the objects before linking, and reported with a remedy. The device library (mem*, libm,
and functions that compilers call implicitly) is linked in where needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydispatch._core import elf as core_elf
from pydispatch.compiler import devlib
from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.compiler.toolchain import objects, programs
from pydispatch.compiler.toolchain.tools import ARCHES, Toolchain, ToolchainError, find
from pydispatch.errors import CompileError, Error, InvalidArgumentError
from pydispatch.files import read
from pydispatch.formats.elf import elf, fatelf
from pydispatch.formats.elf.reader import is_elf

QUERY = "iree_hal_executable_plugin_query"
"""The function by which a plugin tells the loader what it has: its name, and its functions by symbol."""

# Functions of C libraries that a standalone plugin lacks, by the remedy that an error about them names.
_STDIO = frozenset(
    [
        *("printf", "fprintf", "sprintf", "snprintf", "vprintf", "puts", "putchar"),
        *("fputs", "fwrite", "fopen", "fread", "fclose", "stdout", "stderr"),
    ]
)
_HEAP = frozenset(["malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign"])
"""Functions of C's heap, which a standalone plugin does not have; their error names an allocator instead."""
_LINK_REMEDY = f"link with ld.lld -shared, and keep {QUERY} global"
"""Note of errors about a system plugin without the function that pydispatch looks up."""


def query_source(name: str, description: str, exports: Sequence[str]) -> bytes:
    """Return C source of the query function of a plugin: it lists functions that other sources define.

    Args:
        name: Name of the plugin.
        description: Description of the plugin.
        exports: Functions `int NAME(void* params, void* context, void* reserved)`, which kernels import by these names.

    Raises InvalidArgumentError for an export that is no name of C, or is there twice.
    """
    for export in exports:
        if not re.fullmatch(r"[A-Za-z_]\w*", export):
            raise InvalidArgumentError(f"export {export!r}: expected the name of a C function")
    if len(set(exports)) != len(exports):
        raise InvalidArgumentError(f"exports: a name is there twice: {', '.join(exports)}")
    lines = ['#include "pydispatch/plugin.h"']
    lines += [f"extern int {export}(void*, void*, void*);" for export in exports]
    rows = ", ".join(f'PYD_PLUGIN_FN("{export}", {export})' for export in exports)
    lines.append(f"PYD_PLUGIN({_c_text(name)}, {_c_text(description)}, {rows})")
    return ("\n".join(lines) + "\n").encode()


def _c_text(text: str) -> str:
    """Return a text, encoded as UTF-8, as a string literal of C.

    Quotes, backslashes, bytes outside of printable ASCII and "?", which could begin a trigraph, are octal escapes.
    """
    literal = ""
    for byte in text.encode():
        is_plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
        literal += chr(byte) if is_plain else f"\\{byte:03o}"
    return f'"{literal}"'


def build_standalone(
    sources: Sequence[Path],
    *,
    arches: Sequence[str],
    exports: Sequence[str] = (),
    name: str = "plugin",
    description: str = "",
    include_dirs: Sequence[Path | str] = (),
    defines: Sequence[str] = (),
    cpu: str = "generic",
    features: Sequence[str] = (),
    opt: str = "-O3",
) -> dict[str, bytes]:
    """Build a standalone plugin, and return an embedded ELF for each architecture: a shared object that needs no other
    library, not even the C library, and that the runtime's own loader maps on every operating system.

    Args:
        sources: Files of C, objects (.o) and archives (.a).
        arches: Architectures, such as "x86_64".
        exports: Functions to generate a query function for; without them the sources define it.
        name: Name of the plugin, in the generated query function.
        description: Description of the plugin there.
        include_dirs: Folders that the compiler searches for includes.
        defines: Macros, `NAME=VALUE`.
        cpu: CPU that code is generated for; the same name is passed for every architecture.
        features: CPU features with signs ("+avx2"); the same text is passed for every architecture.
        opt: Optimization level of the compiler.

    Raises:
        CompileError: A source needs what a standalone plugin does not have; with file, symbol and remedy.
        ToolchainError: The compiler or linker fails; with its diagnostics.
    """
    if not arches:
        raise InvalidArgumentError("arch: expected at least one")
    plugin = _Standalone(
        sources=sources, exports=exports, name=name, description=description, include_dirs=include_dirs,
        defines=defines, cpu=cpu, features=features, opt=opt,
    )  # fmt: skip
    return {arch: plugin.build(arch) for arch in dict.fromkeys(arches)}  # each once


@dataclass(frozen=True)
class _Standalone:
    """A standalone plugin to build; `build` compiles and links it for an architecture.

    Attributes:
        sources: Files of C, objects (.o) and archives (.a).
        exports: Functions to generate a query function for; without them the sources define it.
        name: Name of the plugin, in the generated query function.
        description: Description of the plugin there.
        include_dirs: Folders that the compiler searches for includes.
        defines: Macros, `NAME=VALUE`.
        cpu: CPU that code is generated for.
        features: CPU features with signs, such as "+avx2".
        opt: Optimization level of the compiler.
    """

    sources: Sequence[Path]
    exports: Sequence[str]
    name: str
    description: str
    include_dirs: Sequence[Path | str]
    defines: Sequence[str]
    cpu: str
    features: Sequence[str]
    opt: str

    def build(self, arch: str) -> bytes:
        """Return the plugin for an architecture, such as "x86_64"."""
        if arch not in ARCHES:
            raise InvalidArgumentError(f"arch {arch!r}: expected one of {', '.join(ARCHES)}")
        query = query_source(self.name, self.description, self.exports) if self.exports else b""
        toolchain = find()
        checked: list[objects.Checked] = []  # the symbols of each source
        files: list[bytes] = []  # objects and archives to link
        for source in self.sources:
            is_compiled = source.suffix in (".o", ".a")  # already
            data = read(source) if is_compiled else self._compile(toolchain, source, arch)
            checked.append(_check_object(source.name, data, arch))
            files.append(data)
        defined = frozenset[str]().union(*(file.defined for file in checked))
        if query:
            _check_exports(self.exports, defined)
            files.append(self._compile(toolchain, query, arch))
        elif QUERY not in defined:
            raise CompileError(
                f"no source defines the query function {QUERY}",
                note='end a source with PYD_PLUGIN("name", "description", PYD_PLUGIN_FN("symbol", function), ...) of '
                '"pydispatch/plugin.h", or name the functions with --export',
            )
        _check_undefined(checked, defined)
        # Archives: mathematical functions, and the few C functions that compilers call.
        archives = devlib.objects(arch, self.cpu, self.features)
        linked = toolchain.link_shared(files, arch=arch, exports=[QUERY], archives=archives)
        objects.check_constructors(linked, checked)  # of members of archives, which _check_object accepts
        check_standalone(linked, arch)
        return linked

    def _compile(self, toolchain: Toolchain, source: Path | bytes, arch: str) -> bytes:
        """Compile a file of C, or C source as bytes, to an object for `arch`."""
        return toolchain.compile_c(
            source, arch=arch, cpu=self.cpu, features=self.features, include_dirs=self.include_dirs,
            defines=self.defines, opt=self.opt,
        )  # fmt: skip


def _check_exports(exports: Sequence[str], defined: frozenset[str]) -> None:
    """Raise CompileError for an export that no source defines, or a source that defines the query function itself."""
    if QUERY in defined:
        raise CompileError(
            f"a source defines {QUERY} itself", note="leave --export out, or take PYD_PLUGIN(...) out of the source"
        )
    missing = [name for name in exports if name not in defined]
    if missing:
        raise CompileError(
            f"no source defines {', '.join(repr(name) for name in missing)}",
            note="define it as: int NAME(void* params, void* context, void* reserved), without 'static'",
        )


def _check_object(name: str, data: bytes, arch: str) -> objects.Checked:
    """Check an object or archive, and return its symbols.

    Raises CompileError if it can't be part of a plugin, with a note on what its author can do instead.

    name: file name of the source, for messages.
    """
    try:
        return objects.check_object(ObjectFile(name, data), arch)
    except CompileError as error:
        note = error.note
        if "writable" in error.message:
            note = "make it const, or keep it in the instance that load makes: workgroups run at once on many threads"
        elif "thread-local" in error.message:
            note = "a standalone plugin has no thread of its own: keep the value on the stack, or build with --system"
        raise CompileError(error.message, error.location, note) from None


def _check_undefined(checked: Sequence[objects.Checked], defined: frozenset[str]) -> None:
    """Raise CompileError for undefined symbols that nothing in a standalone plugin provides.

    Args:
        checked: Symbols of each file. Symbols of an archive's members (`lazy`) may be undefined, since members are only
            linked in if they are needed.
        defined: Symbols that the files define.
    """
    provided = devlib.provided_symbols() | defined
    for file in checked:
        missing = sorted(file.undefined - provided)
        if not missing or file.lazy:
            continue
        raise CompileError(
            f"{file.name} refers to {', '.join(repr(symbol) for symbol in missing)}, which nothing defines",
            note=_remedy(missing),
        )


def _remedy(missing: Sequence[str]) -> str:
    """Return the note of an error about undefined symbols."""
    names = set(missing)
    if names & _HEAP:
        return (
            "a standalone plugin has no C library: take memory in load with pyd_plugin_alloc(&environment->allocator, "
            "size), or build with --system"
        )
    if names & _STDIO:
        return "a standalone plugin has no C library and cannot print: remove it, or build with --system"
    if "__tls_get_addr" in names:
        return "a standalone plugin has no thread-local storage: keep the value on the stack, or build with --system"
    return "add the source that defines it; of the C library a standalone plugin has mem* and libm alone (or: --system)"


def check_standalone(data: bytes, arch: str, name: str = "the plugin") -> None:
    """Check that the loader accepts a linked ELF file for `arch`, and that it exports QUERY. Raises CompileError.

    name: subject of error messages.
    """
    try:
        machine = core_elf.validate(data)
        facts = elf.read(data)
    except Error as error:
        raise CompileError(f"{name}: {error}", note=_LINK_REMEDY) from None
    if machine != arch:
        raise CompileError(f"{name} is for {machine}, expected {arch}")
    if QUERY not in facts.exports:
        raise CompileError(f"{name} does not export {QUERY}", note=_LINK_REMEDY)


def build_system(
    sources: Sequence[Path],
    *,
    exports: Sequence[str] = (),
    name: str = "plugin",
    description: str = "",
    include_dirs: Sequence[Path | str] = (),
    defines: Sequence[str] = (),
    opt: str = "-O3",
    extra_args: Sequence[str] = (),
) -> bytes:
    """Build a shared library for this machine, by `$CC`, `cc`, `gcc` or `clang`, or the one inside the ziglang wheel.

    Args:
        sources: Files of C and objects.
        exports: Functions to generate a query function for; without them the sources define it.
        name: Name of the plugin, in the generated query function.
        description: Description of the plugin there.
        include_dirs: Folders that the compiler searches for includes.
        defines: Macros, `NAME=VALUE`.
        opt: Optimization level of the compiler.
        extra_args: Arguments that follow the sources, such as "-lm".

    Raises:
        CompileError: No source defines the query function.
        ToolchainError: The compiler fails; with its diagnostics.
    """
    with tempfile.TemporaryDirectory(prefix="pydispatch-") as scratch:
        inputs = [os.fspath(source) for source in sources]
        if exports:
            query = Path(scratch, "query.c")
            query.write_bytes(query_source(name, description, exports))
            inputs.append(os.fspath(query))
        output = Path(scratch, "plugin.so")
        flags = ["-shared", "-fPIC", opt, "-fvisibility=hidden", "-DPYD_PLUGIN_SYSTEM"]
        flags += [f"-D{define}" for define in defines] + [f"-I{folder}" for folder in include_dirs]
        _run_host_compiler([*flags, *inputs, "-o", os.fspath(output), *extra_args])
        data = output.read_bytes()
    # On systems whose libraries are no ELF files, the loader reports a missing query function.
    if is_elf(data) and QUERY not in elf.read(data).exports:
        raise CompileError(
            f"the plugin does not export {QUERY}",
            note='end a source with PYD_PLUGIN(...) of "pydispatch/plugin.h", or name the functions with --export',
        )
    return data


def _run_host_compiler(arguments: Sequence[str]) -> None:
    """Run the C compiler for this machine; raise ToolchainError, with its diagnostics, if it fails."""
    compiler, environment = _host_compiler()
    command = [*compiler, *arguments]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode != 0:
        raise ToolchainError("building the system plugin failed", command, done.stderr)


def _host_compiler() -> tuple[list[str], dict[str, str] | None]:
    """Return the command of the C compiler for this machine, and the variables of its environment.

    The environment is None for that of this process.
    """
    named = os.environ.get("CC")
    if named:
        return named.split(), None
    for candidate in ("cc", "gcc", "clang"):
        path = shutil.which(candidate)
        if path:
            return [path], None
    return programs.zig_cc(), programs.zig_environment()


def package(built: dict[str, bytes], output: Path) -> bytes:
    """Return the content for the file `output`: a FatELF file if its suffix is .sos, else the one ELF file of `built`.

    Args:
        built: Architecture -> ELF file.
        output: Path that the caller will write; its stem is in error messages.

    Raises InvalidArgumentError for several architectures and another suffix than .sos.
    """
    if len(built) == 1 and output.suffix != ".sos":
        return next(iter(built.values()))
    if output.suffix != ".sos":
        raise InvalidArgumentError(f"{output}: several architectures make a FatELF file; name it {output.stem}.sos")
    return fatelf.join([(f"{output.stem} for {arch}", data) for arch, data in built.items()])
