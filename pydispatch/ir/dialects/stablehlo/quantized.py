"""Between numbers and quantized numbers."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.ir.dialects.stablehlo.syntax import operation

OPERATIONS: list[type[Operation]] = [
    operation("stablehlo.uniform_dequantize"),
    operation("stablehlo.uniform_quantize"),
]
