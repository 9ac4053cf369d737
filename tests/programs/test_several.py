"""Several kernels and programs in Python in one artifact."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]
Array = Annotated[np.ndarray, pd.f32["n"]]


@pd.kernel(workgroup=32)
def doubled(x: Vector, y: Vector) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = 2 * x[i]


@pd.kernel(workgroup=32)
def negated(x: Vector, y: Vector) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = -x[i]


@pd.program
def both(x: Array) -> Any:
    y = np.empty_like(x)
    doubled(x, y)
    z = np.empty_like(x)
    negated(y, z)
    return z


def test_functions_of_one_artifact() -> None:
    artifact = pd.compile([doubled, negated, both], targets="cpu")
    assert sorted(artifact.functions) == ["both", "doubled", "negated"]
    program: Any = pd.device("cpu").load(artifact)
    x = np.arange(70, dtype=np.float32)
    np.testing.assert_array_equal(program.doubled(x, x), 2 * x)
    np.testing.assert_array_equal(program.negated(x, x), -x)
    np.testing.assert_array_equal(program.both(x), -2 * x)


def test_two_of_one_name() -> None:
    with pytest.raises(pd.CompileError, match=r"two of the functions are called 'doubled'(.|\n)*compile them apart"):
        pd.compile([doubled, negated, doubled])


@pytest.mark.parametrize("source", [[], [doubled, 1]])
def test_lists_of_other_things(source: Any) -> None:
    with pytest.raises((pd.CompileError, pd.InvalidArgumentError)):
        pd.compile(source)
