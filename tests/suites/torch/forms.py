"""Tables of functions of PyTorch, each with the inputs of one program, with static or with dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Inputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Form:
    """A function of tensors, and inputs of one program. dynamic: the axes of each input whose size a call decides."""

    function: Callable[..., Any]
    inputs: Sequence[Inputs]
    dynamic: Sequence[Sequence[int]] = ()


class Forms(dict[str, Form]):
    """Forms by their names."""

    def form(
        self, name: str, function: Callable[..., Any], *inputs: Tensor, dynamic: Sequence[Sequence[int]] = (),
        more: Sequence[Inputs] = (),
    ) -> None:  # fmt: skip
        """Add a form. The program is exported with `inputs`, and runs with them and with each of `more`."""
        self[name] = Form(function, (inputs, *more), dynamic)

    def sizes(self, name: str, function: Callable[..., Any], axes: Sequence[int], *shapes: Sequence[int]) -> None:
        """Add a function of an f32 tensor twice: with the static first shape, and with dynamic sizes of some axes."""
        tensors = [torch.randn(*shape) for shape in shapes]
        self.form(name, function, tensors[0])
        self.form(f"{name}, dynamic", function, tensors[0], dynamic=[axes], more=[(x,) for x in tensors[1:]])
