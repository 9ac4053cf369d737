"""Timing of functions of programs on this machine. It is the only part of tuning that uses the runtime."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pydispatch._core.arrays import ElementType
from pydispatch.errors import Error, InvalidArgumentError
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.runtime.device import device as open_device
from pydispatch.runtime.devices.cpu import CpuDevice
from pydispatch.runtime.program.program import Program
from pydispatch.tuning.tunable import Trial

Call = Callable[[], object]
"""Call of a program with prepared arguments."""

BATCH = 2e-4
"""Seconds of calls between two readings of the clock, about, so that reading it costs nothing; one call may take
longer."""


class Bench:
    """Timer with which tuning measures trial programs on a CPU device.

    device: the device; None for all CPUs of this machine.

    Raises:
        InvalidArgumentError: The device is no CPU device.
    """

    def __init__(self, device: Any = None) -> None:
        """Open the CPU device if none is passed; no program is loaded yet."""
        self._device = open_device() if device is None else device
        self._loaded: tuple[Artifact, Program] | None = None  # the last artifact and its program
        if not isinstance(self._device, CpuDevice):
            raise InvalidArgumentError(f"tune_on: expected a CPU device, such as device('cpu'), got {device!r}")

    @property
    def machine(self) -> str:
        """The CPU's model and the number of workers, as text: measurements are valid for devices with equal text."""
        return f"{self._device.describe()['model'] or 'a CPU without a name'}, {self._device.workers} workers"

    def load(self, built: Trial) -> Call | None:
        """Load a trial and return a call with generated arguments; None if the device cannot run it or lacks an
        import.
        """
        try:
            if self._loaded is None or self._loaded[0] is not built.artifact:
                self._loaded = built.artifact, self._device.load(built.artifact)
            program = self._loaded[1]
            # An optional import without a provider was not found.
            if not {import_.symbol for import_ in program.imports if import_.provider}.issuperset(built.needed_imports):
                return None
            function = program.functions[built.function]
            call = function.prepare(*(_argument(kind, shape) for _, kind, shape in function.arguments))
            call()  # a function that fails cannot be measured; also warms the caches
        except Error:
            return None
        return call

    def microseconds(self, call: Call, seconds: float) -> float:
        """Return the microseconds of a call: the minimum over batches of calls, of the mean time in each batch.

        The minimum is used since disturbances only increase times. The first batch is one call, by which the size of
        the others is chosen. At least one other is measured, and then more until `seconds` have passed.
        """
        clock = time.perf_counter
        begin = start = clock()
        call()
        least = clock() - start
        # Calls of a batch of about `BATCH` seconds. A call counts as 0.1 us or more, which bounds their number.
        count = max(1, int(BATCH / max(least, 1e-7)))
        while True:
            start = clock()
            for _ in range(count):
                call()
            end = clock()
            least = min(least, (end - start) / count)
            if end - begin >= seconds:
                return least * 1e6


def _argument(kind: ElementType, shape: tuple[int, ...] | None) -> Any:
    """Return an argument: floats from -1 to 1, integers 0 and 1 (valid as indices almost anywhere), zeros for other
    types.

    kind: type of the elements. shape: None for a scalar, which is 0.
    """
    if shape is None:
        return 0
    rng = np.random.default_rng(0)
    if kind.dtype.kind == "f":
        return rng.uniform(-1, 1, shape).astype(kind.dtype)
    if kind.dtype.kind in "iu":
        return rng.integers(0, 2, shape).astype(kind.dtype)
    return np.zeros(shape, kind.dtype)
