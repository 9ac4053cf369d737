"""WGSL as the code of a WebGPU device: its libraries of functions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pydispatch.formats.wgsl.read import is_wgsl
from pydispatch.link.wgsl import link as wgsl_link
from pydispatch.link.wgsl.link import LinkedWgsl, WgslLibrary


class Wgsl:
    """WGSL as the language of device libraries, modules with functions that kernels import; implements
    `libraries.Dialect`.
    """

    kind = "wgsl"  # kind of a library, as registrations state it
    language = "WGSL"
    device = "a WebGPU device"  # term for messages, like most of these fields
    functions = "shader functions"  # in a library
    suffix = ".wgsl"
    prototypes = "wgsl"  # key of the prototypes of imported functions in a manifest
    library_command = "a text with functions"  # in place of the command that compiles a library
    library_hint = "a library is a text of WGSL with functions"

    def is_code(self, data: bytes) -> bool:
        """Return whether bytes look like a WGSL module."""
        return is_wgsl(data)

    def open_library(self, data: bytes, name: str) -> WgslLibrary:
        """Open a library of WGSL functions. name: for messages."""
        return wgsl_link.open_library(data, name)

    def link(
        self, module: bytes, libraries: Sequence[WgslLibrary], optional: Collection[str], where: str
    ) -> LinkedWgsl:
        """Link a WGSL module with the library functions that it imports.

        libraries: in search order. optional: symbols that may stay unresolved. where: text that messages begin with.
        """
        return wgsl_link.link(module, libraries, optional, where)
