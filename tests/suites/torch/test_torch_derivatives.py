"""Kernels and programs in Python as operators of PyTorch with the derivatives that were stated: gradcheck, functional
transforms, compilation."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import pydispatch as pd

Vector = Annotated[pd.View, pd.f64["n"]]
Array = Annotated[np.ndarray, pd.f64["n"]]
Rows = Annotated[pd.View, pd.f64["m", "n"]]
Matrix = Annotated[np.ndarray, pd.f64["m", "n"]]
F64 = Annotated[float, pd.f64]


@pd.kernel(workgroup=64)
def swish(x: Vector, y: Vector, beta: F64) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] / (1 + pd.exp(-beta * x[i]))


@pd.program
def swish_vjp(x: Array, y: Array, beta: F64, dy: Array) -> Any:
    s = 1 / (1 + np.exp(-beta * x))
    return dy * (s + beta * x * s * (1 - s))


@pd.program
def scaled(x: Array, y: Array) -> Any:
    return np.exp(x) * y, x * y


@pd.program
def scaled_vjp(x: Array, y: Array, da: Array, db: Array) -> Any:
    return da * np.exp(x) * y + db * y, da * np.exp(x) + db * x


pd.vjp(swish, swish_vjp)
pd.vjp(scaled, scaled_vjp)
silu, pair = pd.to_torch(swish, "vjps::swish"), pd.to_torch(scaled, "vjps::scaled")


def layer(x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = torch.ops.vjps.swish(x, 1.5)
    return y


def test_gradients() -> None:
    x = torch.randn(7, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(layer(x), x * torch.sigmoid(1.5 * x))
    assert torch.autograd.gradcheck(layer, x)
    y = torch.randn(7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(torch.ops.vjps.scaled, (x, y))


@pd.kernel(workgroup=4, grid=lambda x, *_: x.shape[0])
def scaled_rows(x: Rows, w: Vector, y: Rows) -> None:
    for j in range(pd.local_id(0), x.shape[1], 4):
        y[pd.group_id(0), j] = pd.exp(x[pd.group_id(0), j]) * w[j]


@pd.kernel(workgroup=4, grid=lambda y, *_: y.shape[0])
def scaled_rows_vjp(y: Rows, x: Rows, dy: Rows, dx: Rows, dw: Vector) -> None:
    row = pd.group_id(0)
    for j in range(pd.local_id(0), y.shape[1], 4):
        dx[row, j] = dy[row, j] * y[row, j]
        pd.atomic_add(dw, j, dy[row, j] * pd.exp(x[row, j]))


@pd.program
def scaled_rows_second(y: Matrix, x: Matrix, dy: Matrix, ddx: Matrix, ddw: Array) -> Any:
    exp_x = np.exp(x)
    return ddx * dy, ddw * dy * exp_x, ddx * y + ddw * exp_x


def test_a_kernel_names_its_backward_kernel() -> None:
    pd.vjp(scaled_rows, scaled_rows_vjp)
    pd.vjp(scaled_rows_vjp, scaled_rows_second, wrt=("y", "x", "dy"))
    rows = pd.to_torch(scaled_rows, "vjps::scaled_rows")
    assert str(rows.op._schema) == "vjps::scaled_rows(Tensor x, Tensor w) -> Tensor"
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    w = torch.randn(5, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(rows(x, w), x.exp() * w)
    assert torch.autograd.gradcheck(rows, (x, w))
    assert torch.autograd.gradgradcheck(rows, (x, w))
    compiled = torch.compile(lambda x, w: rows(x, w).tanh().sum(), fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(x, w), (x, w))
    torch.testing.assert_close(found, torch.autograd.grad((x.exp() * w).tanh().sum(), (x, w)))


def test_one_of_several_results_and_a_gradient_that_is_not_contiguous() -> None:
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    y = torch.randn(4, dtype=torch.float64, requires_grad=True)
    _, b = torch.ops.vjps.scaled(x, y)
    b.backward(torch.ones(8, dtype=torch.float64)[::2])
    torch.testing.assert_close(x.grad, y)


def test_vmap() -> None:
    x = torch.randn(3, 5, dtype=torch.float64)
    torch.testing.assert_close(torch.vmap(layer)(x), x * torch.sigmoid(1.5 * x))
    a, b = torch.vmap(torch.ops.vjps.scaled, (0, None))(x, x[0])
    torch.testing.assert_close((a, b), (x.exp() * x[0], x * x[0]))


class Calls(TorchDispatchMode):
    """Names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("dim", [0, 1])
