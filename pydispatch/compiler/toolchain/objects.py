"""Checks of the users' objects, before and after linking: a CompileError naming object, symbol and remedy."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.compiler.toolchain import bitcode, cache, foreign
from pydispatch.compiler.worker import llvm_process
from pydispatch.errors import CompileError, Location
from pydispatch.formats.elf import archive, reader
from pydispatch.formats.elf.reader import ElfError, ElfFile, ElfSection
from pydispatch.suggestions import close_matches

_LINKER_SYMBOLS = frozenset((
    "_GLOBAL_OFFSET_TABLE_", "_DYNAMIC", "__ehdr_start", "__executable_start", "__dso_handle", "_end", "end", "_etext",
    "etext", "_edata", "edata", "__bss_start", "__global_pointer$", "_TLS_MODULE_BASE_",
))  # fmt: skip
"""Symbols that the linker defines, so that no object has to."""
_RELRO = (".data.rel.ro", ".init_array", ".fini_array", ".ctors", ".dtors", ".got", ".toc", ".eh_frame")
"""Sections that are writable only while the loader relocates them."""
_EXCEPTIONS = frozenset(("__gxx_personality_v0", "__cxa_throw", "__cxa_begin_catch", "_Unwind_Resume"))
"""Symbols that only code with C++ exceptions refers to."""
_RISCV_FLOAT_ABI, _RISCV_DOUBLE_FLOAT = 0x6, 0x4
"""Bits of the ELF header's flags that state the calling convention of floats, and their value for lp64d."""
_BUILD_AGAIN = "build it anew"
"""Note of errors about damaged objects."""
_PARSE_BITCODE = (
    "import sys; from llvmlite import binding as b; m = b.parse_bitcode(sys.stdin.buffer.read()); m.verify(); "
    "[v.name for v in (*m.functions, *m.global_variables)]"  # LLVM takes names of any bytes, llvmlite those of text
)
"""Python program that parses the bitcode from its standard input, and fails if that is broken."""


@dataclass(frozen=True)
class Checked:
    """Symbols that an object or archive defines and references.

    Attributes:
        name: Name of the file.
        location: Location at which the program names the file; None if it does not.
        defined: Symbols that it defines.
        undefined: Symbols that it references and neither it nor the linker defines; without weak references.
        lazy: Whether it is an archive, from which the linker takes only the members that it needs.
        constructors: Names of its members that have constructors or destructors of global variables.
    """

    name: str
    location: Location | None
    defined: frozenset[str]
    undefined: frozenset[str]
    lazy: bool = False
    constructors: tuple[str, ...] = ()


def check_object(file: ObjectFile, arch: str) -> Checked:
    """Check a relocatable object or an archive of them for the architecture `arch`, and return its symbols.

    A member of an archive may have constructors: the linker may not take it. `check_constructors` checks the result.

    Raises CompileError for an object that is broken, for another architecture, or uses what kernels cannot have.
    """
    if archive.is_archive(file.data):
        members = [_relocatable(f"{file.name}({name})", data, arch, file) for name, data in _members(file)]
        defined = frozenset[str]().union(*(member.defined for member in members))
        undefined = frozenset[str]().union(*(member.undefined for member in members)) - defined
        constructors = tuple(name for member in members for name in member.constructors)
        return Checked(file.name, file.location, defined, undefined, lazy=True, constructors=constructors)
    return _relocatable(file.name, file.data, arch, file)


def _members(file: ObjectFile) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of each object of an archive."""
    try:
        yield from archive.members(file.data)
    except ElfError as error:
        raise _object_error(file, str(error), _BUILD_AGAIN) from error


def _relocatable(name: str, data: bytes, arch: str, file: ObjectFile) -> Checked:
    """Check a relocatable object, as a compiler writes it with -c, and return its symbols.

    Args:
        name: Name of the object in messages: "user.o", or "user.a(member.o)" for a member of an archive.
        data: The object.
        arch: Architecture of the target.
        file: The object, or the archive that contains it.

    Raises:
        CompileError: The object is broken, for another architecture or ABI, or uses what kernels cannot have, such as
            writable variables.
    """
    elf = _open(name, data, arch, file)
    if elf.type != reader.REL:
        raise _error(file, f"{name} is not a relocatable object but of type {_type(elf)}", "compile with -c")
    if arch == "riscv64" and elf.flags & _RISCV_FLOAT_ABI != _RISCV_DOUBLE_FLOAT:
        raise _error(file, f"{name} does not use the double-float calling convention", "compile with -mabi=lp64d")
    with _reporting_broken_tables(name, file):
        # Constructors and exceptions, which `_check_runtime` refuses, may occur in an archive: the linker leaves out
        # members that no kernel uses. `check_constructors` refuses the others; exceptions leave symbols undefined.
        if not archive.is_archive(file.data):
            _check_runtime(name, elf, file)
        for index, section in enumerate(elf.sections):
            _check_section(name, elf, index, section, file)
        checked = _symbols(name, elf, file)
        return replace(checked, constructors=(name,)) if _constructors(elf) else checked


@contextmanager
def _reporting_broken_tables(name: str, file: ObjectFile | None) -> Iterator[None]:
    """Convert errors of the ELF reader within the block to errors about a user's object."""
    try:
        yield
    except ElfError as error:
        raise _error(file, f"{name} has broken tables: {error}", _BUILD_AGAIN) from error


