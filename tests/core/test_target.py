"""Targets for other runtimes, and PyTorch's interface without PyTorch: what is loaded, kernels, names of types."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pydispatch._core.target import Target, torch_dtype, torch_kernel, torch_scalar_type, xla_has

import pydispatch as pd
from pydispatch.integrations.interface import check_types, result_shapes

F32, F16, I64, BOOL, C64, I4 = 0x21000020, 0x21000010, 0x10000040, 0x13000008, 0x23000040, 0x10000004


@pytest.fixture(scope="module")
def joined() -> Any:
    text = """func.func @f(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>, %z: tensor<?x4xf32>)
        -> (tensor<?x4xf32>, tensor<?xf32>) {
      %a = tensor.concat dim(0) %x, %y, %x : (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
      %b = arith.addf %x, %z : tensor<?x4xf32>
      %c = tensor.collapse_shape %b [[0, 1]] : tensor<?x4xf32> into tensor<?xf32>
      return %a, %c : tensor<?x4xf32>, tensor<?xf32>
    }"""  # fmt: skip
    return pd.device("cpu").load(pd.compile(text)).f


def test_a_number_belongs_to_one_target(joined: Any) -> None:
    first = Target(joined, 77)
    with pytest.raises(pd.InvalidArgumentError, match="the number 77 is taken"):
        Target(joined, 77)
    first.close()
    assert Target(joined, 77).number == 77 and Target(joined).number != Target(joined).number


def test_each_kernel_is_one_of_its_own() -> None:
    assert len({torch_kernel(i) for i in range(256)}) == len({torch_kernel(i)[0] for i in range(256)}) == 256
    with pytest.raises(pd.InvalidArgumentError, match="at most 256 operators"):
        torch_kernel(256)


def test_types() -> None:
    assert [torch_scalar_type(word) for word in (F32, I64, BOOL)] == ["float", "SymInt", "bool"]
    assert not any(torch_scalar_type(word) for word in (F16, C64, I4))
    assert xla_has(C64) and not xla_has(I4)


def test_what_a_pytorch_must_have() -> None:
    """In a process of its own: an interface stays loaded."""
    text = f"""
import ctypes
from pydispatch._core.target import torch_dtype, torch_load
asked = []
def find(name):
    asked.append(name)
    return 0 if name == lacking else 4096
lacking = "aoti_torch_check"
try:
    torch_load(find)
except ValueError as error:
    assert "this PyTorch has no aoti_torch_check" in str(error), error
else:
    raise AssertionError
lacking = "aoti_torch_dtype_float32"
torch_load(find)
assert lacking in asked and len(asked) > 25
assert torch_dtype({F32}) == "" and torch_dtype({I64}) == "int64" and torch_dtype({I4}) == ""
count = len(asked)
torch_load(find)
assert len(asked) == count
"""
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert torch_dtype(I64) == ""  # nothing is loaded here


def require(holds: Any, text: str) -> None:
    assert holds, text


def test_sizes_of_results(joined: Any) -> None:
    target = Target(joined)
    assert result_shapes(joined, target, [(5, 4), (2, 4), (5, 4)], require) == [(12, 4), (20,)]
    with pytest.raises(AssertionError, match=r"@f: 'z' has 3 elements along axis 0, expected 5"):
        result_shapes(joined, target, [(5, 4), (2, 4), (3, 4)], require)

    text = """func.func @g(%k: index, %d0: index, %x: tensor<?xf32> {pyd.shape = ["k"]}, %y: tensor<?xf32>)
        -> (tensor<?xf32>, tensor<?xf32>) {
      %c = arith.constant 1.0 : f32
      %r = tensor.splat %c[%d0] : tensor<?xf32>
      return %r, %y : tensor<?xf32>, tensor<?xf32>
    }"""
    function = pd.device("cpu").load(pd.compile(text)).g
    assert function.text() == "g(k: int64, d0: int64, x: float32[k], y: float32[d1]) -> (float32[d0], float32[d1])"
    assert result_shapes(function, Target(function), [None, None, (3,), (4,)], require) == [(None,), (4,)]
    assert result_shapes(function, Target(function), [3, 5, (3,), (4,)], require) == [(5,), (4,)]
    with pytest.raises(AssertionError, match="@g: 'x' has 3 elements along axis 0, expected 2"):
        result_shapes(function, Target(function), [2, 5, (3,), (4,)], require)

    class Symbol:
        def __init__(self, text: str) -> None:
            self.text = text

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 0

        def __add__(self, other: Any) -> Symbol:
            return Symbol(f"{self.text}+{getattr(other, 'text', other)}")

        def __mul__(self, other: Any) -> Symbol:
            return Symbol(f"{self.text}*{getattr(other, 'text', other)}")

    n, m = Symbol("n"), Symbol("m")
    (joint, four), (flat,) = result_shapes(joined, target, [(n, 4), (m, 4), (n, 4)], require)
    assert (joint.text, four, flat.text) == ("n+m+n", 4, "n*4")


def test_types_that_are_refused(joined: Any) -> None:
    check_types(joined, lambda kind, number: True, "Runtime")
    with pytest.raises(pd.InvalidArgumentError, match="@f: argument 0 has elements of type f32, which Runtime"):
        check_types(joined, lambda kind, number: False, "Runtime")
