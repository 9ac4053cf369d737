"""The operations of `iree_linalg_ext`."""

from __future__ import annotations

from xdsl.ir import Dialect, Operation

OPERATIONS: list[type[Operation]] = []

LinalgExt = Dialect("iree_linalg_ext", OPERATIONS, [])