def _type(elf: ElfFile) -> str:
    """Return the type of an ELF file for messages: its name, or the number of an unknown one."""
    return reader.TYPES.get(elf.type, str(elf.type))


def _open(name: str, data: bytes, arch: str, file: ObjectFile | None) -> ElfFile:
    """Open an ELF file; raise CompileError if it is none, or not for `arch`.

    name: name of the object in messages. file: the user's object; None for a file that the compiler linked.
    """
    if not reader.is_elf(data):
        kind = "LLVM bitcode; name it .bc" if bitcode.is_bitcode(data) else "something else"
        raise _error(file, f"{name} is not an ELF file but {kind}", "compile for a -linux or -elf target")
    if data[4:6] != b"\x02\x01":  # EI_CLASS and EI_DATA
        raise _error(file, f"{name} is not a 64-bit little-endian ELF file", f"compile it for {arch}")
    # The machine, before the rest of the header: a file for another machine may be valid.
    identity = reader.identity(data)
    machine = None if identity is None else reader.MACHINES.get(identity.machine, str(identity.machine))
    if machine is not None and machine != arch:
        raise _error(
            file,
            f"{name} is for machine {machine}, the target is {arch}",
            f"compile it with --target={arch}-linux, or list it under another target",
        )
    try:
        elf = ElfFile(data)
        _ = elf.sections  # reads the section headers, which may be broken
    except ElfError as error:
        raise _error(file, f"{name} is cut off or has a broken ELF header: {error}", _BUILD_AGAIN) from error
    return elf


def _check_runtime(name: str, elf: ElfFile, file: ObjectFile) -> None:
    """Raise CompileError for code that needs a C++ runtime before or during a kernel."""
    if title := _constructors(elf):
        message = f"{name} has constructors or destructors of global variables, in section {title}"
        raise _error(file, message, foreign.CONSTRUCTORS)
    if any(symbol.name in _EXCEPTIONS and symbol.section == reader.UNDEFINED for symbol in elf.symbols()):
        raise _error(file, f"{name} uses exceptions", foreign.EXCEPTIONS)


def _constructors(elf: ElfFile) -> str:
    """Return the name of a section with constructors or destructors of global variables; "" without one."""
    titles = (elf.name(section) for section in elf.sections if section.size)
    return next((title for title in titles if title.startswith((".init_array", ".fini_array", ".ctors", ".dtors"))), "")


def _check_section(name: str, elf: ElfFile, index: int, section: ElfSection, file: ObjectFile) -> None:
    """Raise CompileError for a section that cannot be linked into a kernel.

    These are sections that are cut off, have thread-local data, ask for an executable stack, are both writable and
    executable, or have writable data. Data that only relocations write (RELRO), such as tables of pointers, are valid.

    Args:
        name: Name of the object in messages.
        elf: The object.
        index: Index of the section.
        section: The section.
        file: The object, or the archive that contains it.
    """
    flags, size, title = section.flags, section.size, elf.name(section)
    if section.kind != reader.SHT_NOBITS and section.offset + size > len(elf.data):
        raise _error(file, f"{name} is cut off inside section {title}", _BUILD_AGAIN)
    if flags & reader.SHF_TLS:
        raise _error(file, f"{name} has thread-local data in section {title}", foreign.THREAD_LOCAL)
    if title == ".note.GNU-stack" and flags & reader.SHF_EXEC:
        raise _error(
            file,
            f"{name} asks for an executable stack",
            'do not take the address of nested functions; in assembly add: .section .note.GNU-stack,"",@progbits',
        )
    is_writable = bool(flags & reader.SHF_WRITE)
    if is_writable and flags & reader.SHF_EXEC:
        raise _error(file, f"{name} has code in the writable section {title}", "put it into .text")
    has_loaded_data = bool(flags & reader.SHF_ALLOC) and size > 0
    is_relro = title.startswith(_RELRO)
    if is_writable and has_loaded_data and not is_relro:
        raise _error(
            file,
            f"{name} has {size} bytes of writable data in section {title}{_variables(elf, index)}",
            "workgroups run at once and share nothing: make the data const, or pass it as a binding",
        )


