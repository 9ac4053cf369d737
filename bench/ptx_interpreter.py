"""Measures calls on the interpreter of PTX: the example of docs/cuda.md, and products of matrices.

python bench/ptx_interpreter.py [--seconds S]
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from report.figures import OURS, Figures, Row, parser, table

import pydispatch as pd
from pydispatch.bench.measure import measure

ROOT = Path(__file__).resolve().parents[1]
# @tiled calls a kernel of tests/cuda/data, @generated has its code generated; both multiply matrices of 64x64.
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


def main() -> None:
    """Measure the calls without and with the search for data races, and print the medians."""
    arguments = parser(__doc__)
    arguments.add_argument("--seconds", type=float, default=0.5, help="of each call")
    args = arguments.parse_args()
    example = pd.compile(ROOT / "examples" / "cuda" / "program.mlir")
    products = pd.compile(TILED, targets="cuda", object_search_path=ROOT / "tests" / "cuda" / "data")
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 64, 64), dtype=np.float32)
    figures = Figures("The interpreter of PTX", "Medians. The example of docs/cuda.md, and products of 64x64 matrices.")
    for races, name in ((0, OURS), (1, f"{OURS}, races found")):  # races=1: the interpreter reports data races
        device: Any = pd.device(f"ptx-interpreter?races={races}")
        program, calls = device.load(example), dict[str, Callable[[], Any]]()
        for size in (8, 1000, 1_000_000):  # elements
            x = random.standard_normal(size, dtype=np.float32)
            calls[f"example, {size:,} elements"] = lambda f=program.mixed_invocation, x=x: f(x, x)
        program = device.load(products)
        for kernel in ("tiled", "generated"):
            calls[f"product, {kernel}"] = lambda f=program[kernel]: f(a, b)
        for samples in measure(calls, args.seconds):
            figures.rows.append(Row("a call", name, samples.median, size=samples.name, spread=samples.middle))
    print(table(figures.rows))
    if args.json:
        figures.save(args.json)


if __name__ == "__main__":
    main()
