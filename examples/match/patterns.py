# ruff: noqa: F821  (sizes are names)
"""The Python way: the computation is traced, a C function takes its place."""

from pathlib import Path

import pydispatch as pd


@pd.pattern
def square_of_difference(a: pd.f32["n"], b: pd.f32["n"]):
    """Match (a - b) * (a - b) of two vectors of equal size."""
    d = a - b
    return d * d


square_of_difference.replace(pd.CFunction(Path(__file__).with_name("kernels.c"), "square_diff"))
