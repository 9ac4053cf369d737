"""Functions in SPIR-V that arrive at load time: the plugins of a Vulkan device, and linking them into shaders."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydispatch.errors import ArtifactError, InvalidArgumentError, MissingImportError
from pydispatch.formats import spirv_link
from pydispatch.formats.spirv import is_spirv
from pydispatch.formats.spirv_reflect import reflect
from pydispatch.runtime.imports import Import, Provider

if TYPE_CHECKING:
    from pydispatch.formats.spirv_link import Library
    from pydispatch.runtime.devices.vulkan.pipelines import Parts


@dataclass(frozen=True)
class Call:
    """How a shader calls a symbol. c: the prototype of the function that it needs, in GLSL."""

    symbol: str
    optional: bool
    exports: tuple[str, ...]
    c: str


class Libraries:
    """The libraries of one device."""

    def __init__(self) -> None:
        self._added: list[tuple[int, int, Library]] = []  # priority, number, library
        self._next = 1

    def add(self, source: str | os.PathLike[str] | bytes, priority: int, params: Mapping[str, object]) -> Provider:
        """Registers the path or bytes of a module.

        Raises ArtifactError when it is broken, InvalidArgumentError when it is no library of functions.
        """
        if params:
            names = ", ".join(params)
            raise InvalidArgumentError(f"add_plugin: a library of shader functions has no parameters, got {names}")
        if isinstance(source, (bytes, bytearray, memoryview)):
            data, label = bytes(source), f"{len(source)} bytes"
        elif isinstance(source, (str, os.PathLike)):
            data, label = Path(source).read_bytes(), os.fspath(source)
        else:
            raise InvalidArgumentError(
                f"add_plugin: expected the path or bytes of a SPIR-V module, got {type(source).__name__}"
            )
        if not is_spirv(data):
            hint = "it is machine code for a CPU device" if data[:4] == b"\x7fELF" else "compile it"
            raise ArtifactError(
                f"add_plugin: {label} is no SPIR-V, which a Vulkan device takes; {hint}: "
                "glslangValidator -V -g --keep-uncalled -S comp lib.glsl -o lib.spv makes a library of functions"
            )
        library = spirv_link.open_library(data, label)
        number, self._next = self._next, self._next + 1
        self._added.append((priority, number, library))
        return Provider(number, label, "spirv")

    def remove(self, provider: Provider) -> None:
        """Takes a registration back, for programs that are loaded from now on."""
        numbers = [number for _, number, _ in self._added]
        if not isinstance(provider, Provider) or provider.id not in numbers:
            raise InvalidArgumentError("remove_plugin: expected what add_plugin of this device returned, once")
        self._added = [entry for entry in self._added if entry[1] != provider.id]

    def asked(self) -> list[Library]:
        """The libraries in the order in which they are asked: the highest priority, then the last one, first."""
        return [library for _, _, library in sorted(self._added, key=lambda entry: entry[:2], reverse=True)]


class Resolution:
    """Links the executables of one program. imports: who gave what, so far."""

    def __init__(self, libraries: Sequence[Library]) -> None:
        self.libraries = list(libraries)
        self.imports: list[Import] = []

    def link(self, name: str, code: bytes | memoryview, parts: Parts, variant: Mapping[str, Any]) -> bytes:
        """The code of an executable with its imports resolved; `parts` then says where its modules lie.

        Raises MissingImportError for a function that is required and that nobody has, InvalidArgumentError for one
        that does not fit its call, ArtifactError for a broken module.
        """
        stated = [str(entry) for entry in variant.get("imports", ())]
        optional = {entry[1:] for entry in stated if entry.startswith("?")}
        where = f"executable '@{name}'"
        providers: dict[str, str] = {}
        unresolved: list[str] = []
        modules: list[bytes] = []
        for offset, size in parts.modules:
            linked = spirv_link.link(bytes(code[offset : offset + size]), self.libraries, optional, where)
            providers.update(linked.providers)
            unresolved += linked.unresolved
            modules.append(linked.data)
        calls = list(_calls(variant, where))
        if unresolved:
            raise self._missing(name, unresolved, calls)
        for symbol in (entry.removeprefix("?") for entry in stated):
            provider = providers.get(symbol)
            asked = []
            for library in self.libraries:
                asked.append(library.name)
                if library.name == provider:
                    break
            mine = tuple(call for call in calls if call.symbol == symbol)
            exports = tuple(dict.fromkeys(export for call in mine for export in call.exports))
            self.imports.append(Import(symbol, name, exports, symbol in optional, provider, tuple(asked), mine))
        _check_writes(where, modules, parts, variant)
        end = 0
        for i, module in enumerate(modules):
            parts.modules[i], end = (end, len(module)), end + len(module)
        return b"".join(modules)

    def _missing(self, name: str, symbols: Sequence[str], calls: Sequence[Call]) -> MissingImportError:
        symbols = list(dict.fromkeys(symbols))
        plural = "s" if len(symbols) != 1 else ""
        lines = [f"executable '@{name}' needs {len(symbols)} function{plural} that nobody provides:"]
        known = [each for library in self.libraries for each in library.names()]
        for symbol in symbols:
            exports = (f"@{export}" for call in calls if call.symbol == symbol for export in call.exports)
            near = difflib.get_close_matches(symbol, known, 1)
            hint = f"; is it '{near[0]}' that a library has?" if near else ""
            lines.append(f"  '{symbol}', which {', '.join(dict.fromkeys(exports)) or 'it'} calls{hint}")
            lines += [f"    {call.c}" for call in calls if call.symbol == symbol]
        asked = ", ".join(library.name for library in self.libraries)
        lines.append(f"asked: {asked}" if asked else "nobody was asked: no library is registered")
        lines.append(
            "supply it with device.add_plugin('lib.spv') before loading, or --plugin=lib.spv on the command line; "
            "glslangValidator -V -g --keep-uncalled compiles a library"
        )
        return MissingImportError("\n".join(lines), tuple(symbols))


def _check_writes(where: str, modules: Sequence[bytes], parts: Parts, variant: Mapping[str, Any]) -> None:
    """InvalidArgumentError when a function writes a buffer that the program takes to be only read."""
    read_only = (variant.get("spirv") or {}).get("read_only")
    if parts.entries is None or not isinstance(read_only, list):
        return
    reflections = [reflect(module, where) for module in modules]
    for (module, name), flags in zip(parts.entries, read_only, strict=False):
        entry = reflections[module].entry_point(name)
        for resource in entry.resources if entry is not None else ():
            is_stated = isinstance(flags, list) and flags[resource.binding : resource.binding + 1] == [True]
            if resource.written and is_stated:
                raise InvalidArgumentError(
                    f"{where}, export '@{name}': a function that was linked in writes the buffer at binding "
                    f"{resource.binding}, which the program takes to be only read"
                )


def _calls(variant: Mapping[str, Any], where: str) -> Iterator[Call]:
    """What the manifest says about the calls."""
    try:
        for entry in variant.get("calls", ()):
            exports = tuple(str(export) for export in entry["exports"])
            for text in entry["glsl"]:
                yield Call(str(entry["symbol"]), bool(entry["optional"]), exports, str(text))
    except (KeyError, TypeError):
        raise ArtifactError(f"{where}: the key \"calls\" of its variant cannot be read") from None