def _variables(elf: ElfFile, section: int) -> str:
    """Return the names of the variables in the section with the index `section`, as text for a message; "" for none."""
    names = [s.name for s in elf.symbols() if s.section == section and s.kind == reader.STT_OBJECT]
    if not names:
        return ""
    end = ", ..." if len(names) > 4 else ""
    return f" ({', '.join(names[:4])}{end})"


def _symbols(name: str, elf: ElfFile, file: ObjectFile) -> Checked:
    """Return the symbols that an object defines and references. Raise CompileError for thread-local and writable
    variables.
    """
    defined: set[str] = set()
    undefined: set[str] = set()
    for symbol in elf.symbols():
        if symbol.kind == reader.STT_TLS:
            raise _error(file, f"{name} uses the thread-local variable '{symbol.name}'", "pass state through a binding")
        if symbol.section == reader.COMMON:  # an uninitialized variable, which has no section yet
            message = f"{name} has the writable variable '{symbol.name}'"
            raise _error(file, message, "make it const, or pass it as a binding")
        if symbol.binding == reader.LOCAL or not symbol.name:
            continue
        if symbol.section != reader.UNDEFINED:
            defined.add(symbol.name)
        # A weak reference may stay undefined: its address is then 0.
        elif symbol.binding != reader.WEAK and symbol.name not in _LINKER_SYMBOLS:
            undefined.add(symbol.name)
    return Checked(name, file.location, frozenset(defined), frozenset(undefined))


def undefined_symbols(codes: Sequence[bytes]) -> frozenset[str]:
    """Return the symbols that the generated objects `codes` reference, and neither they nor the linker define."""
    symbols = [symbol for code in codes for symbol in ElfFile(code).symbols() if symbol.name]
    undefined = {symbol.name for symbol in symbols if symbol.section == reader.UNDEFINED}
    defined = {symbol.name for symbol in symbols if symbol.section != reader.UNDEFINED}
    return frozenset(undefined - defined - _LINKER_SYMBOLS)


def check_undefined(
    undefined: Collection[str],
    user: str,
    checked: Sequence[Checked],
    provided: Collection[str],
    location: Location | None,
    own: Collection[str] = (),
) -> None:
    """Check that every symbol that `user` references is defined; raise CompileError otherwise.

    Args:
        undefined: The referenced symbols.
        user: The name of the referencing code in messages.
        checked: The users' objects, which may define the symbols.
        provided: The symbols of the device library: the C functions that kernels may call.
        location: The source location for errors.
        own: The symbols that the generated code defines.
    """
    defined = {symbol for file in checked for symbol in file.defined} | set(own)
    missing = sorted(symbol for symbol in undefined if symbol not in defined and symbol not in provided)
    if missing:
        raise CompileError(
            f"{user} refers to {_quoted(missing)}, which no object defines{_nearest(missing, defined | set(provided))}",
            location,
            "add the object that defines it to hal.executable.objects, or drop hal.import.static so that it is "
            "resolved when the program is loaded",
        )


def check_needs(checked: Sequence[Checked], own: Collection[str], provided: Collection[str]) -> None:
    """Check that every symbol that a user's object references is defined; raise CompileError otherwise.

    The check skips archives, whose symbols are `lazy`: the linker takes only members that are used, and reports their
    undefined symbols.

    Args:
        checked: The users' objects.
        own: The symbols that the generated code defines.
        provided: The symbols of the device library.
    """
    defined = {symbol for file in checked for symbol in file.defined} | set(own)
    for file in checked:
        missing = sorted(file.undefined - defined - set(provided) - _LINKER_SYMBOLS)
        if missing and not file.lazy:
            raise CompileError(
                f"object '{file.name}' refers to {_quoted(missing)}, which nothing defines"
                f"{_nearest(missing, defined | set(provided))}",
                file.location,
                "kernels run without the C library: only mem*, the math functions and compiler builtins are there; "
                "add an object that defines the symbol, or do without it",
            )


