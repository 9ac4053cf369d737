"""The clock: programs of one function → microseconds of a call. Nothing else of tuning knows the runtime."""

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

BATCH = 2e-4
"""Seconds that calls are counted in one piece, so that reading the clock costs nothing; a call may take longer."""


class Bench:
    """Times programs on a CPU device. device: None for all CPUs of this machine; InvalidArgumentError for another."""

    def __init__(self, device: Any = None) -> None:
        self._device = open_device() if device is None else device
        self._loaded: tuple[Artifact, Program] | None = None
        if not isinstance(self._device, CpuDevice):
            raise InvalidArgumentError(f"tune_on: expected a CPU device, such as device('cpu'), got {device!r}")

    @property
    def machine(self) -> str:
        """What measurements depend on besides the code, in words."""
        return f"{self._device.describe()['model'] or 'a CPU without a name'}, {self._device.workers} workers"

    def load(self, built: Trial) -> Call | None:
        """Load a function and return a call with arguments of its own; None where the device cannot run it or lacks a
        function that it calls.
        """
        try:
            if self._loaded is None or self._loaded[0] is not built.artifact:
                self._loaded = built.artifact, self._device.load(built.artifact)
            program = self._loaded[1]
            if not {import_.symbol for import_ in program.imports if import_.provider}.issuperset(built.needs):
                return None
            function = program.functions[built.function]
            call = function.prepare(*(_argument(kind, shape) for _, kind, shape in function.arguments))
            call()
        except Error:
            return None
        return call

    def microseconds(self, call: Call, seconds: float) -> float:
        """Return the least time of a call, measured for about so many seconds: what disturbs a call makes it longer."""
        clock = time.perf_counter
        begin = start = clock()
        call()
        least = clock() - start
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
    """Floats between -1 and 1, whole numbers 0 and 1, which are indices almost anywhere; zeros of odd types."""
    if shape is None:
        return 0
    rng = np.random.default_rng(len(shape))
    if kind.dtype.kind == "f":
        return rng.uniform(-1, 1, shape).astype(kind.dtype)
    if kind.dtype.kind in "iu":
        return rng.integers(0, 2, shape).astype(kind.dtype)
    return np.zeros(shape, kind.dtype)
