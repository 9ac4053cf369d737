"""The operations of `iree_linalg_ext`."""

from __future__ import annotations

from xdsl.ir import Dialect, Operation

from pydispatch.ir.dialects.iree_linalg_ext import (
    attention,
    base,
    custom,
    fft,
    grouped,
    indexing,
    ordering,
    packing,
    winograd,
)

OPERATIONS: list[type[Operation]] = [
    *base.OPERATIONS, *attention.OPERATIONS, *custom.OPERATIONS, *fft.OPERATIONS, *grouped.OPERATIONS,
    *indexing.OPERATIONS, *ordering.OPERATIONS, *packing.OPERATIONS, *winograd.OPERATIONS,
]  # fmt: skip

LinalgExt = Dialect("iree_linalg_ext", OPERATIONS, [])
