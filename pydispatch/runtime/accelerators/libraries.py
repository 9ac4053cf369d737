"""Libraries of device functions that are linked at load time, and the resolution of imports."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydispatch.errors import ArtifactError, InvalidArgumentError, MissingImportError
from pydispatch.files import read_code
from pydispatch.formats.artifact.strict import flag, listed, table, text
from pydispatch.formats.elf.reader import is_elf
from pydispatch.runtime.program.imports import Import, Provider, check_priority
from pydispatch.suggestions import did_you_mean


class Library(Protocol):
    """Open library of device functions. name: for messages."""

    @property
    def name(self) -> str: ...

    def names(self) -> Collection[str]:
        """Return the names of the functions that the library has."""


class Linked(Protocol):
    """Result of linking a module of kernels with libraries, for a device.

    Attributes:
        data: Linked module.
        providers: Name of the providing library by symbol.
        unresolved: Symbols that no library provides.
    """

    @property
    def data(self) -> bytes: ...

    @property
    def providers(self) -> Mapping[str, str]: ...

    @property
    def unresolved(self) -> Sequence[str]: ...


class Dialect(Protocol):
    """Language of a device's kernels, and the terms for it in messages; the examples are those of SPIR-V."""

    kind: str
    """`Provider.kind` of its libraries: "spirv"."""
    language: str
    """Name of the language: "SPIR-V"."""
    device: str
    """Noun phrase for the devices that run it: "a Vulkan device"."""
    functions: str
    """Noun phrase for the functions of a library: "shader functions"."""
    suffix: str
    """Suffix of file names: ".spv"."""
    prototypes: str
    """Key of a function's prototype in the list of calls in a manifest: "glsl"."""
    library_command: str
    """The command that compiles a library, with its options and example files."""
    library_hint: str
    """Clause on how to compile a library: "glslangValidator -V -g --keep-uncalled compiles a library"."""

    def is_code(self, data: bytes) -> bool:
        """Return whether bytes look like code in the dialect's language."""

    def open_library(self, data: bytes, name: str) -> Library:
        """Open a library. Raise ArtifactError if it is broken, InvalidArgumentError if it is no library."""

    def link(self, module: bytes, libraries: Sequence[Any], optional: Collection[str], where: str) -> Linked:
        """Return a module linked with the library functions that it imports.

        Args:
            module: Code of the module.
            libraries: Results of `open_library`, in search order: the first that has a function provides it.
            optional: Symbols that may stay unresolved.
            where: Begin of error messages.

        Raises:
            ArtifactError: The module is broken.
            InvalidArgumentError: A function does not match its call.
        """


@dataclass(frozen=True)
class Call:
    """Imported symbol that the kernels of an executable call, with its signature.

    Attributes:
        symbol: Name of the function.
        optional: Whether the program can run without it.
        exports: Names of the exports that call it.
        prototype: Prototype of the required function, in the language of the device.
    """

    symbol: str
    optional: bool
    exports: tuple[str, ...]
    prototype: str


class Libraries:
    """Libraries of device functions that were added to one device (`add_plugin`), in which imports are looked up."""

    def __init__(self, dialect: Dialect) -> None:
        """Create an empty set of libraries. dialect: the language of their code."""
        self.dialect = dialect
        self._added: list[tuple[int, int, Library]] = []  # (priority, id, library); ids count registrations from 1
        self._next_id = 1

    def add(self, source: str | os.PathLike[str] | bytes, priority: int, params: Mapping[str, object]) -> Provider:
        """Register a module as a library, and return the registration for `remove`.

        Args:
            source: Path or bytes of the module.
            priority: Libraries of higher priority are searched first.
            params: Parameters of the plugin; must be empty, since only plugins of the CPU have some.

        Raises:
            ArtifactError: The module is broken.
            InvalidArgumentError: The module is no library of functions.
            SystemError: The file cannot be read.
        """
        dialect = self.dialect  # the language of the modules of this device, such as PTX, with its words for messages
        check_priority("add_plugin", priority)
        if params:
            names = ", ".join(params)
            raise InvalidArgumentError(f"add_plugin: a library of {dialect.functions} has no parameters, got {names}")
        data, label = read_code("add_plugin", source, f"a {dialect.language} module ({dialect.library_command})")
        if not dialect.is_code(data):
            hint = "it is machine code" if is_elf(data) else "compile it"
            raise ArtifactError(
                f"add_plugin: {label} is no {dialect.language}, which {dialect.device} takes; {hint}: "
                f"{dialect.library_command} makes a library of functions"
            )
        library = dialect.open_library(data, label)
        provider_id, self._next_id = self._next_id, self._next_id + 1
        self._added.append((priority, provider_id, library))
        return Provider(provider_id, label, dialect.kind)

    def remove(self, provider: Provider) -> None:
        """Remove a registration. Programs that are already loaded keep the library."""
        added_ids = [provider_id for _, provider_id, _ in self._added]
        if not isinstance(provider, Provider) or provider.id not in added_ids:
            raise InvalidArgumentError("remove_plugin: expected what add_plugin of this device returned, once")
        self._added = [(priority, id, library) for priority, id, library in self._added if id != provider.id]

    def in_search_order(self) -> list[Library]:
        """Return the libraries in search order: by falling priority, the most recently added first among equals."""
        by_priority_and_id = sorted(self._added, key=lambda entry: entry[:2], reverse=True)
        return [library for _priority, _id, library in by_priority_and_id]


