"""Constants that are computed from constants: by one function of the program, once, with the values that NumPy has."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.formats.program.program import disassemble

DEVICES = {"cpu": "cpu", "vulkan": "vulkan", "ptx-interpreter": "sm_80"}
TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i8": np.int8, "i64": np.int64}
Array = np.ndarray[Any, Any]
SMALL = 4096
"""Bytes that a device may need for a program by itself."""


def scaled(rows: int, columns: int, type_: str = "f32") -> str:
    """y = x + transpose(w) * s, with weights w and s of scope "m"."""
    mul = "arith.mulf" if type_.startswith("f") else "arith.muli"
    add = "arith.addf" if type_.startswith("f") else "arith.addi"
    w, t, s = f"tensor<{rows}x{columns}x{type_}>", f"tensor<{columns}x{rows}x{type_}>", f"tensor<{rows}x{type_}>"
    return f"""
    util.global private @w = #flow.parameter.named<"m"::"w"> : {w}
    util.global private @s = #flow.parameter.named<"m"::"s"> : {s}
    func.func @f(%x: {t}) -> {t} {{
      %w = util.global.load @w : {w}
      %s = util.global.load @s : {s}
      %e = tensor.empty() : {t}
      %t = linalg.transpose ins(%w : {w}) outs(%e : {t}) permutation = [1, 0]
      %p = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
          affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
          ins(%t, %s : {t}, {s}) outs(%e : {t}) {{
        ^bb0(%a: {type_}, %b: {type_}, %c: {type_}):
          %v = {mul} %a, %b : {type_}
          linalg.yield %v : {type_}
        }} -> {t}
      %y = {add} %x, %p : {t}
      return %y : {t}
    }}
    """


def filled(rng: np.random.Generator, shape: tuple[int, ...], type_: str) -> Array:
    if type_.startswith("f"):
        return rng.standard_normal(shape).astype(TYPES[type_])
    return rng.integers(-9, 9, shape).astype(TYPES[type_])


def numpy_of(value: Any) -> Array:
    return np.asarray(value if isinstance(value, np.ndarray) else value.numpy())


def expected(x: Array, w: Array, s: Array) -> Array:
    return np.asarray(x + w.T * s, dtype=x.dtype)


def close(found: Array, wanted: Array) -> None:
    assert found.dtype == wanted.dtype
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, wanted)


def embedded(text: str, **arrays: Array) -> str:
    """The program with weights inside."""
    for name in arrays:
        text = text.replace(f'#flow.parameter.named<"m"::"{name}">', f"dense_resource<{name}>")
    blobs = ", ".join(f'{n}: "0x08000000{a.tobytes().hex()}"' for n, a in arrays.items())
    return text + "{-# dialect_resources: { builtin: { " + blobs + " } } #-}"


def live(device: Any) -> int:
    gc.collect()
    return int(device.memory()["live_bytes"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(4))
def test_derived_values_are_numpys(device: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    type_ = [*TYPES][int(rng.integers(3))] if device == "vulkan" else [*TYPES][seed % len(TYPES)]
    type_ = "f32" if device == "vulkan" and type_ == "f64" else type_
    rows, columns = (int(n) for n in rng.integers(40, 120, 2))
    artifact = pd.compile(scaled(rows, columns, type_=type_), targets=DEVICES[device])
    assert "derived by function" in disassemble(artifact.read("program.bin"))
    opened = pd.device(device)
    x, w, s = (filled(rng, n, type_) for n in ((columns, rows), (rows, columns), (rows,)))
    with opened.load(artifact, parameters={"m": {"w": w, "s": s}}) as program:
        for _ in range(2):
            close(numpy_of(program.f(x)), expected(x, w, s))
        prepared = program.f.prepare(x)
        close(numpy_of(prepared()), expected(x, w, s))


@pytest.mark.parametrize("device", DEVICES)
def test_each_load_has_its_own_parameters(device: str) -> None:
    rng = np.random.default_rng(5)
    artifact = pd.compile(scaled(64, 70), targets=DEVICES[device])
    opened = pd.device(device)
    x, w, s = (filled(rng, n, "f32") for n in ((70, 64), (64, 70), (64,)))
    first = opened.load(artifact, parameters={"m": {"w": w, "s": s}})
    before = numpy_of(first.f(x))
    other = 2 * w + 1
    second = opened.load(artifact, parameters={"m": {"w": other, "s": s}})
    close(numpy_of(second.f(x)), expected(x, other, s))
    np.testing.assert_array_equal(numpy_of(first.f(x)), before)


@pytest.mark.parametrize(
    ("device", "way"),
    [("cpu", "same"), ("cpu", "path"), ("cpu", "bytes"), ("vulkan", "path"), ("ptx-interpreter", "bytes")],
)
def test_equal_artifacts_share_memory_and_free_it(device: str, way: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    x, w, s = (filled(rng, n, "f32") for n in ((96, 64), (64, 96), (64,)))
    artifact = pd.compile(embedded(scaled(64, 96), w=w, s=s), targets=DEVICES[device])
    artifact.save(tmp_path / "a.pdx")
    source: Any = {
        "same": artifact, "path": tmp_path / "a.pdx", "bytes": (tmp_path / "a.pdx").read_bytes()
    }[way]  # fmt: skip
    opened = pd.device(device)
    start = live(opened)
    first, second = opened.load(artifact), opened.load(source)
    assert live(opened) == start  # nothing runs before the first call
    close(numpy_of(first.f(x)), expected(x, w, s))
    size = live(opened) - start
    assert w.nbytes <= size < 2 * w.nbytes
    close(numpy_of(second.f(x)), expected(x, w, s))
    assert live(opened) - start <= size + SMALL
    first.close()
    del first
    close(numpy_of(second.f(x)), expected(x, w, s))
    assert live(opened) - start <= size + SMALL
    second.close()
    del second
    assert live(opened) == start


@pytest.mark.parametrize("device", DEVICES)
def test_artifacts_that_differ_in_a_weight_share_nothing(device: str) -> None:
    rng = np.random.default_rng(7)
    x, w, s = (filled(rng, n, "f32") for n in ((70, 64), (64, 70), (64,)))
    other = w.copy()
    other[3, 5] += 1
    opened = pd.device(device)
    programs = [
        opened.load(pd.compile(embedded(scaled(64, 70), w=one, s=s), targets=DEVICES[device])) for one in (w, other)
    ]
    for program, one in zip(programs, (w, other), strict=True):
        close(numpy_of(program.f(x)), expected(x, one, s))


@pytest.mark.parametrize("device", DEVICES)
def test_threads_that_call_at_once(device: str) -> None:
    rng = np.random.default_rng(8)
    x, w, s = (filled(rng, n, "f32") for n in ((96, 64), (64, 96), (64,)))
    artifact = pd.compile(embedded(scaled(64, 96), w=w, s=s), targets=DEVICES[device])
    opened = pd.device(device)
    found: list[Array] = []
    start = threading.Barrier(6)

    def work() -> None:
        program = opened.load(artifact)
        start.wait()
        found.append(numpy_of(program.f(x)).copy())

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    for one in found:
        close(one, expected(x, w, s))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_derives_for_itself() -> None:
    rng = np.random.default_rng(9)
    x, w, s = (filled(rng, n, "f32") for n in ((70, 64), (64, 70), (64,)))
    program = pd.device("cpu").load(pd.compile(embedded(scaled(64, 70), w=w, s=s), targets="cpu"))
    child = os.fork()
    if child == 0:
        os._exit(0 if np.allclose(program.f(x), expected(x, w, s), atol=1e-5) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    close(program.f(x), expected(x, w, s))


BRANCH = """
util.global private @w = #flow.parameter.named<"m"::"w"> : tensor<64x70xf32>
func.func @f(%x: tensor<70x64xf32>, %c: i1) -> tensor<70x64xf32> {
  %w = util.global.load @w : tensor<64x70xf32>
  %e = tensor.empty() : tensor<70x64xf32>
  %t = linalg.transpose ins(%w : tensor<64x70xf32>) outs(%e : tensor<70x64xf32>) permutation = [1, 0]
  %r = scf.if %c -> tensor<70x64xf32> {
    %y = arith.addf %x, %t : tensor<70x64xf32>
    scf.yield %y : tensor<70x64xf32>
  } else {
    scf.yield %t : tensor<70x64xf32>
  }
  return %r : tensor<70x64xf32>
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_branches_read_derived_constants(device: str) -> None:
    rng = np.random.default_rng(10)
    x, w = filled(rng, (70, 64), "f32"), filled(rng, (64, 70), "f32")
    program = pd.device(device).load(pd.compile(BRANCH, targets=DEVICES[device]), parameters={"m": {"w": w}})
    assert "derived by function" in disassemble(pd.compile(BRANCH, targets=DEVICES[device]).read("program.bin"))
    np.testing.assert_array_equal(numpy_of(program.f(x, False)), w.T)
    np.testing.assert_array_equal(numpy_of(program.f(x, True)), x + w.T)


def derived_count(text: str) -> int:
    return disassemble(pd.compile(text, targets="cpu").read("program.bin")).count("derived by function")


def test_what_costs_memory_stays_in_kernels() -> None:
    broadcast = """
    util.global private @b = #flow.parameter.named<"m"::"b"> : tensor<2048xf32>
    func.func @f(%x: tensor<16x2048xf32>) -> tensor<16x2048xf32> {
      %b = util.global.load @b : tensor<2048xf32>
      %e = tensor.empty() : tensor<16x2048xf32>
      %w = linalg.broadcast ins(%b : tensor<2048xf32>) outs(%e : tensor<16x2048xf32>) dimensions = [0]
      %y = arith.addf %x, %w : tensor<16x2048xf32>
      return %y : tensor<16x2048xf32>
    }
    """
    widened = """
    util.global private @b = #flow.parameter.named<"m"::"b"> : tensor<64x2048xi8>
    func.func @f(%x: tensor<64x2048xf32>) -> tensor<64x2048xf32> {
      %b = util.global.load @b : tensor<64x2048xi8>
      %w = arith.sitofp %b : tensor<64x2048xi8> to tensor<64x2048xf32>
      %y = arith.addf %x, %w : tensor<64x2048xf32>
      return %y : tensor<64x2048xf32>
    }
    """
    assert derived_count(broadcast) == derived_count(widened) == 0


def test_functions_with_equal_constants_derive_them_once() -> None:
    text = scaled(64, 70)
    second = text[text.index("func.func") :].replace("@f", "@g")
    assert derived_count(text) == derived_count(text + second) == 1
