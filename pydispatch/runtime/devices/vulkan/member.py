"""Layout of the SPIR-V modules in the artifact member of a variant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydispatch.errors import ArtifactError
from pydispatch.formats.artifact.strict import count, flag, listed, table, text
from pydispatch.formats.spirv.reflect import Reflection


class SpirvMember:
    """Layout of the SPIR-V modules in the artifact member of a variant.

    The layout comes from the key "spirv" of the manifest; without this key the member is one module.

    Attributes:
        modules: (offset, size) of each module in the member, in bytes.
        entries: (index in `modules`, name of the entry point) of each export; None without the key.
        specialization: For each executable constant, the SpecIds that it specializes.
        spilled: For each export, whether its constants are in a buffer instead of push constants. Exports beyond the
            end of the list are not spilled.
        watched: For each export, whether its shader reports loops that the device ended early. Exports beyond the end
            of the list do not report.
    """

    def __init__(self, size: int, notes: object, where: str) -> None:
        """Read the layout of a member, the file in an artifact that has all SPIR-V modules of a variant.

        Without notes the member is one module, whose entry points are found by the names of the exports.

        Args:
            size: Bytes of the member.
            notes: JSON object of the key "spirv" of the variant in the manifest; None without it. {"modules": [[0,
                900]], "entries": [[0, "main"]], "specialization": []} is one module of 900 bytes, whose entry point
                `main` is export 0.
            where: Text that error messages begin with.

        Raises:
            ArtifactError: The notes are malformed or do not fit `size` bytes.
        """
        self.modules: list[tuple[int, int]] = [(0, size)]  # (offset, size): one module in all bytes
        self.entries: list[tuple[int, str]] | None = None  # of each export (index of module, name of entry point)
        self.specialization: list[list[int]] = []  # of each executable constant, the SpecIds that it specializes
        self.spilled: list[bool] = []  # of each export, whether its constants are in a buffer
        self.watched: list[bool] = []  # of each export, whether it reports loops that the device ended early
        if notes is None:
            return
        try:
            self._read(notes, size)
        except (KeyError, ValueError) as error:
            raise ArtifactError(f'{where}: manifest.json: the key "spirv" of its variant: {error}') from None

    def _read(self, notes: Any, size: int) -> None:
        """Set the attributes from the notes, the JSON object of the key "spirv" of a variant in the manifest.

        Example: {"modules": [[0, 900], [900, 700]], "entries": [[0, "main"], [1, "add"]], "specialization": [[0], [1,
        5]], "spilled": [false, true], "watched": [false, false]}. The member has two modules, of bytes 0 to 899 and 900
        to 1599. Export 0 is entry point `main` of the first, export 1 is `add` of the second, with its constants in a
        buffer ("spilled"). None reports loops that the device ended early ("watched"). The second executable constant
        sets the specialization constants with SpecId 1 and 5.

        `workgroup_sizes` and `read_only` are only checked: other readers of the manifest use them.

        Args:
            notes: The object; the lists after "specialization" may be missing.
            size: Bytes of the member.

        Raises:
            KeyError: A list is missing.
            ValueError: A value is malformed, a module exceeds the member, or an entry point is in a missing module.
        """
        notes = table(notes)
        pairs = [listed(pair, 2) for pair in listed(notes["modules"])]
        self.modules = [(count(offset), count(length)) for offset, length in pairs]
        pairs = [listed(pair, 2) for pair in listed(notes["entries"])]
        self.entries = [(count(module), text(name)) for module, name in pairs]
        self.specialization = [[count(id) for id in listed(ids)] for ids in listed(notes["specialization"])]
        self.spilled = [flag(value) for value in listed(notes.get("spilled", []))]
        self.watched = [flag(value) for value in listed(notes.get("watched", []))]
        # For each export the workgroup size (x, y, z), and whether each binding is only read.
        for sizes in listed(notes.get("workgroup_sizes", [])):
            list(map(count, listed(sizes, 3)))
        for flags in listed(notes.get("read_only", [])):
            list(map(flag, listed(flags)))
        for offset, length in self.modules:
            if offset + length > size:
                raise ValueError(f"a module has {length} bytes at {offset} of {size}")
        if not all(module < len(self.modules) for module, _ in self.entries):
            raise ValueError("an entry point is in a module that is not there")

    def entry(self, ordinal: int, name: str, reflections: Sequence[Reflection], where: str) -> tuple[int, str]:
        """Return the entry point of an export as (index of its module, name).

        If the manifest lists no entry points (`entries` is None), it is the entry point with the name of the export,
        or else the only entry point of all modules.

        Args:
            ordinal: Ordinal of the export.
            name: Name of the export.
            reflections: Reflection of each module.
            where: Text that error messages begin with.

        Raises:
            ArtifactError: There is no such entry point.
        """
        if self.entries is not None:
            if ordinal >= len(self.entries):
                raise ArtifactError(
                    f"{where}: export '@{name}' has the ordinal {ordinal}, there are {len(self.entries)}"
                )
            return self.entries[ordinal]
        for module, reflection in enumerate(reflections):
            if reflection.entry_point(name) is not None:
                return module, name
        entries = [
            (module, entry.name) for module, reflection in enumerate(reflections) for entry in reflection.entry_points
        ]
        if len(entries) == 1:
            return entries[0]
        entry_names = ", ".join(entry_name for _, entry_name in entries) or "none"
        raise ArtifactError(f"{where}: there is no entry point '{name}'; the module has: {entry_names}")

    def is_spilled(self, ordinal: int) -> bool:
        """Return whether an export takes its constants from a buffer."""
        return ordinal < len(self.spilled) and self.spilled[ordinal]

    def is_watched(self, ordinal: int) -> bool:
        """Return whether an export reports loops that the device ended early. Exports beyond the list do not."""
        return ordinal < len(self.watched) and self.watched[ordinal]

    def values(self, constants: Sequence[int]) -> dict[int, int]:
        """Return SpecId → value, from the values of the executable constants in order.

        The key "spirv" in the manifest lists the SpecIds of each constant. Without this key, constant n has SpecId n.
        """
        if self.entries is None:  # the key is missing
            return dict(enumerate(constants))
        return {id: value for ids, value in zip(self.specialization, constants, strict=False) for id in ids}
