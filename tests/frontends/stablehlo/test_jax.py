"""Programs as JAX lowers them give what JAX computes. `make_jax.py` wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pydispatch as pd

FOLDER = Path(__file__).parent / "jax"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.mlir"))
SMALL = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}


def values(array: Any) -> np.ndarray[Any, Any]:
    """An array as numbers that NumPy compares."""
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype.name in SMALL else array


def test_there_are_programs() -> None:
    assert len(PROGRAMS) > 35
    assert all((FOLDER / f"{name}.npz").exists() for name in PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_jax(name: str) -> None:
    main = pd.device("cpu").load(pd.compile(FOLDER / f"{name}.mlir")).main
    arrays = np.load(FOLDER / f"{name}.npz")
    for call in sorted({key.split("_")[0] for key in arrays}):
        inputs = [arrays[key] for key in sorted(arrays) if key.startswith(f"{call}_in")]
        expected = [arrays[key] for key in sorted(arrays) if key.startswith(f"{call}_out")]
        found = main(*inputs)
        found = list(found) if isinstance(found, tuple) else [found]
        assert len(found) == len(expected)
        for got, wanted in zip(found, expected, strict=True):
            got = np.asarray(got)
            if got.dtype.name in SMALL:
                wanted = wanted.view(SMALL[got.dtype.name])
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
            got, wanted = values(got), values(wanted)
            if got.dtype.kind in "fc":
                np.testing.assert_allclose(got, wanted, rtol=5e-5, atol=5e-6)
            else:
                np.testing.assert_array_equal(got, wanted)
