"""Microkernels in dispatch regions on CUDA: the programs of the CPU, with its C and with CUDA C++."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_programs import objects, target

import pydispatch as pd
from pydispatch.compiler.backends.cpu.target import host_format

sys.path.insert(0, str(Path(__file__).parents[1] / "compiler"))
import test_regions as regions

CUDA = (Path(__file__).parent / "data" / "microkernels.cu").read_text()


@pytest.fixture(params=["kernels.c", "kernels.cu"])
def load(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """load(text) → the program on the interpreter, its microkernels from the file of the parameter."""
    (tmp_path / request.param).write_text(regions.C if request.param.endswith(".c") else CUDA)

    def loaded(text: str) -> Any:
        text = text.replace('"kernels.c"', f'"{request.param}"')
        artifact = pd.compile(text, object_search_path=tmp_path, targets="cuda")
        (variant,) = artifact.executables[0].variants
        # C that knows nothing of threads is called by one of them.
        assert variant.extra["ptx"]["blocks"] == [[1 if request.param.endswith(".c") else 64, 1, 1]]
        return pd.device("ptx-interpreter?races=1").load(artifact)

    return loaded


@pytest.mark.parametrize("n", [0, 1, 8, 1001])
def test_products_in_tiles(n: int, load: Any) -> None:
    a, b = np.arange(n, dtype=np.float32), np.full(n, 2.5, np.float32)
    for text in (regions.region(), regions.region(strides=regions.STRIDES[0]), regions.WORKGROUPS):
        np.testing.assert_array_equal(np.asarray(load(text).scaled(a, b)), a * b)


def test_a_tensor_that_is_overwritten_is_copied_while_it_is_needed(load: Any) -> None:
    a = np.arange(20, dtype=np.float32).reshape(4, 5)
    y, same = map(np.asarray, load(regions.IN_PLACE).grown(a, 10.0))
    np.testing.assert_array_equal(y, np.arange(20, dtype=np.float32).reshape(4, 5) + 10)
    np.testing.assert_array_equal(same, np.arange(20, dtype=np.float32).reshape(4, 5))


def test_scalar_results_copies_and_several_kernels(load: Any) -> None:
    a = np.arange(30, dtype=np.float32).reshape(5, 6)
    total = a[:, 0:6:2].sum()
    expected = np.array([[total] * 4, [total + 1] * 4, [total] * 4], np.float32)
    np.testing.assert_array_equal(np.asarray(load(regions.NO_COUNT).total(a)), expected)


def test_one_microkernel_for_each_target(tmp_path: Path) -> None:
    """C for the CPU and CUDA C++ for two architectures in one program."""
    (tmp_path / "kernels.c").write_text(regions.C)
    (tmp_path / "kernels.cu").write_text(CUDA)
    cpu = f'#hal.executable.target<"llvm-cpu", "{host_format()}">'
    files = {cpu: "kernels.c", target("sm_75"): "kernels.cu", target("sm_90"): "kernels.cu"}
    rows = ", ".join(f"{key} = [{objects([path])}]" for key, path in files.items())
    text = regions.region(f"hal.executable.objects = #hal.executable.objects<{{{rows}}}>")
    artifact = pd.compile(text, object_search_path=tmp_path, targets=("cpu", "cuda"))
    blocks = [v.extra.get("ptx", {}).get("blocks") for v in artifact.executables[0].variants]
    assert blocks == [None, [[64, 1, 1]], [[64, 1, 1]]]
    a, b = np.arange(100, dtype=np.float32), np.full(100, 2.5, np.float32)
    for name in ("cpu", "ptx-interpreter?capability=8.0", "ptx-interpreter?capability=9.0"):
        np.testing.assert_array_equal(np.asarray(pd.device(name).load(artifact).scaled(a, b)), a * b)


def test_microkernels_of_a_plugin(tmp_path: Path) -> None:
    """The same call, resolved at load: the prototype that the error shows is the one of the linked file."""
    artifact = pd.compile(regions.region("", ""), targets="cuda")
    device = pd.device("ptx-interpreter")
    with pytest.raises(pd.MissingImportError, match=r"__device__ void mul\(float\* a0, size_t, float\* a2, size_t, "):
        device.load(artifact)
    text = (Path(__file__).parent / "data" / "microkernels_sm_75.ptx").read_text()
    device.add_plugin(text.encode())
    a, b = np.arange(100, dtype=np.float32), np.full(100, 2.5, np.float32)
    np.testing.assert_array_equal(np.asarray(device.load(artifact).scaled(a, b)), a * b)
