"""The gallery of examples/python_kernels: each file on every device against NumPy, and its row of the docs."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from kernel_works import DEVICES, EXAMPLES

import pydispatch as pd

OTHERS = ("kernels", "tiles", "running")
GALLERY = sorted(path for path in EXAMPLES.glob("*.py") if path.stem not in OTHERS)


def loaded(path: Path) -> ModuleType:
    """A file of the gallery as a module."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(f"gallery_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in GALLERY])
def test_equals_numpy_on_every_device(path: Path) -> None:
    """`kernel.python`, which shares no code with the compiler, and all targets of one artifact."""
    for case in loaded(path).cases(np.random.default_rng(1)):
        own = [np.copy(each) if isinstance(each, np.ndarray) else each for each in case.arguments]
        case.kernel.python(*own)
        case.compare([own[position] for position in case.kernel.written])
        artifact = pd.compile(case.kernel, targets=("cpu", "vulkan", "webgpu", "cuda"))
        for name in DEVICES:
            results = pd.device(name).load(artifact)[case.kernel.name](*case.arguments)
            case.compare([np.asarray(each) for each in (results if isinstance(results, tuple) else (results,))])


@pytest.mark.parametrize("runs_python", [False, True])
def test_top_k_writes_nan_as_infinity(runs_python: bool) -> None:
    """The elements that are numbers keep their order and their indices."""
    module = loaded(EXAMPLES / "top_k.py")
    x = np.arange(80, dtype=np.float32).reshape(2, 40)
    x[0, [5, 35]], x[1, 1:] = np.nan, -np.inf
    values, indices = np.zeros((2, module.K), np.float32), np.zeros((2, module.K), np.int32)
    (module.top_k.python if runs_python else module.top_k)(x, values, indices)
    np.testing.assert_array_equal(values, [[np.inf, np.inf, 39, 38, 37, 36, 34, 33], [40, *[-np.inf] * 7]])
    np.testing.assert_array_equal(indices, [[0, 0, 39, 38, 37, 36, 34, 33], range(8)])


def test_the_docs_list_the_gallery() -> None:
    rows = {
        f"| [{path.stem}](../examples/python_kernels/{path.name}) | {(loaded(path).__doc__ or '').splitlines()[0]} |"
        for path in GALLERY
    }
    page = (EXAMPLES.parents[1] / "docs/python-kernels.md").read_text("utf-8").splitlines()
    assert {line for line in page if "](../examples/python_kernels/" in line and line.startswith("| [")} == rows


def test_the_tutorials_show_kernels_of_the_examples() -> None:
    page = (EXAMPLES.parents[1] / "docs/kernel-tutorials.md").read_text("utf-8")
    shown = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    files = [path.read_text("utf-8") for path in EXAMPLES.glob("*.py")]
    assert len(shown) == 3
    for kernel in shown:
        assert any(kernel in text for text in files), kernel.splitlines()[1]
