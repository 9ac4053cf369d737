"""State whose rows are updated at computed positions: it is updated in place, and behaves as if it were copied."""

from __future__ import annotations

import re
import threading
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

TARGETS = {"cpu?workers=2": "cpu", "ptx-interpreter": "sm_80", "vulkan": "vulkan", "webgpu": "webgpu"}
LAYERS, PAGES, SIZE, WIDTH, COUNT = 2, 16, 8, 4, 3
SHAPE = LAYERS, PAGES, SIZE, WIDTH
CACHE_BYTES = 4 * LAYERS * PAGES * SIZE * WIDTH

Rows = Annotated[np.ndarray, pd.f32[COUNT, WIDTH]]
Index = Annotated[np.ndarray, pd.i64[COUNT]]
Column = Annotated[np.ndarray, pd.f32[LAYERS, PAGES, WIDTH]]


def paged() -> dict[str, Any]:
    """Return programs over one cache of pages."""
    cache, position = pd.state(np.zeros(SHAPE, np.float32)), pd.state(np.zeros((), np.int64))

    @pd.program
    def put(k: Rows, pages: Index, offsets: Index) -> Any:
        """Store rows in both layers, and read them where they are."""
        c = cache.value.copy()
        c[1, pages, offsets] = k
        c[0, pages, offsets] = k * 2
        cache.value = c
        return c[:, pages].sum(axis=(2, 3))

    @pd.program
    def put_and_give(k: Rows, pages: Index, offsets: Index) -> Any:
        """Store rows, and return the cache before and after."""
        old = cache.value
        c = old.copy()
        c[1, pages, offsets] = k
        cache.value = c
        return old + 0, c

    @pd.program
    def layers(k: Rows, pages: Index, offsets: Index) -> Any:
        """Store rows that depend on what a layer reads, layer by layer, and end with a loop, as a decoder does."""
        c = cache.value.copy()
        for layer in range(LAYERS):
            c[layer, pages, offsets] = k
            k = k + c[layer, pages].sum(axis=1)
        cache.value = c
        return pd.loop(3, lambda i, v: v + i, k)

    @pd.program
    def append(k: Column) -> Any:
        """Store rows at a position that is state, too, and is loaded after the cache."""
        c = cache.value.copy()
        c[:, :, position.value] = k
        cache.value = c
        position.value = position.value + 1
        return position.value + 0

    @pd.program
    def get() -> Any:
        return cache.value + 0

    return {"put": put, "put_and_give": put_and_give, "layers": layers, "append": append, "get": get}


class Model:
    """What NumPy makes of the same calls."""

    def __init__(self) -> None:
        self.cache = np.zeros(SHAPE, np.float32)

    def store(self, layer: int, k: Any, pages: Any, offsets: Any) -> None:
        for row, page, offset in zip(k, pages, offsets, strict=True):
            page, offset = page + PAGES * (page < 0), offset + SIZE * (offset < 0)
            if 0 <= page < PAGES and 0 <= offset < SIZE:
                self.cache[layer, page, offset] = row

    def put(self, k: Any, pages: Any, offsets: Any) -> None:
        self.store(1, k, pages, offsets)
        self.store(0, k * 2, pages, offsets)


@pytest.fixture(scope="module")
def artifact() -> Any:
    return pd.compile(paged(), targets=list(TARGETS.values()))


