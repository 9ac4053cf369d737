"""One artifact of several sources: names of functions, weights and states that are shared, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.driver.sources import load_source, lower_input
from pydispatch.frontends.source import ReadOptions
from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.dtypes import F32
from pydispatch.ir.core.symbols import symbols_of
from pydispatch.operations import elementwise

PREFILL = """
util.global private @w = dense<2.0> : tensor<4xf32>
util.global private mutable @cache = dense<0.0> : tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = util.global.load @w : tensor<4xf32>
  %y = stablehlo.multiply %x, %w : tensor<4xf32>
  util.global.store %y, @cache : tensor<4xf32>
  return %y : tensor<4xf32>
}"""

DECODE = """
util.global private @other = dense<2.0> : tensor<4xf32>
util.global private @w = dense<3.0> : tensor<4xf32>
util.global private mutable @cache = dense<0.0> : tensor<4xf32>
func.func private @helper(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = util.global.load @w : tensor<4xf32>
  %y = arith.addf %x, %w : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  %o = util.global.load @other : tensor<4xf32>
  %c = util.global.load @cache : tensor<4xf32>
  %y = stablehlo.multiply %x, %o : tensor<4xf32>
  %z = func.call @helper(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %r = tosa.add %z, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @reset() {
  %z = stablehlo.constant dense<0.0> : tensor<4xf32>
  util.global.store %z, @cache : tensor<4xf32>
  return
}"""

NEGATE = """
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = stablehlo.negate %x : tensor<2xf32>
  return %y : tensor<2xf32>
}"""
DOUBLE = NEGATE.replace("negate %x", "add %x, %x")
X = np.float32([1, 2, 3, 4])


def scaled(name: str, array: np.ndarray[Any, Any]) -> Any:
    """A model that multiplies by a weight, which is stored beside its program."""
    b = Builder("model")
    (x,) = b.begin([Input("x", F32, array.shape)])
    b.finish("main", {"y": elementwise.binary(b, "mul", x, b.weight(name, array, F32))})
    return b.module


def test_functions_have_the_names_of_their_sources(tmp_path: Path) -> None:
    (tmp_path / "negate.mlir").write_text(NEGATE)
    artifact = pd.compile({"prefill": PREFILL, "decode": DECODE, "negate": tmp_path / "negate.mlir"})
    program = pd.device("cpu").load(artifact)
    assert sorted(program.functions) == ["decode_reset", "decode_step", "negate", "prefill"]
    np.testing.assert_array_equal(program.decode_step(X), 2 * X + 3)
    np.testing.assert_array_equal(program.prefill(X), 2 * X)
    np.testing.assert_array_equal(program.decode_step(X), 4 * X + 3)  # the state is that of both
    program.decode_reset()
    np.testing.assert_array_equal(program.decode_step(X), 2 * X + 3)
    np.testing.assert_array_equal(program.negate(X[:2]), -X[:2])


def test_equal_weights_are_stored_once() -> None:
    array = np.random.default_rng(1).standard_normal(60000, dtype=np.float32)
    almost = array.copy()
    almost[-1] += 1
    sources = {"a": scaled("w", array), "b": scaled("v", array.copy()), "c": scaled("w", almost)}
    artifact = pd.compile(sources)
    stored = [name for name in artifact.members if name.startswith("constants/")]
    assert len(stored) == 2
    program = pd.device("cpu").load(artifact)
    for name, expected in (("a", array), ("b", array), ("c", almost)):
        np.testing.assert_array_equal(program[name](np.ones(60000, np.float32)), expected)


def test_parameters_of_one_name_are_one() -> None:
    text = """
    util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<4xf32>
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %w = util.global.load @w : tensor<4xf32>
      %y = arith.{0} %x, %w : tensor<4xf32>
      return %y : tensor<4xf32>
    }}"""
    artifact = pd.compile({"add": text.format("addf"), "multiply": text.format("mulf")})
    program = pd.device("cpu").load(artifact, parameters={"model": {"w": 2 * X}})
    assert len(program.parameters) == 1
    np.testing.assert_array_equal(program.add(X), 3 * X)
    np.testing.assert_array_equal(program.multiply(X), 2 * X * X)


def test_a_spec_is_applied_to_every_source_before_and_after() -> None:
    spec = """
    pdl.pattern @negative : benefit(1) {
      %type = pdl.type
      %x = pdl.operand : %type
      %root = pdl.operation "stablehlo.negate" (%x : !pdl.value) -> (%type : !pdl.type)
      pdl.rewrite %root {
        %new = pdl.operation "stablehlo.add" (%x, %x : !pdl.value, !pdl.value) -> (%type : !pdl.type)
        pdl.replace %root with %new
      }
    }"""
    program = pd.device("cpu").load(pd.compile({"f": NEGATE, "g": NEGATE}, pdl_spec=spec, require_match=True))
    np.testing.assert_array_equal(program.f(X[:2]), 2 * X[:2])
    np.testing.assert_array_equal(program.g(X[:2]), 2 * X[:2])


@pytest.mark.parametrize(
    ("sources", "options", "message"),
    [
        ({}, {}, "empty mapping"),
        ({"a b": NEGATE}, {}, "no name of a function"),
        ({1: NEGATE}, {}, "no name of a function"),
        ({"f": NEGATE, "g": 5}, {}, r"source\['g'\]"),
        ({"f": NEGATE}, {"inputs": {"x": (3,)}}, "inputs= and constants="),
    ],
)
def test_mappings_that_are_no_sources(sources: Any, options: Any, message: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=message):
        pd.compile(sources, **options)


def test_names_that_clash() -> None:
    two = NEGATE + NEGATE.replace("@f", "@g")
    with pytest.raises(pd.CompileError, match="two of the functions are called 'a_f'"):
        pd.compile({"a_f": NEGATE, "a": two})


def test_private_symbols_make_way_for_public_functions() -> None:
    """A helper of the first source has the name that the second source's only function gets."""
    first = NEGATE.replace("@f(", "@main(").replace("return %y", "%z = func.call @g(%y) : (tensor<2xf32>) -> "
        "tensor<2xf32>\n  return %z") + NEGATE.replace("@f(", "private @g(")  # fmt: skip
    program = pd.device("cpu").load(pd.compile({"f": first, "g": DOUBLE}))
    assert sorted(program.functions) == ["f", "g"]
    np.testing.assert_array_equal(program.f(X[:2]), X[:2])
    np.testing.assert_array_equal(program.g(X[:2]), 2 * X[:2])


