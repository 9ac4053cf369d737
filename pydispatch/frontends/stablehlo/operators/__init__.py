"""Conversions of StableHLO operations, one file per subject; each has a dict `ROWS`: operation name -> conversion."""

from __future__ import annotations

from pydispatch.frontends.stablehlo.operators import (
    calls,
    checks,
    collectives,
    control,
    dynamic,
    elementwise,
    indexing,
    interpreter,
    linear,
    normalization,
    products,
    quantized,
    ragged,
    random,
    reductions,
    scan,
    shapes,
    windows,
)
from pydispatch.frontends.stablehlo.operators.quantized import on_numbers
from pydispatch.frontends.stablehlo.tracer import Convert

_FILES = (
    calls, checks, collectives, control, dynamic, elementwise, indexing, interpreter, linear, normalization, products,
    quantized, ragged, random, reductions, scan, shapes, windows,
)  # fmt: skip
"""Modules whose ROWS are conversions."""
TABLE: dict[str, Convert] = {name: on_numbers(convert) for file in _FILES for name, convert in file.ROWS.items()}
"""Conversions of all operations by name, wrapped so that they accept quantized types."""
