"""Quantized models of PyTorch: products are of the stored integers, as in ONNX graphs with DequantizeLinear."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch import Tensor, nn

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

quantized = torch.ops.quantized_decomposed


class Pt2e(nn.Module):
    """A layer as PT2E converts it: activations with one scale, weights with one per channel, both in buffers."""

    def __init__(self, columns: int, rows: int, zero: int) -> None:
        super().__init__()
        self.zero = zero
        self.register_buffer("weight", torch.randint(-127, 128, (rows, columns), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(rows) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(rows, dtype=torch.int64))
        self.bias = nn.Parameter(torch.randn(rows))

    def forward(self, x: Tensor) -> Tensor:
        numbers = quantized.quantize_per_tensor(x, 0.03, self.zero, 0, 255, torch.uint8)
        x = quantized.dequantize_per_tensor(numbers, 0.03, self.zero, 0, 255, torch.uint8)
        weight = quantized.dequantize_per_channel(self.weight, self.scale, self.zeros, 0, -128, 127, torch.int8)
        return nn.functional.linear(x, weight, self.bias)


class BlockScaled(nn.Module):
    """A layer whose weights have a scale of bf16 for each 32 steps."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (rows, columns), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(rows, columns // 32, 1).to(torch.bfloat16))

    def forward(self, x: Tensor) -> Tensor:
        rows, columns = self.weight.shape
        blocks = self.weight.reshape(rows, columns // 32, 32).float() * self.scale.float()
        return nn.functional.linear(x, blocks.reshape(rows, columns))


def products(program: Any) -> list[str]:
    """The types of the inputs of the products in the dispatches of calls."""
    text = compile_to("dispatches", program, targets="cpu", cpu="native", elide_bytes=64)
    types = re.findall(r'"reduction"\]} ins\([^:]*: (tensor<8x[^)]*)\)', text)
    assert types
    return types


@pytest.mark.parametrize(
    "model",
    [nn.Sequential(Pt2e(64, 128, 120), nn.ReLU(), Pt2e(128, 32, 0)), BlockScaled(128, 256)],
    ids=["PT2E", "block scaling"],
)
def test_stored_integers_are_multiplied(model: nn.Module) -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 64 if isinstance(model, nn.Sequential) else 128)
    with torch.no_grad():
        program, expected = torch.export.export(model.eval(), (x,)), model(x).numpy()
    result = np.asarray(pd.device("cpu").load(pd.compile(program, targets="cpu", cpu="native")).main(x.numpy()))
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    pattern = r"xi8>, tensor<[\dx]*i8>" if isinstance(model, nn.Sequential) else "xi8>"
    assert all(re.search(pattern, types) for types in products(program))
