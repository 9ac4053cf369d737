from __future__ import annotations
from pydispatch.frontends.stablehlo.tracer import Convert
ROWS: dict[str, Convert] = {}
def on_numbers(c): return c
