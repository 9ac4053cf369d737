"""Between numbers and quantized numbers."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.ir.dialects.stablehlo.syntax import SAME, operation

OPERATIONS: list[type[Operation]] = [
    operation("stablehlo.uniform_dequantize", signature=SAME),
    operation("stablehlo.uniform_quantize", signature=SAME),
]
