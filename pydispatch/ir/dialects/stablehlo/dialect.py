"""Everything of StableHLO."""

from __future__ import annotations

from xdsl.ir import Dialect

from pydispatch.ir.dialects.stablehlo import (
    calls,
    collectives,
    control,
    dynamic,
    elementwise,
    indexing,
    normalization,
    products,
    quantized,
    random,
    reductions,
    shapes,
)
from pydispatch.ir.dialects.stablehlo.attributes import ATTRIBUTES

_FILES = (
    calls, collectives, control, dynamic, elementwise, indexing, normalization, products, quantized, random, reductions,
    shapes,
)  # fmt: skip
Stablehlo = Dialect("stablehlo", [op for file in _FILES for op in file.OPERATIONS], ATTRIBUTES)
