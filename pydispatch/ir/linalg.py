"""The `linalg` dialect: `generic`, `index` and `yield` are the library's classes, everything else is ours."""

from __future__ import annotations

from xdsl.dialects.linalg import attrs, ops
from xdsl.ir import Dialect

from pydispatch.ir import linalg_base, linalg_named, linalg_regions, linalg_shape

Linalg = Dialect(
    "linalg",
    [
        ops.GenericOp, ops.YieldOp, ops.IndexOp, *linalg_regions.OPERATIONS, *linalg_shape.OPERATIONS,
        *linalg_named.OPERATIONS,
    ],
    [attrs.IteratorTypeAttr, *linalg_base.ATTRIBUTES],
)  # fmt: skip
