# ruff: noqa: F821  (sizes are names)
"""The activation of the model, replaced by a C function. The model's text stays as it is."""

from pathlib import Path

import pydispatch as pd


@pd.pattern
def hard_swish(x: pd.f32["n", 64]):
    return x * pd.minimum(pd.maximum(x + 3.0, 0.0), 6.0) / 6.0


hard_swish.replace(pd.CFunction(Path(__file__).with_name("hard_swish.c"), "hard_swish", "x", "out", "n"))
