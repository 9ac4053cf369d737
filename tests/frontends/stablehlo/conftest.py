"""StableHLO programs that are compiled and run on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

Run = Callable[..., list[np.ndarray[Any, Any]]]


@pytest.fixture(scope="session")
def run() -> Run:
    """`run(text, x, y, kernels=...)` gives what the program computes of the arrays."""
    device = pd.device("cpu")

    def run_(text: str, *arrays: np.ndarray[Any, Any], **options: Any) -> list[np.ndarray[Any, Any]]:
        found = device.load(pd.compile(text, **options)).main(*arrays)
        return [np.asarray(x) for x in (found if isinstance(found, tuple) else [found])]

    return run_
