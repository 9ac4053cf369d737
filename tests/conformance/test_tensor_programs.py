# ruff: noqa: E501  (lines of MLIR)
"""Tensor programs on every backend, against NumPy: one of each family, sizes that fit no tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends import Backend
from tensor_programs import CASES, TYPES, softmax, sums

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

rng = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def run(backend: Backend, text: str, *inputs: Any) -> Any:
    results = backend.load(text).f(*inputs)
    return [np.asarray(r) for r in results] if isinstance(results, tuple | list) else np.asarray(results)


@pytest.mark.parametrize("reassociate", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_programs(name: str, reassociate: bool, backend: Backend) -> None:
    """With reductions that are distributed, and with those that keep their order."""
    source, reference, arguments = CASES[name]
    program = backend.open().load(pd.compile(source, targets=backend.targets, reassociate=reassociate))
    np.testing.assert_allclose(np.asarray(program.f(*arguments)), reference(*arguments), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("type_", TYPES)
def test_element_types(type_: str, backend: Backend) -> None:
    dtype = TYPES[type_]
    a, b = (np.random.default_rng(7).integers(0, 256, (2, 7, 8)) * 0.5).astype(dtype)
    with np.errstate(over="ignore"):
        want = (a ^ b) ^ b if type_ == "i1" else (a + b) + b
    np.testing.assert_array_equal(run(backend, sums(type_), a, b), want)


EXTENDED = """
  func.func @f(%x: tensor<16xi32>) -> (tensor<16xi1>, tensor<16xi64>) {
    %e = tensor.empty() : tensor<16xi1>
    %w = tensor.empty() : tensor<16xi64>
    %b, %m = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
        iterator_types = ["parallel"]} ins(%x : tensor<16xi32>) outs(%e, %w : tensor<16xi1>, tensor<16xi64>) {
    ^bb0(%a: i32, %o: i1, %p: i64):
      %k = arith.constant 3 : i64
      %c = arith.extsi %a : i32 to i64
      %less = arith.cmpi slt, %c, %k : i64
      %least = arith.minsi %c, %k : i64
      linalg.yield %less, %least : i1, i64
    } -> (tensor<16xi1>, tensor<16xi64>)
    return %b, %m : tensor<16xi1>, tensor<16xi64>
  }"""


def test_comparisons_of_extended_numbers(backend: Backend) -> None:
    x = np.arange(-6, 10, dtype=np.int32)
    less, least = run(backend, EXTENDED, x)
    np.testing.assert_array_equal(less, x < 3)
    np.testing.assert_array_equal(least, np.minimum(x, 3))


NESTS = """
  func.func @f(%x: tensor<?x?xi32>) -> (tensor<?x?xi32>, tensor<?xi32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = tensor.dim %x, %c1 : tensor<?x?xi32>
    %low = arith.constant -2147483648 : i32
    %e = tensor.empty(%n) : tensor<?xi32>
    %f = linalg.fill ins(%low : i32) outs(%e : tensor<?xi32>) -> tensor<?xi32>
    %most = linalg.reduce { arith.maxsi } ins(%x : tensor<?x?xi32>) outs(%f : tensor<?xi32>) dimensions = [0]
    %r = tensor.insert_slice %most into %x[0, 0] [1, %n] [1, 1] : tensor<?xi32> into tensor<?x?xi32>
    return %r, %most : tensor<?x?xi32>, tensor<?xi32>
  }"""


def test_nests_of_different_sizes(backend: Backend) -> None:
    """Two results of one kernel: what is known of a workgroup's number for one does not hold for the other."""
    x = rng.integers(-50, 50, (13, 7)).astype(np.int32)
    whole, most = run(backend, NESTS, x)
    want = x.copy()
    want[0] = x.max(0)
    np.testing.assert_array_equal(whole, want)
    np.testing.assert_array_equal(most, x.max(0))


