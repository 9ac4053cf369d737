"""What a call of a small program costs in PyTorch: as an operator of `pydispatch.to_torch`, beside what Python adds.

    python bench/torch_calls.py [--seconds S]

x * y + x over float32[4, 4]. Rounds of 100 calls take turns, so that a change of clock or load meets all of them; the
figures are the least and the median of the rounds. It needs PyTorch.
"""

from __future__ import annotations

import argparse
import statistics
import timeit
from typing import Any

import torch

import pydispatch as pd

PROGRAM = """
func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %m = arith.mulf %x, %y : tensor<?x4xf32>
  %r = arith.addf %m, %x : tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
"""
"""MLIR of the program that is measured: x * y + x."""


def main() -> None:
    """Measure all ways to call in turns until --seconds have passed, and print them beside the operator."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    function = pd.device("cpu").load(pd.compile(PROGRAM)).main
    operator = pd.to_torch(function, "pydispatch_bench::main").op

    @torch.library.custom_op("pydispatch_bench::python", mutates_args=())
    def custom(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Call the function as an operator that is written in Python."""
        return torch.from_dlpack(function(x, y))

    x, y = torch.randn(4, 4), torch.randn(4, 4)
    a, b = x.numpy(), y.numpy()
    calls: dict[str, Any] = {
        "pydispatch.to_torch": lambda: operator(x, y),
        "torch.library.custom_op in Python": lambda: custom(x, y),
        "function(x, y) and torch.from_dlpack": lambda: torch.from_dlpack(function(x, y)),
        "function(x, y)": lambda: function(x, y),
        "function(a, b), arrays of NumPy": lambda: function(a, b),
        "torch.mul (one operator of PyTorch)": lambda: torch.mul(x, y),
    }
    for call in calls.values():
        for _ in range(1000):  # warm up
            call()
    count = 100  # calls of a round
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = timeit.default_timer() + args.seconds
    while timeit.default_timer() < end:
        for name, call in calls.items():
            times[name].append(timeit.timeit(call, number=count) / count)
    base = min(next(iter(times.values())))  # of pydispatch.to_torch
    for name, seconds in times.items():
        median = statistics.median(seconds) * 1e6
        print(f"{name:40} {min(seconds) * 1e6:8.2f} us  {min(seconds) / base:6.2f} x  (median {median:.2f} us)")


if __name__ == "__main__":
    main()
