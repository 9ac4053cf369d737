"""Kernels that are nested too deeply are refused with their line; those that are not so deep work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd


def _kernel(path: Path, terms: int) -> Any:
    """A kernel of one sum, in a file, since its source is read."""
    file = path / f"sum_of_{terms}.py"
    total = " + ".join(["x[i]"] * terms)
    file.write_text(
        "import pydispatch as pd\n\n\n@pd.kernel\ndef total(x: pd.View[pd.f32, 'n'], y: pd.View[pd.f32, 'n']):\n"
        f"    i = pd.global_id(0)\n    if i < y.shape[0]:\n        y[i] = {total}\n"
    )
    names: dict[str, Any] = {"__name__": "sums"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return names["total"]


def test_a_sum_of_many_terms(tmp_path: Path) -> None:
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    _kernel(tmp_path, 20)(x, y)
    np.testing.assert_array_equal(y, 20 * x)
    terms = 2 * sys.getrecursionlimit() + 500
    with pytest.raises(pd.CompileError, match=rf"sum_of_{terms}.py:5:1: error: 'total' is nested too deeply") as error:
        _kernel(tmp_path, terms)(x, y)
    assert "split long expressions" in str(error.value)
