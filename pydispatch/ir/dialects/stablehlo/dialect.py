"""Everything of StableHLO but collective operations and what sends data elsewhere."""

from __future__ import annotations

from xdsl.ir import Dialect

from pydispatch.ir.dialects.stablehlo import (
    calls,
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
    calls, control, dynamic, elementwise, indexing, normalization, products, quantized, random, reductions, shapes
)  # fmt: skip
Stablehlo = Dialect("stablehlo", [op for file in _FILES for op in file.OPERATIONS], ATTRIBUTES)
