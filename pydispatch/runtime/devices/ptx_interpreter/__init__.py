"""The device "ptx-interpreter": an exact interpreter of PTX on the CPU, vectorised over threads with NumPy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydispatch.errors import DeviceUnavailableError, InvalidArgumentError
from pydispatch.runtime.options import check_options, flag

if TYPE_CHECKING:
    from pydispatch.runtime.devices.ptx_interpreter.device import PtxInterpreterDevice

TARGET = "cuda"
"""Compilation target whose artifacts the device runs."""
OPTIONS = ("capability", "races")
"""Options after a "?" in the name of the device, as in "ptx-interpreter?races=1"."""
CAPABILITY = (9, 0)
"""Compute capability (major, minor) that is simulated by default."""


def available() -> list[str]:
    """Return no names: the interpreter exists on every machine, but is slow, and so it must be named to be used."""
    return []


def open(name: str, options: Mapping[str, str]) -> PtxInterpreterDevice:
    """Open the interpreter, a device that executes PTX on the CPU.

    Options: capability=8.6 takes kernels for that compute capability or older ones, default 9.0; races=1 reports data
    races between threads. Raise DeviceUnavailableError for an index other than 0, and InvalidArgumentError for a wrong
    option.
    """
    scheme, _, index = name.partition(":")
    if index not in ("", "0", "//"):  # "//" is IREE's spelling of the default device: "ptx-interpreter://"
        raise DeviceUnavailableError(f"there is no device '{name}'; there is one interpreter: ptx-interpreter")
    check_options(scheme, options, OPTIONS)
    races = flag(scheme, options, "races")
    capability = CAPABILITY
    if "capability" in options:
        from pydispatch.formats.ptx.interface import ARCHITECTURES

        text = options["capability"]
        match = re.fullmatch(r"(\d{1,2})\.(\d)", text, re.ASCII)
        capability = (int(match[1]), int(match[2])) if match else (0, 0)  # no architecture: refused below
        if capability[0] * 10 + capability[1] not in ARCHITECTURES:
            architectures = ", ".join(f"{n // 10}.{n % 10}" for n in ARCHITECTURES)
            raise InvalidArgumentError(f"device '{scheme}': capability: expected one of {architectures}, got '{text}'")
    from pydispatch.runtime.devices.ptx_interpreter.device import PtxInterpreterDevice

    return PtxInterpreterDevice(capability, races)
