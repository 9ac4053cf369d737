"""Programs of StableHLO and TOSA whose calls and regions are nested deeply."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import pydispatch as pd
from pydispatch.ir import parse

T = "tensor<4xf32>"
ABS = {"tosa": f"tosa.abs %x : ({T}) -> {T}", "stablehlo": f"stablehlo.abs %x : {T}"}
BRANCH = {
    "tosa": f"""tosa.cond_if %c : tensor<i1> -> {T} {{
      %z = func.call @NEXT(%x, %c) : ({T}, tensor<i1>) -> {T}
      tosa.yield %z : {T}
    }} else {{ tosa.yield %x : {T} }}""",
    "stablehlo": f""""stablehlo.if"(%c) ({{
      %z = func.call @NEXT(%x, %c) : ({T}, tensor<i1>) -> {T}
      stablehlo.return %z : {T}
    }}, {{ stablehlo.return %x : {T} }}) : (tensor<i1>) -> {T}""",
}


def program(step: str, last: str, depth: int) -> str:
    """Functions of which each computes its result by a step that calls the @NEXT one."""

    def function(number: int, body: str) -> str:
        name = f"private @f{number}" if number else "@main"
        return f"func.func {name}(%x: {T}, %c: tensor<i1>) -> {T} {{\n  %y = {body}\n  return %y : {T}\n}}\n"

    steps = [function(n, step.replace("@NEXT", f"@f{n + 1}")) for n in range(depth)]
    return "".join([*steps, function(depth, last)])


@pytest.mark.parametrize("dialect", ABS)
def test_calls(dialect: str) -> None:
    call = f"func.call @NEXT(%x, %c) : ({T}, tensor<i1>) -> {T}"
    assert pd.compile(program(call, ABS[dialect], 100)).functions
    with pytest.raises(pd.CompileError, match="nested too deeply in @main"):
        pd.compile(program(call, ABS[dialect], 400))


@pytest.mark.parametrize("dialect", ABS)
def test_regions_with_calls(dialect: str) -> None:
    with pytest.raises(pd.CompileError, match="nested too deeply in @main"):
        pd.compile(program(BRANCH[dialect], ABS[dialect], 190))


def test_a_reduction_that_calls_itself() -> None:
    scalars = "tensor<f32>, tensor<f32>"
    with pytest.raises(pd.CompileError, match="nested too deeply in @main"):
        pd.compile(f"""
func.func @main(%x: {T}, %i: tensor<f32>) -> tensor<f32> {{
  %0 = stablehlo.reduce(%x init: %i) across dimensions = [0] : ({T}, tensor<f32>) -> tensor<f32>
    reducer(%a: tensor<f32>, %b: tensor<f32>) {{
      %r = func.call @f(%a, %b) : ({scalars}) -> tensor<f32>
      stablehlo.return %r : tensor<f32>
    }}
  return %0 : tensor<f32>
}}
func.func private @f(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {{
  %r = func.call @f(%a, %b) : ({scalars}) -> tensor<f32>
  return %r : tensor<f32>
}}""")


def test_branches_in_branches() -> None:
    """Nested text: Python's recursion limit allows 140 levels of scf.if, seven frames each."""
    depth = 130
    begin = "".join(f"%r{i} = scf.if %c -> {T} {{\n" for i in range(depth))
    end = "".join(f"}} else {{\nscf.yield %x : {T}\n}}\nscf.yield %r{i} : {T}\n" for i in reversed(range(1, depth)))
    text = f"func.func @main(%x: {T}, %c: i1) -> {T} {{\n{begin}scf.yield %x : {T}\n{end}}} else {{\n"
    text += f"scf.yield %x : {T}\n}}\nreturn %r0 : {T}\n}}\n"
    with ThreadPoolExecutor(1) as thread:  # the stack of a new thread has no frames of pytest
        assert thread.submit(parsed, text).result() == depth


def parsed(text: str) -> int:
    """The number of branches that the parser finds."""
    return sum(op.name == "scf.if" for op in parse(text).walk())
