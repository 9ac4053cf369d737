"""SPIR-V as the code of a Vulkan device: its libraries of functions, and checks of linked modules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.spirv.module import is_spirv
from pydispatch.formats.spirv.reflect import reflect
from pydispatch.link.spirv import link as spirv_link
from pydispatch.link.spirv.link import LinkedSpirv, SpirvLibrary


class Spirv:
    """SPIR-V as the language of device libraries; implements `accelerators.libraries.Dialect`.

    A library is a module with functions that kernels import. Code for all accelerators registers libraries and links
    them at load time; a Vulkan device passes it an instance, which has the operations on SPIR-V, and terms for error
    messages.
    """

    kind = "spirv"  # kind of a library, as registrations state it
    language = "SPIR-V"
    device = "a Vulkan device"  # term for messages, like `language` and `functions`
    functions = "shader functions"
    suffix = ".spv"
    prototypes = "glsl"  # key of the prototypes of imported functions in a manifest
    library_command = "glslangValidator -V -g --keep-uncalled -S comp lib.glsl -o lib.spv"
    library_hint = "glslangValidator -V -g --keep-uncalled compiles a library"

    def is_code(self, data: bytes) -> bool:
        """Return whether bytes look like a SPIR-V module."""
        return is_spirv(data)

    def open_library(self, data: bytes, name: str) -> SpirvLibrary:
        """Open a library of SPIR-V functions. name: for messages."""
        return spirv_link.open_library(data, name)

    def link(
        self, module: bytes, libraries: Sequence[SpirvLibrary], optional: Collection[str], where: str
    ) -> LinkedSpirv:
        """Link a SPIR-V module with the library functions that it imports.

        libraries: in search order. optional: symbols that may stay unresolved. where: text that messages begin with.
        """
        return spirv_link.link(module, libraries, optional, where)


def check_writes(
    where: str, modules: Sequence[bytes], entries: Sequence[tuple[int, str]] | None, variant: Mapping[str, Any]
) -> None:
    """Raise InvalidArgumentError if a linked function writes a buffer that the program expects to be only read.

    The compiler checks the writes of its own code. Imported functions are linked when a program is loaded, so that
    their writes to buffers are found only then, by reflection of the linked modules.

    Args:
        where: Text that error messages begin with.
        modules: SPIR-V modules, with imports linked.
        entries: (index of the module, name of the entry point) of each export; None if they are not known.
        variant: Entry of the variant in the manifest. Its key "spirv" may have "read_only", a list of flags by export
            and binding: with [[true, false]], export 0 only reads binding 0 and may write binding 1.
    """
    read_only = (variant.get("spirv") or {}).get("read_only")
    if entries is None or not isinstance(read_only, list):
        return
    reflections = [reflect(module, where) for module in modules]
    for (module, name), flags in zip(entries, read_only, strict=False):
        entry = reflections[module].entry_point(name)
        for resource in entry.resources if entry is not None else ():
            # Flags may end before the last binding; bindings beyond them may be written.
            has_flag = isinstance(flags, list) and resource.binding < len(flags)
            is_read_only = has_flag and flags[resource.binding] is True
            if resource.written and is_read_only:
                raise InvalidArgumentError(
                    f"{where}, export '@{name}': a function that was linked in writes the buffer at binding "
                    f"{resource.binding}, which the program takes to be only read"
                )
