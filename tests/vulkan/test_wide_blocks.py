"""Products whose factors are read two elements at a time, against NumPy in f64 and in whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydispatch as pd

KINDS = {
    "plain": ("affine_map<(d0, d1, d2) -> (d0, d2)>", "affine_map<(d0, d1, d2) -> (d2, d1)>", "mk,kn->mn"),
    "right turned": ("affine_map<(d0, d1, d2) -> (d0, d2)>", "affine_map<(d0, d1, d2) -> (d1, d2)>", "mk,nk->mn"),
    "left turned": ("affine_map<(d0, d1, d2) -> (d2, d0)>", "affine_map<(d0, d1, d2) -> (d2, d1)>", "km,kn->mn"),
}


def product(kind: str, m: int, n: int, k: int, element: str = "f32", config: str = "") -> str:
    """The product of two factors, scaled by an element per column behind it."""
    left, right, letters = KINDS[kind]
    sizes = {"m": m, "n": n, "k": k}
    a, b = ("x".join(str(sizes[c]) for c in part) for part in letters.split("->")[0].split(","))
    kind_of = "f" if element[0] == "f" else "i"
    zero = "0.0" if kind_of == "f" else "0"
    t = f"tensor<{m}x{n}x{element}>"
    target = f'#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb"{config}>'
    return f"""
    #t = {target}
    module attributes {{hal.device.targets = [#hal.device.target<"vulkan", [#t]>]}} {{
    func.func @f(%a: tensor<{a}x{element}>, %b: tensor<{b}x{element}>, %s: tensor<{n}x{element}>) -> {t} {{
      %z = arith.constant {zero} : {element}
      %e = tensor.empty() : {t}
      %f = linalg.fill ins(%z : {element}) outs(%e : {t}) -> {t}
      %c = linalg.generic {{indexing_maps = [{left}, {right}, affine_map<(d0, d1, d2) -> (d0, d1)>],
          iterator_types = ["parallel", "parallel", "reduction"]}}
          ins(%a, %b : tensor<{a}x{element}>, tensor<{b}x{element}>) outs(%f : {t}) {{
      ^bb0(%x: {element}, %y: {element}, %o: {element}):
        %p = arith.mul{kind_of} %x, %y : {element}
        %q = arith.add{kind_of} %p, %o : {element}
        linalg.yield %q : {element}
      }} -> {t}
      %d = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>,
          affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}}
          ins(%c, %s : {t}, tensor<{n}x{element}>) outs(%e : {t}) {{
      ^bb0(%x: {element}, %y: {element}, %o: {element}):
        %p = arith.mul{kind_of} %x, %y : {element}
        linalg.yield %p : {element}
      }} -> {t}
      return %d : {t}
    }} }}"""


def needs_int64(artifact: Any) -> bool:
    """Whether some shader of an artifact has integers of 64 bits."""
    return any("Int64" in variant.requires for e in artifact.executables for variant in e.variants)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "n", "k", "element"), [(16, 128, 34, "f32"), (8, 512, 6, "f32"), (24, 256, 2, "i32"),
                                                      (2, 1024, 64, "f32"), (4, 128, 64, "i32")])  # fmt: skip
def test_products(kind: str, m: int, n: int, k: int, element: str) -> None:
    rng = np.random.default_rng(3)
    letters = KINDS[kind][2]
    sizes = {"m": m, "n": n, "k": k}
    shapes = [[sizes[c] for c in part] for part in letters.split("->")[0].split(",")]
    dtype = np.float32 if element == "f32" else np.int32
    a, b, s = (rng.integers(-9, 9, shape).astype(dtype) for shape in (*shapes, [n]))
    artifact = pd.compile(product(kind, m, n, k, element), targets="vulkan")
    assert needs_int64(artifact)
    program: Any = pd.device("vulkan:0").load(artifact)
    np.testing.assert_array_equal(np.asarray(program.f(a, b, s)), np.einsum(letters, a, b) * s)


@pytest.mark.parametrize(("m", "n", "k", "config"), [(16, 128, 34, ", {int64 = false}"), (16, 130, 34, ""),
                                                     (15, 128, 34, ""), (16, 128, 33, "")])  # fmt: skip
def test_products_that_are_read_one_by_one(m: int, n: int, k: int, config: str) -> None:
    rng = np.random.default_rng(3)
    a, b, s = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((m, k), (k, n), (n,)))
    artifact = pd.compile(product("plain", m, n, k, config=config), targets="vulkan" if not config else None)
    assert not needs_int64(artifact)
    program: Any = pd.device("vulkan:0").load(artifact)
    np.testing.assert_array_equal(np.asarray(program.f(a, b, s)), a @ b * s)
