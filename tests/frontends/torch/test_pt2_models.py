"""Models of torch.export run as PyTorch runs them. The files are made by make_models.py; PyTorch is not needed here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

FOLDER = Path(__file__).resolve().parent / "models"
NAMES = sorted(path.stem for path in FOLDER.glob("*.pt2"))


def calls_of(name: str) -> list[tuple[list[Any], list[Any]]]:
    """Inputs and results of each call, in order."""
    with np.load(FOLDER / f"{name}.npz") as file:
        arrays = dict(file)
    found = []
    for n in range(1 + max(int(key.split(".")[0]) for key in arrays)):
        pair = []
        for side in ("in", "out"):
            count = sum(key.startswith(f"{n}.{side}.") for key in arrays)
            pair.append([arrays[f"{n}.{side}.{m}"] for m in range(count)])
        found.append((pair[0], pair[1]))
    return found


def listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_gives_what_pytorch_gives(name: str) -> None:
    program = pd.device("local-sync").load(pd.compile(FOLDER / f"{name}.pt2"))
    for inputs, expected in calls_of(name):
        found = listed(program.main(*inputs))
        assert len(found) == len(expected)
        for number, (result, wanted) in enumerate(zip(found, expected, strict=True)):
            what = f"result {number}"
            assert np.asarray(result).dtype == wanted.dtype, what
            loose = 2e-3 if wanted.dtype == np.float16 else 2e-5
            np.testing.assert_allclose(result, wanted, rtol=loose, atol=loose, err_msg=what)
