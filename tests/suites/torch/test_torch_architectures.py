"""Networks of all common kinds train through `torch.compile(backend="pydispatch")` as they do in PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import architectures_of_attention  # noqa: F401
import architectures_of_images  # noqa: F401
import architectures_of_sequences  # noqa: F401
import pytest
import torch
from architectures import ARCHITECTURES, Architecture
from torch import Tensor, nn

from pydispatch.integrations.torch import backend


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch._dynamo.config.patch(allow_rnn=True):  # LSTM and GRU as a part of the graph
        yield
    torch._dynamo.reset()


def step(network: nn.Module, call: Any, of: Architecture) -> tuple[Tensor, dict[str, Tensor]]:
    """Train a network for one step. Return the loss, and the gradients and the new state by name."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loss = of.loss(call(*of.inputs))
    loss.backward()
    gradients = {f"gradient of {name}": p.grad for name, p in network.named_parameters() if p.grad is not None}
    optimizer.step()
    return loss.detach(), {**gradients, **network.state_dict()}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_step_of_training(name: str) -> None:
    of = ARCHITECTURES[name]
    plain = of.make().train()
    ours = copy.deepcopy(plain)
    compiled = torch.compile(ours, backend=backend, fullgraph=True)
    for _ in range(2):  # the second step uses what the first one has changed
        expected, found = step(plain, plain, of), step(ours, compiled, of)
        assert len(expected[1]) == len(plain.state_dict()) + len(list(plain.parameters()))
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["ViT", "U-Net", "BERT", "diffusion block"])
def test_a_step_of_training_in_mixed_precision(name: str) -> None:
    of = ARCHITECTURES[name]
    plain = of.make().train()
    ours = copy.deepcopy(plain)
    compiled = torch.compile(ours, backend=backend, fullgraph=True)
    losses = []
    for call in (plain, compiled):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            made = call(*of.inputs)
        losses.append(of.loss(made.float()))
        losses[-1].backward()
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-2, atol=1e-2)
    for own, expected in zip(ours.parameters(), plain.parameters(), strict=True):
        assert own.grad is not None and expected.grad is not None
        assert float((own.grad - expected.grad).norm()) <= 0.05 * float(expected.grad.norm()) + 1e-3