class Resolution:
    """Resolver of the imports of one program's executables: `link` is called for each of them.

    Attributes:
        libraries: The libraries in search order.
        imports: Imports of the executables linked so far, with the library that provides each.
    """

    def __init__(self, dialect: Dialect, libraries: Sequence[Library]) -> None:
        """Create a resolver that has linked no executable. dialect: the language of the kernels."""
        self.dialect, self.libraries = dialect, list(libraries)
        self.imports: list[Import] = []

    def link(self, name: str, modules: Sequence[bytes], variant: Mapping[str, Any]) -> list[bytes]:
        """Link the modules of an executable with the libraries, return them, and add its imports to `imports`.

        Example:
            A variant with one required and one optional import ("?"), which the export "mlp" calls:

                {"imports": ["gelu", "?log"],
                 "calls": [{"symbol": "gelu", "optional": false, "exports": ["mlp"], "glsl": ["float gelu(float)"]},
                           {"symbol": "log", "optional": true, "exports": ["mlp"], "glsl": ["void log(int)"]}]}

        Args:
            name: Name of the executable.
            modules: Code of its modules.
            variant: Entry of the chosen variant in the manifest, whose keys "imports" and "calls" are read.

        Raises:
            ArtifactError: A module is broken.
            InvalidArgumentError: A function does not match its call.
            MissingImportError: No library has a required function.
        """
        where, entries = f"executable '@{name}'", variant.get("imports", [])
        if not isinstance(entries, list):
            raise ArtifactError(f'{where}: the key "imports" of its variant cannot be read')
        symbols = [str(entry) for entry in entries]
        optional = {entry[1:] for entry in symbols if entry.startswith("?")}
        providers: dict[str, str] = {}  # symbol → name of the library that defines it
        unresolved: list[str] = []  # required symbols that no library defines
        linked_modules: list[bytes] = []
        for module in modules:
            linked = self.dialect.link(module, self.libraries, optional, where)
            providers.update(linked.providers)
            unresolved += linked.unresolved
            linked_modules.append(linked.data)
        calls = list(self._calls(variant, where))
        if unresolved:
            raise self._missing(name, unresolved, calls)
        # List what was imported, with the export that calls it, for reports.
        for symbol in (entry.removeprefix("?") for entry in symbols):
            provider = providers.get(symbol)
            calls_of_symbol = tuple(call for call in calls if call.symbol == symbol)
            exports = tuple(dict.fromkeys(export for call in calls_of_symbol for export in call.exports))
            searched = self._searched_until(provider)
            self.imports.append(Import(symbol, name, exports, symbol in optional, provider, searched, calls_of_symbol))
        return linked_modules

    def _searched_until(self, provider: str | None) -> tuple[str, ...]:
        """Return the names of the libraries that were searched: up to `provider`, or all if that is None."""
        names = [library.name for library in self.libraries]
        return tuple(names[: names.index(provider) + 1] if provider in names else names)

    def _missing(self, name: str, symbols: Sequence[str], calls: Sequence[Call]) -> MissingImportError:
        """Return the error for unresolved symbols, with the calls of each and similar names.

        name: of the executable. calls: all calls of imported symbols in the executable.
        """
        symbols = list(dict.fromkeys(symbols))
        plural = "s" if len(symbols) != 1 else ""
        lines = [f"executable '@{name}' has {len(symbols)} unresolved function{plural}:"]
        library_functions = [function for library in self.libraries for function in library.names()]
        for symbol in symbols:
            exports = (f"@{export}" for call in calls if call.symbol == symbol for export in call.exports)
            callers = ", ".join(dict.fromkeys(exports)) or "it"
            hint = did_you_mean(symbol, library_functions)
            separator = "; " if hint else ""
            lines.append(f"  '{symbol}', which {callers} calls{separator}{hint}".rstrip())
            lines += [f"    {call.prototype}" for call in calls if call.symbol == symbol]
        searched = ", ".join(library.name for library in self.libraries)
        lines.append(f"searched: {searched}" if searched else "no library is registered")
        file = f"lib{self.dialect.suffix}"
        lines.append(
            f"supply it with device.add_plugin('{file}') before loading, or --plugin={file} on the command line; "
            f"{self.dialect.library_hint}"
        )
        return MissingImportError("\n".join(lines), tuple(symbols))

    def _calls(self, variant: Mapping[str, Any], where: str) -> Iterator[Call]:
        """Yield the calls that the manifest lists for a variant. Raise ArtifactError if they cannot be read."""
        try:
            for entry in listed(variant.get("calls", [])):
                exports = tuple(map(text, listed(table(entry)["exports"])))
                for prototype in map(text, listed(entry[self.dialect.prototypes])):
                    yield Call(text(entry["symbol"]), flag(entry["optional"]), exports, prototype)
        except (KeyError, ValueError) as error:
            raise ArtifactError(f'{where}: manifest.json: the key "calls" of its variant: {error}') from None
