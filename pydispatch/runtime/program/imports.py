"""Functions linked at load time: their registration on a device, and resolution of symbols to providers."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydispatch._core.host_command import PREFIX, PythonCommand
from pydispatch.errors import ArtifactError, Error, InvalidArgumentError, MissingImportError
from pydispatch.files import check_path, read_code
from pydispatch.suggestions import did_you_mean

if TYPE_CHECKING:
    import os

    from pydispatch._core.plugin import Manager, Plugin, Resolution


@dataclass(frozen=True)
class Provider:
    """Registration of a plugin, function or host command: `add_plugin` etc. return it, `remove_plugin` removes it.

    Attributes:
        id: Number that identifies the registration on its device.
        name: Label of the plugin, or name of the function or command.
        kind: Kind of the plugin's code, or "function" or "command".
    """

    id: int
    name: str
    kind: str


@dataclass(frozen=True)
class Import:
    """Symbol that an executable of a program imports.

    Attributes:
        symbol: Name of the imported function.
        executable: Name of the executable.
        exports: Names of the executable's exports (kernels) that call the symbol; () if the manifest lists no call.
        optional: Whether the program can be loaded without it.
        provider: Label of the provider; None for a missing optional import.
        searched: Labels of all queried providers, in order.
        signatures: `formats.artifact.imports.ImportSignature` of its calls.
        declaration: Parameter structure and prototype in C of each signature.
    """

    symbol: str
    executable: str
    exports: tuple[str, ...]
    optional: bool
    provider: str | None
    searched: tuple[str, ...]
    signatures: tuple[Any, ...] = ()

    @property
    def declaration(self) -> str:
        """Distinct declarations in C of the signatures of the calls, one after the other."""
        return "\n".join(dict.fromkeys(signature.prototype for signature in self.signatures))

    def __str__(self) -> str:
        """Return a line of text: the symbol, what calls it, its provider, and the queried providers.

        For example "scale of @k (add, mul): plugin.so, searched: plugin.so".
        """
        provider = self.provider or "nobody (optional)"
        searched = f", searched: {', '.join(self.searched)}" if self.searched else ""
        return f"{self.symbol} of @{self.executable} ({', '.join(self.exports) or 'no dispatch'}): {provider}{searched}"


@dataclass(frozen=True)
class SuppliedCode:
    """Code for an executable that a program only declares, which the user adds to a device.

    Attributes:
        source: Path of the code, or another description of its origin, for messages.
        elf: Embedded ELF file; None for a library that the system's loader has loaded.
        query: Address of the query function (QUERY_SYMBOL) of a loaded library; 0 for an ELF.
        owner: Object that keeps a loaded library alive; None for an ELF.
    """

    source: str
    elf: bytes | memoryview | None
    query: int = 0
    owner: object = None


QUERY_SYMBOL = "iree_hal_executable_library_query"
"""Symbol of the function that returns the table of kernels of an executable library."""


def open_code(name: str, source: str | os.PathLike[str] | bytes) -> SuppliedCode:
    """Open the code of an executable that programs only declare, for the CPU of this machine.

    Args:
        name: Name of the executable, for messages.
        source: Path or bytes of an embedded ELF (loaded by this package, without the system's loader) or of a .sos
            (embedded ELFs of several architectures); or the path of a shared library for the system's loader.

    Raises:
        ArtifactError: The code is invalid, or of another architecture.
    """
    from pydispatch._core import elf
    from pydispatch.formats.elf import fatelf
    from pydispatch.formats.elf.reader import is_elf

    where = f"add_executable '{name}'"
    data, label = read_code(where, source, "a library of kernels: an embedded ELF, a .sos, or a shared library")
    is_sos = fatelf.is_fatelf(data)
    file = fatelf.select(data) if is_sos else data  # of a .sos the ELF for this machine
    try:
        # An embedded ELF is self-contained code; an ELF that needs the system's loader is rejected here, and tried
        # below.
        machine = elf.validate(file)
    except ArtifactError as error:
        is_path = not isinstance(source, (bytes, bytearray, memoryview))
        is_single_elf = not is_sos and is_elf(data)
        if is_path and is_single_elf:  # may be a library of the system's loader
            return _load_system_library(where, str(source), data, error)
        raise ArtifactError(f"{where}: {label}: {error}") from None
    if machine != elf.host_machine():
        raise ArtifactError(f"{where}: {label} is for {machine}, this machine is {elf.host_machine()}")
    return SuppliedCode(label, file)


def _load_system_library(where: str, path: str, data: bytes, not_embedded: ArtifactError) -> SuppliedCode:
    """Load a shared library with the system's loader, and return it as the code of an executable.

    Args:
        where: Text that error messages begin with.
        path: Path of the library.
        data: Content of the file.
        not_embedded: Error that states why the library is no embedded ELF, for the message.

    Raises:
        ArtifactError: The loader cannot load it, or it lacks QUERY_SYMBOL, the function that returns its kernels.
    """
    from pydispatch._core import elf
    from pydispatch._core.plugin import check_library

    try:
        # Check before the library is opened: opening runs its constructors, and a truncated file crashes the loader.
        check_library(data)
        elf.check_system(data)
    except Error as error:
        raise ArtifactError(f"{where}: {path}: {error}") from None
    try:
        # The loader would search a name without "/" in the system's folders.
        library = ctypes.CDLL(path if "/" in path else f"./{path}")
        query = getattr(library, QUERY_SYMBOL)
    except (OSError, AttributeError) as error:
        raise ArtifactError(
            f"{where}: {path} is no embedded ELF ({not_embedded}), and the system's loader says: {error}; "
            f"an executable library defines {QUERY_SYMBOL}, see pydispatch/library.h"
        ) from None
    query_address = ctypes.cast(query, ctypes.c_void_p).value or 0
    return SuppliedCode(source=path, elf=None, query=query_address, owner=library)


class Registry:
    """Plugins, functions, host commands and executables that were added to one device.

    The `add_` methods register one of them, and `remove` ends a registration. The linker of a program then searches
    `manager` for the functions, and `executables` for code that programs only declare.

    Attributes:
        manager: All providers, searched by priority.
        executables: Name of an executable → its code that was added last.
        commands: `Provider.id` of a host command of Python → its function.
        packaged: Names of the host commands of other packages that `add_packaged` has added.
        names: `Provider.id` of a function of `add_import` → its symbol, for suggestions in messages.
    """

    def __init__(self) -> None:
        """Create an empty registry."""
        from pydispatch._core.plugin import Manager

        self.manager: Manager = Manager()  # all providers of functions and host commands
        self.executables: dict[str, SuppliedCode] = {}  # name of an executable → its code
        self.commands: dict[int, Callable[..., Any]] = {}  # `Provider.id` of a host command → its Python function
        self.packaged: set[str] = set()  # host commands of other packages that were added
        self.names: dict[int, str] = {}  # `Provider.id` of a function → its symbol, for suggestions

    def add_plugin(
        self, source: str | os.PathLike[str] | bytes | Plugin, priority: int, params: Mapping[str, object]
    ) -> Provider:
        """Load a plugin and add its functions to those that imports are resolved with.

        Args:
            source: Path or bytes of a plugin, or a plugin that is loaded already.
            priority: Providers with a higher priority are searched first. Of equal priorities, the provider that was
                added last is searched first.
            params: Values that the plugin receives as texts when it is loaded.

        Returns:
            The registration, by which the plugin is removed again.
        """
        from pydispatch._core.plugin import Plugin

        texts = {key: str(value) for key, value in params.items()}
        check_priority("add_plugin", priority)
        # The plugin's `load` may print through C. Flush Python's output first, to keep the order.
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # None in processes without a console
                stream.flush()
        if not isinstance(source, (Plugin, bytes, bytearray, memoryview)):
            check_path("add_plugin", source, "a plugin (pydispatch plugin build makes one)")
        plugin = source if isinstance(source, Plugin) else Plugin(source, texts)
        return Provider(self.manager.add(plugin, priority), plugin.label, plugin.kind)

    def add_import(self, name: str, function: object, context: object, priority: int) -> Provider:
        """Add a function that imports of this name are resolved with.

        Args:
            name: Symbol.
            function: Address of a C function, or an object that has one: a ctypes function, cffi pointer, numba cfunc
                or capsule. It is kept alive as long as the registration.
            context: Pointer that the function receives, or an object with one; None for a null pointer.
            priority: Providers with a higher priority are searched first.

        Raises:
            InvalidArgumentError: The name is no symbol, the address is 0, or an argument is of a wrong type.
        """
        is_symbol = isinstance(name, str) and bool(name) and "\0" not in name and _is_utf8(name)
        if not is_symbol or name.startswith("?"):  # in manifests, "?" before a symbol marks an optional import
            raise InvalidArgumentError(f"add_import: expected the name of a symbol, got {name!r}")
        address = address_of(function, f"add_import '{name}': function")
        if not address:
            raise InvalidArgumentError(f"add_import '{name}': the address of the function is 0")
        pointer = 0 if context is None else address_of(context, f"add_import '{name}': context")
        check_priority(f"add_import '{name}'", priority)
        provider_id = self.manager.add_function(name, address, pointer, (function, context), priority)
        self.names[provider_id] = name
        return Provider(provider_id, name, "function")

    def add_command(self, name: str, function: object, context: object, priority: int) -> Provider:
        """Add a host command (a function called between dispatches) of Python or C.

        Args:
            name: Name of the command in programs.
            function: Python function `f(context, *operands)`, or a C function: its address, or an object that has one,
                such as a ctypes function.
            context: Pointer that a C function receives; None for a null pointer, and for a Python function.
            priority: Providers with a higher one are searched first.

        Raises:
            InvalidArgumentError: The name is empty, the function is no function, or a Python function has a context.
        """
        where = f"add_command '{name}'"
        is_name = isinstance(name, str) and bool(name) and "\0" not in name and _is_utf8(name)
        if not is_name:
            raise InvalidArgumentError(f"add_command: expected the name of a host command, got {name!r}")
        check_priority(where, priority)
        symbol = PREFIX + name  # tells host commands from imported functions, which the manager has, too
        if is_native(function):
            address, owner = address_of(function, f"{where}: function"), (function, context)
            pointer = 0 if context is None else address_of(context, f"{where}: context")
            if not address:
                raise InvalidArgumentError(f"{where}: the address of the function is 0")
            provider_id = self.manager.add_function(symbol, address, pointer, owner, priority)
            return Provider(provider_id, name, "command")
        if context is not None:
            raise InvalidArgumentError(f"{where}: context: functions of Python have none; use functools.partial")
        if not callable(function):
            raise InvalidArgumentError(
                f"{where}: expected a function of Python or the address of one of C, got {type(function).__name__}"
            )
        # The registered function is a C function of this package, which calls the Python function of its context, the
        # PythonCommand.
        command = PythonCommand(function)
        provider_id = self.manager.add_function(symbol, command.address, id(command), command, priority)
        self.commands[provider_id] = function
        return Provider(provider_id, name, "command")

    def add_packaged(self, name: str, load: Callable[[], Any]) -> None:
        """Register a host command of another package, unless it is registered already.

        It gets the lowest priority, so that a host command of the user takes precedence. load: returns the function.
        """
        if name not in self.packaged:
            self.packaged.add(name)
            self.add_command(name, load(), context=None, priority=-(1 << 31))

    def remove(self, provider: Provider) -> None:
        """Remove a registration; loaded programs keep the functions that they use."""
        if not isinstance(provider, Provider):
            raise InvalidArgumentError(
                f"remove_plugin: expected what add_plugin or add_import returned, got {type(provider).__name__}"
            )
        self.manager.remove(provider.id)
        self.names.pop(provider.id, None)
        self.commands.pop(provider.id, None)


def _is_utf8(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8; one with a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_priority(what: str, priority: object) -> None:
    """Raise InvalidArgumentError, which begins with `what`, unless a priority is a signed 32-bit integer."""
    if not isinstance(priority, int) or isinstance(priority, bool) or not -(1 << 31) <= priority < 1 << 31:
        raise InvalidArgumentError(f"{what}: priority: expected a whole number of 32 bits, got {priority!r}")


def address_of(value: object, where: str) -> int:
    """Return the address that an integer, ctypes object, cffi pointer, numba cfunc, or capsule represents.

    A ctypes number, array, structure or union stands for its own address, a pointer for the address that it holds.
    Raise InvalidArgumentError, which begins with `where`, for other objects.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < 1 << 64:
            raise InvalidArgumentError(f"{where}: {value} is no address")
        return value
    if isinstance(value, ctypes.c_void_p):  # a pointer, although it is a _SimpleCData like the numbers below
        return value.value or 0
    if isinstance(value, (ctypes._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union)):
        return ctypes.addressof(value)
    if isinstance(value, (ctypes._CFuncPtr, ctypes._Pointer)):  # type: ignore[attr-defined]
        return ctypes.cast(value, ctypes.c_void_p).value or 0
    address = getattr(value, "address", None)  # numba's cfunc
    if isinstance(address, int):
        return address
    if type(value).__name__ == "PyCapsule":  # how Cython and other extensions export C functions
        get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
        get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
        get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        return int(get_pointer(value, get_name(value)) or 0)
    if type(value).__module__ == "_cffi_backend":
        backend: Any = sys.modules["_cffi_backend"]  # a cdata exists only when cffi has been imported
        return int(backend.FFI().cast("uintptr_t", value))
    raise InvalidArgumentError(
        f"{where}: expected an address as an integer, a ctypes, cffi or numba function, or a capsule, "
        f"got {type(value).__name__}"
    )


def is_native(function: object) -> bool:
    """Return whether an object is a function of native code, whose address `address_of` returns."""
    return (
        isinstance(function, (int, ctypes.c_void_p, ctypes._CFuncPtr))  # type: ignore[attr-defined]
        or isinstance(getattr(function, "address", None), int)
        or type(function).__name__ == "PyCapsule"
        or type(function).__module__ == "_cffi_backend"
    )


def signatures_of(variant: Mapping[str, Any]) -> list[Any]:
    """Return the `ImportSignature` of each call of an imported function, from a variant's entry in the manifest."""
    from pydispatch.formats.artifact.imports import ImportSignature
    from pydispatch.formats.artifact.strict import listed

    try:
        return [ImportSignature.from_json(call) for call in listed(variant.get("calls", []))]
    except (KeyError, ValueError) as error:
        raise ArtifactError(f'manifest.json: the key "calls" of a variant: {error}') from None


def report(resolution: Resolution | None, executables: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Import]:
    """Return the imports of all executables with their providers, the plugins and functions that define them.

    An optional import without a provider has None instead. `searched` of an import lists all queried providers.

    Args:
        resolution: Resolution of the imports; None if nothing was resolved.
        executables: (name, entry of the variant in the manifest) of each executable with imports, in the order in which
            they were resolved: `group` of a symbol is the index of its executable.
    """
    imports: list[Import] = []
    symbols = resolution.report() if resolution is not None else []
    for symbol in symbols:
        name, variant = executables[symbol.group]
        calls = tuple(call for call in signatures_of(variant) if call.symbol == symbol.name)
        exports = tuple(dict.fromkeys(export for call in calls for export in call.exports))  # distinct, in order
        provider = symbol.provider.label if symbol.provider is not None else None
        searched = tuple(queried.label for queried in symbol.asked)
        imports.append(Import(symbol.name, name, exports, symbol.is_optional, provider, searched, calls))
    return imports


def missing_imports(
    name: str, variant: Mapping[str, Any], missing: Sequence[str], searched: Sequence[str], known: Iterable[str]
) -> MissingImportError:
    """Return the error for an executable with unresolved required imports.

    The message lists each symbol with the exports (kernels of the executable) that call it, and a known symbol of a
    similar name.

    Args:
        name: Name of the executable.
        variant: Entry of its variant in the manifest.
        missing: Unresolved symbols.
        searched: Labels of the queried providers.
        known: Symbols that some provider has, for suggestions.
    """
    exports_of = {call.symbol: call.exports for call in signatures_of(variant)}  # symbol → exports that call it
    plural = "s" if len(missing) != 1 else ""
    lines = [f"executable '@{name}' has {len(missing)} unresolved function{plural}:"]
    candidates = list(known)
    for symbol in missing:
        callers = ", ".join(f"@{export}" for export in exports_of.get(symbol, ())) or "it"
        hint = did_you_mean(symbol, candidates)
        separator = "; " if hint else ""
        lines.append(f"  '{symbol}', which {callers} calls{separator}{hint}".rstrip())
    lines.append(f"searched: {', '.join(searched)}" if searched else "no plugin or function is registered")
    lines.append(
        f"supply it with device.add_import('{missing[0] if missing else 'name'}', function) or "
        "device.add_plugin('library.so') before loading, or --plugin=library.so on the command line"
    )
    return MissingImportError("\n".join(lines), tuple(missing))
