"""Links WGSL: libraries define the functions that a kernel's module imports.

The imports of a module are comments, one line for each function and set of buffers, and for each question whether
a function is there:

    // import scale as import0_scale(u32, u32, i32) -> f32: binding0_f read, binding2_f write
    // available scale as available_scale

The name after `as` is the one that the text uses. docs/webgpu.md says how libraries are written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.wgsl.lex import decode
from pydispatch.formats.wgsl.module import Declaration, WgslModule
from pydispatch.formats.wgsl.read import read
from pydispatch.link.wgsl.output import WgslOutput

_IMPORT = re.compile(r"^// import (\S+) as (\w+)\(([\w, ]*)\)(?: -> (\w+))?(?:: ([\w, ]+))?$", re.MULTILINE)
"""Comment that imports a library function, `// import lib_swish as f(f32) -> f32: x, y write`: its symbol, name in the
module, types of arguments and result, and names of buffers, with "write" after those that it writes."""
_AVAILABLE = re.compile(r"^// available (\S+) as (\w+)$", re.MULTILINE)
"""Query whether a library defines a symbol, `// available lib_swish as has_swish`; the name becomes a constant."""


@dataclass(frozen=True)
class Import:
    """Import of a library function by a kernel's module.

    Attributes:
        symbol: Name of the function in libraries.
        name: Name by which the module calls it.
        types: WGSL types of the arguments; that of a memref is "u32", the offset of its first element.
        result: WGSL type of the result; "" for none.
        buffers: Pairs (name of the module's variable, whether the function may write it), one per memref argument.
    """

    symbol: str
    name: str
    types: tuple[str, ...]
    result: str
    buffers: tuple[tuple[str, bool], ...]


def import_line(entry: Import) -> str:
    """Return the comment that declares an import, such as `// import scale as f(f32) -> f32: x read, y write`."""
    buffers = ", ".join(f"{name} {'write' if written else 'read'}" for name, written in entry.buffers)
    result = f" -> {entry.result}" if entry.result else ""
    types = ", ".join(entry.types)
    return f"// import {entry.symbol} as {entry.name}({types}){result}{f': {buffers}' if buffers else ''}"


def available_line(symbol: str, name: str) -> str:
    """Return the comment that declares `name` as a constant: whether a library defines `symbol`."""
    return f"// available {symbol} as {name}"


@dataclass(frozen=True)
class WgslLibrary:
    """WGSL module whose functions kernels may import.

    Attributes:
        name: Name of the library in messages.
        module: The module.
    """

    name: str
    module: WgslModule

    def names(self) -> Collection[str]:
        """Return the names of the functions that kernels may import."""
        return [function.name for function in self.module.functions]

    def function(self, symbol: str) -> Declaration | None:
        """Return the function of this name; None if the module has none."""
        declaration = self.module.named.get(symbol)
        return declaration if declaration is not None and declaration in self.module.functions else None


@dataclass(frozen=True)
class LinkedWgsl:
    """Result of linking WGSL: the text with the functions of libraries, and what is left unresolved.

    Attributes:
        data: Text of the linked module, in UTF-8.
        providers: By resolved symbol, the name of the library that defines it.
        unresolved: Symbols without a definition.
    """

    data: bytes
    providers: dict[str, str]
    unresolved: tuple[str, ...]


def open_library(data: bytes, name: str) -> WgslLibrary:
    """Read a WGSL module as a library.

    Raises:
        ArtifactError: The module is broken.
        InvalidArgumentError: The module has no function besides entry points.
    """
    module = read(data, name)
    if not module.functions:
        raise InvalidArgumentError(f"{name} has no function that a shader could call: entry points cannot be called")
    return WgslLibrary(name, module)


def link(data: bytes, libraries: Sequence[WgslLibrary], absent: Collection[str], where: str) -> LinkedWgsl:
    """Add the library functions that a module imports to its text, and return the linked module.

    The module states imports and queries as comments, and its code uses the names after `as`, which nothing defines:

        // import scale as import0_scale(u32, f32) -> f32: binding0_f write
        // available scale as has_scale

    If a library defines `scale`, the linked module has a copy of it, and definitions of the two names:

        fn library_scale(offset: u32, x: f32) -> f32 { ... }
        fn import0_scale(a0: u32, a1: f32) -> f32 { return library_scale(u32(a0), a1); }
        const has_scale = true;

    If no library defines it and `absent` has it, `import0_scale` is a stub that returns 0.0, and `has_scale` is false.
    If `absent` lacks it, the comments stay for a later link.

    Args:
        data: The importing module.
        libraries: Libraries in search order.
        absent: Symbols that may be missing. Code that calls such a function tests its availability first.
        where: Name of the module in messages.

    Raises:
        ArtifactError: A module is broken.
        InvalidArgumentError: A function does not fit its call.
    """
    text = decode(data, where)
    imports = [_parsed(match) for match in _IMPORT.finditer(text)]
    queries = _AVAILABLE.findall(text)  # (symbol, name) of each question whether a library defines the symbol
    # The distinct symbols in order, and of each that a library defines: (index of the library, library, function).
    symbols = dict.fromkeys([*(entry.symbol for entry in imports), *(symbol for symbol, _ in queries)])
    sources = {symbol: source for symbol in symbols if (source := _source_of(symbol, libraries)) is not None}
    output = WgslOutput(read(data, where))

    # Each import becomes the library's function with an adapter, or a stub, or stays an import.
    for entry in imports:
        if entry.symbol in sources:
            _define(entry, *sources[entry.symbol], output)
        elif entry.symbol in absent:
            output.add_stub(entry.name, entry.types, entry.result)
    unresolved = tuple(symbol for symbol in symbols if symbol not in sources and symbol not in absent)

    # Answer which symbols are available, unless a later link may still define them.
    for symbol, name in queries:
        if symbol not in unresolved:
            output.define(f"const {name} = {'true' if symbol in sources else 'false'};")

    def without_import(match: re.Match[str]) -> str:
        """Return what replaces a comment `// import SYMBOL as ...` or `// available SYMBOL as ...`.

        A resolved symbol leaves the comment `// SYMBOL`. A comment whose symbol is in `unresolved` is retained for a
        later link.
        """
        return match.group() if match.group(1) in unresolved else f"// {match.group(1)}"

    linked = output.text(lambda kernel: _AVAILABLE.sub(without_import, _IMPORT.sub(without_import, kernel)))
    return LinkedWgsl(
        linked.encode(), {symbol: library.name for symbol, (_, library, _) in sources.items()}, unresolved
    )


def _define(entry: Import, index: int, library: WgslLibrary, function: Declaration, output: WgslOutput) -> None:
    """Copy the function of library `index` that an import denotes to the output, and define the import's name by it."""
    variables = matched_variables(entry, library, function, output.kernel)
    called = output.add_function(index, library.module, function, variables)
    parameter_types = [member.type for member in function.members]
    output.add_adapter(entry.name, entry.types, entry.result, called, parameter_types)


def _source_of(symbol: str, libraries: Sequence[WgslLibrary]) -> tuple[int, WgslLibrary, Declaration] | None:
    """Return the first library that defines a function: its index, the library and the function. None without one."""
    for index, library in enumerate(libraries):
        function = library.function(symbol)
        if function is not None:
            return index, library, function
    return None


def _parsed(match: re.Match[str]) -> Import:
    """Return the import that a comment matched by `_IMPORT` declares."""
    symbol, name, types, result, buffers = match.groups()
    type_list = tuple(type_.strip() for type_ in types.split(",") if type_.strip())
    buffer_words = [buffer.split() for buffer in (buffers or "").split(",") if buffer.strip()]  # ["x", "write"]
    buffer_list = tuple((words[0], words[-1] == "write") for words in buffer_words)
    return Import(symbol, name, type_list, result or "", buffer_list)


def matched_variables(entry: Import, library: WgslLibrary, function: Declaration, kernel: WgslModule) -> dict[str, str]:
    """Check that a library's function fits the call of a kernel, and return the buffers that it uses.

    A buffer variable of the library with binding n stands for the n-th buffer of the call.

    Args:
        entry: The import: types of the arguments and result, and the buffers of the call.
        library: The library that defines the function.
        function: Declaration of the function.
        kernel: The module that imports it.

    Returns:
        Name of a buffer variable of the library → name of the kernel's variable that replaces it.

    Raises:
        InvalidArgumentError: The function does not fit its call.
    """
    # i32 and u32 fit each other: the adapter of the import converts them.
    parameters = [member.type for member in function.members]  # those of a function are its parameters
    if len(parameters) != len(entry.types) or not all(map(_fits, parameters, map(_type_text, entry.types))):
        raise _misfit(entry, library, f"it is ({', '.join(parameters)}), called with ({', '.join(entry.types)})")
    if bool(function.type) != bool(entry.result) or not _fits(function.type, _type_text(entry.result)):
        raise _misfit(entry, library, f"it returns {function.type or 'nothing'}, wanted is {entry.result or 'nothing'}")
    variables: dict[str, str] = {}
    for variable in library.module.reached([function]):
        # A uniform variable is a buffer too, whose binding may be missing: `_buffer` reports that.
        if variable.kind == "var" and (variable.attribute("binding") is not None or variable.space == "uniform"):
            variables[variable.name] = _buffer(entry, library, variable, kernel)
    return variables


def _buffer(entry: Import, library: WgslLibrary, variable: Declaration, kernel: WgslModule) -> str:
    """Return the name of the kernel's variable that a library's buffer variable denotes through its binding.

    The variable with `@binding(1)` denotes the second buffer that the call passes. Raises InvalidArgumentError if it is
    no storage buffer with a binding, if the call passes fewer buffers, and if the access mode or the type differs.
    """
    # The binding is the index in `entry.buffers`.
    binding, what = library.module.number(variable, "binding"), f"'{variable.name}'"
    if variable.space != "storage" or binding is None:
        raise _misfit(entry, library, f"{what} is var<{variable.space}>; functions use storage buffers alone")
    if binding >= len(entry.buffers):
        raise _misfit(entry, library, f"{what} has binding {binding}, the call has {len(entry.buffers)} memrefs")
    name, is_written = entry.buffers[binding]
    if variable.access != "read" and not is_written:
        raise _misfit(entry, library, f"{what} is read_write, and the program only reads this buffer")
    have = kernel.named.get(name)
    if have is None or have.type != variable.type:
        kind = have.type if have is not None else "missing"
        raise _misfit(entry, library, f"{what} is {variable.type}, and the buffer of the kernel is {kind}")
    return name


def _misfit(entry: Import, library: WgslLibrary, problem: str) -> InvalidArgumentError:
    """Return the error that a library's function does not fit a call."""
    return InvalidArgumentError(f"{library.name}: function '{entry.symbol}' does not fit its call: {problem}")


def _type_text(type_: str) -> str:
    """Return a type of an import as the WGSL reader spells types, with a predeclared alias replaced by its type."""
    return {"vec2u": "vec2<u32>"}.get(type_, type_)


def _fits(have: str, wanted: str) -> bool:
    """Return whether a type is the expected one; i32 and u32 are interchangeable."""
    return have == wanted or {have, wanted} == {"i32", "u32"}