def insertions(shapes: list[tuple[int, ...]]) -> str:
    """A vector plus one tensor of each shape, inserted between the first and last rows of a larger tensor.

    The sums share the vector, so that one kernel computes all of them, with a nest for each."""
    columns = shapes[0][-1]
    arguments, types, lines = [f"%x: tensor<{columns}xf32>"], [], []
    for n, shape in enumerate(shapes):
        leading = "x".join(map(str, shape[:-2]))
        part = f"tensor<{'x'.join(map(str, shape))}xf32>"
        whole = f"tensor<{leading + 'x' if leading else ''}{shape[-2] + 2}x{columns}xf32>"
        dims = ", ".join(f"d{d}" for d in range(len(shape)))
        each, last = f"affine_map<({dims}) -> ({dims})>", f"affine_map<({dims}) -> (d{len(shape) - 1})>"
        offsets = [0] * (len(shape) - 2) + [1, 0]
        arguments.append(f"%b{n}: {part}, %into{n}: {whole}")
        types.append(whole)
        lines.append(
            f"""
    %e{n} = tensor.empty() : {part}
    %s{n} = linalg.generic {{indexing_maps = [{last}, {each}, {each}], iterator_types = {list(["parallel"] * len(shape))}}}
        ins(%x, %b{n} : tensor<{columns}xf32>, {part}) outs(%e{n} : {part}) {{
    ^bb0(%p: f32, %q: f32, %o: f32):
      %t = arith.addf %p, %q : f32
      linalg.yield %t : f32
    }} -> {part}
    %r{n} = tensor.insert_slice %s{n} into %into{n}{offsets}{list(shape)}{[1] * len(shape)} : {part} into {whole}""".replace(
                "'", '"'
            )
        )
    returned = ", ".join(f"%r{n}" for n in range(len(shapes)))
    return f"""func.func @f({", ".join(arguments)}) -> ({", ".join(types)}) {{{"".join(lines)}
    return {returned} : {", ".join(types)} }}"""


@pytest.mark.parametrize("shapes", [[(4, 8192), (10, 8192), (11, 8192)], [(4, 16384), (2, 5, 16384)]])
def test_nests_of_several_updates(shapes: list[tuple[int, ...]], backend: Backend) -> None:
    """Neither a workgroup's number nor the row that is computed from it has the bound of another nest."""
    x = normal(shapes[0][-1])
    parts = [normal(*shape) for shape in shapes]
    into = [np.full((*s[:-2], s[-2] + 2, s[-1]), 7, np.float32) for s in shapes]
    text = insertions(shapes)
    assert compile_to("executables", text, targets=backend.targets).count("flow.dispatch @") == 1
    found = run(backend, text, x, *(array for pair in zip(parts, into, strict=True) for array in pair))
    for result, part, whole in zip(found, parts, into, strict=True):
        want = whole.copy()
        want[..., 1:-1, :] = x + part
        np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize(("rows", "columns"), [(1, 7), (5, 33), (3, 300), (70, 5000), (200, 10)])
def test_softmax(rows: int, columns: int, backend: Backend) -> None:
    t = f"tensor<{rows}x{columns}xf32>"
    x = normal(rows, columns)
    found = run(backend, f"""func.func @f(%a: {t}) -> {t} {{
      %e = tensor.empty() : {t}
      %s = linalg.softmax dimension(1) ins(%a : {t}) outs(%e : {t}) -> {t}
      return %s : {t} }}""", x)  # fmt: skip
    np.testing.assert_allclose(found, softmax(x), 1e-5, 1e-7)


@pytest.mark.parametrize("shape", [(5,), (65536,), (70, 33), (3, 4, 500)])
def test_reductions_to_one_number(shape: tuple[int, ...], backend: Backend) -> None:
    x = rng.integers(-100, 100, shape).astype(np.int32)
    t, dims = "x".join(map(str, shape)), ", ".join(map(str, range(len(shape))))
    found = run(backend, f"""func.func @f(%a: tensor<{t}xi32>, %b: tensor<i32>) -> (tensor<i32>, tensor<i32>) {{
      %s = linalg.reduce {{ arith.addi }} ins(%a : tensor<{t}xi32>) outs(%b : tensor<i32>) dimensions = [{dims}]
      %m = linalg.reduce {{ arith.maxsi }} ins(%a : tensor<{t}xi32>) outs(%b : tensor<i32>) dimensions = [{dims}]
      return %s, %m : tensor<i32>, tensor<i32> }}""", x, np.array(3, np.int32))  # fmt: skip
    assert (int(found[0]), int(found[1])) == (int(x.sum()) + 3, max(3, int(x.max())))


