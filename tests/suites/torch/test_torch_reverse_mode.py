"""Derivatives by reverse mode of programs in Python as operators of PyTorch, against its own."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
import torch

import pydispatch as pd

Rows = Annotated[np.ndarray, pd.f64["n", "m"]]
Weights = Annotated[np.ndarray, pd.f64["m", 3]]


@pd.program
def network(x: Rows, w: Weights) -> Any:
    hidden = np.tanh(x @ w)
    powers = np.exp(hidden - hidden.max(axis=1, keepdims=True))
    shares = powers / powers.sum(axis=1, keepdims=True)
    return shares, x.max(axis=1) * np.concatenate([x, x * x], axis=1)[:, 1]


def reference(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    shares = torch.softmax(torch.tanh(x @ w), dim=1)
    return shares, x.amax(dim=1) * torch.cat([x, x * x], dim=1)[:, 1]


pd.vjp(network)
operator = pd.to_torch(network, "pydispatch_tests::reverse_mode")


@pytest.mark.parametrize("seed", range(8))
def test_backward(seed: int) -> None:
    torch.manual_seed(seed)
    n, m = torch.randint(1, 30, (2,)).tolist()
    gradients = []
    x, w = torch.randn(n, m, dtype=torch.float64), torch.randn(m, 3, dtype=torch.float64)
    seeds = torch.randn(n, 3, dtype=torch.float64), torch.randn(n, dtype=torch.float64)
    for function in (operator, reference):
        leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
        torch.autograd.backward(function(*leaves), seeds)
        gradients.append([leaf.grad for leaf in leaves])
    torch.testing.assert_close(*gradients)


def test_gradcheck() -> None:
    x, w = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (4, 3)))
    assert torch.autograd.gradcheck(operator, (x, w))
