"""Warnings about kernels that match no operation of a model: their names as the user wrote them, and the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[2] / "examples" / "models"
PROGRAM = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.negate %x : tensor<4xf32>
  return %y : tensor<4xf32>
}"""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("aten::gelu", r"operators of PyTorch itself are replaced by patterns \(docs/match-and-replace\.md\)"),
        ("aten::absent.out", "operators of PyTorch itself"),
        ("mylib::gelo", r"the model has no operator of this name; near are mylib::gelu of layer 'blocks\.0'"),
        ("mylib::attention", r"the model has no operator of this name; it has mylib::gelu$"),
    ],
)
def test_a_model_of_pytorch(name: str, reason: str) -> None:
    gelu = pd.CFunction(ROOT / "gelu.c", "gelu", "x", "out", "count", "first", tile={"count": 4096})
    with pytest.warns(pd.CompileWarning, match=f"^the kernel '{name}' matched nothing: {reason}"):
        pd.compile(ROOT / "small" / "gpt2.pt2", kernels={"mylib::gelu": gelu, name: gelu})


def test_a_program_without_custom_operations() -> None:
    kernel = pd.CFunction("void f(float* x) {}", "f", "x")
    reason = "the program has no custom operation of this name"
    with pytest.warns(pd.CompileWarning, match=f"^the kernel 'mylib::f' matched nothing: {reason}$"):
        pd.compile(PROGRAM, kernels={"mylib::f": kernel})