@pytest.mark.parametrize("dim", [0, 1])
def test_sums_of_rows_and_columns(dim: int, backend: Backend) -> None:
    x = normal(130, 77)
    kept = x.shape[1 - dim]
    found = run(backend, f"""func.func @f(%a: tensor<130x77xf32>) -> tensor<{kept}xf32> {{
      %z = arith.constant dense<0.0> : tensor<{kept}xf32>
      %s = linalg.reduce {{ arith.addf }} ins(%a : tensor<130x77xf32>) outs(%z : tensor<{kept}xf32>) dimensions = [{dim}]
      return %s : tensor<{kept}xf32> }}""", x)  # fmt: skip
    np.testing.assert_allclose(found, x.sum(dim), 1e-4, 1e-5)


def test_argmax_has_an_order(backend: Backend) -> None:
    x = rng.integers(0, 9, (6, 90)).astype(np.float32)
    found = run(backend, """#m0 = affine_map<(d0, d1) -> (d0, d1)>
    #m1 = affine_map<(d0, d1) -> (d0)>
    func.func @f(%a: tensor<6x90xf32>) -> (tensor<6xf32>, tensor<6xi64>) {
      %v = arith.constant dense<-1.0> : tensor<6xf32>
      %i = arith.constant dense<0> : tensor<6xi64>
      %r:2 = linalg.generic {indexing_maps = [#m0, #m1, #m1], iterator_types = ["parallel", "reduction"]}
        ins(%a : tensor<6x90xf32>) outs(%v, %i : tensor<6xf32>, tensor<6xi64>) {
      ^bb0(%x: f32, %best: f32, %at: i64):
        %d = linalg.index 1 : index
        %n = arith.index_cast %d : index to i64
        %c = arith.cmpf ogt, %x, %best : f32
        %s = arith.select %c, %x, %best : f32
        %p = arith.select %c, %n, %at : i64
        linalg.yield %s, %p : f32, i64
      } -> (tensor<6xf32>, tensor<6xi64>)
      return %r#0, %r#1 : tensor<6xf32>, tensor<6xi64> }""", x)  # fmt: skip
    np.testing.assert_array_equal(found[0], x.max(1))
    np.testing.assert_array_equal(found[1], x.argmax(1))


def test_moves(backend: Backend) -> None:
    x = normal(13, 70)
    found = run(backend, """func.func @f(%a: tensor<13x70xf32>) -> (tensor<70x13xf32>, tensor<15x74xf32>, tensor<4x20xf32>) {
      %e = tensor.empty() : tensor<70x13xf32>
      %t = linalg.transpose ins(%a : tensor<13x70xf32>) outs(%e : tensor<70x13xf32>) permutation = [1, 0]
      %z = arith.constant 7.0 : f32
      %p = tensor.pad %a low[1, 3] high[1, 1] { ^bb0(%i: index, %j: index): tensor.yield %z : f32 } : tensor<13x70xf32> to tensor<15x74xf32>
      %s = tensor.extract_slice %a[2, 5][4, 20][3, 2] : tensor<13x70xf32> to tensor<4x20xf32>
      return %t, %p, %s : tensor<70x13xf32>, tensor<15x74xf32>, tensor<4x20xf32> }""", x)  # fmt: skip
    np.testing.assert_array_equal(found[0], x.T)
    np.testing.assert_array_equal(found[1], np.pad(x, ((1, 1), (3, 1)), constant_values=7))
    np.testing.assert_array_equal(found[2], x[2:14:3, 5:45:2])


