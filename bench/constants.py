"""What it gives that constant factors lie in panels: products and convolutions with weights that are constants, and the
same with weights as arguments, which are read in place or packed in every call.

    python bench/constants.py

Both run in turns, on one worker; the least processor time of each counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pydispatch as pd

PRODUCTS = [
    (1, 768, 768), (1, 768, 3072), (4, 768, 768), (8, 768, 3072), (32, 768, 3072), (128, 768, 3072), (128, 3072, 768),
    (256, 1024, 1024), (512, 768, 3072),
]  # fmt: skip
TRANSPOSED = [(8, 768, 3072), (32, 768, 3072), (128, 768, 3072)]
CONVOLUTIONS = [(58, 64, 64), (16, 256, 256), (9, 512, 512)]


def program(operation: str, x: str, w: str, result: str, constant: bool) -> str:
    made = f'util.global private @w = #flow.parameter.named<"m"::"w"> : tensor<{w}>' if constant else ""
    return f"""
    {made}
    func.func @f(%x: tensor<{x}>{"" if constant else f", %w: tensor<{w}>"}) -> tensor<{result}> {{
      {f"%w = util.global.load @w : tensor<{w}>" if constant else ""}
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<{result}>
      %i = linalg.fill ins(%zero : f32) outs(%e : tensor<{result}>) -> tensor<{result}>
      %r = linalg.{operation} ins(%x, %w : tensor<{x}>, tensor<{w}>) outs(%i : tensor<{result}>) -> tensor<{result}>
      return %r : tensor<{result}>
    }}
    """


def cases() -> list[tuple[str, str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """(name, operation, shapes of image or rows, of weights, of results)."""
    found = [(f"{m}x{k}x{n}", "matmul", (m, k), (k, n), (m, n)) for m, k, n in PRODUCTS]
    found += [(f"{m}x{k}x{n}, transposed", "matmul_transpose_b", (m, k), (n, k), (m, n)) for m, k, n in TRANSPOSED]
    window = "conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}"
    for side, channels, filters in CONVOLUTIONS:
        places = side - 2
        shapes = (1, side, side, channels), (3, 3, channels, filters), (1, places, places, filters)
        found.append((f"3x3 convolution {places}x{places}x{channels} to {filters}", window, *shapes))
    return found


def least(calls: list[Callable[[], Any]], seconds: float = 1.0) -> list[float]:
    """The least processor time of each call, in seconds."""
    best = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for number, call in enumerate(calls):
            start = time.thread_time()
            call()
            best[number] = min(best[number], time.thread_time() - start)
    return best


def main() -> None:
    device = pd.device("cpu?workers=1")
    rng = np.random.default_rng(0)
    print("| | weights as argument, µs | as constant, µs | ratio |\n|---|---|---|---|")
    for name, operation, *shapes in cases():
        x, w = (rng.standard_normal(shape, dtype=np.float32) for shape in shapes[:2])
        types = ["x".join([*map(str, shape), "f32"]) for shape in shapes]
        plain, constant = (pd.compile(program(operation, *types, given), cpu="native") for given in (False, True))
        calls = [
            device.load(plain).f.prepare(x, w), device.load(constant, parameters={"m": {"w": w}}).f.prepare(x)
        ]  # fmt: skip
        np.testing.assert_allclose(calls[0](), calls[1](), rtol=1e-3, atol=1e-2)
        before, after = least(calls)
        print(f"| {name} | {before * 1e6:,.0f} | {after * 1e6:,.0f} | {after / before:.2f} |", flush=True)


if __name__ == "__main__":
    main()
