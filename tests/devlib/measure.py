"""Measures every function of the device library against mpmath and writes `docs/math.md`.

`python tests/devlib/measure.py [samples per range]`: about a minute with the default of 4000.
"""

# ruff: noqa: E501  (rows of a table)
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from devlib_driver import CPUS, FUNCTIONS, Library, errors, expected, samples

HEAD = """# Mathematical functions

For users who need error bounds: how far the mathematical functions of generated kernels are from the exact results,
and how far sums are.

Generated kernels call no libm. For CPUs and CUDA, `pydispatch/compiler/devlib` implements the functions in C,
branch-free where possible; its bitcode is inlined into kernels and vectorised there. For Vulkan,
`pydispatch/compiler/kernel_ir/math` defines them in plain arithmetic; [Vulkan](vulkan.md) has their errors. One
program, `devlib/fit.py`, computes the coefficients of both. There are two because C is what objects of users link, and
because the vectoriser makes more of it: on x86-64-v4 the definitions in plain arithmetic take 1.0 (log) to 1.6 (exp)
times as long for f32, 2.7 for sin, and 0.85 (exp) to 1.6 (cbrt) times for f64. Conversions of small floats and powers
with whole exponents are defined in `kernel_ir/math` for every target. `python tests/devlib/measure.py` writes this
page. The tests check the limit of 2 units in the last place (ulp) on fewer
samples, and all special values (zeros, infinities, NaN, subnormal numbers).

Largest errors found, in ulp, against mpmath with 160 bits. Samples are drawn uniformly from intervals and, where the
domain allows, uniformly over the exponents of all numbers of both signs; {count} per interval, {least} to {most} per
function and type. *fma*: machines with fused multiply-add (x86-64-v3 and up, aarch64, riscv64), where most float
functions compute in float; *no fma*: baseline x86-64, where they compute in double. sqrt, floor, ceil, trunc, round,
roundeven, fma and absf are correctly rounded.

All functions vectorise in loops, except tgamma, lgamma, and sin, cos and tan in double on machines without fused
multiply-add; with it, these three reduce every argument the same way, however large. Lanes of vectors compute what a
single element does, so results depend neither on the width of vectors nor on where an element lies.

| function | f32, fma | f32, no fma | f64, fma | f64, no fma | samples |
|---|---|---|---|---|---|
"""

C = """
Between the negative integers lgamma has zeros: near them its error is at most 2^-59, whatever the result.

## Functions of C

Kernels in C (`.c`, for CPUs and CUDA) have `#include <math.h>`, and these functions of it, each also with the suffix
`f`. Those in the table above have its errors; those in the first row here are exact or correctly rounded.

| | |
|---|---|
| exact | `ceil copysign fabs fdim fma fmax fmin floor fmod frexp ilogb ldexp llrint llround logb lrint lround modf nan nearbyint nextafter remainder remquo rint round scalbln scalbn sqrt trunc` |
| powers and exponentials | `cbrt exp exp10 exp2 expm1 hypot pow` |
| logarithms | `log log10 log1p log2` |
| circular and hyperbolic | `acos acosh asin asinh atan atan2 atanh cos cosh sin sincos sinh tan tanh` |
| error and gamma functions | `erf erfc lgamma lgamma_r tgamma` |
| macros | `fpclassify isfinite isgreater isinf isless isnan isnormal isunordered signbit` and the others |

There are no functions of `long double` (`nexttoward`), no Bessel functions (`j0`), no `errno` and no `signgam`:
`lgamma_r(x, &sign)` has the sign. `exp10` and `sincos` are declared after `#define _GNU_SOURCE`. Rounding is to
nearest.
"""

SUMS = """
## Sums

Reductions by `addf` that may be reordered (all, unless `reassociate=False`) add up in blocks, so the error does not
grow with the length: an accumulator adds at most 4096 terms, which vectors and unrolling divide among their lanes,
the next level adds 256 of these, the outermost the rest. With u = 2^-24 (f32; 2^-53 for f64) and n elements the error
is at most

    (4096 + 256 + n / 2^20) · u · Σ|x|

on the CPU, and (4096 + 8 + n / 2^18) · u · Σ|x| on GPUs, where the invocations of a workgroup add up 2^18 elements
before they combine their sums. Column sums (over outer dimensions) on the CPU: (1024 + n / 1024) · u · Σ|x|. Measured
errors are far below: the f32 sum of 2^24 values in [0, 1) has a relative error of at most 1.7e-7 (the tests allow
3e-7), column sums of 2^20 values 8e-7 (1.5e-6). The order depends on sizes and variant, not on the machine: loops that
add floats have vectors of a known length also for SVE and RVV, and lanes are added up in an order that is stated.

Sums, products, maxima and minima of f16, bf16 and smaller floats accumulate in f32 and are rounded once, at the end
of the reduction, which adds half an ulp of the type. Their matrix products also accumulate in f32. A product over K
terms adds in order of K within a lane: the error is at most K · u · Σ|a·b|, or K / lanes where K is contiguous in
both factors.
"""


def worst(library: Library, name: str, suffix: str, arguments: list[np.ndarray], wanted: list) -> float:
    return float(errors(library(name, suffix, *arguments), wanted).max())


def main(count: int) -> None:
    libraries = {cpu: Library(cpu) for cpu in CPUS}
    rows, sizes = [], []
    for function in FUNCTIONS:
        cells = {}
        for suffix in ("f", ""):
            arguments = samples(function, suffix, count, seed=7)
            wanted = expected(function, arguments)
            sizes.append(len(wanted))
            for cpu, library in libraries.items():
                cells[suffix, cpu] = worst(library, function.name, suffix, arguments, wanted)
        fused, plain = CPUS[1], CPUS[0]
        numbers = [cells["f", fused], cells["f", plain], cells["", fused], cells["", plain]]
        rows.append(f"| {function.name} | " + " | ".join(f"{n:.2f}" for n in numbers) + f" | {sizes[-1]} |\n")
    text = HEAD.format(count=count, least=min(sizes), most=max(sizes)) + "".join(rows) + C + SUMS
    Path(__file__).parents[2].joinpath("docs", "math.md").write_text(text)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
