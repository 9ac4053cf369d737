"""What tests of kernels in Python share."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("LP_NUM_THREADS", "0")  # lavapipe: threads cost more than they bring on small grids

import numpy as np

import pydispatch as pd

DEVICES = ("cpu", "vulkan", "webgpu", "ptx-interpreter")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples/python_kernels"


@functools.cache
def example(name: str = "kernels") -> ModuleType:
    """A file of examples/python_kernels."""
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"python_kernels_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results(kernel: Any, *args: Any) -> dict[str, Any]:
    """What a kernel makes of its arguments on each device: the array that it writes first."""
    found = {}
    for name in DEVICES:
        own = [each.copy() if isinstance(each, np.ndarray) else each for each in args]
        device = pd.device(name)
        own = [device.upload(each) if isinstance(each, np.ndarray) else each for each in own]
        kernel(*own)
        found[name] = np.asarray(own[kernel.written[0]])
    return found


def check(
    kernel: Any, args: tuple[Any, ...], expected: Any, same: Callable[..., None] = np.testing.assert_array_equal
) -> None:
    """Asserts what a kernel makes of its arguments, on every device."""
    for device, result in results(kernel, *args).items():
        same(result, expected, err_msg=device)
