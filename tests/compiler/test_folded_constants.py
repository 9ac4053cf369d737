"""Small tensors that are computed from constants alone are constants of the artifact, with the values of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to
from pydispatch.formats.program.program import disassemble

NORM = """
func.func @f(%x: tensor<4x100xf32>) -> tensor<4x100xf32> {
  %g = arith.constant dense_resource<g> : tensor<100xf32>
  %v = arith.constant dense_resource<v> : tensor<100xf32>
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<100xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%g, %v : tensor<100xf32>, tensor<100xf32>) outs(%e : tensor<100xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = arith.addf %b, %eps : f32
    %2 = math.rsqrt %1 : f32
    %3 = arith.mulf %a, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<100xf32>
  %w = tensor.empty() : tensor<4x100xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<4x100xf32>, tensor<100xf32>) outs(%w : tensor<4x100xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = arith.mulf %a, %b : f32
    linalg.yield %1 : f32
  } -> tensor<4x100xf32>
  return %y : tensor<4x100xf32>
}
"""


def resources(text: str, **arrays: np.ndarray[Any, Any]) -> str:
    blobs = ", ".join(f'{n}: "0x08000000{a.tobytes().hex()}"' for n, a in arrays.items())
    return text + "{-# dialect_resources: { builtin: { " + blobs + " } } #-}"


def test_the_scale_of_a_norm() -> None:
    rng = np.random.default_rng(0)
    g, v = rng.standard_normal(100, dtype=np.float32), rng.uniform(0.5, 2, 100).astype(np.float32)
    text = resources(NORM, g=g, v=v)
    assert "rsqrt" not in compile_to("dispatches", text)
    artifact = pd.compile(text, targets="cpu")
    assert "derived by" not in disassemble(artifact.read("program.bin"))
    assert [name for name in artifact.members if name.startswith("constants/")] == ["constants/0.npy"]
    x = rng.standard_normal((4, 100), dtype=np.float32)
    found = pd.device("cpu").load(artifact).f(x)
    np.testing.assert_allclose(found, x * (g / np.sqrt(v + np.float32(1e-5))), rtol=1e-6)


OPS = {
    "arith.addf": ("f32", "f32"), "arith.subf": ("f64", "f64"), "arith.mulf": ("f16", "f16"),
    "arith.divf": ("f32", "f32"), "arith.addi": ("i8", "i8"), "arith.subi": ("i32", "i32"),
    "arith.muli": ("i16", "i16"), "arith.andi": ("i32", "i32"), "arith.ori": ("i64", "i64"),
    "arith.xori": ("i8", "i8"), "math.powf": ("f32", "f32"),
    "math.sqrt": ("f32",), "math.rsqrt": ("f32",), "math.exp": ("f32",), "math.log": ("f32",), "math.tanh": ("f32",),
    "math.sin": ("f32",), "math.cos": ("f32",), "arith.negf": ("f16",), "math.absf": ("f32",),
    "arith.extf f64": ("f32",), "arith.truncf f16": ("f32",), "arith.sitofp f32": ("i32",),
    "arith.uitofp f32": ("i8",), "arith.extsi i32": ("i8",), "arith.extui i32": ("i8",), "arith.trunci i8": ("i32",),
    "arith.trunci i1": ("i32",),
}  # fmt: skip


@pytest.mark.parametrize("row", OPS)
def test_an_operation_has_the_value_of_its_kernel(row: str) -> None:
    name, _, to = row.partition(" ")
    types = OPS[row]
    result = to or types[0]
    rng = np.random.default_rng(len(row))
    numpy = {"f16": "f2", "f32": "f4", "f64": "f8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8"}
    arrays = [
        (rng.uniform(0.1, 4, (5, 30)) if t[0] == "f" else rng.integers(-128, 127, (5, 30))).astype(numpy[t])
        for t in types
    ]  # fmt: skip

    def program(known: bool) -> str:
        """The operation on a transposed first operand; its operands are constants, or arguments."""
        shapes = [f"tensor<5x30x{t}>" for t in types]
        loads = [f"%x{i} = arith.constant dense_resource<x{i}> : {t}" for i, t in enumerate(shapes)]
        arguments = ", ".join(f"%x{i}: {t}" for i, t in enumerate(shapes))
        maps = ", ".join(["affine_map<(i, j) -> (j, i)>"] * len(types))
        inner = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
        operands = ", ".join(f"%a{i}" for i in range(len(types)))
        typed = f"{types[0]} to {to}" if to else types[0]
        return f"""
        func.func @f({"" if known else arguments}) -> tensor<30x5x{result}> {{
          {chr(10).join(loads) if known else ""}
          %e = tensor.empty() : tensor<30x5x{result}>
          %y = linalg.generic {{indexing_maps = [{maps}, affine_map<(i, j) -> (i, j)>],
              iterator_types = ["parallel", "parallel"]}}
              ins({", ".join(f"%x{i}" for i in range(len(types)))} : {", ".join(shapes)})
              outs(%e : tensor<30x5x{result}>) {{
          ^bb0({inner}, %o: {result}):
            %v = {name} {operands} : {typed}
            linalg.yield %v : {result}
          }} -> tensor<30x5x{result}>
          return %y : tensor<30x5x{result}>
        }}
        """

    text = resources(program(True), **{f"x{i}": a for i, a in enumerate(arrays)})
    assert "flow.dispatch" not in compile_to("dispatches", text)
    found = pd.device("cpu").load(pd.compile(text, targets="cpu")).f()
    wanted = pd.device("cpu").load(pd.compile(program(False), targets="cpu")).f(*arrays)
    assert found.dtype == wanted.dtype
    if name.startswith("math.") and name not in ("math.sqrt", "math.absf"):
        np.testing.assert_allclose(found, wanted, rtol=2e-6)
    else:
        np.testing.assert_array_equal(found, wanted)


def test_positions() -> None:
    text = """
    func.func @f(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %k = arith.constant 0.25 : f32
      %e = tensor.empty() : tensor<8x16xf32>
      %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
          outs(%e : tensor<8x16xf32>) {
      ^bb0(%o: f32):
        %i = linalg.index 0 : index
        %n = arith.index_cast %i : index to i32
        %p = arith.sitofp %n : i32 to f32
        %a = arith.mulf %p, %k : f32
        %s = math.sin %a : f32
        linalg.yield %s : f32
      } -> tensor<8x16xf32>
      %y = arith.addf %x, %t : tensor<8x16xf32>
      return %y : tensor<8x16xf32>
    }
    """
    assert "math.sin" not in compile_to("dispatches", text)
    x = np.zeros((8, 16), np.float32)
    found = pd.device("cpu").load(pd.compile(text, targets="cpu")).f(x)
    wanted = np.sin(np.arange(8, dtype=np.float32) * np.float32(0.25))[:, None]
    np.testing.assert_allclose(found, np.broadcast_to(wanted, (8, 16)), rtol=1e-6, atol=1e-7)


def test_tensors_without_dimensions() -> None:
    text = """
    func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
      %c = arith.constant dense<2.0> : tensor<f32>
      %d = arith.addf %c, %c : tensor<f32>
      %e = tensor.empty() : tensor<3xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
          iterator_types = ["parallel"]} ins(%x, %d : tensor<3xf32>, tensor<f32>) outs(%e : tensor<3xf32>) {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %m = arith.mulf %a, %b : f32
        linalg.yield %m : f32
      } -> tensor<3xf32>
      return %y : tensor<3xf32>
    }
    """
    found = pd.device("cpu").load(pd.compile(text, targets="cpu")).f(np.arange(3, dtype=np.float32))
    np.testing.assert_array_equal(found, np.array([0, 4, 8], np.float32))


def test_what_is_large_is_derived_instead() -> None:
    text = NORM.replace("100", "5000")
    rng = np.random.default_rng(0)
    g, v = rng.standard_normal(5000, dtype=np.float32), rng.uniform(0.5, 2, 5000).astype(np.float32)
    artifact = pd.compile(resources(text, g=g, v=v), targets="cpu")
    assert "derived by" in disassemble(artifact.read("program.bin"))
    x = rng.standard_normal((4, 5000), dtype=np.float32)
    found = pd.device("cpu").load(artifact).f(x)
    np.testing.assert_allclose(found, x * (g / np.sqrt(v + np.float32(1e-5))), rtol=1e-6)


def test_convolutions_read_a_filter_in_its_own_order() -> None:
    """What only puts a filter into the order of a convolution's loops is no constant of its own."""
    filters = np.arange(3 * 3 * 4 * 16, dtype=np.float32).reshape(3, 3, 4, 16) / 100
    text = f"""
!X = tensor<1x5x5x4xf32>
!W = tensor<16x3x3x4xf32>
!Y = tensor<1x3x3x16xf32>
func.func @f(%x: !X) -> !Y {{
  %w = arith.constant dense<{filters.tolist()}> : tensor<3x3x4x16xf32>
  %e = tensor.empty() : !W
  %t = linalg.transpose ins(%w : tensor<3x3x4x16xf32>) outs(%e : !W) permutation = [3, 0, 1, 2]
  %zero = arith.constant 0.0 : f32
  %o = tensor.empty() : !Y
  %z = linalg.fill ins(%zero : f32) outs(%o : !Y) -> !Y
  %r = linalg.conv_2d_nhwc_fhwc {{strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
      ins(%x, %t : !X, !W) outs(%z : !Y) -> !Y
  return %r : !Y
}}
"""
    x = np.linspace(-1, 1, 100, dtype=np.float32).reshape(1, 5, 5, 4)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    artifact = pd.compile(text, targets="cpu")
    np.testing.assert_allclose(
        pd.device("cpu").load(artifact).f(x), np.einsum("nyxcij,ijco->nyxo", windows, filters), rtol=1e-5, atol=1e-5
    )
    assert "(tensor<5x5x4xf32>, tensor<3x3x4x16xf32>)" in compile_to("dispatches", text)


