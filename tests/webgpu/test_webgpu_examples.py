"""The programs of examples/webgpu: kernels from files, one in place, and one that a spec puts in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import pydispatch as pd

FOLDER = Path(__file__).parents[2] / "examples" / "webgpu"


def rows() -> list[tuple[np.ndarray, np.ndarray, int]]:
    """Pairs of rows, and where their sum is largest: also the first of equal elements, and the last of all."""
    random = np.random.default_rng(128)
    pairs = [tuple(random.standard_normal((2, 1, 128), np.float32)) for _ in range(2)]
    last = np.zeros((1, 128), np.float32)
    last[0, 127] = 1
    pairs += [(np.full((1, 128), 4, np.float32), np.full((1, 128), 3, np.float32)), (last, last)]
    return [(x, y, int((x + y).argmax())) for x, y in pairs]


def test_kernels_from_files_beside_a_generated_one(device: Any) -> None:
    mixed = device.load(pd.compile(FOLDER / "objects.mlir")).mixed
    for n in (1, 64, 1000):
        a, b = np.random.default_rng(n).random((2, n), np.float32)
        np.testing.assert_allclose(np.asarray(mixed(a, b)), a * b + b * (a * b), rtol=1e-6)


def test_a_kernel_in_place(device: Any) -> None:
    f = device.load(pd.compile(FOLDER / "inline.mlir")).f
    for x, y, at in rows():
        assert np.asarray(f(x, y)).tolist() == [at]


def test_a_spec_puts_a_kernel_in(device: Any) -> None:
    artifact = pd.compile(
        FOLDER / "program.mlir", targets="webgpu", transform_spec=FOLDER / "spec.mlir", require_match=True,
        object_search_path=[FOLDER],
    )  # fmt: skip
    assert "largest" in [export for executable in artifact.executables for export in executable.exports]
    f = device.load(artifact).f
    for x, y, at in rows():
        assert np.asarray(f(x, y)).tolist() == [at]