def _quoted(names: Sequence[str]) -> str:
    """Return up to 8 names in quotes, and the number of others, for messages."""
    return ", ".join(f"'{name}'" for name in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _nearest(missing: Sequence[str], known: Collection[str]) -> str:
    """Return names in `known` that are similar to missing ones, as text for a message; "" if there are none."""
    similar = {near for name in missing for near in close_matches(name, known, most=2, cutoff=0.75)}
    return f" (nearest: {_quoted(sorted(similar))})" if similar else ""


def check_constructors(data: bytes, checked: Sequence[Checked]) -> None:
    """Check that a linked ELF file has no constructors or destructors, which would run when it is loaded or released.

    Only members of archives can have any, see `check_object`: raise CompileError with the names of those that do.

    Args:
        data: The ELF file.
        checked: The users' objects that were linked.
    """
    elf = ElfFile(data)
    if elf.tag(reader.DT_INIT_ARRAY) is None and elf.tag(reader.DT_FINI_ARRAY) is None:
        return
    files = [file for file in checked if file.constructors]
    names = " or ".join(name for file in files for name in file.constructors)
    location = next((file.location for file in files), None)
    raise CompileError(f"{names} has constructors or destructors of global variables", location, foreign.CONSTRUCTORS)


def check_library(data: bytes, arch: str, query: str, file: ObjectFile | None = None) -> None:
    """Check a linked embedded ELF: it must have no dependencies, and no pages both writable and executable.

    Constructors of a library that its author has linked are allowed: the loader runs them, see docs/abi.md.

    Args:
        data: The ELF file.
        arch: Architecture of the target.
        query: Symbol that it must export: the function that returns its kernels.
        file: The user's object; None for a file that the compiler linked.

    Raises:
        CompileError: The file is no shared object, is for another architecture, does not export `query`, or has
            undefined symbols or segments that are both writable and executable.
    """
    name = file.name if file is not None else "the linked executable"
    elf = _open(name, data, arch, file)
    if elf.type != reader.DYN:
        raise _error(file, f"{name} is not a shared object but of type {_type(elf)}", "link it with -shared")
    with _reporting_broken_tables(name, file):
        _check_segments(name, elf, file)
        symbols = list(elf.symbols(reader.SHT_DYNSYM))
    undefined = sorted(s.name for s in symbols if s.section == reader.UNDEFINED and s.name)
    if undefined:
        raise _error(file, f"{name} leaves {_quoted(undefined)} undefined", "link it with --no-undefined -nostdlib")
    if query not in {s.name for s in symbols}:
        raise _error(file, f"{name} does not export '{query}'", "a whole library must define it; see docs/abi.md")


def _check_segments(name: str, elf: ElfFile, file: ObjectFile | None) -> None:
    """Raise CompileError for a segment that a kernel library may not have."""
    for segment in elf.segments:
        if segment.kind == reader.PT_TLS:
            raise _error(file, f"{name} has thread-local data", "pass state through a binding")
        if segment.kind == reader.PT_LOAD and segment.flags & reader.PF_WRITE and segment.flags & reader.PF_EXEC:
            raise _error(file, f"{name} has a segment that is writable and executable", "link it with -z separate-code")
        if segment.kind == reader.PT_GNU_STACK and segment.flags & reader.PF_EXEC:
            raise _error(file, f"{name} asks for an executable stack", "link it with -z noexecstack")


def check_bitcode(file: ObjectFile) -> None:
    """Check a bitcode file: first its producer, without LLVM, then by LLVM in another process.

    Raise CompileError for a file that is no bitcode, is broken, or was written by a newer LLVM.
    """
    from pydispatch.compiler.toolchain.llvm import version

    ours = version()
    try:
        written = bitcode.llvm_major(file.data)
    except bitcode.BitcodeError as error:
        raise _object_error(file, f"is not readable bitcode: {error}", "build it anew with -emit-llvm -c") from error
    if written is not None and written > ours:  # bitcode is only backward compatible
        raise _object_error(
            file,
            f"was written by LLVM {written}, this compiler reads up to LLVM {ours}",
            "compile it with an older clang, or the bundled one: python -m ziglang clang; or give the .c file itself",
        )
    problem = _parse_error(file.data)
    if problem:
        raise _object_error(file, f"is broken bitcode: {problem}", "build it anew with -emit-llvm -c")


@functools.lru_cache(maxsize=32)
def _parse_error(data: bytes) -> str:
    """Return "" if LLVM can read the bitcode, else the last line of its error.

    A new process reads it, because broken bitcode may end the process. Only success is cached across processes.
    """
    key = cache.digest("bitcode", _PARSE_BITCODE, llvm_process.version(), data)
    if cache.load(key) is not None:
        return ""
    process = subprocess.run([sys.executable, "-c", _PARSE_BITCODE], input=data, capture_output=True, check=False)
    if process.returncode == 0:
        cache.store(key, b"ok")
        return ""
    lines = [line for line in process.stderr.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else f"LLVM ended with code {process.returncode}"


def _error(file: ObjectFile | None, message: str, note: str) -> CompileError:
    """Return an error about a user's object, which the message names; about a file of the compiler if `file` is None.

    note: the remedy for the user.
    """
    if file is None:
        return CompileError(message, location=None, note="this is a defect of the compiler")
    return CompileError(message, file.location, note)


def _object_error(file: ObjectFile, problem: str, note: str) -> CompileError:
    """Return the error that a user's object has a problem. note: the remedy."""
    return _error(file, f"object '{file.name}' {problem}", note)
