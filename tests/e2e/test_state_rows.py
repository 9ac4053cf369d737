"""Updates of a global in a few runs of memory, such as a token in the caches of several heads, on every device."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydispatch as pd

TARGETS = {"cpu?workers=2": "cpu", "ptx-interpreter": "sm_80", "vulkan": "vulkan"}


def tensor(shape: Any, kind: str) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{kind}>"


def program(whole: tuple[int, ...], part: tuple[int, ...], kind: str = "f32") -> str:
    """Functions that put a part where the call says, and the same with a host command after it."""
    axes = range(len(whole))
    cache, update = tensor(whole, kind), tensor(part, kind)
    places = ", ".join(f"%p{i}" for i in axes)
    sizes, steps = ", ".join(map(str, part)), ", ".join("1" for _ in axes)
    zero = "0.0" if kind[0] != "i" else "0"
    arguments = f"%x: {update}, " + ", ".join(f"%p{i}: index" for i in axes)
    body = f"""
  %old = util.global.load @cache : {cache}
  %new = tensor.insert_slice %x into %old[{places}] [{sizes}] [{steps}] : {update} into {cache}
  util.global.store %new, @cache : {cache}"""
    return f"""
util.global private mutable @cache = dense<{zero}> : {cache}
flow.func private @look_at({cache})
func.func @put({arguments}) {{{body}
  return
}}
func.func @put_and_call({arguments}) {{{body}
  flow.call @look_at(%new) : ({cache}) -> ()
  return
}}
func.func @get() -> {cache} {{
  %c = util.global.load @cache : {cache}
  return %c : {cache}
}}"""


def load(name: str, source: str, command: Any = lambda *given: None) -> Any:
    device = pd.device(name)
    options = {} if name.startswith("cpu") else {"synchronous": True}
    provider = device.add_command("look_at", command, **options)
    loaded = device.load(pd.compile(source, targets=[TARGETS[name]]))
    device.remove_plugin(provider)
    return device, loaded


@st.composite
def updates(draw: Any) -> Any:
    rank = draw(st.integers(2, 4))
    whole = tuple(draw(st.integers(1, 6)) for _ in range(rank))
    part = tuple(draw(st.integers(1, n)) for n in whole)
    places = [tuple(draw(st.integers(0, n - m)) for n, m in zip(whole, part, strict=True)) for _ in range(3)]
    return whole, part, places, draw(st.sampled_from(["f32", "f64", "i8", "i4"]))


@settings(max_examples=25, deadline=None)
@given(updates())
def test_as_numpy(case: Any) -> None:
    whole, part, places, kind = case
    _, loaded = load("cpu?workers=2", program(whole, part, kind))
    dtype = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i4": ml_dtypes.int4}[kind]
    expected = np.zeros(whole, dtype)
    for number, place in enumerate(places):
        x = (np.arange(number, number + np.prod(part)).reshape(part) % 7).astype(dtype)
        expected[tuple(slice(p, p + n) for p, n in zip(place, part, strict=True))] = x
        loaded.put(x, *place)
        assert np.array_equal(np.asarray(loaded.get()), expected)


@pytest.mark.parametrize("name", TARGETS)
def test_only_the_runs_are_saved(name: str) -> None:
    heads, length, width = 4, 256, 16
    device, loaded = load(name, program((heads, length, width), (heads, 1, width)))
    size, row = 4 * heads * length * width, 4 * heads * width
    x = np.ones((heads, 1, width), np.float32)
    loaded.put(x, 0, 0, 0)
    before = device.memory()["live_bytes"]
    for place in range(1, 5):
        loaded.put(x, 0, place, 0)
    assert device.memory()["live_bytes"] - before < size / 4
    kept = np.asarray(loaded.get())
    assert kept.sum() * 4 == 5 * row and kept[:, :5].all()


@pytest.mark.parametrize("name", TARGETS)
def test_a_failure_undoes_every_run(name: str) -> None:
    seen = []

    def look_at(context: Any, cache: Any) -> None:
        seen.append(np.array(cache if isinstance(cache, np.ndarray) else cache.numpy()))
        raise ValueError("not today")

    _, loaded = load(name, program((3, 8, 4), (3, 1, 4)), look_at)
    x = np.full((3, 1, 4), 2, np.float32)
    loaded.put(x, 0, 3, 0)
    with pytest.raises(pd.CommandError, match="not today"):
        loaded.put_and_call(x + 1, 0, 3, 0)
    assert (seen[0][:, 3] == 3).all()
    kept = np.asarray(loaded.get())
    assert (kept[:, 3] == 2).all() and kept.sum() == 2 * 12
    with pytest.raises(pd.InvalidArgumentError, match=r"axis 1 .*: the (offset lies|slice ends) outside"):
        loaded.put(x, 0, 8, 0)
    assert np.array_equal(np.asarray(loaded.get()), kept)
