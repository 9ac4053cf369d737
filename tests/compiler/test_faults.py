"""Exceptions that leave the compiler: its own faults name the operation, those of the user's code pass."""

from __future__ import annotations

import re
from typing import NoReturn

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.constants import hoist
from pydispatch.faults import faults_as_internal_errors

SOURCE = """func.func @NAME(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}"""  # each test has a name of its own, since unchanged programs are not compiled again


def test_a_fault_names_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hoist, "known_of", dict[object, object]().__getitem__)
    with pytest.raises(pd.InternalError, match=r"KeyError.*while compiling 'func.func' at <text>:1") as caught:
        pd.compile(SOURCE.replace("NAME", "fault"), targets="cpu")
    assert "arith.addf" in str(caught.value) and "please report it" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)


def test_exceptions_of_the_user_pass() -> None:
    def traced() -> NoReturn:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        faults_as_internal_errors()(traced)()


def test_a_text_without_lines_is_no_path() -> None:
    with pytest.raises(pd.CompileError, match=r"cannot read 'xxx.*File name too long"):
        pd.compile("x" * 5000)


REFUSED = {
    "a constant of another rank": (
        """func.func @f() -> tensor<?x1xf32> {
          %0 = flow.tensor.dynamic_constant dense<1.0> : tensor<f32> -> tensor<?x1xf32>
          return %0 : tensor<?x1xf32> }""",
        "a constant of type tensor<f32> is no tensor<?x1xf32>",
    ),
    "an argument that is part of a dispatch": (
        """func.func @f(%a: !flow.dispatch.tensor<readonly:tensor<4xf32>>) -> tensor<4xf32> {
          %0 = tensor.empty() : tensor<4xf32>
          return %0 : tensor<4xf32> }""",
        "argument 0 of @f has the type !iree_tensor_ext.dispatch.tensor",
    ),
    "a kernel without a body": (
        """stream.executable private @e {
          stream.executable.export public @k workgroups() -> (index, index, index) {
            %c1 = arith.constant 1 : index
            stream.return %c1, %c1, %c1 : index, index, index
          }
          builtin.module { func.func private @k(!stream.binding) }
        }
        func.func @f() -> tensor<1xf32> {
          %0 = flow.dispatch @e::@k() : () -> tensor<1xf32>
          return %0 : tensor<1xf32>
        }""",
        "the kernel @k has no blocks, expected one",
    ),
    "memory": (
        "func.func @f(%m: memref<?xf32>) {\n  return\n}",
        "argument 0 of @f has the type memref<?xf32>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_words_of_the_program(name: str) -> None:
    source, message = REFUSED[name]
    with pytest.raises(pd.CompileError, match=re.escape(message)) as caught:
        pd.compile(source, targets="cpu")
    assert caught.value.location is not None


def test_tensors_without_elements_are_joined() -> None:
    @pd.program
    def joined(x: pd.View[pd.f32, 0, 2], y: pd.View[pd.f32, 0, 2]) -> object:
        return np.concatenate([x, y])

    empty = np.ones((0, 2), np.float32)
    assert joined(empty, empty).shape == (0, 2)
