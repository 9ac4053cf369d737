"""Gain of constant weights, which are packed into panels (blocks in the order in which a kernel reads them) once:
products and convolutions with constant weights, and with weights as arguments, which are read in place or packed in
every call.

    python bench/constants.py

Both alternate, on one worker; the least processor time of each counts.
"""

from __future__ import annotations

import time

import numpy as np
from report.figures import Figures, parser, rows_of, table

import pydispatch as pd
from pydispatch.bench.measure import measure

PRODUCTS = [
    (1, 768, 768), (1, 768, 3072), (4, 768, 768), (8, 768, 3072), (32, 768, 3072), (128, 768, 3072), (128, 3072, 768),
    (256, 1024, 1024), (512, 768, 3072),
]  # fmt: skip
"""(M, K, N) of [M, K] times [K, N]."""
TRANSPOSED = [(8, 768, 3072), (32, 768, 3072), (128, 768, 3072)]
"""(M, K, N) of [M, K] times the transposed [N, K]."""
CONVOLUTIONS = [(58, 64, 64), (16, 256, 256), (9, 512, 512)]
"""(height and width of the input, channels, filters) of 3x3 convolutions without padding."""


def program(operation: str, x: str, w: str, result: str, constant: bool) -> str:
    """Return MLIR of @f, which computes `operation` of x and weights w.

    operation: of linalg, with its attributes. x, w, result: what is inside tensor<...>, such as "8x768xf32". constant:
    the weights are the constant "w" of scope "m", not an argument.
    """
    declaration = f'util.global private @w = #flow.parameter.named<"m"::"w"> : tensor<{w}>' if constant else ""
    return f"""
    {declaration}
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
    """Return (name, operation for `program`, shape of x, of the weights, of the result) of each case."""
    listed = [(f"{m}x{k}x{n}", "matmul", (m, k), (k, n), (m, n)) for m, k, n in PRODUCTS]
    listed += [(f"{m}x{k}x{n}, transposed", "matmul_transpose_b", (m, k), (n, k), (m, n)) for m, k, n in TRANSPOSED]
    convolution = "conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}"
    for side, channels, filters in CONVOLUTIONS:
        out_side = side - 2  # a 3x3 window without padding
        shapes = (1, side, side, channels), (3, 3, channels, filters), (1, out_side, out_side, filters)
        listed.append((f"3x3 convolution {out_side}x{out_side}x{channels} to {filters}", convolution, *shapes))
    return listed


def main() -> None:
    """Measure each case with constant weights and with weights as arguments, whose results have to agree."""
    arguments = parser(__doc__)
    arguments.add_argument("--seconds", type=float, default=0.5, help="per contender")
    args = arguments.parse_args()
    device = pd.device("cpu?workers=1")
    rng = np.random.default_rng(0)
    method = "Least CPU times, one worker; both ways alternate. float32, for this CPU."
    figures = Figures("Constant factors in panels", method)
    for name, operation, *shapes in cases():
        x, w = (rng.standard_normal(shape, dtype=np.float32) for shape in shapes[:2])
        types = ["x".join([*map(str, shape), "f32"]) for shape in shapes]
        plain, constant = (
            pd.compile(program(operation, *types, is_constant), cpu="native") for is_constant in (False, True)
        )
        calls = {
            "weights as constants": device.load(constant, parameters={"m": {"w": w}}).f.prepare(x),
            "weights as arguments": device.load(plain).f.prepare(x, w),
        }  # fmt: skip
        results = [np.array(call()) for call in calls.values()]
        np.testing.assert_allclose(*results, rtol=1e-3, atol=1e-2)
        samples = measure(calls, args.seconds, clock=time.process_time)
        rows = rows_of("a call", samples, name, least=True, against="weights as constants")
        print(table(rows), flush=True)
        figures.rows += rows
    if args.json:
        figures.save(args.json)


if __name__ == "__main__":
    main()
