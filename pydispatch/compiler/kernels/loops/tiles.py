"""Work per workgroup of a generated dispatch, for each backend. It never depends on the number of workers."""

from __future__ import annotations

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.target.backend import Backend

COLUMN_BYTES = 4096
"""Bytes of accumulators of a range of columns: they must stay in the first-level cache beside the operands."""


def elements_per_workgroup(build: Builder, backend: Backend, bytes_per_element: Index) -> Index:
    """Return the number of elements per workgroup, at least 1.

    It is the byte budget of the backend, divided by the bytes that an element loads and stores.
    """
    return build.most(build.quotient(backend.workgroup_bytes, build.most(bytes_per_element, 1)), 1)
