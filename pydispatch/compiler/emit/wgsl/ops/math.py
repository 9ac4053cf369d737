"""Counts of bits in WGSL; what operations of `math` on integers mean is in `shaders/math.py`."""

from __future__ import annotations

from pydispatch.compiler.emit.shaders.math import IntegerMath
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops.registers import WgslRegisters
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned

NARROW = {"ctlz": "countLeadingZeros", "cttz": "countTrailingZeros", "ctpop": "countOneBits"}
"""Built-in functions for 32 bits."""
WIDE = {"ctlz": "pyd_i64_clz", "cttz": "pyd_i64_ctz", "ctpop": "pyd_i64_ones"}
"""Functions of the library for two words."""


class _IntegerMath(WgslRegisters, IntegerMath[FunctionEmitter, Name]):
    """Bit counts in WGSL."""

    def counted(self, emitter: FunctionEmitter, kind: str, value: Name, width: int) -> Name:
        """Emit a population count, or the number of leading or trailing zeros; of two words, by a function of the
        library."""
        if width == 32:
            return emitter.let(f"i32({NARROW[kind]}({as_unsigned(value)}))")
        return emitter.call("pyd_i64_from_i32", emitter.call(WIDE[kind], value))


ROWS: dict[str, Lowering] = _IntegerMath().rows()
