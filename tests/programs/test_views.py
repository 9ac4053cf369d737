"""Views, types and options in programs: what NumPy does with them, or a refusal with its line, never another result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_against_numpy import F, G, I, traced

import pydispatch as pd

SLICES = [np.s_[0], np.s_[-1], np.s_[1:], np.s_[:, 1:], np.s_[:-1, 1], np.s_[-1, 0], np.s_[...]]
SHAPES: list[Callable[[Any], Any]] = [
    lambda v: v, lambda v: v.T, lambda v: np.swapaxes(v, 0, 1), lambda v: np.flip(v, 0)
]  # fmt: skip
STEP = st.tuples(st.sampled_from(["view", "shape", "assign", "add", "copy"]), st.integers(0, 9), st.integers(0, 9))


def steps_of(steps: list[tuple[str, int, int]]) -> Callable[[Any], Any]:
    """A function that takes views of views, assigns to them, and shows what each of them has at the end."""

    def function(x: Any) -> Any:
        arrays, writable, depths = [x.copy()], [True], [0]
        for kind, which, how in steps:
            number = which % len(arrays)
            array = arrays[number]
            index = SLICES[how % len(SLICES)]
            before = len(arrays)
            if kind == "view" and depths[number] < 2:
                arrays.append(array[np.s_[1:] if how % 2 else np.s_[:, 1:]])
                writable.append(writable[number])
            elif kind == "shape":
                arrays.append(SHAPES[how % 4](array))
                writable.append(writable[number] and how % 4 == 0)
            elif kind == "copy":
                arrays.append(array.copy())
                writable.append(True)
            elif kind == "assign" and writable[number]:
                array[index] = array[index] * 2 + how
            elif kind == "add" and writable[number]:
                array += how
            if len(arrays) > before:
                depths.append(depths[number] + (kind == "view"))
        return sum(each.sum() * (number + 1) for number, each in enumerate(arrays))

    return function


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, min_size=3, max_size=9))
def test_views_share_their_elements(steps: list[tuple[str, int, int]]) -> None:
    function = steps_of(steps)
    np.testing.assert_allclose(traced(function, F), function(F), rtol=1e-4, atol=1e-3)


def _through_a_row(x: Any) -> Any:
    y = x.copy()
    row = y[1]
    row[2] = 9
    y[1] += 1
    return y + row


def _after(x: Any) -> Any:
    y = x.copy()
    turned = y.T
    y[0] = 5
    return turned


def _assigned_after(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that assigns to the result of `function`, and shows whether its argument has changed."""

    def assigned(x: Any) -> Any:
        y = x.copy()
        result = function(y)
        result[0] = 7
        return y + result

    return assigned


def _arguments_by_name(x: Any) -> Any:
    """Views by functions whose first argument has its name; they change with the array."""
    y = x.copy()
    turned, squeezed = np.transpose(a=y), np.squeeze(a=y)
    y[0] = 5
    return turned.sum(axis=1) + squeezed.sum() + np.reshape(y, shape=(-1,)).sum()


def _copied(x: Any) -> Any:
    y = x.copy()
    flat = np.reshape(y, (-1,), copy=True)
    y[0] = 5
    flat[1] = 7
    return flat + y.sum()


def _elements(x: Any) -> Any:
    """Elements at numbers are copies; `...` gives a view of an element."""
    y = x.copy()
    element, shown, diagonal = y[0, 1], y[0, 1, ...], [row[0] for row in y[:2]]
    whole = element[()]
    y[...] = 7
    return y + element * 10 + whole * 20 + shown * 100 + diagonal[0] * 1000 + diagonal[1] * 2000


def _reversed_in_place(x: Any) -> Any:
    y = np.stack([x[0], x[1], x[2]])
    y[0], y[2] = y[2], y[0]
    elements = list(y)
    y[:] = 0
    return y + elements[0] * 10 + elements[2]


def _not_copied(x: Any) -> Any:
    """An array of the type already is itself the result, and one without NaN is replaced in place."""
    y, z = x.copy(), x + np.inf
    y.astype(y.dtype, copy=False)[0] = 5
    y.astype(np.float64, copy=False)[1] = 6
    np.nan_to_num(z, copy=False, posinf=1)
    return y + z


