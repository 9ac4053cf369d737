"""Small networks of the kinds that people train: what `test_torch_architectures.py` trains for a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

Loss = Callable[[Any, Tensor], Tensor]


@dataclass(frozen=True)
class Architecture:
    """A network, its inputs, and the target of its loss. Classes are labels of cross entropy, other targets of MSE."""

    make: Callable[[], nn.Module]
    inputs: tuple[Tensor, ...]
    target: Tensor

    def loss(self, made: Tensor) -> Tensor:
        """Return the loss of a result of the network."""
        if self.target.is_floating_point():
            return F.mse_loss(made, self.target)
        return F.cross_entropy(made.flatten(0, -2), self.target.flatten())


ARCHITECTURES: dict[str, Architecture] = {}
torch.manual_seed(0)


def add(name: str, *inputs: Tensor, target: tuple[int, ...] | Tensor) -> Callable[[Any], Any]:
    """Register a class of networks. target: labels, or the shape of a tensor of floats."""
    there = target if isinstance(target, Tensor) else torch.randn(target)

    def register(make: Any) -> Any:
        ARCHITECTURES[name] = Architecture(make, inputs, there)
        return make

    return register


IMAGE = torch.randn(4, 3, 16, 16)
LABELS = torch.tensor([0, 2, 1, 3])
TOKENS = torch.randint(0, 20, (2, 6))
NEXT = torch.randint(0, 20, (2, 6))