def test_vmap_of_a_kernel_is_one_call(dim: int) -> None:
    x = torch.randn(3, 5, dtype=torch.float64)
    with Calls() as calls:
        found = torch.vmap(layer, dim)(x)
    torch.testing.assert_close(found, (x * torch.sigmoid(1.5 * x)).movedim(dim, 0))
    assert [name for name in calls.names if name.startswith("vjps")] == ["vjps.swish_batch_10.default"]


def test_gradients_of_vmap() -> None:
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    (wanted,) = torch.autograd.grad((x * torch.sigmoid(1.5 * x)).sum(), x)
    torch.testing.assert_close(torch.autograd.grad(torch.vmap(layer)(x).sum(), x)[0], wanted)
    torch.testing.assert_close(torch.func.grad(lambda x: torch.vmap(layer)(x).sum())(x.detach()), wanted)
    torch.testing.assert_close(torch.vmap(torch.func.grad(lambda x: layer(x).sum()))(x.detach()), wanted)


def test_compiled_and_opcheck() -> None:
    x = torch.randn(6, dtype=torch.float64, requires_grad=True)
    compiled = torch.compile(lambda x: layer(x * 2).sum(), fullgraph=True, backend="aot_eager")
    (found,) = torch.autograd.grad(compiled(x), x)
    (wanted,) = torch.autograd.grad((x * 2 * torch.sigmoid(3 * x)).sum(), x)
    torch.testing.assert_close(found, wanted)
    torch.library.opcheck(torch.ops.vjps.swish.default, (x, 1.5))


def test_derivatives_that_do_not_fit() -> None:
    @pd.program
    def short(x: Array, y: Array) -> Any:
        return x * y

    pd.vjp(scaled, short)
    try:
        with pytest.raises(pd.InvalidArgumentError, match=r"'short' of 'scaled' takes .*expected its arguments and a"):
            pd.to_torch(scaled, "vjps::wrong")
        with pytest.raises(pd.InvalidArgumentError, match=r"wrt: expected names of arrays .* \(x, y\), got 'z'"):
            pd.vjp(scaled, scaled_vjp, wrt="z")
        with pytest.raises(pd.InvalidArgumentError, match="rule: expected a kernel or a program in Python"):
            pd.vjp(scaled, np.exp)  # type: ignore[arg-type]
    finally:
        pd.vjp(scaled, scaled_vjp)


def test_functional_transforms() -> None:
    x = torch.randn(5, dtype=torch.float64)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return layer(x).sum()

    def plain(x: torch.Tensor) -> torch.Tensor:
        return (x * torch.sigmoid(1.5 * x)).sum()

    torch.testing.assert_close(torch.func.grad(loss)(x), torch.func.grad(plain)(x))
    torch.testing.assert_close(torch.func.jacrev(layer)(x), torch.func.jacrev(lambda x: x * torch.sigmoid(1.5 * x))(x))
    rows = torch.randn(3, 5, dtype=torch.float64)
    torch.testing.assert_close(torch.vmap(torch.func.grad(loss))(rows), torch.vmap(torch.func.grad(plain))(rows))


def test_no_derivative_is_an_error_and_not_zero() -> None:
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(layer(x).sum(), x, create_graph=True)
    with pytest.raises(pd.InvalidArgumentError, match="vjps::swish_vjp has no derivative"):
        first.sum().backward()
    with pytest.raises(pd.InvalidArgumentError, match="has no derivative"):
        torch.func.grad(lambda x: torch.func.grad(lambda x: layer(x).sum())(x).sum())(x.detach())


def test_forward_mode_is_an_error_and_not_zero() -> None:
    x = torch.randn(4, dtype=torch.float64)
    for transform in (torch.func.jacfwd, torch.func.hessian):
        with pytest.raises(
            pd.InvalidArgumentError, match=r"vjps::swish\w* has no forward-mode derivative; use reverse"
        ):
            transform(lambda x: layer(x).sum())(x)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        with pytest.raises(pd.InvalidArgumentError, match="no forward-mode derivative"):
            layer(dual)
        torch.testing.assert_close(
            layer(x), x * torch.sigmoid(1.5 * x)
        )  # a level is entered, and nothing has a tangent


def test_vmap_over_no_element() -> None:
    x = torch.empty(0, 4, dtype=torch.float64)
    a, b = torch.vmap(torch.ops.vjps.scaled)(x, x)
    assert a.shape == b.shape == (0, 4)