@pytest.mark.parametrize("seed", range(8))
def test_values_of_random_programs_are_folded(seed: int) -> None:
    """Any value that is computed from constants may be a result, and an operand of what is folded too."""
    rng = np.random.default_rng(seed)
    lines, values = ["%v0 = arith.constant dense<[0.5, 3.0]> : tensor<2xf32>"], [np.array([0.5, 3], np.float32)]
    unary = {"math.exp": np.exp, "math.absf": np.abs, "math.sqrt": lambda v: np.sqrt(np.abs(v)), "math.sin": np.sin}
    for number in range(1, 9):
        a, b = (int(i) for i in rng.integers(0, number, 2))
        name = str(rng.choice([*unary, "arith.divf"]))
        source = f"%v{a}" if name != "math.sqrt" else f"%p{number}"
        if name == "math.sqrt":
            lines.append(f"%p{number} = math.absf %v{a} : tensor<2xf32>")
        lines.append(f"%v{number} = {name} {source}{f', %v{b}' if name == 'arith.divf' else ''} : tensor<2xf32>")
        values.append(values[a] / values[b] if name == "arith.divf" else unary[name](values[a]))
    returned = [int(i) for i in rng.choice(9, 4, replace=False)]
    types = ", ".join(["tensor<2xf32>"] * 4)
    text = "\n".join(lines)
    program = pd.device("cpu").load(pd.compile(f"""func.func @f() -> ({types}) {{
      {text}
      return {", ".join(f"%v{i}" for i in returned)} : {types} }}"""))  # fmt: skip
    for got, i in zip(program.f(), returned, strict=True):
        np.testing.assert_allclose(got, values[i], rtol=1e-5, equal_nan=True)
