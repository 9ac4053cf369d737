"""Programs that are written with these operations and run on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch import ir
from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.dtypes import dtype_of_numpy
from pydispatch.graph.values import Tensor

Write = Callable[..., "Tensor | list[Tensor] | tuple[Tensor, ...]"]


class Runner:
    """Writes, compiles and runs a function of tensors: `run(write, x, y)` gives what `write(b, x, y)` computes."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def __call__(self, write: Write, *arrays: np.ndarray[Any, Any], dynamic: bool = False,
                 kernels: Mapping[str, Any] | None = None) -> list[np.ndarray[Any, Any]]:  # fmt: skip
        b = Builder("test.onnx")
        inputs = []
        for number, array in enumerate(arrays):
            shape = tuple(f"n{number}_{d}" if dynamic else n for d, n in enumerate(array.shape))
            inputs.append(Input(f"x{number}", dtype_of_numpy(array), shape))
        with b.at("layer"):
            made = write(b, *b.begin(inputs))
        results = [made] if isinstance(made, Tensor) else list(made)
        b.finish("main", {f"y{number}": t for number, t in enumerate(results)})
        ir.verify(b.module)
        program = self.device.load(pd.compile(b.module, kernels=kernels))
        found = program.main(*arrays)
        return list(found) if isinstance(found, tuple) else [found]


@pytest.fixture(scope="session")
def run() -> Runner:
    return Runner(pd.device("cpu"))