def test_globals_that_initializers_store_to_are_not_merged() -> None:
    text = """
    util.global private @table = dense<0.0> : tensor<2xf32>
    util.initializer {{
      %v = arith.constant dense<{0}.0> : tensor<2xf32>
      util.global.store %v, @table : tensor<2xf32>
      util.return
    }}
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
      %t = util.global.load @table : tensor<2xf32>
      %y = arith.addf %x, %t : tensor<2xf32>
      return %y : tensor<2xf32>
    }}"""
    program = pd.device("cpu").load(pd.compile({"one": text.format(1), "two": text.format(2)}))
    np.testing.assert_array_equal(program.one(X[:2]), X[:2] + 1)
    np.testing.assert_array_equal(program.two(X[:2]), X[:2] + 2)


def test_equal_executables_are_one() -> None:
    path = Path(__file__).parents[2] / "examples" / "mixed" / "program.mlir"
    text = path.read_text()
    other = text.replace(" {pyd.tiles = [256, 256]}", "")
    assert other != text
    module = lower_input(load_source({"a": text, "b": text, "c": other})[0], ReadOptions())
    executables = [name for name, op in symbols_of(module) if "executable" in op.name]
    assert executables == ["kernels", "kernels_1"]


def test_weights_with_strides_are_not_copied() -> None:
    """Only the heads of arrays are compared first, also of those that are no contiguous memory."""
    array = np.asfortranarray(np.random.default_rng(2).standard_normal((300, 200), dtype=np.float32))
    program = pd.device("cpu").load(pd.compile({"a": scaled("w", array), "b": scaled("v", array.copy("K"))}))
    for name in ("a", "b"):
        np.testing.assert_array_equal(program[name](np.ones((300, 200), np.float32)), array)


def test_imports_of_one_name_have_one_type() -> None:
    text = """
    func.func private @mine(tensor<{0}xf32>) -> tensor<{0}xf32>
    func.func @main(%x: tensor<{0}xf32>) -> tensor<{0}xf32> {{
      return %x : tensor<{0}xf32>
    }}"""
    with pytest.raises(pd.CompileError, match="@mine is declared with another type"):
        pd.compile({"a": text.format(4), "b": text.format(5)})
