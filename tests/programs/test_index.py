"""Indices of programs against NumPy's: numbers, slices, None, '...', and arrays of integers, captured or passed."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pydispatch as pd

SIZES = 4, 3, 5
X = np.arange(60, dtype=np.float32).reshape(SIZES)
SHAPES = [(), (2,), (1,), (3, 1), (3, 2)]
"""Shapes of index arrays, which broadcast together."""

SLICES = [slice(None), slice(1, None), slice(None, -1), slice(0, 2)]


@st.composite
def indices(draw: Any, has_new_axes: bool) -> tuple[list[Any], list[bool]]:
    """Draw an index of up to three axes, and for each of its arrays whether the call passes it."""
    keys: list[Any] = []
    passed = []
    for size in SIZES[: draw(st.integers(1, 3))]:
        kind = draw(st.sampled_from(["array", "array", "slice", "number", *["new axis"] * has_new_axes]))
        if kind == "new axis":
            keys.append(None)
            kind = "slice"
        if kind == "array":
            shape = draw(st.sampled_from(SHAPES))
            values = draw(st.lists(st.integers(-size, size - 1), min_size=6, max_size=6))
            keys.append(np.array(values[: int(np.prod(shape))], np.int32).reshape(shape))
            passed.append(draw(st.booleans()) or shape == ())
        else:
            keys.append(draw(st.sampled_from(SLICES) if kind == "slice" else st.integers(-size, size - 1)))
    if len(keys) < 3 and draw(st.booleans()):
        keys.insert(draw(st.integers(0, len(keys))), Ellipsis)
        if keys[0] is Ellipsis:  # the sizes that the keys are for are others now
            keys = [Ellipsis]
            passed = []
    return keys, passed


def run(keys: list[Any], passed: list[bool], value: Any = None) -> Any:
    """Read at an index, or assign to it, in a program whose first size is dynamic."""
    arrays = iter(passed)
    arguments = [key for key in keys if isinstance(key, np.ndarray) and next(arrays)]
    names = [f"i{n}" for n in range(len(arguments))]

    def index(*given_arrays: Any) -> tuple[Any, ...]:
        flags, rest = iter(passed), iter(given_arrays)
        return tuple(next(rest) if isinstance(key, np.ndarray) and next(flags) else key for key in keys)

    def read(x: Any, *rest: Any) -> Any:
        return x[index(*rest)] + 0

    def write(x: Any, *rest: Any) -> Any:
        y = x.copy()
        y[index(*rest)] = value
        return y

    scope: dict[str, Any] = {"function": read if value is None else write}
    exec(f"def f({', '.join(['x', *names])}): return function({', '.join(['x', *names])})", scope)
    f = scope["f"]
    f.__annotations__ = {"x": Annotated[np.ndarray, pd.f32["n", 3, 5]]}
    for name, array in zip(names, arguments, strict=True):
        f.__annotations__[name] = Annotated[np.ndarray, pd.i32[array.shape]]
    return pd.device("cpu").load(pd.compile(pd.program(f))).f(X, *arguments)


@settings(suppress_health_check=list(HealthCheck))
@given(indices(has_new_axes=True))
def test_elements_are_read(case: tuple[list[Any], list[bool]]) -> None:
    keys, passed = case
    np.testing.assert_array_equal(run(keys, passed), X[tuple(keys)])


@settings(suppress_health_check=list(HealthCheck))
@given(indices(has_new_axes=False), st.booleans())
def test_elements_are_assigned(case: tuple[list[Any], list[bool]], is_number: bool) -> None:
    """Of several elements for one position the last is assigned."""
    keys, passed = case
    expected = X.copy()
    shape = X[tuple(keys)].shape
    value = 7.0 if is_number else -np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
    expected[tuple(keys)] = value
    np.testing.assert_array_equal(run(keys, passed, value), expected)


def test_a_cache_is_updated_at_a_position_of_the_call() -> None:
    """Along any axis, beside whole axes and numbers; positions outside are ignored."""

    def f(cache: Annotated[np.ndarray, pd.f32["b", 8, 4]], row: Annotated[np.ndarray, pd.f32["b", 4]],
          i: Annotated[np.ndarray, pd.i32[()]]) -> Any:  # fmt: skip
        y = cache.copy()
        y[:, i] = row
        y[0, i, 1] = 9.0
        return y

    program: Any = pd.device("cpu").load(pd.compile(pd.program(f)))
    cache, row = np.zeros((2, 8, 4), np.float32), np.ones((2, 4), np.float32)
    for i in (3, -1, 8):
        expected = cache.copy()
        if i < 8:
            expected[:, i] = row
            expected[0, i, 1] = 9
        np.testing.assert_array_equal(program.f(cache, row, np.int32(i)), expected)


TABLE = np.arange(12, dtype=np.float32).reshape(6, 2)


def test_a_captured_table_is_indexed() -> None:
    def f(i: Annotated[np.ndarray, pd.i32["n"]]) -> Any:
        return np.asarray(TABLE, like=i)[i] + np.asarray([1, 2], dtype=np.float32, like=i)

    program: Any = pd.device("cpu").load(pd.compile(pd.program(f)))
    i = np.int32([5, 0, -1])
    np.testing.assert_array_equal(program.f(i), TABLE[i] + [1, 2])


View = Annotated[np.ndarray, pd.f32[4, 6]]
Position = Annotated[np.ndarray, pd.i32[()]]


def _slice_to(x: View, i: Position) -> Any:
    return x[:, :i]


def _assign_to_slice(x: View, i: Position) -> Any:
    y = x.copy()
    y[i : i + 1] = 0
    return y


def _captured_table(x: View, i: Position) -> Any:
    return TABLE[i]


def _new_axis(x: View, i: Position) -> Any:
    y = x.copy()
    y[None, i] = 0
    return y


def _conditions(x: View, i: Position) -> Any:
    y = x.copy()
    y[x > 0] = i.astype(np.float32)
    return y


@pytest.mark.parametrize(
    ("function", "message", "note"),
    [
        (_slice_to, "the ends of a slice are values of arrays", "x[i + numpy.arange(4)]"),
        (_assign_to_slice, "the ends of a slice are values of arrays", "x[i + numpy.arange(4)]"),
        (_captured_table, "the elements of a traced array are not known", "numpy.asarray(table, like=index)[index]"),
        (_new_axis, "elements cannot be assigned at", "leave None out"),
        (_conditions, "an index of conditions", "use numpy.where"),
    ],
)
def test_indices_that_programs_do_not_have(function: Any, message: str, note: str) -> None:
    with pytest.raises(pd.CompileError, match=message) as caught:
        pd.compile(pd.program(function))
    assert note in (caught.value.note or "") and "test_index.py:" in str(caught.value)


@pytest.mark.parametrize("count", [1, 2, 5, 13])
def test_positions_that_depend_on_sizes_count_from_the_end(count: int) -> None:
    @pd.program
    def halves(x: Annotated[np.ndarray, pd.f32["n", 3]], y: Annotated[np.ndarray, pd.f32["m", 3]]) -> Any:
        half = x.shape[0] // 2
        return x[-half:], x[: -half - 1], x[-half - 1], x[-y.shape[0] :], x * (-x.shape[0] % 4)

    x = np.arange(3 * count, dtype=np.float32).reshape(count, 3)
    for result, expected in zip(halves(x, x[:1]), halves.python(x, x[:1]), strict=True):
        np.testing.assert_array_equal(result, expected)
