"""Values that programs take from outside of their arguments: a change compiles again, nothing is frozen silently."""

from __future__ import annotations

import functools
import itertools
import random
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.integrations.captures import Captures
from pydispatch.programs.trace import is_frozen

Vector = Annotated[np.ndarray, pd.f32["n"]]
X = np.ones(3, np.float32)

array = np.full(1, 2, np.float32)
weights = np.full(100, 2, np.float32)
listed: list[Any] = [2.0, {"a": np.full(1, 3, np.float32)}]
scale = 2.0


class Layer:
    offset = 1.0

    def __init__(self) -> None:
        self.weight, self.calls = np.full(1, 2, np.float32), 0

    def apply(self, x: Any) -> Any:
        self.calls += 1
        return x * self.weight + self.offset


layer = Layer()


def scaled(x: Any, by: Any = listed) -> Any:
    return x * by[0]


@pd.program
def everything(x: Vector) -> Any:
    return layer.apply(scaled(x) + array + listed[1]["a"]) * scale + x * weights[50]


def _set(owner: Any, key: Any, value: Any) -> Callable[[], None]:
    return lambda: owner.__setitem__(key, value)


CHANGES: dict[str, tuple[str, Callable[[], None]]] = {
    "an element of an array": ("array", _set(array, 0, 5)),
    "an element of a large array": ("weights", _set(weights, 50, 5)),
    "an element of a list": ("listed[0]", _set(listed, 0, 3.0)),
    "an array in a dict in a list": ("listed[1]['a']", _set(listed[1]["a"], 0, 7)),
    "a global": ("scale", _set(globals(), "scale", 3.0)),
    "an attribute": ("layer.weight", lambda: setattr(layer, "weight", np.full(1, 9, np.float32))),
    "an attribute of a class": ("Layer.offset", lambda: setattr(Layer, "offset", 4.0)),
}


def test_changes_are_seen_by_the_next_call() -> None:
    """Each kind of change alone; the last one changes all of them at once, so that one program is compiled."""
    now = Captures(everything.function, {})
    for name, (path, change) in CHANGES.items():
        assert now.changed() is None, name
        before = everything.python(X)
        now = Captures(everything.function, {})  # the function has counted a call
        if path == "array":
            np.testing.assert_array_equal(everything(X), before)
            now = Captures(everything.function, {})
        change()
        assert now.changed() == path, name
        now = Captures(everything.function, {})
    np.testing.assert_array_equal(everything(X), everything.python(X))


def test_nothing_is_compiled_again_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [1.0, float("nan")]

    @pd.program
    def added(x: Vector) -> Any:
        return x + numbers[0]

    added(X)
    loaded = added._loaded["cpu"]
    numbers[0] = float("1")  # an equal number
    added(X)
    assert added._loaded["cpu"] is loaded
    numbers[0] = 2.0
    np.testing.assert_array_equal(added(X), X + 2)
    assert added._loaded["cpu"] is not loaded


def test_a_read_only_view_of_a_bytearray_may_change() -> None:
    memory = bytearray(np.full(3, 2, np.float32).tobytes())
    shown = np.frombuffer(memoryview(memory).toreadonly(), np.float32)

    @pd.program
    def added(x: Vector) -> Any:
        return x + shown

    np.testing.assert_array_equal(added(X), X + 2)
    memory[:] = np.full(3, 5, np.float32).tobytes()
    np.testing.assert_array_equal(added(X), X + 5)


