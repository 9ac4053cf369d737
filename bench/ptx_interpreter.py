"""Measures calls on the interpreter of PTX: the example of docs/cuda.md, and products of matrices.

python bench/ptx_interpreter.py [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[1]
TILED = """#layout = #hal.pipeline.layout<constants = 1, bindings = [
  #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer, ReadOnly>,
  #hal.pipeline.binding<storage_buffer>]>
#cuda = #hal.executable.target<"cuda", "cuda-nvptx-fb">
hal.executable.source private @executable attributes {objects = #hal.executable.objects<{
    #cuda = [#hal.executable.object<{path = "tiled_sm_75.ptx"}>]}>} {
  hal.executable.export public @tiled ordinal(0) layout(#layout)
      count(%device: !hal.device, %n: index) -> (index, index, index) {
    %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 16)>()[%n]
    %one = arith.constant 1 : index
    hal.return %x, %x, %one : index, index, index
  } attributes {workgroup_size = [16 : index, 16 : index, 1 : index]}
}
func.func @tiled(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %d = arith.constant 64 : index
  %n = arith.constant 64 : i32
  %r = flow.dispatch @executable::@tiled[%d](%n, %a, %b)
    : (i32, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}
func.func @generated(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %r = linalg.matmul ins(%a, %b : tensor<64x64xf32>, tensor<64x64xf32>) outs(%f : tensor<64x64xf32>)
    -> tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}"""


def median_ms(call: Callable[[], Any], rounds: int) -> float:
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    example = pd.compile(ROOT / "examples" / "cuda" / "program.mlir")
    products = pd.compile(TILED, targets="cuda", object_search_path=ROOT / "tests" / "cuda" / "data")
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 64, 64), dtype=np.float32)
    for races in (0, 1):
        device: Any = pd.device(f"ptx-interpreter?races={races}")
        print(f"races={races}")
        program = device.load(example)
        for size in (8, 1000, 1_000_000):
            x = random.standard_normal(size, dtype=np.float32)
            call = lambda f=program.mixed_invocation, x=x: f(x, x)  # noqa: E731
            print(f"  examples/cuda, {size:>9,} elements  {median_ms(call, rounds):8.2f} ms")
        program = device.load(products)
        for name in ("tiled", "generated"):
            call = lambda f=program[name]: f(a, b)  # noqa: E731
            print(f"  64x64x64 product, {name:10}      {median_ms(call, rounds):8.2f} ms")


if __name__ == "__main__":
    main()