def calls(seed: int, count: int) -> Any:
    """Draw arguments, with positions twice and outside among them."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        k = random.integers(1, 99, (COUNT, WIDTH)).astype(np.float32)
        yield k, random.integers(-PAGES - 1, PAGES + 1, COUNT), random.integers(-1, SIZE + 1, COUNT)


@pytest.mark.parametrize("name", TARGETS)
def test_as_numpy(name: str, artifact: Any) -> None:
    loaded, model = pd.device(name).load(artifact), Model()
    for step, arguments in enumerate(calls(1, 6)):
        k, pages, offsets = arguments
        inside = np.clip(pages + PAGES * (pages < 0), 0, PAGES - 1)
        if step % 3 == 0:
            for layer in range(LAYERS):
                model.store(layer, k, pages, offsets)
                k = k + model.cache[layer, inside].sum(axis=1)
            assert np.array_equal(np.asarray(loaded.layers(*arguments)), k + 3)
        elif step % 3 == 1:
            before = model.cache.copy()
            model.store(1, *arguments)
            old, new = loaded.put_and_give(*arguments)
            assert np.array_equal(np.asarray(old), before) and np.array_equal(np.asarray(new), model.cache)
        else:
            model.put(*arguments)
            shown = model.cache[:, inside].sum(axis=(2, 3))
            assert np.array_equal(np.asarray(loaded.put(*arguments)), shown)
        assert np.array_equal(np.asarray(loaded.get()), model.cache)


@pytest.mark.parametrize("name", TARGETS)
def test_the_cache_is_not_copied(name: str, artifact: Any) -> None:
    device = pd.device(name)
    loaded = device.load(artifact)
    (first,) = calls(2, 1)
    loaded.layers(*first)
    before = device.memory()
    for arguments in calls(3, 3):
        loaded.layers(*arguments)
    grown = {name: device.memory()[name] - before[name] for name in ("live_bytes", "peak_bytes")}
    assert max(grown.values()) < CACHE_BYTES / 2  # the first call copied the initial value, the others nothing


def test_a_position_that_is_state(artifact: Any) -> None:
    loaded, model = pd.device("cpu").load(artifact), np.zeros(SHAPE, np.float32)
    for step in range(SIZE + 2):  # the last ones are outside of the cache
        k = np.random.default_rng(step).standard_normal((LAYERS, PAGES, WIDTH), np.float32)
        if step < SIZE:
            model[:, :, step] = k
        assert loaded.append(k) == step + 1
        assert np.array_equal(loaded.get(), model)


def test_sessions_and_programs_have_their_own(artifact: Any) -> None:
    loaded = pd.device("cpu?workers=2").load(artifact)
    other, model, models = loaded.session(), Model(), Model()
    for step, arguments in enumerate(calls(4, 4)):
        (loaded if step % 2 else other).put(*arguments)
        (model if step % 2 else models).put(*arguments)
    assert np.array_equal(loaded.get(), model.cache) and np.array_equal(other.get(), models.cache)


ROWS, INDEXED = 32, 6
TEXT = f"""
util.global private mutable @cache = dense<0.0> : tensor<{ROWS}x2x4xf32>
flow.func private @look_at(tensor<{ROWS}x2x4xf32>)
func.func @put(%k: tensor<?x2x4xf32>, %at: tensor<?xi32>) {{
  %old = util.global.load @cache : tensor<{ROWS}x2x4xf32>
  %new = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
    ins(%k, %at : tensor<?x2x4xf32>, tensor<?xi32>) outs(%old : tensor<{ROWS}x2x4xf32>) {{
  ^bb0(%a: f32, %b: f32):
    %sum = arith.addf %a, %b : f32
    iree_linalg_ext.yield %sum : f32
  }} -> tensor<{ROWS}x2x4xf32>
  util.global.store %new, @cache : tensor<{ROWS}x2x4xf32>
  flow.call @look_at(%new) : (tensor<{ROWS}x2x4xf32>) -> ()
  return
}}
func.func @put_at(%k: tensor<2x4xf32>, %i: tensor<i64>) {{
  %old = util.global.load @cache : tensor<{ROWS}x2x4xf32>
  %new = iree_linalg_ext.map_store %k into %old {{
  ^bb0(%a: index, %b: index):
    %yes = arith.constant true
    %e = tensor.extract %i[] : tensor<i64>
    %p = arith.index_cast %e : i64 to index
    iree_linalg_ext.yield %p, %a, %b, %yes : index, index, index, i1
  }} : tensor<2x4xf32> into tensor<{ROWS}x2x4xf32> -> tensor<{ROWS}x2x4xf32>
  util.global.store %new, @cache : tensor<{ROWS}x2x4xf32>
  flow.call @look_at(%new) : (tensor<{ROWS}x2x4xf32>) -> ()
  return
}}
func.func @put_twice(%k: tensor<?x2x4xf32>, %at: tensor<?xi32>, %l: tensor<?x2x4xf32>, %to: tensor<?xi32>) {{
  %old = util.global.load @cache : tensor<{ROWS}x2x4xf32>
  %mid = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
    ins(%k, %at : tensor<?x2x4xf32>, tensor<?xi32>) outs(%old : tensor<{ROWS}x2x4xf32>) {{
  ^bb0(%a: f32, %b: f32):
    iree_linalg_ext.yield %a : f32
  }} -> tensor<{ROWS}x2x4xf32>
  %new = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
    ins(%l, %to : tensor<?x2x4xf32>, tensor<?xi32>) outs(%mid : tensor<{ROWS}x2x4xf32>) {{
  ^bb0(%a: f32, %b: f32):
    iree_linalg_ext.yield %a : f32
  }} -> tensor<{ROWS}x2x4xf32>
  util.global.store %new, @cache : tensor<{ROWS}x2x4xf32>
  flow.call @look_at(%new) : (tensor<{ROWS}x2x4xf32>) -> ()
  return
}}
func.func @get() -> tensor<{ROWS}x2x4xf32> {{
  %c = util.global.load @cache : tensor<{ROWS}x2x4xf32>
  return %c : tensor<{ROWS}x2x4xf32>
}}"""


@pytest.mark.parametrize("name", TARGETS)
def test_failures_and_readers_see_the_old_rows(name: str) -> None:
    device = pd.device(name)
    is_cpu = name.startswith("cpu")
    places, values, old = [], [], []
    fails = False

    def look_at(context: Any, cache: Any) -> None:
        places.append(cache.ctypes.data if is_cpu else None)
        values.append(np.array(cache if is_cpu else cache.numpy()))
        if is_cpu:  # a reader on another thread does not wait for this call
            reader = threading.Thread(target=lambda: old.append(loaded.get()))
            reader.start()
            reader.join()
        if fails:
            raise ValueError("not today")

    provider = device.add_command("look_at", look_at, **({} if is_cpu else {"synchronous": True}))
    loaded = device.load(pd.compile(TEXT, targets=[TARGETS[name]]))
    device.remove_plugin(provider)
    random, model = np.random.default_rng(5), np.zeros((ROWS, 2, 4), np.float32)
    for step in range(8):
        before, fails = model.copy(), step in (3, 6)
        count = 1 if step % 2 else INDEXED
        k = random.integers(1, 9, (count, 2, 4)).astype(np.float32)
        at = random.integers(-1, 5, count).astype(np.int32)  # some of them twice, some of them outside
        expected = model.copy()
        if step % 2:
            at = np.maximum(at, 0)
            expected[at[0]] = k[0]
            arguments = loaded.put_at, k[0], np.int64(at[0])
        else:
            np.add.at(expected, at[at >= 0], k[at >= 0])
            arguments = loaded.put, k, at
        if fails:
            with pytest.raises(pd.CommandError, match="not today"):
                arguments[0](*arguments[1:])
        else:
            arguments[0](*arguments[1:])
            model = expected
        assert np.array_equal(values[-1], expected)
        assert np.array_equal(np.asarray(loaded.get()), model), step
        assert not is_cpu or np.array_equal(old[-1], before)
    assert len(set(places)) == 1  # the first call copied the initial value, the others nothing


def test_failures_after_several_updates() -> None:
    """Rows of one update, or of two, or more rows than are saved."""
    device, fails = pd.device("cpu"), False

    def look_at(context: Any, cache: Any) -> None:
        if fails:
            raise ValueError("not today")

    provider = device.add_command("look_at", look_at)
    loaded = device.load(pd.compile(TEXT, targets="cpu"))
    device.remove_plugin(provider)
    random, model = np.random.default_rng(6), np.zeros((ROWS, 2, 4), np.float32)
    for first, second in ((2, 3), (2, ROWS), (ROWS, 2), (0, 1), (3, 0), (5, 5)):
        parts = [random.standard_normal((count, 2, 4), np.float32) for count in (first, second)]
        places = [random.permutation(ROWS)[:count].astype(np.int32) for count in (first, second)]
        arguments = parts[0], places[0], parts[1], places[1]
        for fails in (True, False):
            if fails:
                with pytest.raises(pd.CommandError, match="not today"):
                    loaded.put_twice(*arguments)
            else:
                loaded.put_twice(*arguments)
                model[places[0]] = parts[0]
                model[places[1]] = parts[1]
            assert np.array_equal(loaded.get(), model)


@pytest.mark.parametrize("name", ["put", "layers", "append"])
def test_a_plan_copies_the_cache_once(name: str) -> None:
    """A plan has one copy, from the global to the result, which does nothing where both are one memory."""
    plan = compile_to("program", paged()[name])
    assert len(re.findall("region .*: copy buffer", plan)) == 1
    (size,) = re.findall(rf"(r\d+) = {CACHE_BYTES}\n", plan)
    assert f"result 0, {size} bytes" in plan and not re.search(rf"transient .*, {size} bytes", plan)


def test_what_is_saved() -> None:
    """Rows are saved only where the update is known to be the only write to the memory of the global."""
    text = compile_to("dispatches", TEXT)
    assert text.count("pyd.save_rows") == 4
    assert text.count("tensor<?x2x4xf32> -> tensor<32x2x4xf32>") == 3  # all but that of the map_store
    branch = TEXT.replace("return\n", "flow.call @change(%new) : (tensor<32x2x4xf32>) -> %new\n  return\n")
    branch = branch.replace("flow.func", f"flow.func private @change(%c: tensor<{ROWS}x2x4xf32>) -> %c\nflow.func", 1)
    assert "pyd.save_rows" not in compile_to("dispatches", branch)
    assert "pyd.save_rows" not in compile_to("dispatches", re.sub("util.global.store .*", "", TEXT))


COMPLEX_STATE = """
util.global private mutable @state : tensor<4xcomplex<f32>>
func.func @set(%x: tensor<4xcomplex<f32>>) {
  util.global.store %x, @state : tensor<4xcomplex<f32>>
  return
}
func.func @swap(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %old = util.global.load @state : tensor<4xcomplex<f32>>
  util.global.store %x, @state : tensor<4xcomplex<f32>>
  return %old : tensor<4xcomplex<f32>>
}
"""


def test_state_of_complex_elements_is_replaced() -> None:
    program = pd.device("cpu").load(pd.compile(COMPLEX_STATE, targets="cpu"))
    x = (np.arange(4) * (1 + 2j)).astype(np.complex64)
    program.set(x)
    np.testing.assert_array_equal(program.swap(2 * x), x)
    np.testing.assert_array_equal(program.swap(x), 2 * x)
