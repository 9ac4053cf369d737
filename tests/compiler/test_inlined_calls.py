"""Calls between host functions: copies of the callees, and the limit of how many operations they add."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd
from pydispatch import ir
from pydispatch.compiler.flatten.inline import MOST_ADDED_OPERATIONS, inline_calls
from pydispatch.ir.functions import symbol_name

TYPE = "(tensor<4xf32>) -> tensor<4xf32>"


def chain(count: int, calls: int, visibility: str = "private") -> str:
    """A public function `main` over `count` functions, each of which calls the one before `calls` times."""
    functions = []
    for number in range(count):
        body = ["%v0 = arith.addf %x, %x : tensor<4xf32>"]
        if number:
            names = ["%x", *(f"%v{call}" for call in range(calls))]
            body = [f"%v{call} = call @f{number - 1}({names[call]}) : {TYPE}" for call in range(calls)]
        last = f"%v{len(body) - 1}"
        lines = "\n".join([*body, f"return {last} : tensor<4xf32>"])
        functions.append(f"func.func {visibility} @f{number}(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{lines}\n}}\n")
    main = f"%y = call @f{count - 1}(%x) : {TYPE}\nreturn %y : tensor<4xf32>"
    return "".join([*functions, f"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{main}\n}}\n"])


def test_each_call_computes_what_its_function_does() -> None:
    program = pd.device("cpu").load(pd.compile(chain(3, 2)))
    assert program.main(np.arange(4, dtype=np.float32)).tolist() == [0, 16, 32, 48]


@pytest.mark.parametrize("visibility", ["private", ""])
def test_calls_that_multiply_operations_are_refused_before_any_is_copied(visibility: str) -> None:
    with pytest.raises(pd.CompileError) as caught:
        pd.compile(chain(21, 2, visibility))
    text = str(caught.value)
    assert "inlining the calls of '@main' makes 7,340,031 operations of 86; " in text
    assert f"calls may add {MOST_ADDED_OPERATIONS:,}" in text
    assert "'@f0' is copied" in text and "repeat it with scf.for" in text


def test_functions_that_no_function_runs_are_not_expanded() -> None:
    module = ir.parse(chain(21, 2).replace("@f20(%x) :", "@f2(%x) :"))
    inline_calls(module)
    (main,) = module.body.block.ops
    assert symbol_name(main) == "main" and [op.name for op in main.walk()].count("arith.addf") == 4


def test_long_chains_of_calls_are_inlined() -> None:
    module = ir.parse(chain(1500, 1))
    inline_calls(module)
    (main,) = module.body.block.ops
    assert [op.name for op in main.walk()] == ["func.func", "arith.addf", "func.return"]
