"""PTX interpreter, as `pydispatch.device` returns it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydispatch.errors import ArtifactError, DeviceUnavailableError
from pydispatch.formats.ptx import read
from pydispatch.formats.ptx.interface import capabilities, shared_limit
from pydispatch.runtime.accelerators.device import AcceleratorDevice
from pydispatch.runtime.accelerators.ptx import FORMAT, Ptx, properties_of
from pydispatch.runtime.accelerators.ptx_parts import CUBIN, kind_of
from pydispatch.runtime.devices.ptx_interpreter.context import Context
from pydispatch.runtime.devices.ptx_interpreter.execute import NO_CUBINS, Executor
from pydispatch.runtime.program.variants import DeviceProperties

if TYPE_CHECKING:
    from pydispatch.formats.artifact.artifact import Artifact
    from pydispatch.runtime.program.program import Program


class PtxInterpreterDevice(AcceleratorDevice):
    """Device that interprets CUDA kernels without a GPU: slowly, exactly, and with a check of every access.

    `pydispatch.device("ptx-interpreter")` returns one. Kernels and libraries must be PTX. A kernel that accesses memory
    out of bounds raises KernelError, which names the line of the PTX, the thread and the address; the process and the
    device remain usable. See docs/cuda.md.
    """

    _is_synchronous = True

    def __init__(self, capability: tuple[int, int], races: bool) -> None:
        """Open the device. capability: (major, minor) compute capability; races: whether data races are reported."""
        libraries = Ptx(capabilities(*capability))  # the language of libraries that are linked with kernels
        super().__init__("ptx-interpreter", Context("ptx-interpreter", capability, races), libraries)

    def _executor(self) -> Executor:
        """Return a new executor for one program on this device."""
        return Executor(self._context)

    def _properties(self) -> DeviceProperties:
        """Return the properties of a GPU with this compute capability that loads no cubins."""
        return properties_of(self.name, self._context.capability, has_cubins=False)

    def load(
        self,
        source: str | os.PathLike[str] | Artifact | bytes | bytearray | memoryview,
        parameters: Mapping[str, Any] | None = None,
    ) -> Program:
        """Load a program as the base class does, with advice for a program without PTX.

        A program whose kernels are all machine code (cubin) has no variant for this device. The error lists its
        variants ("variant 'a' is machine code for sm_80, ..."), and this method appends NO_CUBINS, the advice.

        source: path of a `.pdx` file, its bytes, or an Artifact. parameters: values of parameters (weights) that the
        artifact does not contain, by their scope.
        """
        try:
            return super().load(source, parameters)
        except DeviceUnavailableError as error:
            # These are the words of formats.ptx.interface.why_not. NO_CUBINS does not help with other errors.
            if "is machine code for" not in str(error):
                raise
            raise DeviceUnavailableError(f"{error}\n{NO_CUBINS}") from None

    def _check_code(self, data: bytes, where: str) -> None:
        """Raise ArtifactError for machine code, and for PTX that cannot be read.

        Args:
            data: Kernels that the user supplies by `add_executable`.
            where: Text that messages begin with: the call, and the name of the file.
        """
        if kind_of(data) == CUBIN:
            raise ArtifactError(f"{where}: {NO_CUBINS}")
        read.read(data, where)

    def describe(self) -> Mapping[str, Any]:
        """Return a description of the device: its name, compute capability, limit of shared memory, and race
        detection.
        """
        context = self._context
        major, minor = context.capability
        sm_number = 10 * major + minor  # 80 for sm_80
        return {
            "name": self.name,
            "model": "an interpreter of PTX on the CPU",
            "capability": f"{major}.{minor}",
            "format": FORMAT,
            "shared memory": f"{shared_limit(sm_number)} bytes",
            "races": "reported" if context.races else "not looked for (ptx-interpreter?races=1)",
        }

    def __repr__(self) -> str:
        """Return the name of the device and its compute capability."""
        major, minor = self._context.capability
        return f"<pydispatch device {self.name!r}, compute capability {major}.{minor}>"
