"""PTX as the code of a device: its libraries of functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydispatch.formats.ptx_library import Library


@dataclass(frozen=True)
class Linked:
    """pydispatch.runtime.foreign.libraries.Linked."""

    data: bytes
    providers: Mapping[str, str]
    unresolved: Sequence[str]


class Ptx:
    """pydispatch.runtime.foreign.libraries.Dialect."""

    kind = "ptx"
    language = "PTX"
    device = "a CUDA device"
    functions = "device functions"
    suffix = ".ptx"
    prototypes = "cuda"
    makes_library = "nvcc -ptx -rdc=true -arch=sm_75 lib.cu -o lib.ptx"
    how_libraries = "nvcc -ptx -rdc=true compiles a library"

    def __init__(self, capabilities: frozenset[str] = frozenset()) -> None:
        """capabilities: what the device has (ptx_interface.capabilities), when it is known here."""
        self.capabilities = capabilities

    def is_code(self, data: bytes) -> bool:
        return b".version" in data[:65536] and b"\0" not in data[:64]

    def open_library(self, data: bytes, name: str) -> Library:
        from pydispatch.formats import ptx_link

        return ptx_link.open_library(data, name)

    def link(self, module: bytes, libraries: Sequence[Library], optional: Collection[str], where: str) -> Linked:
        from pydispatch.errors import InvalidArgumentError
        from pydispatch.formats import ptx_link
        from pydispatch.formats.ptx_interface import requirements

        linked = ptx_link.link(module, libraries, optional, where)
        if linked.raised and self.capabilities and not self.capabilities.issuperset(requirements(linked.target)):
            raise InvalidArgumentError(
                f"{where}: {', '.join(linked.raised)} is PTX for {linked.target}, which this device does not run; "
                f"compile it for an older architecture: {self.makes_library}"
            )
        return Linked(linked.data.encode(), linked.providers, linked.unresolved)
