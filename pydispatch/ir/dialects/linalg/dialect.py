"""The `linalg` dialect: `generic` and `yield` are the library's classes, everything else is ours."""

from __future__ import annotations

from xdsl.dialects.linalg import attrs, ops
from xdsl.ir import Dialect

from pydispatch.ir.dialects.linalg import base, named, regions, shape

Linalg = Dialect(
    "linalg",
    [
        ops.GenericOp, ops.YieldOp, *regions.OPERATIONS, *shape.OPERATIONS,
        *named.OPERATIONS,
    ],
    [attrs.IteratorTypeAttr, *base.ATTRIBUTES],
)  # fmt: skip