SMALL = I.astype(np.int8)
SAME: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a row is assigned to": (_through_a_row, (F,)),
    "a view follows": (_after, (F,)),
    "arguments by name": (_arguments_by_name, (F,)),
    "elements at numbers are copies": (_elements, (F,)),
    "elements of a vector are copies": (_reversed_in_place, (G,)),
    "copies of reshaped arrays": (_copied, (F,)),
    "options against copies": (_not_copied, (F,)),
    "a plus sign gives a new array": (_assigned_after(lambda x: +x), (F,)),
    "clip without limits gives a new array": (_assigned_after(lambda x: np.clip(x, None, None)), (F,)),
    "nan_to_num of integers gives a new array": (_assigned_after(np.nan_to_num), (I,)),
    "flip along no axis": (lambda x: np.flip(x, ()) + x, (F,)),
    "numbers of NumPy have types": (lambda x: x * np.float64(2) + x ** np.float64(2), (F,)),
    "a fraction as a power": (lambda x: x**2.0, (abs(I),)),
    "numbers alone": (lambda x: np.where(x > 0, 1, 0.5), (F,)),
    "a quotient that rounds up": (lambda x: (x * 0 + 1) // np.float32(0.1), (F,)),
    "functions of i8": (lambda x: np.sqrt(x * x) + np.exp(x // 4), (SMALL,)),
    "quotients of i8": (lambda x: x / 2 + x.mean(axis=1, keepdims=True) + x.std(), (SMALL,)),
    "the mean of halves": (lambda x: (x * 0 + np.float16(6e4)).mean(), (F.astype(np.float16),)),
    "the type of a mean": (lambda x: x.mean(dtype=np.float64), (F,)),
    "rint of integers": (np.rint, (I,)),
    "roll back": (lambda x: np.roll(x, -2, axis=0) + np.roll(x, (1, -3), axis=(0, 1)) + np.roll(x, 5), (F,)),
    "sort all": (lambda x: np.sort(x, axis=None), (F,)),
    "vecdot": (lambda x: np.vecdot(x, x), (F,)),
    "options that ask for nothing": (lambda x: np.sort(x, kind="stable").reshape((-1,), order="C"), (F,)),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_is_the_same(name: str) -> None:
    function, args = SAME[name]
    expected, result = np.asarray(function(*args)), np.asarray(traced(function, *args))
    assert result.dtype == expected.dtype and result.shape == expected.shape, (result.dtype, expected.dtype)
    np.testing.assert_allclose(result, expected, rtol=2e-3 if expected.dtype == np.float16 else 2e-5, atol=1e-5)


def test_roll_of_sizes_that_calls_decide() -> None:
    @pd.program
    def rolled(x: Annotated[np.ndarray, pd.f32["n", 3]]) -> Any:
        return (
            np.roll(x, 7, 0), np.roll(x, -7, 0), np.roll(x, -4), np.roll(x, (1, 4), 0), np.roll(x, 2, (0, 1)),
            np.roll(x, x.shape[0] - 2, 0),
        )  # fmt: skip

    for rows in (0, 1, 2, 5):
        x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        for result, expected in zip(rolled(x), rolled.python(x), strict=True):
            np.testing.assert_array_equal(result, expected)


def _assigned(x: Any, twice: Any) -> Any:
    twice[:] = x
    return twice


@pytest.mark.parametrize(("function", "message"), [
    (lambda x, twice: twice + x, r"shapes \[2\*n, 3\] and \[n, 3\] do not broadcast together"),
    (lambda x, twice: twice[:, :1] + np.ones((1, 3), np.float32) + x, "do not broadcast together"),
    (lambda x, twice: np.concatenate([x, np.ones((4, 3), np.float32)]) + np.ones((3, 1), np.float32),
     r"shapes \[4 \+ n, 3\] and \[3, 1\] do not broadcast together"),
    (lambda x, twice: np.broadcast_to(twice, x.shape), r"f32\[2\*n, 3\] does not broadcast to \[n, 3\]"),
    (_assigned, r"f32\[n, 3\] does not broadcast to \[2\*n, 3\]"),
    (lambda x, twice: np.concatenate([twice, x], 1), r"f32\[2\*n, 3\] and f32\[n, 3\] cannot be joined along axis 1"),
    (lambda x, twice: np.stack([twice, x]), "cannot be joined along axis 0"),
])  # fmt: skip
def test_sizes_that_are_never_equal_are_refused(function: Callable[..., Any], message: str) -> None:
    @pd.program
    def joined(x: Annotated[np.ndarray, pd.f32["n", 3]]) -> Any:
        return function(x, np.concatenate([x, x]))

    with pytest.raises(pd.CompileError, match=message):
        joined.mlir()


def _in_a_branch(x: Any) -> Any:
    y = x.copy()

    def assign() -> Any:
        y[0] = 5
        return y

    return pd.cond(x[0, 0] > 0, assign, lambda: y)


def _assigned_view(x: Any) -> Any:
    turned = x.T
    turned[0] = 7
    return x


def _reshaped_before(x: Any) -> Any:
    y = x.copy()
    flat = y.reshape(-1)
    y[0] = 5
    return flat + 0


STATE = pd.state(np.zeros(2, np.float32))


def _state_in_a_branch(x: Any) -> Any:
    def assign() -> Any:
        STATE[0] = 1
        return x

    return pd.cond(x.sum() > 0, assign, lambda: x)


REFUSED: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "an order": (lambda x: x.reshape((6, 4), order="F"), F, "order"),
    "initial": (lambda x: np.max(x, axis=0, initial=9), F, "initial"),
    "where of a sum": (lambda x: np.sum(x, where=np.array([True] * 6)), F, "where"),
    "a type of a function": (lambda x: np.add(x, 1, dtype=np.float64), F, "numpy.add with dtype"),
    "a type of a method": (lambda x: x.erf(dtype=np.float64), F, "numpy.erf: got an unexpected keyword"),
    "a mode of take": (lambda x: np.take(x, [9], axis=1, mode="wrap"), F, "mode"),
    "a number out of range": (lambda x: x + 2**40, I, "1099511627776 is no i32"),
    "a fraction into integers": (lambda x: x.copy().__iadd__(1.5), I, "which <traced array"),
    "minus a condition": (lambda x: -(x > 0), F, "conditions are no numbers"),
    "conditions apart": (lambda x: (x > 0) - (x > 1), F, "conditions are no numbers"),
    "a transposed view": (_assigned_view, F, "a view that is no slice is assigned to"),
    "elements of state in a branch": (_state_in_a_branch, F, "from outside of a branch or a loop"),
    "a view of another width": (lambda x: x.view(np.float64), F, "a view of f32 as f64"),
    "an array from outside of a branch": (_in_a_branch, F, "from outside of a branch or a loop"),
    "reshaped before": (_reshaped_before, F, "reshape after the assignment"),
    "divmod": (lambda x: divmod(x, 2)[0], F, "numpy.divmod is not a part"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused(name: str) -> None:
    function, x, message = REFUSED[name]
    with pytest.raises(pd.CompileError) as error:
        traced(function, x)
    # The text of the error has the line of the source, too, and so the row of the table.
    stated = f"{error.value.message} {error.value.note}"
    assert message in stated and "test_views.py:" in str(error.value), str(error.value)