def test_gather_stays_inside(backend: Backend) -> None:
    """Coordinates beyond the border are moved to it, also those that 32 bits do not hold."""
    x = normal(50, 6)
    at = np.array([[0], [49], [7], [-3], [1 << 40], [-(1 << 40)]], np.int64)
    found = run(backend, """func.func @f(%a: tensor<50x6xf32>, %i: tensor<6x1xi64>) -> tensor<6x6xf32> {
      %c = arith.index_cast %i : tensor<6x1xi64> to tensor<6x1xindex>
      %g = tensor.gather %a[%c] gather_dims([0]) : (tensor<50x6xf32>, tensor<6x1xindex>) -> tensor<6x6xf32>
      return %g : tensor<6x6xf32> }""", x, at)  # fmt: skip
    np.testing.assert_array_equal(found, x[np.clip(at[:, 0], 0, 49)])


@pytest.mark.parametrize("size", [1, 63, 65, 100001])
@pytest.mark.parametrize("element", ["f32", "f64", "f16", "i8", "i16", "i64"])
def test_elementwise(element: str, size: int, backend: Backend) -> None:
    dtype = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i8": np.int8, "i16": np.int16, "i64": np.int64}[
        element
    ]
    ops = ("arith.muli", "arith.addi") if element[0] == "i" else ("arith.mulf", "arith.addf")
    a, b = (rng.integers(-50, 50, size).astype(dtype) for _ in range(2))
    t = f"tensor<{size}x{element}>"
    found = run(backend, f"""func.func @f(%a: {t}, %b: {t}) -> {t} {{
      %p = {ops[0]} %a, %b : {t}
      %s = {ops[1]} %p, %a : {t}
      return %s : {t} }}""", a, b)  # fmt: skip
    np.testing.assert_array_equal(found, a * b + a)


@pytest.mark.parametrize("rows", ["70000", "?"])
def test_more_rows_than_workgroups(rows: str, backend: Backend) -> None:
    """A grid has 65,535 workgroups at most: further rows are done in turn."""
    x = rng.integers(-9, 9, (70000, 40)).astype(np.float32)
    size = "" if rows != "?" else "(%n)"
    found = run(backend, f"""func.func @f(%a: tensor<{rows}x40xf32>) -> tensor<{rows}xf32> {{
      %c0 = arith.constant 0 : index
      %n = tensor.dim %a, %c0 : tensor<{rows}x40xf32>
      %z = arith.constant 0.0 : f32
      %e = tensor.empty{size or "()"} : tensor<{rows}xf32>
      %i = linalg.fill ins(%z : f32) outs(%e : tensor<{rows}xf32>) -> tensor<{rows}xf32>
      %s = linalg.reduce {{ arith.addf }} ins(%a : tensor<{rows}x40xf32>) outs(%i : tensor<{rows}xf32>) dimensions = [1]
      return %s : tensor<{rows}xf32> }}""", x)  # fmt: skip
    np.testing.assert_array_equal(found, x.sum(1))


@pytest.mark.parametrize(("shape", "dim"), [((8, 70000), 1), ((70000, 8), 0), ((3, 70, 1000), 2), ((1000, 33), 0)])
def test_few_results_of_long_reductions(shape: tuple[int, ...], dim: int, backend: Backend) -> None:
    """A workgroup does each; one invocation alone would make more turns than lavapipe lets it."""
    x = rng.integers(-100, 100, shape).astype(np.int32)
    t, kept = "x".join(map(str, shape)), "x".join(str(n) for i, n in enumerate(shape) if i != dim)
    found = run(backend, f"""func.func @f(%a: tensor<{t}xi32>) -> tensor<{kept}xi32> {{
      %b = arith.constant dense<1> : tensor<{kept}xi32>
      %s = linalg.reduce {{ arith.addi }} ins(%a : tensor<{t}xi32>) outs(%b : tensor<{kept}xi32>) dimensions = [{dim}]
      return %s : tensor<{kept}xi32> }}""", x)  # fmt: skip
    np.testing.assert_array_equal(found, x.sum(dim) + 1)
