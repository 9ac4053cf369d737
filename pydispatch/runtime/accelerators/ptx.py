"""PTX as the code of a device: capabilities for variant selection, and libraries of device functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pydispatch.formats.ptx.interface import capabilities, why_not
from pydispatch.runtime.program.variants import DeviceProperties

if TYPE_CHECKING:
    from pydispatch.link.ptx.library import PtxLibrary


FORMAT = "cuda-nvptx-fb"
"""IREE's name of the format of CUDA executables, which programs query."""


def properties_of(name: str, capability: tuple[int, int], has_cubins: bool = True) -> DeviceProperties:
    """Return the properties for variant selection on a device of a compute capability.

    A variant is the code of an executable for one kind of device; it lists the features that it requires. `why_not`
    explains a missing feature in the message that no variant fits, and `remedy` ends that message.

    Args:
        name: Name of the device, such as "cuda:0".
        capability: Compute capability, (major, minor).
        has_cubins: Whether the device executes machine code (cubins), not only PTX; False for the PTX interpreter.
    """
    major, minor = capability
    architecture_features = capabilities(major, minor)
    if has_cubins:
        features = architecture_features
    else:
        features = frozenset(feature for feature in architecture_features if not feature.startswith("cubin_"))
    architecture = f"sm_{major}{minor}"
    remedy = (
        f"compile the program for it too, targets=('{architecture}', ...), and what is PTX already with nvcc -ptx "
        f"-arch={architecture} or an older one"
    )
    return DeviceProperties(
        ids=("cuda", name), format=FORMAT, features=features,
        queryable=architecture_features,  # also those of cubins: without cubins the answer is 0
        processor_data=(0,) * 8,  # only CPUs have features in these words
        workers=1, why_not=partial(why_not, major, minor), remedy=remedy,
    )  # fmt: skip


@dataclass(frozen=True)
class LinkedPtx:
    """Linked PTX module; implements `libraries.Linked`.

    Attributes:
        data: Text of the module.
        providers: For each resolved function, the library that defines it.
        unresolved: Functions that no library defines.
    """

    data: bytes
    providers: Mapping[str, str]
    unresolved: Sequence[str]


class Ptx:
    """PTX as the language of device libraries, modules with functions that kernels import; implements
    `libraries.Dialect`.
    """

    kind = "ptx"  # kind of a library, as registrations state it
    language = "PTX"
    device = "a CUDA device"  # term for messages, like most of these fields
    functions = "device functions"  # in a library
    suffix = ".ptx"
    prototypes = "cuda"  # key of the prototypes of imported functions in a manifest
    library_command = "nvcc -ptx -rdc=true -arch=sm_75 lib.cu -o lib.ptx"
    library_hint = "nvcc -ptx -rdc=true compiles a library"

    def __init__(self, capabilities: frozenset[str] = frozenset()) -> None:
        """Create the language for a GPU.

        capabilities: features of the GPU, as `formats.ptx.interface.capabilities` returns them; empty if the GPU is not
        known.
        """
        self.capabilities = capabilities

    def is_code(self, data: bytes) -> bool:
        """Return whether bytes begin as a PTX file does."""
        from pydispatch.formats.ptx.lex import is_ptx

        return is_ptx(data)

    def open_library(self, data: bytes, name: str) -> PtxLibrary:
        """Read a PTX module as a library."""
        from pydispatch.link.ptx import link as ptx_link

        return ptx_link.open_library(data, name)

    def link(self, module: bytes, libraries: Sequence[PtxLibrary], optional: Collection[str], where: str) -> LinkedPtx:
        """Link a module with libraries. Raise InvalidArgumentError if the result needs a newer GPU."""
        from pydispatch.errors import InvalidArgumentError
        from pydispatch.formats.ptx.interface import requirements
        from pydispatch.link.ptx import link as ptx_link

        linked = ptx_link.link(module, libraries, optional, where)
        # `raised` has the libraries that need a newer target than the module.
        is_gpu_known = bool(self.capabilities)
        if linked.raised and is_gpu_known and not self.capabilities.issuperset(requirements(linked.target)):
            raise InvalidArgumentError(
                f"{where}: {', '.join(linked.raised)} is PTX for {linked.target}, which this device does not run; "
                f"compile it for an older architecture: {self.library_command}"
            )
        return LinkedPtx(linked.data.encode(), linked.providers, linked.unresolved)
