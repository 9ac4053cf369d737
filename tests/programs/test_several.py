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


ZEROS = np.zeros(4, np.float32)
ZEROS.flags.writeable = False
KEYS, VALUES = (pd.state(ZEROS) for _ in range(2))
"""Two states of one array that only their identity tells apart."""


@pd.program
def stores(x: Array) -> Any:
    KEYS.value = KEYS.value + x.sum()
    VALUES.value = VALUES.value - 1
    return KEYS.value


@pd.program
def reads(x: Array) -> Any:
    return {"values": VALUES.value + 0 * x.sum(), "keys": KEYS.value + 0}  # the other order


@pytest.mark.parametrize(
    "source",
    [[stores, reads], [reads, stores], {"stores": stores, "reads": reads}],
    ids=["list", "reader first", "mapping"],
)
def test_programs_of_one_artifact_share_their_states(source: Any) -> None:
    program: Any = pd.device("cpu").load(pd.compile(source))
    x = np.ones(3, np.float32)
    for count in (1, 2):
        np.testing.assert_array_equal(program.stores(x), np.full(4, 3 * count))
        values, keys = program.reads(x)
        np.testing.assert_array_equal(values, np.full(4, -count))
        np.testing.assert_array_equal(keys, np.full(4, 3 * count))
    np.testing.assert_array_equal(program.session().reads(x)[1], np.zeros(4))


def test_a_state_does_not_change_the_array_that_it_is_set_to() -> None:
    state, x = pd.state(np.zeros(3, np.float32)), np.ones(3, np.float32)
    state.value = x
    state[0] = 5
    assert (state.value.tolist(), x.tolist()) == ([5, 1, 1], [1, 1, 1])


@pytest.mark.parametrize("source", [both, [doubled, both], both.mlir()], ids=["program", "list", "text"])
@pytest.mark.parametrize("options", [{"constants": {"x": np.ones(4, np.float32)}}, {"inputs": {"x": (4,)}}])
def test_options_for_models_of_onnx(source: Any, options: Any) -> None:
    with pytest.raises(pd.InvalidArgumentError, match="inputs= and constants= are for ONNX models, and inputs= with"):
        pd.compile(source, **options)


def test_two_of_one_name() -> None:
    with pytest.raises(pd.CompileError, match=r"two of the functions are called 'doubled'(.|\n)*compile them apart"):
        pd.compile([doubled, negated, doubled])


@pytest.mark.parametrize("source", [[], [doubled, 1]])
def test_lists_of_other_things(source: Any) -> None:
    with pytest.raises((pd.CompileError, pd.InvalidArgumentError)):
        pd.compile(source)
