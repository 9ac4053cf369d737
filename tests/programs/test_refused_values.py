"""Values and calls that are no part of programs: a CompileError with the line and the remedy, no other exception."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.programs import trace

Matrix = Annotated[np.ndarray, pd.f32["n", 4]]
held: list[Any] = []
NUMBERS = "programs compute with numbers"


def _generator(x: Any) -> Any:
    yield x


def _again(x: Any) -> Any:
    return _again(x)


REFUSED: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "a value of another program": (lambda x: x + held[0], "an array of another program", "pass the value as"),
    "an operation on such a value": (lambda x: held[0] * 2, "an array of another program", "pass the value as"),
    "an element of such a value": (lambda x: held[0][0], "an array of another program", "pass the value as"),
    "a choice by a size": (
        lambda x: x if x.shape[0] > 0 else x + 1,
        "depends on the sizes of a call",
        "state the size",
    ),
    "a text": (lambda x: "abc", "expected an array or a number, got 'abc'", NUMBERS),
    "a text in a sum": (lambda x: x + "a", "got 'a'", NUMBERS),
    "an array of texts": (lambda x: (x, np.array(["a"])), r"got array\(\['a'\]", NUMBERS),
    "dates": (lambda x: np.array(["2020-01-01"], "M8[D]"), "expected an array or a number", NUMBERS),
    "a generator": (_generator, "got <generator object", NUMBERS),
    "an object": (lambda x: object(), "got <object object", NUMBERS),
    "None in a tuple": (lambda x: (x, None), "got None", NUMBERS),
    "None in a sum": (lambda x: x + None, "got None", NUMBERS),
    "a dict in a dict": (lambda x: {"a": {"b": x}}, "got {'b': <traced array", NUMBERS),
    "lists of different lengths": (lambda x: ([[1, 2], [3]], x), "inhomogeneous", ""),
    "a number that is too large": (lambda x: x * 10**400, "numpy.multiply.*OverflowError", "docs/python-programs.md"),
    "an index that is too large": (lambda x: x[10**30], "an index", "docs/python-programs.md"),
    "an axis that is a float": (lambda x: np.sum(x, axis=1.0), "numpy.sum.*TypeError", "docs/python-programs.md"),
    "an integer to a negative power": (
        lambda x: x.astype(np.int32) ** -1,
        r"i32\[n, 4\] to a negative power",
        "x.astype(float) ** -1",
    ),
    "integers to powers that are not all positive": (
        lambda x: np.power(x.astype(np.int8), np.int8([1, 0, -1, 2])),
        r"i8\[n, 4\] to a negative power",
        "float",
    ),
    "a diagonal of axes of two sizes": (
        lambda x: np.einsum("ii,jk->ij", np.ones((3, 2)), x),
        "the letter 'i', but the sizes 3 and 2",
        "slice the",
    ),
    "negative widths of a pad": (
        lambda x: np.pad(x, ((0, 0), (-1, 2))),
        r"numpy\.pad of f32\[n, 4\] by negative widths",
        "a slice removes",
    ),
    "a float as an index": (lambda x: x[1.0], "an index has the entry 1.0", "use integers, slices"),
    "a truth value as an index": (lambda x: x[:, True], "an index has the entry True", "use integers, slices"),
    "a float as the end of a slice": (lambda x: x[:, :2.0], "an index has the entry 2.0", "use integers, slices"),
    "a function that calls itself": (_again, "calls itself, or nests too deeply", "pydispatch.loop"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused(name: str) -> None:
    def before(x: Matrix) -> Any:
        held[:] = [x + 1]
        return held[0]

    pd.program(before).module()
    function, message, note = REFUSED[name]

    def refused(x: Matrix) -> Any:
        return function(x)

    if name == "a generator":
        refused = _with_type(_generator)
    with pytest.raises(pd.CompileError, match=message) as error:
        pd.program(refused).module()
    location = error.value.location
    assert location is not None and location.file == __file__
    assert location.text == Path(__file__).read_text("utf-8").splitlines()[location.line - 1]
    assert f"  {location.text}\n" in str(error.value)
    assert note in (error.value.note or "")


AXES: dict[str, Callable[[Any], Any]] = {
    "cumsum": lambda x: np.cumsum(x, axis=2),
    "cumprod": lambda x: np.cumprod(x, axis=-3),
    "roll": lambda x: np.roll(x, 1, axis=2),
    "repeat": lambda x: np.repeat(x, 2, axis=3),
    "moveaxis": lambda x: np.moveaxis(x, 3, 0),
    "moveaxis to": lambda x: np.moveaxis(x, 0, -3),
    "transpose": lambda x: np.transpose(x, (2, 1)),
    "flip": lambda x: np.flip(x, 4),
    "take": lambda x: np.take(x, 1, axis=3),
    "take_along_axis": lambda x: np.take_along_axis(x, np.zeros((1, 4), np.int64), axis=2),
    "sort": lambda x: np.sort(x, axis=3),
    "argsort": lambda x: np.argsort(x, axis=-3),
    "stack": lambda x: np.stack([x, x], axis=5),
    "split": lambda x: np.split(x, 2, axis=2)[0],
    "trace": lambda x: np.trace(x, axis1=0, axis2=3),
    "tensordot": lambda x: np.tensordot(x, x, axes=([3], [1])),
}


@pytest.mark.parametrize(
    "function",
    [
        np.sort,
        np.flip,
        np.diff,
        np.concatenate,
        lambda x, axis: np.roll(x, 1, axis),
        lambda x, axis: np.split(x, 1, axis),
    ],
)
def test_axes_of_rank_0_are_refused(function: Callable[..., Any]) -> None:
    def refused(x: Matrix) -> Any:
        scalar = x.sum()
        return function([scalar] if function is np.concatenate else scalar, axis=0)

    with pytest.raises(pd.CompileError, match=r"axis 0 of f32\[\], which has no axes"):
        pd.program(refused).module()


@pytest.mark.parametrize("name", AXES)
def test_axes_out_of_range_are_refused(name: str) -> None:
    def refused(x: Matrix) -> Any:
        return AXES[name](x)

    with pytest.raises(pd.CompileError, match=r"axis -?\d of a tensor of rank \d; axes are -\d to \d"):
        pd.program(refused).module()


@pytest.mark.parametrize("function", [
    lambda x: np.moveaxis(x, (0, 0), (0, 1)), lambda x: np.flip(x, (1, -1)), lambda x: np.transpose(x, (1, 1)),
    lambda x: np.tensordot(x, x, axes=([1, 1], [0, 1])),
])  # fmt: skip
def test_axes_named_twice_are_refused(function: Callable[[Any], Any]) -> None:
    def refused(x: Matrix) -> Any:
        return function(x)

    with pytest.raises(pd.CompileError, match="name one twice"):
        pd.program(refused).module()


def _with_type(function: Any) -> Any:
    function.__annotations__ = {"x": Matrix}
    return function


def test_a_program_that_calls_itself() -> None:
    @pd.program
    def endless(x: Matrix) -> Any:
        return endless(x) + 1

    line = endless.function.__code__.co_firstlineno + 2
    with pytest.raises(pd.CompileError, match=rf"{Path(__file__).name}:{line}:\d+: error: .*itself"):
        pd.compile(endless)


def _assigned(x: Any, y: Any) -> Any:
    z = np.ones_like(y)
    z[:] = x
    return z


@pytest.mark.parametrize("function", [
    lambda x, y: np.broadcast_to(x, y.shape), lambda x, y: np.broadcast_to(x, (3, *y.shape)) * 2, _assigned,
])  # fmt: skip
def test_sizes_that_a_call_does_not_broadcast_are_refused(function: Callable[[Any, Any], Any]) -> None:
    @pd.program
    def program(x: Annotated[np.ndarray, pd.f32["n"]], y: Annotated[np.ndarray, pd.f32["m"]]) -> Any:
        return function(x, y)

    x, y = np.arange(3, dtype=np.float32), np.zeros(5, np.float32)
    np.testing.assert_array_equal(program(x, x), function(x, x))
    with pytest.raises(ValueError, match="broadcast"):
        function(x, y)
    line = f"{Path(__file__).name}:{function.__code__.co_firstlineno + 2 * (function is _assigned)}"
    with pytest.raises(pd.InvalidArgumentError, match=rf"f32\[n\] does not broadcast to .*m\]: 3 and 5 at .*{line}:"):
        program(x, y)


def test_parts_that_do_not_divide_an_axis_are_refused() -> None:
    @pd.program
    def halves(x: Annotated[np.ndarray, pd.f32["n"]]) -> Any:
        return np.split(x, 2)[0]

    np.testing.assert_array_equal(halves(np.arange(6, dtype=np.float32)), [0, 1, 2])
    line = f"{Path(__file__).name}:{halves.function.__code__.co_firstlineno + 2}"
    message = rf"f32\[n\] cannot be divided into 2 equal parts along axis 0: 1 elements are left over.*{line}:"
    with pytest.raises(pd.InvalidArgumentError, match=message):
        halves(np.arange(5, dtype=np.float32))


def test_parts_are_at_least_one() -> None:
    def refused(x: Matrix) -> Any:
        return np.split(x, -2, axis=1)

    with pytest.raises(pd.CompileError, match="cannot be divided into -2 equal parts along axis 1"):
        pd.program(refused).module()


@pytest.mark.parametrize(("axis", "weights", "message"), [
    (None, np.ones(4), "their shapes differ"), (None, np.ones((1, 4)), "their shapes differ"),
    (1, np.ones(3), "their sizes differ along axis=1"), (1, np.ones((3, 4)), "their sizes differ along axis=1"),
])  # fmt: skip
def test_weights_that_do_not_fit_are_refused(axis: int | None, weights: Any, message: str) -> None:
    def refused(x: Annotated[np.ndarray, pd.f64[2, 4]]) -> Any:
        return np.average(x, axis=axis, weights=weights)

    with pytest.raises((TypeError, ValueError)):
        refused(np.ones((2, 4)))
    with pytest.raises(pd.CompileError, match=rf"numpy.average of f64\[2, 4\].*{message}"):
        pd.program(refused).module()


def test_weights_whose_number_a_call_does_not_fit_are_refused() -> None:
    @pd.program
    def average(x: Annotated[np.ndarray, pd.f64["n", "m"]], weights: Annotated[np.ndarray, pd.f64["k"]]) -> Any:
        return np.average(x, axis=1, weights=weights)

    x, weights = np.arange(6.0).reshape(2, 3), np.array([1.0, 2, 5])
    np.testing.assert_allclose(average(x, weights), np.average(x, axis=1, weights=weights))
    with pytest.raises(pd.InvalidArgumentError, match="1 weights along axis 1 of size 3"):
        average(x, weights[:1])


def test_differences_of_negative_order_are_refused() -> None:
    def refused(x: Matrix) -> Any:
        return np.diff(x, n=-1)

    with pytest.raises(pd.CompileError, match=r"numpy\.diff of order -1"):
        pd.program(refused).module()


def test_exceptions_of_the_function_are_its_own() -> None:
    @pd.program
    def raises(x: Matrix) -> Any:
        return x + {}["missing"]

    with pytest.raises(KeyError, match="missing"):
        pd.compile(raises)


def _doubled(x: Any, depth: int) -> Any:
    return x + 1 if depth == 0 else _doubled(x, depth - 1) + _doubled(x, depth - 1)


def test_calls_that_double_the_program_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level of calls doubles the operations: tracing ends at a bound, and names the function."""
    monkeypatch.setattr(trace, "MAX_OPERATIONS", 100)

    def program(depth: int) -> Any:
        def f(x: Matrix) -> Any:
            return _doubled(x, depth) - 1

        return pd.program(f)

    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(program(4)(x), x * 31)
    line = _doubled.__code__.co_firstlineno
    with pytest.raises(pd.CompileError, match="more than 100 operations on arrays, 101 of them in calls of") as caught:
        program(60)(x)
    assert f"'_doubled' ({Path(__file__).name}, line {line})" in str(caught.value)
    assert f":{line + 1}:" in str(caught.value) and "pass on the result of one call" in str(caught.value)
