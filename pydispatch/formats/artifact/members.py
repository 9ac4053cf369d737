"""Members of an artifact that is being built: the binaries of executables and the constants, with their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pydispatch.errors import ArtifactError
from pydispatch.formats.artifact.manifest import ConstantEntry, ExecutableEntry, VariantEntry

if TYPE_CHECKING:
    from numpy.typing import NDArray

Content = memoryview | tuple[memoryview, ...]
"""A member in memory: its bytes, or chunks of them in order, such as the header and the elements of an array."""


@dataclass
class Variant:
    """Binary of an executable for one target, to be packed.

    Attributes:
        name: Name of the variant, unique in its executable.
        format: Format of the binary, such as "embedded-elf-x86_64".
        data: The binary.
        suffix: Suffix of its file in the artifact, without a dot: elf, ptx, spv, wgsl.
        requires: Features that a device must have, such as "avx2" or "sm_80".
        alignment: Alignment that the binary requires of its bindings (buffer ranges), in bytes; a power of two.
        imports: Symbols that are resolved when the program is loaded; a leading '?' marks an optional one.
        extra: Further keys of the manifest entry, with JSON values (docs/artifact.md, "Manifest").
    """

    name: str
    format: str
    data: bytes
    suffix: str = "elf"
    requires: Sequence[str] = ()
    alignment: int = 64
    imports: Sequence[str] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class PackedExecutable:
    """Executable with its variants that the compiler has created, to be packed into an artifact.

    Attributes:
        name: Name of the executable.
        exports: Names of the exports (kernels), by ordinal.
        variants: Binaries, one for each target, in the order in which the host program numbers them.
    """

    name: str
    exports: Sequence[str]
    variants: Sequence[Variant]


def path_part(name: str) -> str:
    """Return a name as one component of a path; characters that are special in paths are escaped as %XX."""

    def quote(match: re.Match[str]) -> str:
        """Return the matched characters percent-encoded: `%XX` for each byte of their UTF-8."""
        return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))

    quoted = re.sub(r"[^A-Za-z0-9_.$+@=-]", quote, name)
    # "." and ".." have a meaning in paths, so the dots of a name of dots alone are escaped as well.
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")


def _npy(array: NDArray[Any]) -> tuple[memoryview, memoryview]:
    """Return the header of a .npy file and the memory of its elements.

    NumPy pads a header of format 1.0 so that the elements are 64-byte aligned.
    """
    import io

    import numpy as np

    array = np.ascontiguousarray(array).reshape(array.shape)  # reshape: ascontiguousarray returns shape (1,) for ()
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    elements = memoryview(cast(Any, array.reshape(-1).view(np.uint8))).toreadonly()
    return memoryview(header.getvalue()), elements


class MemberTable:
    """Members of an artifact that is being built: binaries of executables and constants, in the order of the calls.

    Each method adds the members of one entity and returns its entry for the manifest.

    Attributes:
        content: The members so far, by name.
    """

    def __init__(self) -> None:
        """Begin without members."""
        self.content: dict[str, Content] = {}

    def add_executable(self, executable: PackedExecutable) -> ExecutableEntry:
        """Add the binaries of an executable; raise ArtifactError if a name is not unique."""
        entry = ExecutableEntry(executable.name, list(executable.exports))
        for variant in executable.variants:
            path = f"executables/{path_part(executable.name)}/{path_part(variant.name)}.{variant.suffix}"
            entry.variants.append(
                VariantEntry(
                    name=variant.name,
                    member=self._add(path, memoryview(variant.data).toreadonly().cast("B")),
                    format=variant.format,
                    requires=list(variant.requires),
                    alignment=variant.alignment,
                    imports=list(variant.imports),
                    extra=dict(variant.extra),
                )
            )
        return entry

    def add_constant(self, index: int, array: NDArray[Any]) -> ConstantEntry:
        """Add the constant with the number `index` as a .npy file."""
        member = self._add(f"constants/{index}.npy", _npy(array))
        return ConstantEntry(member, array.dtype.str, list(array.shape))

    def _add(self, member: str, content: Content) -> str:
        """Add a member, and return its name; raise ArtifactError if the name is taken."""
        if member in self.content:
            raise ArtifactError(f"two members are named '{member}': executables and variants need different names")
        self.content[member] = content
        return member
