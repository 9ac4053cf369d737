# ruff: noqa: F821  (sizes are names)
"""A pattern that every program is matched against."""

from pathlib import Path

import pydispatch as pd


@pd.pattern
def cube(x: pd.f32["n"]):
    """Match the cube of a vector's elements."""
    return x * x * x


cube.replace(pd.CFunction(Path(__file__).with_name("cube.c"), "toy_cube"))
PATTERNS = [cube]
"""Patterns that this package adds to the compiler."""
