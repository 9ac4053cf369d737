"""Kernels with more constants than every device has push constants for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydispatch as pd


def program(count: int) -> str:
    """y = x + s0 + s1 + ..., and the same twice as much: two executables with different numbers of constants."""
    names = ", ".join(f"%s{i}: f32" for i in range(count))
    values = ", ".join(f"%s{i}" for i in range(count))
    types = ", ".join(["f32"] * count)
    adds = "\n".join(f"%t{i + 1} = arith.addf %t{i}, %s{i} : f32" for i in range(count)).replace("%t0", "%x")
    return f"""
    func.func private @sum(%a: tensor<?xf32>, {names}) -> tensor<?xf32> {{
      %c0 = arith.constant 0 : index
      %n = tensor.dim %a, %c0 : tensor<?xf32>
      %e = tensor.empty(%n) : tensor<?xf32>
      %r = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
          iterator_types = ["parallel"]}} ins(%a : tensor<?xf32>) outs(%e : tensor<?xf32>) {{
      ^bb0(%x: f32, %o: f32):
        {adds}
        linalg.yield %t{count} : f32
      }} -> tensor<?xf32>
      return %r : tensor<?xf32>
    }}
    func.func @f(%a: tensor<?xf32>, {names}) -> tensor<?xf32> {{
      %r = func.call @sum(%a, {values}) : (tensor<?xf32>, {types}) -> tensor<?xf32>
      return %r : tensor<?xf32>
    }}"""


@pytest.mark.parametrize("count", [30, 31, 40, 62])
def test_scalars(device: Any, count: int) -> None:
    artifact = pd.compile(program(count), targets="vulkan")
    f = device.load(artifact).f
    spilled = artifact.executables[0].variants[0].extra["spirv"]["spilled"]
    assert spilled == [count + 2 > 32]  # the size is two words
    rng = np.random.default_rng(1)
    for n in (5, 1000):
        x = rng.integers(-9, 9, n).astype(np.float32)
        for _ in range(2):
            scalars = [float(v) for v in rng.integers(-9, 9, count)]
            np.testing.assert_array_equal(np.asarray(f(x, *scalars)), x + np.float32(sum(scalars)))
        prepared = f.prepare(x, *scalars)
        np.testing.assert_array_equal(np.asarray(prepared()), x + np.float32(sum(scalars)))
        np.testing.assert_array_equal(np.asarray(prepared(x, *scalars[::-1])), x + np.float32(sum(scalars)))
        assert f.profile(x, *scalars)[0].seconds >= 0


def test_what_the_constants_take_is_given_back() -> None:
    device: Any = pd.device("vulkan:0")
    f = device.load(pd.compile(program(40), targets="vulkan")).f
    x = np.ones(64, np.float32)
    for turn in range(100):
        f(x, *[float(turn)] * 40)
    first = device.memory()["peak_bytes"]
    for turn in range(200):
        f(x, *[float(turn)] * 40)
    assert device.memory()["peak_bytes"] == first


def test_exports_of_one_module_have_constants_of_their_own() -> None:
    from pydispatch.compiler.emit.spirv.emitter import emit_module
    from pydispatch.compiler.kernel_ir.kernel import Binding, Export, Layout
    from pydispatch.formats.spirv.reflect import reflect
    from pydispatch.ir import parse

    functions = "".join(
        f"""func.func @k{n}() {{
          %b = hal.interface.binding.subspan binding(0) : memref<1xi32>
          %c0 = arith.constant 0 : index
          %v = hal.interface.constant.load[{n - 1}] : i32
          memref.store %v, %b[%c0] : memref<1xi32>
          func.return
        }}\n"""
        for n in (1, 3, 40)
    )
    exports = tuple(Export(f"k{n}", i, Layout(n, (Binding(),))) for i, n in enumerate((1, 3, 40)))
    found = reflect(emit_module(parse(functions, "kernel.mlir"), exports), "module").entry_points
    shown = [(e.name, e.push_constant_bytes, len(e.resources)) for e in found]
    assert shown == [("k1", 4, 1), ("k3", 12, 1), ("k40", 0, 2)]
