"""Conversions of TOSA operations, one file per subject; each has a dict `ROWS`: operation name -> conversion."""

from __future__ import annotations

from pydispatch.frontends.tosa.operators import (
    arrangements,
    control,
    convolutions,
    elementwise,
    fourier,
    indexing,
    pooling,
    reductions,
    rescale,
    resize,
    sizes,
    variables,
)
from pydispatch.frontends.tosa.tracer import Convert

_FILES = (
    arrangements, control, convolutions, elementwise, fourier, indexing, pooling, reductions, rescale, resize, sizes,
    variables,
)  # fmt: skip
"""Modules whose ROWS are conversions."""
TABLE: dict[str, Convert] = {name: convert for file in _FILES for name, convert in file.ROWS.items()}
"""Conversions of all operations by name."""
