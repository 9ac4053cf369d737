"""Gradients through `torch.compile(backend="pydispatch")` are those of PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from gradient_cases import CASES, DYNAMIC
from torch import Tensor, nn

from pydispatch.integrations.torch import backend


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def gradients(function: Callable[..., Any], call: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
    """Return the results of a call, and the gradients of its arguments and of the parameters of the function.

    The loss weights each element of a result differently, so that no two gradients are exchanged unnoticed.
    """
    given = [x.clone().requires_grad_() if isinstance(x, Tensor) and x.is_floating_point() else x for x in args]
    made = call(*given)
    results = [x for x in (made if isinstance(made, tuple) else (made,)) if x is not None]
    loss = torch.zeros(())
    for result in results:
        if result.requires_grad:
            weights = torch.linspace(-1, 2, result.numel()).reshape(result.shape)
            loss = loss + (result.float() * weights).sum()
    loss.backward()
    found = [x.grad for x in given if isinstance(x, Tensor)]
    if isinstance(function, nn.Module):
        found += [parameter.grad for parameter in function.parameters()]
    return [*(result.detach() for result in results), *found]


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    function, args = CASES[name]
    ours = copy.deepcopy(function)
    compiled = torch.compile(ours, backend=backend, fullgraph=True)
    expected = gradients(function, function, args)
    is_half = any(isinstance(x, Tensor) and x.dtype in (torch.bfloat16, torch.float16) for x in args)
    close = 3e-2 if is_half else 1e-4
    torch.testing.assert_close(gradients(ours, compiled, args), expected, rtol=close, atol=close)
    if isinstance(function, nn.Module):  # running statistics
        torch.testing.assert_close(ours.state_dict(), function.state_dict(), rtol=close, atol=close)


@pytest.mark.parametrize("name", DYNAMIC)
def test_gradients_of_dynamic_sizes(name: str) -> None:
    function, shape = DYNAMIC[name]
    counting = 0

    def counted(module: Any, inputs: Any) -> Any:
        nonlocal counting
        counting += 1
        return backend(module, inputs)

    ours = copy.deepcopy(function)
    compiled = torch.compile(ours, backend=counted, fullgraph=True)
    for change in (0, 1, 4):
        sizes = [n if n in (2, 8) else n + change * (axis + 1) for axis, n in enumerate(shape)]
        args = (torch.randn(sizes),)
        expected = gradients(function, function, args)
        torch.testing.assert_close(gradients(ours, compiled, args), expected, rtol=1e-4, atol=1e-4)
    assert counting == 2  # the first sizes, then any


def test_gradients_of_bags_scaled_by_frequency_are_refused() -> None:
    def function(w: Tensor) -> Tensor:
        return F.embedding_bag(torch.tensor([1, 2]), w, torch.tensor([0]), scale_grad_by_freq=True)

    with pytest.raises(Exception, match=r"scaled by frequency are unsupported(.|\n)*leave out scale_grad_by_freq"):
        gradients(function, torch.compile(function, backend=backend, fullgraph=True), (torch.randn(4, 4),))


def test_gradients_of_dropout_are_of_the_elements_that_were_kept() -> None:
    def attended(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, torch.eye(64).expand(1, 2, 64, 64), dropout_p=0.5)

    x = torch.rand(1000, requires_grad=True)
    made = torch.compile(lambda x: F.dropout(x, 0.25), backend=backend, fullgraph=True)(x)
    (grad,) = torch.autograd.grad(made.sum(), x)
    torch.testing.assert_close(grad, torch.where(made == 0, 0.0, 1 / 0.75))
    assert 150 < int((made == 0).sum()) < 350
    weights = torch.compile(attended, backend=backend, fullgraph=True)(torch.zeros(1, 2, 64, 64))
    assert set(weights.unique().tolist()) == {0, 2 / 64}
