"""Arrays that are not contiguous as arguments: calls copy them, prepared calls refuse them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydispatch as pd

TEXT = """
util.global private mutable @calls = dense<0> : tensor<i32>
func.func @double(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %y = arith.addf %x, %x : tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
func.func @counted(%x: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<i32>) {
  %one = arith.constant dense<1> : tensor<i32>
  %old = util.global.load @calls : tensor<i32>
  %new = arith.addi %old, %one : tensor<i32>
  util.global.store %new, @calls : tensor<i32>
  %y = arith.addf %x, %x : tensor<?x?xf32>
  return %y, %new : tensor<?x?xf32>, tensor<i32>
}
"""
DEVICES = {"cpu?workers=2": "cpu", "ptx-interpreter": "cuda", "vulkan:0": "vulkan", "webgpu:0": "webgpu"}
BASE = np.arange(24 * 24, dtype=np.float32).reshape(24, 24)


@pytest.fixture(params=DEVICES, scope="module")
def program(request: pytest.FixtureRequest) -> Any:
    return pd.device(request.param).load(pd.compile(TEXT, targets=DEVICES[request.param]))


@st.composite
def views(draw: st.DrawFn) -> Any:
    """A view of BASE: slices with steps of both signs, possibly transposed, an axis broadcast."""
    slices = [slice(draw(st.integers(0, 12)), None, draw(st.integers(1, 7))) for _ in range(2)]
    view = BASE[tuple(slices)]
    view = view[:: draw(st.sampled_from([1, -1])), :: draw(st.sampled_from([1, -1]))]
    if draw(st.booleans()):
        view = np.broadcast_to(view[:1], view.shape)
    return view.T if draw(st.booleans()) else view


@settings(max_examples=40, deadline=None)
@given(x=views())
def test_views_are_what_numpy_says(x: Any) -> None:
    program = loaded_on_cpu()
    for y in (
        program.double(x),
        program.double.submit(x).result(60),
        program.double.submit_many([x, x]).result(60)[1],
        next(program.double.map([x])),
        program.counted(x)[0],
        program.counted.submit(x).result(60)[0],
        program.double(x, out=np.empty(x.shape, np.float32)),
    ):
        np.testing.assert_array_equal(y, 2 * x)


_loaded: list[Any] = []


def loaded_on_cpu() -> Any:
    if not _loaded:
        _loaded.append(pd.device("cpu?workers=2").load(pd.compile(TEXT)))
    return _loaded[0]


@pytest.mark.parametrize("x", [BASE[::5], BASE.T, BASE[:, 3:9], BASE[::-1, ::-1]])
def test_every_device_takes_them(program: Any, x: Any) -> None:
    np.testing.assert_array_equal(np.asarray(program.double(x)), 2 * x)
    np.testing.assert_array_equal(np.asarray(program.double.submit(x).result(60)), 2 * x)
    np.testing.assert_array_equal(np.asarray(program.counted(x)[0]), 2 * x)


def test_a_result_may_overlap_such_an_argument(program: Any) -> None:
    memory = BASE.copy()
    x, y = memory[::2], memory[:12]
    expected = 2 * x
    program.double(x, out=y)
    np.testing.assert_array_equal(y, expected)


def test_prepared_calls_never_use_an_old_copy(program: Any) -> None:
    """Each run reads the arrays again, so that one that was copied once is refused."""
    for function in (program.double, program.counted):
        memory = BASE.copy()
        try:
            call = function.prepare(memory[::5])
            memory += 1
            value = call()
        except pd.InvalidArgumentError as error:
            assert "argument 0 'x'" in str(error) and "not contiguous; each run reads the array" in str(error)
            continue
        assert function is program.counted
        np.testing.assert_array_equal(np.asarray(value[0]), 2 * memory[::5])


def test_a_prepared_call_refuses_other_ones_too(program: Any) -> None:
    call = program.double.prepare(BASE[:5].copy())
    with pytest.raises(pd.InvalidArgumentError, match=r"argument 0 'x': .*not contiguous; each run reads the array"):
        call(BASE[::5][:5])


def test_results_are_written_to_contiguous_arrays_only() -> None:
    with pytest.raises(pd.InvalidArgumentError, match=r"out 0: .*which is not contiguous; pass np\.empty"):
        loaded_on_cpu().double(BASE[:12], out=BASE.copy()[::2])
