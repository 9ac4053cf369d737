"""Arguments that a function of JAX donates: slices are stored in them, and results have their memory with `out=`."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import export, lax

import pydispatch as pd

CACHE = np.arange(48, dtype=np.float32).reshape(6, 8)
ROW = np.ones((1, 8), np.float32)


def step(cache: Any, row: Any, i: Any) -> Any:
    keys = lax.dynamic_update_slice(cache["keys"], row, (i, 0))
    return {"keys": keys}, keys.sum(0)


def compiled(function: Any, rows: Any = 6) -> Any:
    arguments = (rows, 8), (1, 8), ()
    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in zip(arguments, "ffi", strict=True)]
    program: Any = pd.device("cpu").load(pd.from_jax(function, {"keys": shapes[0]}, *shapes[1:]))
    return program.main


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("donated", [(), (0,), (1,)], ids=["none", "cache", "row"])
def test_donated_arguments(donated: tuple[int, ...], is_dynamic: bool) -> None:
    function = jax.jit(step, donate_argnums=donated)
    main = compiled(function, *export.symbolic_shape("n") if is_dynamic else (6,))
    cache = CACHE.copy()
    assert len(main.plan_of(cache, ROW, np.int32(2))) == (3 if donated == (0,) else 1)
    expected = CACHE.copy()
    expected[2] = 1
    keys, total = main(cache, ROW, np.int32(2))
    np.testing.assert_array_equal(cache, CACHE)
    np.testing.assert_array_equal(keys, expected)
    keys, total = main(cache, ROW, np.int32(2), out=(cache, None))
    assert keys is cache
    np.testing.assert_array_equal(cache, expected)
    np.testing.assert_array_equal(total, expected.sum(0))


def test_a_function_that_is_not_jitted_donates_nothing() -> None:
    assert len(compiled(step).plan_of(CACHE, ROW, np.int32(2))) == 1