def test_arrays_of_memory_that_is_never_written_are_frozen(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(bytes(16))
    constant = np.zeros(4, np.float32)
    constant.flags.writeable = False
    for frozen in (
        constant, constant[1:], np.frombuffer(bytes(16), np.float32), np.frombuffer(memoryview(bytes(16)), np.float32),
        np.memmap(file, np.float32, "r"), np.frombuffer(memoryview(constant), np.float32),
    ):  # fmt: skip
        assert is_frozen(frozen)
    for writable in (np.memmap(file, np.float32, "r+"), np.zeros(4)[:2]):
        writable.flags.writeable = False
        assert not is_frozen(writable)


@pytest.mark.parametrize("size", [3, 100])
def test_an_artifact_has_the_values_that_it_was_compiled_with(size: int) -> None:
    """Arrays of constants and, from 65 elements on, of weights, which are copied too."""
    held = np.ones(size, np.float32)

    @pd.program
    def added(x: Annotated[np.ndarray, pd.f32["n"]]) -> Any:
        return x + held[:3] + held

    artifact = pd.compile(added) if size == 3 else None
    if artifact is None:

        @pd.program
        def added(x: Annotated[np.ndarray, pd.f32["n"]]) -> Any:
            return x + held

        artifact = pd.compile(added)
    held[:] = 7
    result = pd.device("cpu").load(artifact).added(np.ones(size, np.float32))
    np.testing.assert_array_equal(result, np.full(size, 3 if size == 3 else 2))


def test_read_only_arrays_are_neither_copied_nor_compared() -> None:
    held = np.ones(100, np.float32)
    held.flags.writeable = False
    view = held[:50]
    writable = np.ones(4, np.float32)
    through = writable[:2]
    through.flags.writeable = False  # a view whose array may change

    def function(x: Any) -> Any:
        return x, held, view, through

    captures = Captures(function, {})
    assert [path for *_, path in captures._arrays] == ["through"]
    writable[0] = 2
    assert captures.changed() == "through"
    held.flags.writeable = True
    assert Captures(function, {}).changed() is None and captures.changed() == "through"


def test_what_is_searched_for_captured_values() -> None:
    config = types.SimpleNamespace(a=1, b=2)

    class Slotted:
        __slots__ = ("a", "b")

    slotted = Slotted()
    slotted.a, slotted.b = 1, 2
    bound = functools.partial(lambda x, by: x * by, by=[3])

    def function(x: Any, *, key: Any = {"k": [1]}) -> Any:  # noqa: B006
        return bound(x) + config.a + getattr(slotted, "a") + len(key)  # noqa: B009

    captures = Captures(function, {"static": [1]})
    config.b = slotted.b = 3  # no code names them
    assert captures.changed() is None
    for change, back, path in (
        (lambda: setattr(config, "a", 2), lambda: setattr(config, "a", 1), "config.a"),
        (lambda: setattr(slotted, "a", 2), lambda: setattr(slotted, "a", 1), "slotted.a"),
        (lambda: bound.keywords["by"].append(1), lambda: bound.keywords["by"].pop(), "bound['by']"),
        (lambda: function.__kwdefaults__["key"]["k"].append(1), lambda: None, "a default of function['k']"),
    ):
        change()
        assert captures.changed() == path
        back()


def test_state_is_not_lost_when_a_value_changes() -> None:
    numbers = [1.0]
    total = pd.state(np.zeros((), np.float32))

    @pd.program
    def summed(x: Vector) -> Any:
        total.value = total.value + x.sum() * numbers[0]
        return total.value

    assert summed(X) == 3
    numbers[0] = 2.0
    with pytest.raises(pd.InvalidArgumentError, match=r"'numbers\[0\]' has changed since .*summed\.specialize\(\)"):
        summed(X)
    assert summed.specialize()(X) == 6


generator = np.random.default_rng(1)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: np.float32(np.random.standard_normal()),
        lambda: np.random.default_rng().standard_normal(3).astype(np.float32)[:1],
        lambda: generator.standard_normal(100).astype(np.float32)[:1] * np.ones(100, np.float32),
        lambda: random.random(),
    ],
    ids=["numpy.random", "a new generator", "a large array", "random"],
)
def test_random_numbers_are_not_frozen(draw: Callable[[], Any]) -> None:
    @pd.program
    def noisy(x: Annotated[np.ndarray, pd.f32["n"]]) -> Any:
        y = x * 2
        return (y + draw()) * 1

    with pytest.raises(pd.CompileError, match=r":\d+:\d+: error: program 'noisy' is another one each time") as error:
        pd.compile(noisy)
    assert f":{noisy.function.__code__.co_firstlineno + 3}:" in str(error.value)
    assert "pass it as an argument" in str(error.value)


def test_a_seeded_generator_is_a_constant() -> None:
    @pd.program
    def noisy(x: Vector) -> Any:
        return x + np.random.default_rng(0).standard_normal(1).astype(np.float32)

    np.testing.assert_array_equal(noisy(X), noisy.python(X))


def test_a_program_of_another_length_is_refused() -> None:
    longer: list[int] = []

    @pd.program
    def grows(x: Vector) -> Any:
        longer.append(1)
        for _ in longer:
            x = x + 1
        return x

    with pytest.raises(pd.CompileError, match=r"program 'grows' (is another one|has another length) each time"):
        pd.compile(grows)


@pytest.mark.parametrize("results", [
    lambda x, y: (x - y) * 1, lambda x, y: (x + 1, y + 1), lambda x, y: pd.loop(2, lambda i, v: v * y, x),
])  # fmt: skip
def test_operands_that_change_places_are_refused(results: Callable[[Any, Any], Any]) -> None:
    counter = itertools.count()

    @pd.program
    def swaps(x: Annotated[np.ndarray, pd.f32["n"]], y: Annotated[np.ndarray, pd.f32["n"]]) -> Any:
        return results(x, y) if next(counter) % 2 else results(y, x)

    with pytest.raises(pd.CompileError, match=r"program 'swaps' is another one each time"):
        pd.compile(swaps)


def test_an_array_that_changes_while_it_is_traced() -> None:
    @pd.program
    def twice(x: Vector) -> Any:
        held = np.ones(1, np.float32)
        y = x + held
        held[0] = 5
        return y * held

    np.testing.assert_array_equal(twice(X), twice.python(X))
