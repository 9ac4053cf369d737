"""Layout of the WGSL modules of a variant in an artifact: the key "wgsl" of the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydispatch.errors import ArtifactError
from pydispatch.formats.artifact.strict import count, listed, table, text
from pydispatch.formats.wgsl.module import WgslModule

if TYPE_CHECKING:
    from pydispatch._core.commands import Export


class WgslParts:
    """Layout of the WGSL modules in the artifact member of a variant.

    The layout comes from the key "wgsl" of the manifest; without this key the member is one module.

    Attributes:
        modules: (offset, size) of each module in the member, in bytes.
        entries: (index of the module, name of the entry point) of each export; None without the key, and for code that
            is supplied at load time: its entry points have the names of the exports.
        overrides: Names of the executable constants.
        files: File names of the user's own modules, for messages; empty for generated modules.
        has_user_modules: Whether the modules are the user's own, not generated around the user's functions.
        read_only: By export and binding, whether the program expects the buffer to be only read; [] for code in the
            artifact, which the compiler has checked.
    """

    def __init__(self, size: int, notes: object, where: str, is_supplied: bool) -> None:
        """Read the layout of the WGSL modules in a member, the file in an artifact that has the code of a variant.

        Args:
            size: Bytes of the member.
            notes: Value of the key "wgsl" in the manifest, such as {"modules": [[0, 812]], "entries": [[0, "add"]]};
                None for one module of `size` bytes.
            where: Text that error messages begin with.
            is_supplied: Whether the code is supplied at load time. The notes then have only the constants and bindings
                of the executable, no modules.

        Raises:
            ArtifactError: The notes are malformed or do not fit `size` bytes.
        """
        self.modules: list[tuple[int, int]] = [(0, size)]  # (offset, size) of each
        self.entries: list[tuple[int, str]] | None = None  # (module, entry point) per export; None: export's name
        self.overrides: list[str] = []  # names of the executable constants
        self.files: list[str] = []  # file names of modules of the user; [] for generated modules
        self.read_only: list[list[bool]] = []  # by export and binding
        self.has_user_modules = is_supplied
        if notes is None:
            return
        try:
            self._read(table(notes), size, is_supplied)
        except (KeyError, ValueError) as error:
            raise ArtifactError(f'{where}: manifest.json: the key "wgsl" of its variant: {error}') from None

    def _read(self, notes: dict[str, Any], size: int, is_supplied: bool) -> None:
        """Read the key "wgsl" of the manifest, which describes the code of a variant.

        For two modules of the user in a member of 1,212 bytes, whose exports 0 and 1 are `add` and `mul`, it is

            {"modules": [[0, 812], [812, 400]], "entries": [[0, "add"], [1, "mul"]], "overrides": ["n"],
             "files": ["add.wgsl", "mul.wgsl"]}

        Word 0 of the executable constants is the override `n`. For code that is supplied at load time, "read_only" has
        for each export a list with a flag for each binding:

            {"overrides": ["n"], "read_only": [[true, false], [true, false]]}

        Args:
            notes: Value of the key.
            size: Bytes of the member, which the modules must not exceed.
            is_supplied: Whether the code is supplied at load time.

        Raises:
            KeyError: A key is missing.
            ValueError: A value is malformed, or does not fit `size` bytes.
        """
        self.overrides = [text(name) for name in listed(notes.get("overrides", []))]
        if is_supplied:  # of an executable without code, the notes only have its constants and bindings
            self.read_only = [[flag is True for flag in listed(flags)] for flags in listed(notes.get("read_only", []))]
            return
        pairs = [listed(pair, 2) for pair in listed(notes["modules"])]
        self.modules = [(count(offset), count(length)) for offset, length in pairs]
        pairs = [listed(pair, 2) for pair in listed(notes["entries"])]
        self.entries = [(count(module), text(name)) for module, name in pairs]
        self.files = [text(name) for name in listed(notes.get("files", []))]
        self.has_user_modules = bool(self.files)  # generated modules have no file names
        if self.files and len(self.files) != len(self.modules):
            raise ValueError(f"{len(self.files)} files of {len(self.modules)} modules")
        for offset, length in self.modules:
            if offset + length > size:
                raise ValueError(f"a module has {length} bytes at {offset} of {size}")
        if not all(module < len(self.modules) for module, _ in self.entries):
            raise ValueError("an entry point is in a module that is not there")

    def read_only_of(self, export: Export) -> list[bool] | None:
        """Return for each binding of an export whether the program expects it to be only read.

        Return None if the program does not state this, or not for every binding.
        """
        if export.ordinal >= len(self.read_only):
            return None
        flags = self.read_only[export.ordinal]
        return flags if len(flags) == export.bindings else None

    def module_of(self, export: Export, modules: Sequence[WgslModule], where: str) -> int:
        """Return the index of the module that has the entry point of an export.

        If the manifest lists no entry points, that is the first module with an entry point of the export's name. Raise
        ArtifactError, which begins with `where`, if the manifest's list does not have the export.
        """
        if self.entries is None:  # the manifest lists no entry points, or the code is supplied at load time
            # If no module has the entry point, return 0: the caller reports that module 0 does not have it.
            return next((i for i, module in enumerate(modules) if module.entry(export.name) is not None), 0)
        if export.ordinal >= len(self.entries):
            raise ArtifactError(
                f"{where}: export '@{export.name}' has the ordinal {export.ordinal}, there are {len(self.entries)}"
            )
        return self.entries[export.ordinal][0]

    def entry_name(self, export: Export) -> str:
        """Return the name of the entry point of an export."""
        return export.name if self.entries is None else self.entries[export.ordinal][1]
