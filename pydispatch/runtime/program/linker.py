"""Linking of a program's executables into this process: embedded ELFs and libraries, with their imports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pydispatch import logs
from pydispatch._core import linking
from pydispatch._core.artifact import ArtifactFile
from pydispatch._core.linking import Machine, Manifest
from pydispatch._core.program import Module
from pydispatch.errors import Error, MissingImportError
from pydispatch.runtime.program import manifest
from pydispatch.runtime.program.commands import commands_of, provide
from pydispatch.runtime.program.variants import Chosen

if TYPE_CHECKING:
    from pydispatch._core.plugin import Resolution
    from pydispatch.runtime.program.imports import Import, Registry, SuppliedCode


class ChainOptions(NamedTuple):
    """Tiling options of chains, which are dispatches that depend on each other tile by tile.

    Attributes:
        cache_bytes: Bytes of a worker's cache that tiles may fill; 0 runs one dispatch after the other, without tiles.
        least_tiles: Minimum number of tiles of a chain, so that all workers have some.
    """

    cache_bytes: int
    least_tiles: int


class CpuLinker:
    """Linker of the executables of one program on the CPU; implements `loader.Linker`.

    The loader calls `link_directly` for a program whose code is all in the artifact; if that returns None, it calls
    `link` with the chosen variants. Then it calls `finish`, which links the host commands and ends the linker's work.

    Attributes:
        registry: Providers of imports and supplied code of the device; None if nothing was added to it.
        processor_data: The eight 64-bit words of processor features that kernels receive.
        machine: The CPU for `link_directly`; None if it cannot describe the CPU.
        chains: Options for the tiling of chains (dispatches that run tile by tile).
        imports: The program's imports with their providers, set by `finish`.
    """

    def __init__(
        self, processor_data: tuple[int, ...], registry: Registry | None, chains: ChainOptions,
        machine: Machine | None = None,
    ) -> None:  # fmt: skip
        """Create a linker that has linked no executable.

        Args:
            processor_data: The eight 64-bit words of processor features that kernels receive.
            registry: Providers of imports and supplied code of the device; None if nothing was added to it.
            chains: Options for the tiling of chains (dispatches that run tile by tile).
            machine: The CPU for `link_directly`; None if it cannot describe the CPU.
        """
        self.registry, self.machine = registry, machine
        self.processor_data, self.chains = processor_data, chains
        self.imports: Sequence[Import] = ()
        self._resolution: Resolution | None = None  # search for imports in the registry, created on first use
        # Executables with imports. In the resolution, the imports of executable n of this list have the group n.
        self._importing: list[Chosen] = []

    def link_directly(
        self, module: Module, file: ArtifactFile, core_manifest: Manifest
    ) -> list[tuple[int, ...]] | None:
        """Link all executables of a program in the C core, which takes less time than `link`.

        Args:
            module: The program.
            file: Its artifact.
            core_manifest: The artifact's manifest, as the C core has read it.

        Returns:
            For each executable the index of its variant followed by its constants. None, with nothing linked, for a
            program that only `link` can link, and for a linker without a machine.

        Raises:
            ArtifactError: The code of an executable is invalid.
            MissingImportError: The code of an executable has imports that the manifest does not state.
        """
        if self.machine is None:
            return None
        module.set_chains(self.chains.cache_bytes, self.chains.least_tiles)
        missing_error = partial(self._missing_in, file)  # the C core calls it for unresolved imports
        return linking.link_directly(module, file, core_manifest, self.machine, missing_error)

    def _missing_in(self, file: ArtifactFile, index: int, variant: int, symbols: Sequence[str]) -> MissingImportError:
        """Return the error for unresolved imports of executable `index` of a file. variant: index of its variant."""
        executables, _functions = manifest.read(file)
        executable = executables[index]
        entry = executable["variants"][variant]
        chosen = Chosen(index, executable["name"], executable["exports"], variant, entry, constants=[])
        return self._missing(chosen, symbols)

    def link(self, module: Module, file: ArtifactFile, variants: list[Chosen]) -> None:
        """Link the code of each chosen variant: an ELF of the artifact, or code that the user has added to the device.

        Args:
            module: The program.
            file: Its artifact.
            variants: Chosen variant of each executable.

        Raises:
            ArtifactError: The code of an executable is invalid.
            MissingImportError: An import is unresolved, or code of a declared executable was not supplied.
        """
        # Dispatches that depend on each other tile by tile run tile by tile, if they have at least `least_tiles` tiles;
        # the tiles fill at most `cache_bytes` of a worker's cache.
        module.set_chains(self.chains.cache_bytes, self.chains.least_tiles)
        # (ELF, supplied code) of each executable: (ELF, None) for code of the artifact, (ELF, code) for a supplied ELF,
        # and (None, code) for a supplied library of the system's loader.
        codes = [self._code(file, chosen) for chosen in variants]
        linked = list(zip(variants, codes, strict=True))
        # All ELFs are mapped together: one mapping takes fewer system calls than many.
        elfs = [(chosen.index, chosen.name, elf) for chosen, (elf, _) in linked if elf is not None]
        linking.map_executables(module, elfs)
        for chosen, (elf, supplied) in linked:
            if supplied is not None:
                self._link_supplied(module, chosen, supplied)
            else:
                self._link_member(module, file, chosen, elf)

    def _code(self, file: ArtifactFile, chosen: Chosen) -> tuple[memoryview | bytes | None, SuppliedCode | None]:
        """Return (ELF, supplied code) of an executable.

        The supplied code is None unless the program only declares the executable ("dynamic"). The ELF is None if the
        supplied code is a library that the system's loader has loaded.
        """
        if chosen.entry.get("dynamic"):
            code = self._supplied_code(chosen)
            return code.elf, code
        return file.find(chosen.entry["member"], verify=True), None

    def _link_member(self, module: Module, file: ArtifactFile, chosen: Chosen, elf: memoryview | bytes | None) -> None:
        """Link an executable whose code, the ELF file `elf`, is in the artifact and mapped by `map_executables`.

        Raise MissingImportError for unresolved imports, and ArtifactError if the code has fewer exports (kernels) than
        the program.
        """
        resolution = None
        if chosen.entry.get("imports"):
            self._importing.append(chosen)  # the executables with imports, in the order in which they are resolved
            resolution = self._import_resolution()
        try:
            count = linking.load_executable(
                module, chosen.index, elf, chosen.name, chosen.constants, self.processor_data, variant=chosen.number,
                alignment=chosen.entry["alignment"], resolution=resolution,
            )  # fmt: skip
        except MissingImportError as error:
            raise self._missing(chosen, error.symbols) from None
        if len(chosen.exports) > count:  # a library linked elsewhere may have more exports than the program uses
            linking.raise_exports(file.name, chosen.name, chosen.entry["member"], len(chosen.exports), count)

    def _link_supplied(self, module: Module, chosen: Chosen, code: SuppliedCode) -> None:
        """Link an executable that the program only declares, with code that was added to the device.

        `_importing` lists the executables with imports, but the manifest does not state whether this code has any. So
        the executable is added to the list before it is linked, and removed if the code has imported no symbol.

        Args:
            module: The program.
            chosen: The executable; its variant has no code.
            code: The code that the user has added to the device under the name of the executable.

        Raises:
            Error: The code cannot be linked. The message names the source of the code.
        """
        # The resolution numbers the executables that import symbols. The symbols of executable n of `_importing` have
        # the group n.
        resolution_group = len(self._importing)
        self._importing.append(chosen)
        resolution = self._import_resolution()
        try:
            linking.load_executable(
                module, chosen.index, code.elf, chosen.name, chosen.constants, self.processor_data,
                variant=chosen.number, alignment=chosen.entry["alignment"], resolution=resolution, query=code.query,
                owner=code.owner,
            )  # fmt: skip
        except Error as error:
            error.args = (f"{error} (the code was given by device.add_executable from {code.source})",)
            raise
        has_imports = resolution is not None and any(symbol.group == resolution_group for symbol in resolution.report())
        if not has_imports:
            self._importing.pop()

    def _supplied_code(self, chosen: Chosen) -> SuppliedCode:
        """Return the code supplied for an executable. Raise MissingImportError if there is none."""
        known = self.registry.executables if self.registry is not None else {}
        code = known.get(chosen.name)
        if code is None:
            raise not_given(chosen, known, example_file="library.so")
        return code

    def _import_resolution(self) -> Resolution | None:
        """Return the search for imports in the device's providers, created on first use; None without providers."""
        if self.registry is not None and self._resolution is None:
            self._resolution = self.registry.manager.resolution()
        return self._resolution

    def finish(self, module: Module) -> None:
        """Link the host commands and record the imports. Called after `link`, before the program runs anything."""
        if commands := commands_of(module):
            resolution, providers = provide(self.registry, commands)
            module.link_commands(resolution, [(provider.address, provider.context) for provider in providers])
        if self._resolution is not None:
            self._resolution.end()
        if self._importing:
            from pydispatch.runtime.program.imports import report

            executables = [(chosen.name, chosen.entry) for chosen in self._importing]
            self.imports = report(self._resolution, executables)
            for import_ in self.imports:
                logs.runtime.debug("executable '%s': import '%s' is from %s", import_.executable,
                                   import_.symbol, import_.provider or "nobody, and optional")  # fmt: skip

    def _missing(self, chosen: Chosen, symbols: Sequence[str]) -> MissingImportError:
        """Return the error for unresolved imports of an executable."""
        from pydispatch.runtime.program.imports import missing_imports

        queried = [] if self._resolution is None else [provider.label for provider in self._resolution.providers()]
        known = () if self.registry is None else self.registry.names.values()
        return missing_imports(chosen.name, chosen.entry, symbols, queried, known)


def not_given(chosen: Chosen, supplied: Iterable[str], example_file: str) -> MissingImportError:
    """Return the error for an executable whose code was not supplied.

    Args:
        chosen: The executable.
        supplied: Names of the executables whose code was supplied.
        example_file: Name of a file that could contain the code, for the message.
    """
    other_names = ", ".join(f"'{other}'" for other in supplied)
    others = f"; it was given {other_names}" if other_names else ""
    exports = ", ".join(f"@{export}" for export in chosen.exports)
    return MissingImportError(
        f"the program only declares executable '@{chosen.name}' ({exports}) and the device was not given its code"
        f"{others}\n"
        f"supply it with device.add_executable('{chosen.name}', '{example_file}') before loading",
        (chosen.name,),
    )
