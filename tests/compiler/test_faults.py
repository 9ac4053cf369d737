"""Exceptions that leave the compiler: its own faults name the operation, those of the user's code pass."""

from __future__ import annotations

from typing import NoReturn

import pytest

import pydispatch as pd
from pydispatch.compiler.constants import hoist
from pydispatch.compiler.driver.faults import translated

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
        translated(traced)()


def test_a_text_without_lines_is_no_path() -> None:
    with pytest.raises(pd.CompileError, match=r"cannot read 'xxx.*File name too long"):
        pd.compile("x" * 5000)
