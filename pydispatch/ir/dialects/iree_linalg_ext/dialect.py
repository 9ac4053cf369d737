"""The operations of `iree_linalg_ext`."""

from __future__ import annotations

from xdsl.ir import Dialect, Operation

from pydispatch.ir.dialects.iree_linalg_ext import base, indexing, ordering

OPERATIONS: list[type[Operation]] = [*base.OPERATIONS, *indexing.OPERATIONS, *ordering.OPERATIONS]

LinalgExt = Dialect("iree_linalg_ext", OPERATIONS, [])
