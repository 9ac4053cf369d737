"""Comparison of the kernels of this folder with NumPy: each file has `cases`, and `run` checks them on a device."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import pydispatch as pd


class Case(NamedTuple):
    """Call of a kernel and its results by NumPy.

    Attributes:
        kernel: The kernel.
        arguments: Arrays and numbers, in the order of the kernel's parameters.
        expected: For each view that the kernel writes, in order: the array afterwards.
        tolerance: Relative and absolute difference that is allowed; 0 for equal results.
    """

    kernel: Any
    arguments: tuple[Any, ...]
    expected: tuple[Any, ...]
    tolerance: float = 0.0

    def compare(self, results: Sequence[Any]) -> None:
        """Raise AssertionError for results that differ from the expected ones."""
        for result, expected in zip(results, self.expected, strict=True):
            np.testing.assert_allclose(result, expected, rtol=self.tolerance, atol=self.tolerance)


Cases = Callable[[np.random.Generator], Sequence[Case]]  # builds the cases of a file from random numbers


def run(cases: Cases) -> None:
    """Run the cases of a file on the device that the command line names, by default the CPU."""
    device = pd.device(sys.argv[1] if len(sys.argv) > 1 else "cpu")
    for case in cases(np.random.default_rng(1)):
        arrays = [device.upload(a) if isinstance(a, np.ndarray) else a for a in case.arguments]
        case.kernel(*arrays)
        # `written` has the indices of the parameters that the kernel writes.
        case.compare([np.asarray(arrays[index]) for index in case.kernel.written])
        print(f"{case.kernel.name}: right on {device.name}")
